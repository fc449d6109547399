"""Asynchronous updates: how many others come between a read and the update made from it.

Nothing takes time but computing, and a worker reads again at once after its own update (strategy
`none`; Zhang et al., 2016). Of K gradients per update, K = 1 is this, and K = P with distinct
workers is a barrier; what lies between needs a strategy that varsim does not have yet.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from validation.finding import Verdict
from validation.points import laws
from validation.points.estimate import (
    Estimate,
    Measured,
    columns,
    controlled,
    until_sure,
)
from validation.points.laws import LawOf
from validation.points.order_statistics import slowed, step_time
from validation.points.outcome import NotRunError
from validation.points.scenario import NANOSECONDS, column, ran, scenario
from varsim.cluster.trace import Outcome, Trace

_UPDATES: Final = 8_000  # of a replication, or more with many workers
_START: Final = 0.05  # share of them that is not measured
_ROUNDS: Final = 100  # of all workers, in a replication at least
_START_ROUNDS: Final = 30  # of them that are not measured, at least: some computations are long


def staleness(trace: Trace, worker: int | None = None) -> NDArray[np.int64]:
    """Of the applied gradients after the start-up, in updates; of all workers or of one."""
    used = column(trace, "outcome") == Outcome.APPLIED
    found: NDArray[np.int64] = (column(trace, "applied_step") - column(trace, "read_step"))[used]
    whose = column(trace, "worker")[used]
    start = started(len(found), trace.workers)
    found, whose = found[start:], whose[start:]
    return found if worker is None else found[whose == worker]


def long_enough(workers: int, updates: int = _UPDATES) -> int:
    """How many updates a replication has: so many, or enough rounds of all workers."""
    return max(updates, _ROUNDS * workers)


def started(updates: int, workers: int) -> int:
    """How many updates of a replication are not measured, as all workers started together."""
    return max(round(_START * updates), _START_ROUNDS * workers)


def asynchronous(P: int, law: str) -> Measured:  # noqa: N803  (named as in the family)
    """stale-async-mean."""
    described = scenario({"kind": "none"}, P, laws.named(law), {"global_steps": long_enough(P)})
    if law == "deterministic":
        return {"": Estimate(float(staleness(ran(described)).mean()))}
    return until_sure(lambda r: [float(staleness(ran(described, r)).mean())], columns(""))


def distribution(P: int) -> Measured:  # noqa: N803
    """stale-async-p0: the shares of gradients of staleness 0 to 4, and the variance."""
    stop = {"global_steps": long_enough(P, 5 * _UPDATES)}
    described = scenario({"kind": "none"}, P, laws.exponential(1.0), stop)

    def replication(number: int) -> list[float]:
        found = staleness(ran(described, number))
        return [*(float((found == missed).mean()) for missed in range(5)), _variance(found, P - 1)]

    names = ("", *(f"pmf_first5[{missed}]" for missed in range(1, 5)), "variance")
    measured = until_sure(replication, columns(*names))
    return {**measured, "pmf_first5[0]": measured[""]}


def _variance(found: NDArray[np.int64], centre: float) -> float:
    """Mean square distance from the mean staleness, which is P - 1 by counting alone."""
    return float(((found - centre) ** 2).mean())


def of_a_slow_worker(rates: list[float]) -> Measured:
    """stale-hetero-worker: of worker 0.

    It misses the more the longer it computes: its computing times, whose mean the law says, are
    the control.
    """
    updates = round(150 * sum(rates) / rates[0])
    described = scenario(
        {"kind": "none"},
        len(rates),
        laws.exponential(1.0),
        {"global_steps": updates},
        **slowed(rates),
    )

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        own = (column(trace, "worker") == 0) & (column(trace, "outcome") == Outcome.APPLIED)
        missed = (column(trace, "applied_step") - column(trace, "read_step"))[own]
        computed = (column(trace, "computed") - column(trace, "compute_start"))[own]
        # A run ends in the middle of a computation, more often of a long one: the same number of
        # them each time.
        kept = slice(3, 103)
        return [float(missed[kept].mean()), float(computed[kept].mean()) / NANOSECONDS]

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        values, controls = [row[0] for row in rows], [row[1:] for row in rows]
        return {"": controlled(values, controls, [1 / rates[0]])}

    return until_sure(replication, reduced)


def k_async_interval(P: int, K: int, law: str, mean: float) -> Measured:  # noqa: N803
    """rt-kasync: with K = P distinct workers it is a barrier."""
    if K != P:
        raise NotRunError(Verdict.NOT_YET, _BETWEEN)
    return {"": step_time(P, K, laws.named(law, mean))}


def k_batch_async_interval(P: int, K: int, law: str, mean: float) -> Measured:  # noqa: N803
    """rt-kbatchasync: with K = 1 every gradient is an update."""
    if K != 1:
        raise NotRunError(Verdict.NOT_YET, _BETWEEN)
    return {"": update_interval(P, laws.named(law, mean))}


def k_batch_async(P: int, K: int, law: str) -> Measured:  # noqa: N803
    """stale-kbatchasync: with K = 1 every gradient is an update."""
    if K != 1:
        raise NotRunError(Verdict.NOT_YET, _BETWEEN)
    return asynchronous(P, law)


def update_interval(workers: int, law: LawOf) -> Estimate:
    """Mean time from update to update of `none`."""
    described = scenario({"kind": "none"}, workers, law, {"global_steps": long_enough(workers)})
    return until_sure(lambda r: [interval(ran(described, r))], columns(""))[""]


def interval(trace: Trace) -> float:
    """Mean seconds from update to update, after the start-up, over whole rounds of all workers."""
    steps: Sequence[int] = trace.steps.tolist()
    start = started(len(steps), trace.workers)
    start += (len(steps) - 1 - start) % trace.workers
    return (steps[-1] - steps[start]) / NANOSECONDS / (len(steps) - 1 - start)


_BETWEEN: Final = "needs a strategy with K gradients per update (K-async), which is not built yet"
