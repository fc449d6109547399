"""Recorded cases of copies that are averaged now and then: local SGD."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from tests.building import MS, gradient_rows
from tests.conformance.cases import Record
from tests.conformance.in_between.recorded import Replay, blocked
from tests.seams import Trace
from varsim.cluster.averaging import AveragedReplicas
from varsim.cluster.clock import Activity
from varsim.cluster.worker import Worker
from varsim.strategies.local_sgd import LocalSgd
from varsim.values.gradient import Gradient

_OF_LOCAL_SGD: Final = ("period", "warmup_steps", "before_warmup", "convention")


class Meeting(NamedTuple):
    """A worker has met others after a step, which came to their end at a moment (ms)."""

    time: float
    worker: int
    step: int
    what: str  # gradient or average


def local_sgd(record: Record) -> None:
    """One period; in post-local SGD gradients are averaged in warm-up."""
    settings = {key: record[key] for key in _OF_LOCAL_SGD}
    if not record["warmup_steps"]:
        del settings["before_warmup"]
    _compare(record, LocalSgd.model_validate(settings))


def _compare(record: Record, strategy: LocalSgd) -> None:
    seen: list[Meeting] = []
    steps, expected = record["steps"], record["expect"]
    # One step more than was recorded: it is computed at what came of the last.
    replay = Replay(record, strategy, stop={"global_steps": steps + 1})
    with meetings(seen):
        read, trace = run_noting_reads(replay)
    computed = computed_by_worker(trace, steps)
    if "step_ends" in expected:
        assert computed == expected["step_ends"]
        assert blocked_after(trace, computed) == expected["blocked"]
    if "barriers" in expected:
        assert _barriers(seen, computed, record) == expected["barriers"]
    for row in expected.get("steps", ()):
        step, what = row["step"], row["what"]
        x = [read[worker, step + 1] for worker in range(record["workers"])]
        np.testing.assert_allclose(x, row["x"], rtol=record["rtol"], atol=record["rtol"])
        found = {one.what for one in seen if one.step == step and record["workers"] > 1}
        if what == "average":
            assert "average" in found
        elif what == "gradient":
            assert found == {"gradient"}
        else:
            assert "average" not in found


def run_noting_reads(replay: Replay) -> tuple[Mapping[tuple[int, int], Any], Trace]:
    """Run; what each worker (first) read to compute each of its gradients (second), and the trace.

    Gradients that nothing was updated with may not have been worked out.
    """
    read: dict[tuple[int, int], Any] = {}
    gradient = replay.task.gradient

    def noted(worker: int, number: int, x: Any) -> Any:
        read[worker, number] = np.array(x)
        return gradient(worker, number, x)

    with patch.object(replay.task, "gradient", noted):
        trace = replay.run()
    return read, trace


def computed_by_worker(trace: Trace, steps: int) -> list[list[float]]:
    """When each worker had computed each of its first so many steps (ms)."""
    found: list[list[float]] = [[0.0] * steps for _ in range(trace.workers)]
    for row in gradient_rows(trace):
        if row.iteration < steps:
            found[row.worker][row.iteration] = row.computed / MS
    return found


def blocked_after(trace: Trace, computed: list[list[float]]) -> list[list[list[float | None]]]:
    """The intervals in which workers wait, those of no later steps than were recorded."""
    return [
        [span for span in spans if span[0] is not None and span[0] <= ends[-1]]
        for spans, ends in zip(blocked(trace), computed, strict=True)
    ]


@contextmanager
def meetings(seen: list[Meeting]) -> Iterator[None]:
    """See who averages what with how many others, and when that is done."""
    reduce, average = AveragedReplicas.reduce, AveragedReplicas.average

    def seen_reduce(self: AveragedReplicas, worker: Worker, gradient: Gradient) -> Activity[None]:
        yield from reduce(self, worker, gradient)
        note(self, worker, self.steps[worker.rank], "gradient")

    def seen_average(self: AveragedReplicas, worker: Worker) -> Activity[None]:
        yield from average(self, worker)
        note(self, worker, self.steps[worker.rank] - 1, "average")

    def note(copies: AveragedReplicas, worker: Worker, step: int, what: str) -> None:
        seen.append(Meeting(copies._job.clock.time / MS, worker.rank, step, what))

    with (
        patch.object(AveragedReplicas, "reduce", seen_reduce),
        patch.object(AveragedReplicas, "average", seen_average),
    ):
        yield


def _barriers(
    seen: list[Meeting], computed: list[list[float]], record: Record
) -> list[dict[str, Any]]:
    """What the meetings of all workers were, in order; they are at one instant."""
    found: dict[tuple[int, str], list[float]] = {}
    for one in seen:
        if record["workers"] > 1 and one.step < record["steps"]:
            found.setdefault((one.step, one.what), []).append(one.time)
    barriers = []
    for (step, what), times in sorted(found.items()):
        assert len(times) == record["workers"]
        (time,) = set(times)
        waited = [time - own[step] for own in computed]
        barriers.append({"t": time, "step": step, "what": what, "waited": waited})
    return barriers
