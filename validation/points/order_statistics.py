"""Synchronous steps: how long until the k-th of n gradients is there.

All n are waited for by `on_write`, fewer by `backup_workers` (Chen et al., 2016), which gives up
the rest; nothing takes time but computing. Steps are independent: each replication is a number of
them. What the chance lateness of single computing times explains is taken off: see `controls`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal

import numpy as np

from validation.points import laws
from validation.points.controls import Lateness, Steps, refined, refined_ratio
from validation.points.estimate import (
    Answer,
    Estimate,
    Measured,
    columns,
    family,
    inverse,
    mean,
    times,
    until_sure,
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
    Floats,
    Part,
    column,
    ran,
    scenario,
    spans,
    step_seconds,
)
from varsim.cluster.record.trace import Outcome, Phase, Trace
from varsim.core.distributions import BLOCK
from varsim.scenario.training import Scenario

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


def slowed(rates: Sequence[float]) -> Part:
    """The workers of a cluster whose law has mean 1, made to have these rates."""
    factors = enumerate(1 / rate for rate in rates)
    slow = tuple({"rank": rank, "factor": factor} for rank, factor in factors if factor != 1.0)
    return {"slow_workers": slow}


def _count(n: int) -> int:
    """How many steps a replication has: of few workers many, of many a block of draws."""
    return max(_WORK // n, min(BLOCK, _LONG // n), 10)


def _replications(described: Scenario, k: int) -> Callable[[int], Steps]:
    """How long steps take that end with the k-th draw, with their controls."""
    lateness = Lateness(described, k)

    def replication(number: int) -> Steps:
        trace = ran(described, number + 1)
        return Steps(step_seconds(trace), lateness.controls(trace))

    return replication


def step_time(n: int, k: int, law: LawOf, rates: Sequence[float] = ()) -> Estimate:
    """Mean time of a step; `rates`: of the workers, by which they are faster than the law."""
    described = scenario(barrier(n, k), n, law, _count(n), **slowed(rates))
    steps = _replications(described, k)
    return until_sure(steps, lambda rows: {"": refined(rows)}, _MOST // (n * _count(n)))[""]


@family("os-exp")
def _exponential(n: Count, k: OfN, mu: Positive) -> Answer:
    return step_time(n, k, laws.exponential(1 / mu))


@family("os-shiftexp")
def _shifted_exponential(n: Count, k: OfN, delta: NotNegative, mu: Positive) -> Answer:
    return step_time(n, k, laws.shifted(delta, mu))


@family("os-pareto")
def _pareto(n: Count, k: OfN, xm: Positive, alpha: NotNegative) -> Answer:
    tail = alpha * (n - k + 1)  # moments below this of the k-th of n times are finite
    only_if(tail > 1, "alpha is not above 1/(n-k+1): the mean is infinite")
    only_if(alpha > 1, "alpha is not above 1: varsim has no law of step times without a mean")
    only_if(
        tail > 2,
        "alpha is not above 2/(n-k+1): the variance is infinite, so that no number of runs has a "
        "99 % interval",
    )
    return step_time(n, k, {"kind": "pareto", "minimum": xm, "alpha": alpha})


@family("os-weibull")
def _weibull(n: Count, k: OfN, scale: Positive, shape: Positive) -> Answer:
    return step_time(n, k, laws.weibull(scale, shape))


@family("os-uniform")
def _uniform(n: Count, k: OfN, a: NotNegative, b: Annotated[Positive, _ABOVE_A]) -> Answer:
    return step_time(n, k, {"kind": "uniform", "low": a, "high": b})


@family("os-gumbel-max")
def _gumbel(n: Count, k: OfN, loc: Number, scale: Positive) -> Answer:
    only_if(k == n, "the formula is that of the maximum, k = n")
    why = "loc is below 4 scale: some times would be below 0, which no step takes"
    only_if(loc >= 4 * scale, why)
    return step_time(n, k, {"kind": "gumbel", "location": loc, "scale": scale})


@family("os-normal")
def _normal(n: Count, k: OfN, mean: Positive, sd: Positive) -> Answer:
    # 0 is so far below the mean that the cut there changes nothing.
    below_0 = n * 0.5 * math.erfc(mean / sd / math.sqrt(2))  # of n times, on average
    why = "mean is so few sd above 0 that some times would be below 0, which no step takes"
    only_if(below_0 < 1e-3, why)
    return step_time(n, k, {"kind": "normal", "mean": mean, "std": sd})


@family("os-lognormal")
def _lognormal(n: Count, k: OfN, median: Positive, sigma: Positive) -> Answer:
    return step_time(n, k, laws.lognormal(median, sigma))


@family("os-twopoint")
def _two_point(
    n: Count, k: OfN, base: Positive, slow: Positive, p: Annotated[NotNegative, _SHARE]
) -> Answer:
    why = "slow is below 1: the k-th of n is a slow one if n-k+1 are fast then, not slow"
    only_if(slow >= 1, why)
    return step_time(n, k, laws.two_point(base, slow, p))


@family("os-hetero-exp-max")
def _unequal_workers(rates: Positives) -> Answer:
    return step_time(len(rates), len(rates), laws.exponential(1.0), rates)


@family("rt-ksync")
def _first_k(P: Count, K: OfP, law: Law, mean: Positive) -> Answer:
    return step_time(P, K, laws.named(law, mean))


@family("os-exp-var")
def _variance(n: Count, k: OfN, mu: Positive) -> Answer:
    """The mean square distance of steps from their mean, as that is estimated."""
    described = scenario(barrier(n, k), n, laws.exponential(1 / mu), _count(n))

    def reduced(rows: Sequence[Steps]) -> Measured:
        middle = refined(rows).value
        return {"": refined([Steps((row.values - middle) ** 2, row.controls) for row in rows])}

    steps = _replications(described, k)
    return until_sure(steps, reduced, _MOST // (n * _count(n)))


@family("sync-idle-fraction")
def _idle_share(n: Count, delta: NotNegative, mu: Positive) -> Answer:
    """Time at the barrier over all time, from the spans of the workers."""
    described = scenario({"kind": "on_write"}, n, laws.shifted(delta, mu), _count(n))
    lateness = Lateness(described, n)

    def replication(number: int) -> Steps:
        trace = ran(described, number + 1, record=True)
        return Steps(_at_the_barrier(trace), lateness.controls(trace), n * step_seconds(trace))

    return until_sure(replication, lambda rows: {"": refined_ratio(rows)})


def _at_the_barrier(trace: Trace) -> Floats:
    """Seconds that all workers together wait for others, step by step."""
    of = spans(trace)
    taken = (of["end"] - of["start"]) * (of["phase"] == Phase.BARRIER)
    return np.bincount(of["iteration"], taken, trace.global_step) / NANOSECONDS


@family("rt-speedup-async-sync")
def _speed_up(P: Count) -> Answer:
    """Gradients per second of `none` over those of `on_write`."""
    law, steps = laws.exponential(1.0), _count(P)
    updates = 4 * P * steps  # there nothing is taken off
    alone = scenario({"kind": "none"}, P, law, updates)
    together = _replications(scenario({"kind": "on_write"}, P, law, steps), P)

    def replication(number: int) -> Steps:
        usual = ran(alone, number + 1).end / NANOSECONDS / updates * P
        return together(number)._replace(whole=np.full(steps, usual))

    return until_sure(replication, lambda rows: {"": refined_ratio(rows)})


@family("best-k-shiftexp")
def _best_number(n: Count, delta: NotNegative, mu: Positive) -> Answer:
    """Where the rate of used gradients is highest, and what it is there.

    The optimum is flat. Where it lies is seen in steps of a full barrier, whose arrivals tell the
    rate of every k on the same draws; what cannot be told apart from the best is its interval.
    The rate is that of `backup_workers` with the k found, simulated for itself.
    """
    law = laws.shifted(delta, mu)
    described = scenario({"kind": "on_write"}, n, law, max(6_000 // n, 100))
    arrivals = np.array([_arrivals(ran(described, number), n) for number in range(80)])
    best = int(np.argmax(np.arange(1, n + 1) / arrivals.mean(axis=0)))
    alike = [index for index in range(n) if not _surely_lower(arrivals, index, best)]
    spread = Estimate(best + 1.0, max(best - alike[0], alike[-1] - best), math.inf, FLAT)
    rate = times(best + 1, inverse(step_time(n, best + 1, law)))
    return {"k*": spread, "used gradients per second": rate}


def _arrivals(trace: Trace, n: int) -> Floats:
    """Mean time from the start of a step to its k-th gradient, for every k (n,)."""
    taken = (column(trace, "computed") - column(trace, "compute_start")).reshape(-1, n)
    means: Floats = np.sort(taken, axis=1).mean(axis=0) / NANOSECONDS
    return means


def _surely_lower(arrivals: Floats, index: int, best: int) -> bool:
    """Whether waiting for index + 1 gradients has a lower rate than for best + 1, paired."""
    if index == best:
        return False
    paired = mean(((best + 1) * arrivals[:, index] - (index + 1) * arrivals[:, best]).tolist())
    assert paired.half_width is not None
    return paired.value > paired.half_width


@family("drop-compute")
def _drop_compute(
    P: Count, M: Count, mu: Positive, threshold: Positive, check: Literal["between"]
) -> Answer:
    """How long a step of `on_write` takes, and how many of its micro-batches are computed.

    Giladi et al., 2023: of so many micro-batches with exponential times a worker gives up those for
    which a threshold leaves no time.
    """
    steps = max(4_000 // (P * M), 10)
    strategy = {"kind": "on_write", "micro_batches": M, "drop_compute": {"threshold": threshold}}
    described = scenario(strategy, P, laws.exponential(1 / mu), steps)

    def replication(number: int) -> tuple[float, float]:
        trace = ran(described, number)
        used = int((column(trace, "outcome") == Outcome.APPLIED).sum())
        return trace.end / NANOSECONDS / steps, used / (P * M * steps)

    names = ("step time", "completion rate")
    return until_sure(replication, columns(*names), name=names[0])
