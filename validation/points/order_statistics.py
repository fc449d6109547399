"""Synchronous steps: how long until the k-th of n gradients is there.

All n are waited for by `on_write`, fewer by `backup_workers` (Chen et al., 2016), which gives up
the rest; nothing takes time but computing. Steps are independent: each replication is a number of
them.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.controls import Lateness, Steps, refined, refined_ratio
from validation.points.estimate import (
    Estimate,
    Measured,
    inverse,
    mean,
    until_sure,
)
from validation.points.estimate import (
    times as times_of,
)
from validation.points.laws import LawOf
from validation.points.parameters import (
    Count,
    Law,
    NotNegative,
    Number,
    OfN,
    OfP,
    Positive,
    Positives,
    only_if,
    together,
)
from validation.points.scenario import (
    NANOSECONDS,
    Part,
    column,
    ran,
    scenario,
    step_seconds,
)
from varsim.cluster.record.trace import Outcome, Phase, Span, Trace
from varsim.core.distributions import BLOCK

# Worker-steps: of a replication, of one where a block of draws would be more, and at most of a
# point, which is about two minutes.
_WORK: Final = 4_000
_LONG: Final = 30_000
_MOST: Final = 16_000_000
FLAT: Final = "among the numbers whose rates a paired 99 % interval does not tell from the best"


_ABOVE_A: Final = together(
    lambda b, given: given["a"] < b, "parameters.a must be below parameters.b"
)
_SHARE: Final = together(lambda p, _: p <= 1, "parameters.p must be a probability, at most 1")


def barrier(n: int, k: int) -> Part:
    """The strategy whose step ends with the k-th of n gradients."""
    if k == n:
        return {"kind": "on_write"}
    return {"kind": "backup_workers", "replicas_to_aggregate": k}


def step_time(n: int, k: int, law: LawOf, rates: Sequence[float] = ()) -> Estimate:
    """Mean time of a step; `rates`: of the workers, by which they are faster than the law.

    What the chance lateness of single computing times explains of it is taken off: see `controls`.
    """
    steps = _steps(n)
    described = scenario(barrier(n, k), n, law, {"global_steps": steps}, **slowed(rates))
    lateness = Lateness(described, k)

    def replication(number: int) -> Steps:
        trace = ran(described, number + 1)
        return Steps(step_seconds(trace), lateness.controls(trace))

    return until_sure(replication, lambda rows: {"": refined(rows)}, _MOST // (n * steps))[""]


def _steps(n: int) -> int:
    """How many steps a replication has: of few workers many, of many a block of draws."""
    return max(_WORK // n, min(BLOCK, _LONG // n), 10)


def exponential(n: Count, k: OfN, mu: Positive) -> Measured:
    """os-exp."""
    return {"": step_time(n, k, laws.exponential(1 / mu))}


def shifted_exponential(n: Count, k: OfN, delta: NotNegative, mu: Positive) -> Measured:
    """os-shiftexp."""
    return {"": step_time(n, k, laws.shifted(delta, mu))}


def pareto(n: Count, k: OfN, xm: Positive, alpha: NotNegative) -> Measured:
    """os-pareto. Moments below `tail` of the k-th of n times are finite, the others are not."""
    tail = alpha * (n - k + 1)
    only_if(tail > 1, "alpha is not above 1/(n-k+1): the mean is infinite")
    only_if(alpha > 1, "alpha is not above 1: varsim has no law of step times without a mean")
    only_if(
        tail > 2,
        "alpha is not above 2/(n-k+1): the variance is infinite, so that no number of runs has a "
        "99 % interval",
    )
    return {"": step_time(n, k, {"kind": "pareto", "minimum": xm, "alpha": alpha})}


def weibull(n: Count, k: OfN, scale: Positive, shape: Positive) -> Measured:
    """os-weibull."""
    return {"": step_time(n, k, laws.weibull(scale, shape))}


def uniform(n: Count, k: OfN, a: NotNegative, b: Annotated[Positive, _ABOVE_A]) -> Measured:
    """os-uniform."""
    return {"": step_time(n, k, {"kind": "uniform", "low": a, "high": b})}


def gumbel(n: Count, k: OfN, loc: Number, scale: Positive) -> Measured:
    """os-gumbel-max."""
    only_if(k == n, "the formula is that of the maximum, k = n")
    why = "loc is below 4 scale: some times would be below 0, which no step takes"
    only_if(loc >= 4 * scale, why)
    return {"": step_time(n, k, {"kind": "gumbel", "location": loc, "scale": scale})}


def normal(n: Count, k: OfN, mean: Positive, sd: Positive) -> Measured:
    """os-normal; 0 is so far below the mean that the cut there changes nothing."""
    below_0 = n * 0.5 * math.erfc(mean / sd / math.sqrt(2))  # of n times, on average
    why = "mean is so few sd above 0 that some times would be below 0, which no step takes"
    only_if(below_0 < 1e-3, why)
    return {"": step_time(n, k, {"kind": "normal", "mean": mean, "std": sd})}


def lognormal(n: Count, k: OfN, median: Positive, sigma: Positive) -> Measured:
    """os-lognormal."""
    return {"": step_time(n, k, laws.lognormal(median, sigma))}


def two_point(
    n: Count, k: OfN, base: Positive, slow: Positive, p: Annotated[NotNegative, _SHARE]
) -> Measured:
    """os-twopoint."""
    why = "slow is below 1: the k-th of n is a slow one if n-k+1 are fast then, not slow"
    only_if(slow >= 1, why)
    return {"": step_time(n, k, laws.two_point(base, slow, p))}


def variance(n: Count, k: OfN, mu: Positive) -> Measured:
    """os-exp-var: the mean square distance of steps from their mean, as that is estimated.

    Both are less what the lateness of single computing times explains.
    """
    steps = _steps(n)
    described = scenario(barrier(n, k), n, laws.exponential(1 / mu), {"global_steps": steps})
    lateness = Lateness(described, k)

    def replication(number: int) -> Steps:
        trace = ran(described, number + 1)
        return Steps(step_seconds(trace), lateness.controls(trace))

    def reduced(rows: Sequence[Steps]) -> Measured:
        middle = refined(rows).value
        return {"": refined([Steps((row.values - middle) ** 2, row.controls) for row in rows])}

    return until_sure(replication, reduced, _MOST // (n * steps))


def unequal_workers(rates: Positives) -> Measured:
    """os-hetero-exp-max: workers are slowed down by factors of one law."""
    return {"": step_time(len(rates), len(rates), laws.exponential(1.0), rates)}


def slowed(rates: Sequence[float]) -> Part:
    """The workers of a cluster whose law has mean 1, made to have these rates."""
    factors = enumerate(1 / rate for rate in rates)
    slow = tuple({"rank": rank, "factor": factor} for rank, factor in factors if factor != 1.0)
    return {"slow_workers": slow}


class _Waited(NamedTuple):
    """Of the steps of a replication: a number with its controls, and what it is a share of."""

    above: Steps
    below: NDArray[np.float64]


def _ratio(rows: Sequence[_Waited]) -> Measured:
    return {"": refined_ratio([row.above for row in rows], [row.below for row in rows])}


def idle_share(n: Count, delta: NotNegative, mu: Positive) -> Measured:
    """sync-idle-fraction: time at the barrier over all time, from the spans of the workers."""
    steps = _steps(n)
    law = laws.shifted(delta, mu)
    described = scenario({"kind": "on_write"}, n, law, {"global_steps": steps})
    lateness = Lateness(described, n)

    def replication(number: int) -> _Waited:
        trace = ran(described, number + 1, record=True)
        waited = Steps(_at_the_barrier(trace), lateness.controls(trace))
        return _Waited(waited, n * step_seconds(trace))

    return until_sure(replication, _ratio)


def _at_the_barrier(trace: Trace) -> NDArray[np.float64]:
    """Seconds that all workers together wait for others, step by step."""
    spans = dict(zip(Span._fields, trace.spans.T, strict=True))
    taken = (spans["end"] - spans["start"]) * (spans["phase"] == Phase.BARRIER)
    return np.bincount(spans["iteration"], taken, trace.global_step) / NANOSECONDS


def best_number(n: Count, delta: NotNegative, mu: Positive) -> Measured:
    """best-k-shiftexp: where the rate of used gradients is highest, and what it is there.

    The optimum is flat. Where it lies is seen in steps of a full barrier, whose arrivals tell the
    rate of every k on the same draws; what cannot be told apart from the best is its interval.
    The rate is that of `backup_workers` with the k found, simulated for itself.
    """
    law = laws.shifted(delta, mu)
    steps, replications = max(6_000 // n, 100), 80
    described = scenario({"kind": "on_write"}, n, law, {"global_steps": steps})
    times = np.array([_arrivals(ran(described, r), n) for r in range(replications)])
    rates = np.arange(1, n + 1) / times.mean(axis=0)
    best = int(np.argmax(rates))
    alike = [index for index in range(n) if not _surely_lower(times, index, best)]
    spread = Estimate(best + 1.0, max(best - alike[0], alike[-1] - best), math.inf, FLAT)
    return {
        "k*": spread,
        "used gradients per second": times_of(best + 1, inverse(step_time(n, best + 1, law))),
    }


def _arrivals(trace: Trace, n: int) -> NDArray[np.float64]:
    """Mean time from the start of a step to its k-th gradient, for every k (n,)."""
    taken = (column(trace, "computed") - column(trace, "compute_start")).reshape(-1, n)
    means: NDArray[np.float64] = np.sort(taken, axis=1).mean(axis=0) / NANOSECONDS
    return means


def _surely_lower(times: NDArray[np.float64], index: int, best: int) -> bool:
    """Whether waiting for index + 1 gradients has a lower rate than for best + 1, paired."""
    if index == best:
        return False
    paired = mean(((best + 1) * times[:, index] - (index + 1) * times[:, best]).tolist())
    assert paired.half_width is not None
    return paired.value > paired.half_width


def speed_up(P: Count) -> Measured:
    """rt-speedup-async-sync: gradients per second of `none` over those of `on_write`."""
    law = laws.exponential(1.0)
    steps = _steps(P)
    updates = 4 * P * steps  # there nothing is taken off
    together = scenario({"kind": "on_write"}, P, law, {"global_steps": steps})
    alone = scenario({"kind": "none"}, P, law, {"global_steps": updates})
    lateness = Lateness(together, P)

    def replication(number: int) -> _Waited:
        trace = ran(together, number + 1)
        usual = ran(alone, number + 1).end / NANOSECONDS / updates * P
        return _Waited(Steps(step_seconds(trace), lateness.controls(trace)), np.full(steps, usual))

    return until_sure(replication, _ratio)


def first_k(P: Count, K: OfP, law: Law, mean: Positive) -> Measured:
    """rt-ksync."""
    return {"": step_time(P, K, laws.named(law, mean))}


# Dropped micro-batches: how long a step of `on_write` takes, and how many of them are computed.
#
# DropCompute (Giladi et al., 2023): of so many micro-batches with exponential times a worker gives
# up those for which a threshold leaves no time. Nothing takes time but computing; steps are
# independent.


STEP: Final = "step time"
COMPUTED: Final = "completion rate"
_MICRO_BATCHES: Final = 4_000  # micro-batches of a replication


def drop_compute(
    P: Count, M: Count, mu: Positive, threshold: Positive, check: Literal["between"]
) -> Measured:
    """drop-compute."""
    steps = max(_MICRO_BATCHES // (P * M), 10)
    drop = {"threshold": threshold}
    described = scenario(
        {"kind": "on_write", "micro_batches": M, "drop_compute": drop},
        P,
        laws.exponential(1 / mu),
        {"global_steps": steps},
    )

    def replication(number: int) -> tuple[float, float]:
        trace = ran(described, number)
        used = int((column(trace, "outcome") == Outcome.APPLIED).sum())
        return trace.end / NANOSECONDS / steps, used / (P * M * steps)

    def reduced(rows: Sequence[tuple[float, float]]) -> Measured:
        times, shares = zip(*rows, strict=True)
        return {STEP: mean(times), COMPUTED: mean(shares)}

    return until_sure(replication, reduced, name=STEP)
