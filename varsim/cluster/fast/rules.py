"""What a strategy says of itself to the engine for times alone."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.collectives.choice import Choice
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.fast.tables import Kind
from varsim.cluster.record.trace import EvaluationRow, LinkRow, Trace
from varsim.cluster.workers.buckets import Bucketing
from varsim.learning.workload import Workload

# As large as any time of a run may be, so that sums of many stay within 64 bits (ns).
_LONGEST: Final = 1 << 58


class Gate(NamedTuple):
    """What lets a worker go on whose gradient is there, of strategies with servers.

    `needed`: gradients for an update; `tokens`: put into the queue after one, and `first` before;
    `bound`: how far a worker may be ahead, which `keeps` what it has read while that is new enough.
    """

    kind: Kind
    needed: int = 1
    tokens: int = 0
    first: int = 0
    bound: int = 0
    keeps: bool = False


class Reducing(NamedTuple):
    """Gradients of so many micro-batches are added up, and all-reduced among all workers.

    `bucketing`: how they are cut; None: not at all. `overlap`: parts are reduced in the backward
    pass, as they are ready.
    """

    choice: Choice
    bucketing: Bucketing | None = None
    micro_batches: int = 1
    overlap: bool = False


class Reading(NamedTuple):
    """Workers have copies of their own, which are read after every so many steps of theirs.

    `moves`: for that they are all-reduced; `write_back`: they become what was read.
    """

    every: int
    moves: bool
    write_back: bool


AnyRules: TypeAlias = Gate | Reducing | Reading


class Start(NamedTuple):
    """What a run begins with."""

    cluster: Cluster
    workload: Workload
    stop: Stop
    seed: int
    replication: int
    workers: int


# A look at the model: when (ns), at which step, after how many gradients.
Look: TypeAlias = tuple[int, int, int]


def trace_of(
    start: Start,
    label: str,
    end: int,
    stopped_by: str,
    steps: NDArray[np.int64],
    looks: Sequence[Look],
    carried: tuple[list[LinkRow], float],
    **more: Any,
) -> Trace:
    """The trace of a run that is over (ns), whose model was looked at then; no values in it.

    `carried`: what links have, and `Trace.sent`; `more`: the other fields that are not empty.
    """
    batch, specs = start.workload.batch_size, start.workload.problem.variables()
    links, sent = carried
    if looks[-1][1] != len(steps):
        looks = [*looks, (end, len(steps), more["gradients_aggregated"])]
    return Trace(
        strategy=label,
        replication=start.replication,
        workers=start.workers,
        variables=sum(spec.has_gradient for spec in specs),
        batch_size=batch,
        end=end,
        stopped_by=stopped_by,
        global_step=len(steps),
        evaluations=[
            EvaluationRow(time, step, number * batch, math.nan, math.nan, 0.0)
            for time, step, number in looks
        ],
        steps=steps,
        links=links,
        sent=sent,
        **{"copy_staleness": np.empty(0, dtype=np.int64), **more},
    )


def looks_at(start: Start, steps: NDArray[np.int64], applied: NDArray[np.int64]) -> list[Look]:
    """The looks at a model that is updated at these moments, after so many gradients each."""
    every = start.workload.examples_between_evaluations(start.workers)
    passed = applied * start.workload.batch_size // every
    found = np.flatnonzero(np.diff(passed, prepend=0) > 0)
    times, counts = steps[found].tolist(), applied[found].tolist()
    return [(0, 0, 0), *zip(times, (found + 1).tolist(), counts, strict=True)]


class NotCoveredError(Exception):
    """Run that only the engine on SimPy can make."""


def check_sums(longest: float) -> None:
    """NotCoveredError if a run has times so long (ns) that 64 bits are too few for their sums."""
    if not longest <= _LONGEST:
        raise NotCoveredError("its times are too long for sums of 64 bits")


def expected(start: Start, gate: Gate) -> int:
    """How many gradients a run takes, about; by time at most what its workers can compute."""
    stop, workload = start.stop, start.workload
    each = max(gate.needed, gate.tokens, 1)
    counts = [] if stop.global_steps is None else [stop.global_steps * each]
    counts += [] if stop.examples is None else [stop.examples // workload.batch_size]
    if stop.time is not None:
        step = max(start.cluster.compute_distribution(workload).expectation(), 1e-9)
        counts.append(round(min(stop.time / step * start.workers, 1e9)))
    return min(counts, default=0)
