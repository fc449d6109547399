"""Small scenarios for tests, and what to read off their traces."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.seams import (
    STRATEGIES,
    EvaluationRow,
    GradientRow,
    Outcome,
    Phase,
    Run,
    Span,
    Trace,
    run_one,
)
from varsim import Scenario
from varsim.cluster.record.rows import Rows
from varsim.learning.gradient import Parameters
from varsim.strategies import Strategy

MS = 1_000_000  # ns

# A network that takes no time: the hold of any test's message rounds to 0 ns.
NO_TIME = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come"}

# What every kind of network needs besides bandwidth and latency.
NEEDED: dict[str, dict[str, Any]] = {
    "star": {},
    "full_mesh": {},
    "racks": {"hosts_per_rack": 2, "oversubscription": 4.0},
    "nodes": {"workers_per_node": 2, "inside": {"bandwidth": 4e4, "latency": 1e-4}},
}

APPLIED, DROPPED, PARTLY, PENDING, LOST = Outcome

DAY, HOUR = 86_400.0, 3600.0  # s
# A job of days whose workers fail, and begin again from checkpoints.
MORTAL: dict[str, Any] = {
    "replications": 3,
    "failures": {
        "horizon": 10 * DAY,
        "detection": 30.0,
        "of": ({"domain": "worker", "mtbf": 3 * DAY, "repair": 600.0},),
    },
    "checkpoint": {"every": 1800.0, "write": 60.0},
    "recovery": {"restart": 180.0, "spares": {"hot": 1}},
}


class Fate(NamedTuple):
    """A gradient, when it was applied or dropped (ms), and which of the two."""

    worker: int
    iteration: int
    time: float
    outcome: Outcome


def scenario(strategy: Mapping[str, Any], **changes: Any) -> Scenario:
    """A scenario of one strategy: 3 workers of 100 ms per step, a network that takes no time.

    Keys of `cluster`, `network`, `workload`, `problem`, `optimizer` and `stop` are changed one by
    one; a `kind` that differs, or `network` and `stop` as a whole, replaces all of them. So do
    `strategies`, `seed`, `replications`, `targets`, `name` at the top, and `report`: rates are
    those of whole runs, which are easy to follow by hand.
    """
    parts: dict[str, dict[str, Any]] = {
        "cluster": {"workers": 3, "compute": {"kind": "constant", "value": 0.1}},
        "network": NO_TIME,
        "workload": {"batch_size": 1},
        "problem": {"kind": "quadratic"},
        "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        "stop": {"global_steps": 3},
    }
    for name in ("network", "stop"):
        parts[name] = dict(changes.pop(name, parts[name]))
    for name, default in parts.items():
        change = changes.pop(name, {})
        keep = name in ("cluster", "workload") or change.get("kind") in (None, default.get("kind"))
        parts[name] = {**default, **change} if keep else dict(change)
    workload = {"problem": parts["problem"], "optimizer": parts["optimizer"], **parts["workload"]}
    whole = {
        "name": "test",
        "replications": 1,
        "cluster": {**parts["cluster"], "network": parts["network"]},
        "workload": workload,
        "strategies": (strategy,),
        "stop": parts["stop"],
        "report": {"measure_after": 0.0},
    }
    return Scenario.model_validate({**whole, **changes})


def problem_of(kind: str, **settings: Any) -> Any:
    """A problem as a scenario describes it: what gives tasks, as those of other people do."""
    made = scenario({"kind": "none"}, workload={"problem": {"kind": kind, **settings}})
    return made.workload.problem


def example(kind: str, workers: int = 3) -> dict[str, Any]:
    """A strategy of this kind with the settings that it cannot do without."""
    return {"kind": kind, **STRATEGIES[kind].example(workers)}


def declared(strategy: Mapping[str, Any]) -> Strategy:
    """The strategy that such settings make."""
    return STRATEGIES[strategy["kind"]].model_validate(strategy)


def run(strategy: str | Mapping[str, Any], **changes: Any) -> Trace:
    """The trace of replication 0 of such a scenario; a strategy without settings by its kind."""
    described = {"kind": strategy} if isinstance(strategy, str) else strategy
    return run_one(Run(scenario(described, **changes), 0, 0))


def slow(rank: int, factor: float, **window: float) -> dict[str, Any]:
    """An entry of `slow_workers` or `slow_links`."""
    return {"rank": rank, "factor": factor, **window}


def milliseconds(times: Iterable[int]) -> list[float]:
    """Times in ns as ms; whole ms compare exactly with integers."""
    return [int(time) / MS for time in times]


def gradient_rows(trace: Trace) -> list[GradientRow]:
    return [GradientRow(*row) for row in trace.gradients.tolist()]


def span_rows(trace: Trace, worker: int) -> list[Span]:
    """One worker's spans in order of time."""
    rows = [Span(*row) for row in trace.spans.tolist() if row[0] == worker]
    return sorted(rows, key=lambda span: span.start)


def life(trace: Trace, worker: int) -> list[tuple[str, float, float]]:
    """What a worker did: (phase, from ms, to ms), in order; the same phase joined."""
    joined: list[tuple[str, float, float]] = []
    for span in span_rows(trace, worker):
        name, start, end = Phase(span.phase).name.lower(), span.start / MS, span.end / MS
        if joined and joined[-1][0] == name != "compute" and joined[-1][2] == start:
            joined[-1] = (name, joined[-1][1], end)
        else:
            joined.append((name, start, end))
    return joined


def computed_until(row: GradientRow) -> int:
    """When a gradient was computed, or given up before it was (ns)."""
    return row.computed if row.computed >= 0 else row.applied


def fates(trace: Trace) -> list[Fate]:
    """All gradients that were applied or dropped, in that order."""
    return [
        Fate(row.worker, row.iteration, row.applied / MS, Outcome(row.outcome))
        for row in gradient_rows(trace)
        if row.outcome != PENDING
    ]


def staleness(trace: Trace) -> list[int]:
    """Of all gradients that were applied at least partly, in the order of their end."""
    return [
        row.applied_step - row.read_step
        for row in gradient_rows(trace)
        if row.outcome in (APPLIED, PARTLY)
    ]


def losses(trace: Trace) -> list[float]:
    return [row.loss for row in trace.evaluations]


def phase_time(trace: Trace, phase: Phase) -> int:
    """ns that all workers together spent on one phase."""
    chosen = trace.spans[trace.spans[:, 1] == phase]
    return int((chosen[:, 3] - chosen[:, 2]).sum())


def assert_same(one: Trace, other: Trace, but: Sequence[str] = ()) -> None:
    """Every field of two traces is equal, bit for bit."""
    for field in (name for name in Trace.__slots__ if name not in but):
        a, b = getattr(one, field), getattr(other, field)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field
            assert np.array_equal(a, b), field
        elif a and isinstance(a, list) and isinstance(a[0], EvaluationRow):
            # As bytes: nan is equal to nan there.
            assert np.array(a).tobytes() == np.array(b).tobytes(), field
        else:
            assert a == b, field


def assert_same_run(one: Trace, other: Trace) -> None:
    """What two engines made of a run is the same, whatever the order of rows of one moment.

    Bytes are summed in another order.
    """
    of_simpy = "heap_events", "gradients_evaluated", "hand_overs"
    assert_same(*map(_in_order, (one, other)), but=(*of_simpy, "links", "sent"))
    assert [link[:2] for link in one.links] == [link[:2] for link in other.links]
    moved = [[link.moved for link in trace.links] for trace in (one, other)]
    assert moved[0] == pytest.approx(moved[1], rel=1e-9, abs=1e-6)
    assert one.sent == pytest.approx(other.sent, rel=1e-9, abs=1e-6)


def _in_order(trace: Trace) -> Trace:
    """A trace with gradients by worker and iteration, and staleness from the least on."""
    rows = trace.gradients[np.lexsort((trace.gradients[:, 1], trace.gradients[:, 0]))]
    staleness = np.sort(trace.copy_staleness)
    return replace(trace, gradient_rows=Rows.of(rows), copy_staleness=staleness)


class Model:
    """Plain numpy training of a scenario's problem: gradients one by one, no clock, no laziness."""

    def __init__(self, scenario: Scenario, replication: int = 0) -> None:
        self._batch_size = scenario.workload.batch_size
        self._task = scenario.workload.problem.task(scenario.seed, replication)
        self._optimizer = scenario.workload.update_rule()
        self.start: Parameters = self._task.initial()
        self.states = [self._optimizer.init(value) for value in self.start]

    def batch(self, worker: int, iteration: int) -> NDArray[Any]:
        from varsim.learning.problem import BLOCK

        block, row = divmod(iteration, BLOCK)
        return self._task.batches(worker, block, self._batch_size)[row : row + 1]

    def gradient(self, at: Parameters, worker: int, iteration: int) -> Parameters:
        rows = self._task.gradients(at, self.batch(worker, iteration))
        return tuple(row[0] for row in rows)

    def loss(self, at: Parameters) -> float:
        return self._task.loss(at)

    def step(self, at: Parameters, gradient: Sequence[NDArray[np.float64] | None]) -> Parameters:
        """Update the variables that have a gradient; the optimizer's slots are kept here."""
        new = list(at)
        for index, part in enumerate(gradient):
            if part is not None:
                new[index], self.states[index] = self._optimizer.update(
                    part, self.states[index], at[index]
                )
        return tuple(new)


def mean(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Added from first to last, then divided."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total / len(parts)


def kill(at: float, worker: int) -> dict[str, Any]:
    """An event: a worker dies (s)."""
    return {"at": at, "kill": {"worker": worker}}


def restart(at: float, worker: int) -> dict[str, Any]:
    """An event: a worker comes back (s)."""
    return {"at": at, "restart": {"worker": worker}}


def report(trace: Trace) -> list[str]:
    """What is said of a run that stands still, but its first line."""
    assert trace.stopped_by == "deadlock"
    assert trace.standstill is not None
    return [line.strip() for line in trace.standstill.report.splitlines()[1:]]
