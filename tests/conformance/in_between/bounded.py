"""Recorded cases of stale synchronous parallel: pushes, reads, waits, and values."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.building import APPLIED, MS, gradient_rows
from tests.conformance.cases import Record
from tests.conformance.comparison import assert_close
from tests.conformance.in_between.recorded import Replay, blocked
from varsim.cluster.clock import Activity
from varsim.cluster.worker import Read, Worker
from varsim.strategies.ssp import StaleSynchronous
from varsim.values.gradient import Gradient


@contextmanager
def starts() -> Iterator[list[tuple[float, Worker, Read]]]:
    """Every start of a mini-batch: when (ms), by whom, at what."""
    found: list[tuple[float, Worker, Read]] = []
    compute = Worker.compute_gradient

    def logged(self: Worker, read: Read) -> Activity[Gradient]:
        found.append((max(self.ready_at, self._clock.time) / MS, self, read))
        return compute(self, read)

    with patch.object(Worker, "compute_gradient", logged):
        yield found


def ssp(record: Record) -> None:
    """A case of schedules, or of values."""
    settings = ("staleness", "refresh", "staleness_policy")
    strategy = StaleSynchronous.model_validate(
        {key: record[key] for key in settings if key in record}
    )
    until = record["until_ms"]
    # What begins at the last moment is part of the record.
    replay = Replay(record, strategy, stop={"time": (until + 0.5) / 1000})
    with starts() as begun:
        trace = replay.run()
    expected, rtol = record["expect"], record.get("rtol", 0.0)

    rows = sorted(
        (row for row in gradient_rows(trace) if row.applied >= 0),
        key=lambda row: (row.applied, row.worker),
    )
    clocks = [0] * record["workers"]
    pushes = []
    updates, x = iter(replay.updates), replay.task.whole(replay.task.initial())
    for row in rows:
        clocks[row.worker] += 1
        time = row.applied / MS
        if row.outcome == APPLIED:
            at, x = next(updates)
            assert at == time
        seen: dict[str, Any] = {
            "t": time,
            "worker": row.worker,
            "clock": clocks[row.worker],
            "staleness": row.applied_step - row.read_step,
            "used": row.outcome == APPLIED,
            "x": x.tolist(),
        }
        pushes.append(seen)
    assert next(updates, None) is None
    _compare(pushes, expected.get("pushes", []), rtol, "push")

    own: dict[int, int] = {}
    fetched_at: dict[int, int] = {}
    reads = []
    for time, worker, read in begun:
        number = own[worker.rank] = own.get(worker.rank, -1) + 1
        fetched = read.time / MS == time
        if fetched:
            fetched_at[worker.rank] = number
        version = read.global_step - (number - fetched_at[worker.rank])
        x = replay.task.whole(read.parameters).tolist()
        reads.append(
            {
                "t": time,
                "worker": worker.rank,
                "clock": number,
                "version": version,
                "fetched": fetched,
                "x": x,
            }
        )
    _compare(reads, expected["reads"], rtol, "read")
    if "clocks" in expected:
        assert clocks == expected["clocks"]
    if "blocked" in expected:
        assert blocked(trace, until + 0.5) == expected["blocked"]


def _compare(
    seen: list[dict[str, Any]], expected: list[Mapping[str, Any]], rtol: float, what: str
) -> None:
    """All that was recorded of each; times in whole milliseconds."""
    if what == "read":
        seen.sort(key=lambda one: (one["t"], one["worker"]))
        expected = sorted(expected, key=lambda one: (one["t"], one["worker"]))
    assert len(seen) == len(expected), f"{len(seen)} instead of {len(expected)} {what}es"
    for number, (one, other) in enumerate(zip(seen, expected, strict=True)):
        where = f"{what} {number}"
        whole = {key: one[key] for key in other if key not in ("x", "gradient")}
        assert whole == {key: other[key] for key in whole}, where
        if "x" in other:
            assert_close(one["x"], other["x"], rtol, f"{where}: x")
