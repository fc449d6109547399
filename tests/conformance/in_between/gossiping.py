"""Recorded cases of gossip: two at a time without waiting (AD-PSGD), and push-sum (SGP)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from tests.building import MS, gradient_rows
from tests.conformance.cases import Record
from tests.conformance.comparison import assert_close
from tests.conformance.in_between.averaged import run_noting_reads
from tests.conformance.in_between.recorded import Replay, blocked
from varsim.cluster.clock import Activity
from varsim.cluster.job import Job
from varsim.cluster.neighbours import MixedReplicas, PairedReplicas
from varsim.cluster.replicas import LocalReplicas
from varsim.cluster.worker import Worker
from varsim.strategies.gossip import Gossip
from varsim.values.gradient import Gradient, Value
from varsim.values.variable import Aggregation

_OF_AVERAGES: Final = ("t", "worker", "step", "partner", "staleness")


@contextmanager
def started_apart(initial: Any) -> Iterator[None]:
    """Copies begin where the case says, each at its own place."""
    make = LocalReplicas.__init__

    def apart(self: LocalReplicas, job: Job, aggregation: Aggregation) -> None:
        make(self, job, aggregation)
        (variable,) = self.variables
        for rank, values in enumerate(initial if isinstance(initial[0], list) else ()):
            variable.write(rank, np.array(values))

    with patch.object(LocalReplicas, "__init__", apart):
        yield


def gossip(record: Record) -> None:
    """Who averages with whom and when, and what comes of it."""
    partners = tuple(map(tuple, record["partner"]))
    strategy = Gossip(mode="asynchronous", partners=partners)
    until = record["until_ms"]
    replay = Replay(record, strategy, stop={"time": (until + 0.5) / 1000})
    average, apply = PairedReplicas.average, PairedReplicas.apply
    partner_of: dict[int, int] = {}
    averages: list[dict[str, Any]] = []

    def seen_average(self: PairedReplicas, worker: Worker, partner: int) -> Activity[None]:
        partner_of[worker.rank] = partner
        yield from average(self, worker, partner)

    def seen_apply(
        self: PairedReplicas, worker: Worker, gradient: Gradient, mean: list[Value] | None = None
    ) -> None:
        rank = worker.rank
        stale = self.version(rank) - gradient.read.global_step
        apply(self, worker, gradient, mean)
        averages.append(
            {
                "t": replay.job.clock.time / MS,
                "worker": rank,
                "step": self.steps[rank] - 1,
                "partner": partner_of[rank],
                "staleness": stale,
                "gradient": replay.job.gradients.value(gradient, 0),
                "x": _models(replay, self),
            }
        )

    with (
        started_apart(record.get("problem", {}).get("initial", [0.0])),
        patch.object(PairedReplicas, "average", seen_average),
        patch.object(PairedReplicas, "apply", seen_apply),
    ):
        trace = replay.run()
    expected = record["expect"]
    assert len(averages) == len(expected["averages"])
    for number, (one, other) in enumerate(zip(averages, expected["averages"], strict=True)):
        for key in other:
            if key in _OF_AVERAGES:
                assert one[key] == other[key], (number, key)
            else:
                assert_close(one[key], other[key], record["rtol"], f"average {number}: {key}")
    rows = [row for row in gradient_rows(trace) if row.applied >= 0]
    stale = [row.applied_step - row.read_step for row in rows]
    assert stale == [one["staleness"] for one in expected["averages"]]
    if "clocks" in expected:
        done = [row.worker for row in rows]
        assert [done.count(rank) for rank in range(trace.workers)] == expected["clocks"]
    if "blocked" in expected:
        assert blocked(trace, until + 0.5) == expected["blocked"]


def sgp(record: Record) -> None:
    """Rounds of push-sum: x, w and z of all workers after each."""
    matrices = tuple(tuple(map(tuple, matrix)) for matrix in record["matrices"])
    rounds(record, Gossip(mode="push_sum", matrices=matrices))


def rounds(record: Record, strategy: Gossip) -> None:
    """A strategy that mixes in rounds; one more than was recorded is begun."""
    replay = Replay(record, strategy, stop={"global_steps": record["rounds"] + 1})
    mix = MixedReplicas.mix
    seen: dict[tuple[int, int], dict[str, Any]] = {}

    def seen_mix(self: MixedReplicas, worker: Worker) -> Activity[None]:
        yield from mix(self, worker)
        rank = worker.rank
        seen[self._round[rank] - 1, rank] = {
            "x": self.variables[0].values[rank],
            "w": self.weights[rank],
            "z": replay.task.whole(self.copy(rank)),
        }

    with (
        started_apart(record["problem"]["initial"]),
        patch.object(MixedReplicas, "mix", seen_mix),
    ):
        read, trace = run_noting_reads(replay)
    for number, expected in enumerate(record["expect"]["rounds"]):
        for key in ("x", "w", "z"):
            if key not in expected:
                continue
            found = [seen[number, rank][key] for rank in range(record["workers"])]
            np.testing.assert_allclose(
                found, expected[key], rtol=record["rtol"], atol=record["rtol"]
            )
        if "read" in expected:
            own = [read[rank, number] for rank in range(record["workers"])]
            np.testing.assert_array_equal(own, expected["read"])
    if "blocked" in record["expect"]:
        assert _whole_rounds(blocked(trace), record) == record["expect"]["blocked"]


def _whole_rounds(spans: Sequence[Any], record: Record) -> list[list[Any]]:
    """Waits of those rounds that were recorded."""
    lasts = record["expect"]["ends"]
    return [
        [span for span in own if span[0] < last] for own, last in zip(spans, lasts, strict=True)
    ]


def _models(replay: Replay, copies: LocalReplicas) -> list[Any]:
    ranks = range(len(copies.steps))
    return [replay.task.whole(copies.copy(rank)).tolist() for rank in ranks]
