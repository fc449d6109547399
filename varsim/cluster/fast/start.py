"""What a run for times alone begins with, and the trace that it leaves."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.record.trace import EvaluationRow, LinkRow, Trace
from varsim.learning.workload import Workload

# As large as any time of a run may be, so that sums of many stay within 64 bits (ns).
_LONGEST: Final = 1 << 58

# A look at the model: when (ns), at which step, after how many gradients.
Look: TypeAlias = tuple[int, int, int]


class NotCoveredError(Exception):
    """Run that only the engine on SimPy can make."""


class Start(NamedTuple):
    """What a run begins with."""

    cluster: Cluster
    workload: Workload
    stop: Stop
    seed: int
    replication: int
    workers: int

    @property
    def last(self) -> int:
        """The latest moment that it may last to (ns)."""
        time = self.stop.time
        return END_OF_TIME if time is None else min(round(time * 1e9), END_OF_TIME)

    def gradients(self, each: int) -> int:
        """How many it takes, about, so many for an update; by time at most what is computed."""
        stop, workload = self.stop, self.workload
        counts = [] if stop.global_steps is None else [stop.global_steps * each]
        counts += [] if stop.examples is None else [stop.examples // workload.batch_size]
        if stop.time is not None:
            step = max(self.cluster.compute_distribution(workload).expectation(), 1e-9)
            counts.append(round(min(stop.time / step * self.workers, 1e9)))
        return min(counts, default=0)

    def looks(self, steps: NDArray[np.int64], applied: NDArray[np.int64]) -> list[Look]:
        """The looks at a model that is updated at these moments, after so many gradients each."""
        every = self.workload.examples_between_evaluations(self.workers)
        passed = applied * self.workload.batch_size // every
        found = np.flatnonzero(np.diff(passed, prepend=0) > 0)
        times, counts = steps[found].tolist(), applied[found].tolist()
        return [(0, 0, 0), *zip(times, (found + 1).tolist(), counts, strict=True)]

    def trace(
        self,
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
        batch, specs = self.workload.batch_size, self.workload.problem.variables()
        links, sent = carried
        if looks[-1][1] != len(steps):
            looks = [*looks, (end, len(steps), more["gradients_aggregated"])]
        return Trace(
            strategy=label,
            replication=self.replication,
            workers=self.workers,
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


def check_sums(longest: float) -> None:
    """NotCoveredError if a run has times so long (ns) that 64 bits are too few for their sums."""
    if not longest <= _LONGEST:
        raise NotCoveredError("its times are too long for sums of 64 bits")
