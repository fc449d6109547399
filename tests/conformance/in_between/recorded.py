"""Recorded cases of strategies in between: scripted step times and gradients, no time to send.

A case is run by the strategy's own processes in a job; what there is to see is its trace, the model
after every update, and what processes hold.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tests.building import MS, NO_TIME
from tests.conformance.cases import Record
from tests.conformance.scripted import GivenProblem, GivenTask, optimizer
from tests.seams import Phase, Trace
from varsim.cluster.description import Cluster
from varsim.cluster.events import ProcessEvent
from varsim.cluster.interruptions import Rules
from varsim.cluster.job import Job
from varsim.cluster.stop import Stop
from varsim.strategies import Strategy
from varsim.values.task import (
    Batches,
    Parameters,
    StackedGradients,
    VariableSpec,
)
from varsim.values.workload import Workload

_WAITING: Final = (Phase.BARRIER, Phase.TOKEN, Phase.LOCK)


class RecordedProblem(GivenProblem):
    """Gradients by formula or table; `parts` are the elements of x that each variable holds."""

    record: Any
    parts: Any

    def variables(self) -> tuple[VariableSpec, ...]:
        names = ["x"] if len(self.parts) == 1 else [f"x{i}" for i in range(len(self.parts))]
        return tuple(
            VariableSpec(name, (len(part),)) for name, part in zip(names, self.parts, strict=True)
        )

    def task(self, seed: int, replication: int) -> "RecordedTask":
        return RecordedTask(self.record, self.parts)


class RecordedTask(GivenTask):
    """Gradients of what was read, variable by variable."""

    def __init__(self, record: Record, parts: Sequence[Sequence[int]]) -> None:
        self._record, self._parts = record, parts

    def initial(self) -> Parameters:
        initial = self._record.get("initial", [0.0])
        first = initial[0] if isinstance(initial[0], list) else initial
        return self._cut(np.array(first, dtype=np.float64))

    def gradients(self, parameters: Parameters, batches: Batches) -> StackedGradients:
        rows = batches.tolist()
        whole = self.whole(parameters)
        each = np.broadcast_to(whole, (len(rows), whole.shape[-1]))
        found = np.stack([self.gradient(w, n, x) for (w, n), x in zip(rows, each, strict=True)])
        # Row by row in memory, as problems give them: that is how they are added up.
        return tuple(np.ascontiguousarray(found[:, part]) for part in self._parts)

    def gradient(self, worker: int, number: int, x: Any) -> Any:
        """Of a worker's n-th mini-batch, at what it read."""
        record = self._record
        kind = record.get("gradient", "none")
        if kind == "table":
            table = record["table"][worker]
            return np.array(table[number % len(table)], dtype=np.float64)
        if kind == "quadratic":
            return np.array(record["a"][worker]) * (x - np.array(record["target"][worker]))
        if kind == "quadratic_micro":
            targets = record["micro_target"][worker]
            target = np.array(targets[number % len(targets)])
            return np.array(record["a"][worker]) * (x - target)
        assert kind == "none", f"no gradient of kind {kind}"
        return np.zeros_like(x)

    def whole(self, parameters: Parameters) -> Any:
        """x, of parameters by variable; of many at once a row each."""
        size = sum(map(len, self._parts))
        first = np.asarray(parameters[0])
        found = np.empty((*first.shape[:-1], size))
        for part, values in zip(self._parts, parameters, strict=True):
            found[..., list(part)] = values
        return found

    def _cut(self, x: Any) -> Parameters:
        return tuple(x[list(part)] for part in self._parts)


class Replay:
    """A case as a job of its strategy that takes the recorded times, and no time to send.

    `parts`: of which elements of x each variable is made; by default one holds all of them.
    `events`: who dies and comes back; `rules`: or at random.
    `updates`: (ms, x) after every update of the model, once it was `run`.
    """

    def __init__(
        self,
        record: Record,
        strategy: Strategy,
        parts: Sequence[Sequence[int]] | None = None,
        stop: Mapping[str, Any] | None = None,
        events: Sequence[ProcessEvent] = (),
        rules: Rules | None = None,
    ) -> None:
        problem = record.get("problem", {})
        initial = problem.get("initial", [0.0])
        size = len(initial[0]) if isinstance(initial[0], list) else len(initial)
        parts = [range(size)] if parts is None else parts
        times = record.get("step_ms", [[100]] * record["workers"])
        described = {
            "workers": record["workers"],
            "parameter_servers": 1,
            "compute": {"kind": "trace", "seconds": [[t / 1000 for t in row] for row in times]},
            "network": NO_TIME,
        }
        cluster = Cluster.model_validate(described)
        strategy.check(cluster)
        workload = Workload.model_construct(
            problem=RecordedProblem.model_construct(record=problem, parts=parts),
            optimizer=optimizer(record.get("optimizer", {"name": "sgd", "lr": 1.0})),
            batch_size=1,
        )
        ends = {"time": record["until_ms"] / 1000} if "until_ms" in record else {}
        self.job = Job(
            cluster,
            workload,
            Stop.model_validate(ends if stop is None else stop),
            seed=0,
            replication=0,
            workers=strategy.workers(cluster),
            events=events,
            rules=rules,
        )
        self.strategy = strategy
        self.updates: list[tuple[float, Any]] = []
        task = self.job.task
        assert isinstance(task, RecordedTask)
        self.task = task

    def run(self) -> Trace:
        """Run to the end; its trace."""
        job, count = self.job, self.job.count_step

        def counted() -> None:
            count()
            self.updates.append((job.clock.time / MS, self.task.whole(job.model())))

        job.count_step = counted  # type: ignore[method-assign]
        job.begin(self.strategy.start)
        return job.run(self.strategy.label)


def blocked(trace: Trace, until: float | None = None) -> list[list[list[float | None]]]:
    """Of every worker the intervals (ms) in which it waits for others; the last may be open.

    `until`: the end of what was recorded (ms), at which what still goes on has no end.
    """
    found: list[list[list[float | None]]] = [[] for _ in range(trace.workers)]
    for worker, phase, start, end, _ in trace.spans.tolist():
        if phase in _WAITING and end > start:
            own = found[worker]
            if own and own[-1][1] == start / MS:
                own[-1][1] = end / MS
            else:
                own.append([start / MS, end / MS])
    for own in found:
        own.sort(key=lambda span: span[0] or 0.0)
        if own and until is not None and own[-1][1] == until:
            own[-1][1] = None
    return found
