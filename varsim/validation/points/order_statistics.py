"""Synchronous steps: how long until the k-th of n gradients is there.

All n are waited for by `on_write`, fewer by `backup_workers` (Chen et al., 2016), which gives up
the rest; nothing takes time but computing. Steps are independent: each replication is a number of
them.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from varsim.result.measure import worker_time
from varsim.trace import Phase, Trace
from varsim.validation.points import laws
from varsim.validation.points.estimate import (
    Estimate,
    Measured,
    columns,
    controlled,
    inverse,
    mean,
    over,
    until_sure,
)
from varsim.validation.points.estimate import (
    times as times_of,
)
from varsim.validation.points.laws import LawOf
from varsim.validation.points.scenario import (
    NANOSECONDS,
    Part,
    column,
    ran,
    scenario,
    step_seconds,
)

# Worker-steps: of a replication, and at most of a point, which is about a minute.
_WORK: Final = 6_000
_MOST: Final = 12_000_000
FLAT: Final = "among the numbers whose rates a paired 99 % interval does not tell from the best"


def barrier(n: int, k: int) -> Part:
    """The strategy whose step ends with the k-th of n gradients."""
    if k == n:
        return {"kind": "on_write"}
    return {"kind": "backup_workers", "replicas_to_aggregate": k}


def step_time(n: int, k: int, law: LawOf, rates: Sequence[float] = ()) -> Estimate:
    """Mean time of a step; `rates`: of the workers, by which they are faster than the law.

    Where all are waited for, all computing times are known, whose mean the law says: that is used.
    """
    steps = max(_WORK // n, 30)
    described = scenario(barrier(n, k), n, law, {"global_steps": steps}, **slowed(rates))
    most = _MOST // (n * steps)
    if k < n:
        return until_sure(
            lambda r: [float(step_seconds(ran(described, r)).mean())], columns(""), most
        )[""]
    usual = described.cluster.law(described.workload).expectation()
    expectation = usual * math.fsum(1 / rate for rate in rates or [1.0] * n) / n

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        computed = column(trace, "computed") - column(trace, "compute_start")
        return [trace.end / steps / NANOSECONDS, float(computed[: n * steps].mean()) / NANOSECONDS]

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        return {"": controlled([row[0] for row in rows], [row[1:] for row in rows], [expectation])}

    return until_sure(replication, reduced, most)[""]


def exponential(n: int, k: int, mu: float) -> Measured:
    """os-exp."""
    return {"": step_time(n, k, laws.exponential(1 / mu))}


def shifted_exponential(n: int, k: int, delta: float, mu: float) -> Measured:
    """os-shiftexp."""
    return {"": step_time(n, k, laws.shifted(delta, mu))}


def pareto(n: int, k: int, xm: float, alpha: float) -> Measured:
    """os-pareto."""
    return {"": step_time(n, k, {"kind": "pareto", "minimum": xm, "alpha": alpha})}


def weibull(n: int, k: int, scale: float, shape: float) -> Measured:
    """os-weibull."""
    return {"": step_time(n, k, laws.weibull(scale, shape))}


def uniform(n: int, k: int, a: float, b: float) -> Measured:
    """os-uniform."""
    return {"": step_time(n, k, {"kind": "uniform", "low": a, "high": b})}


def gumbel(n: int, k: int, loc: float, scale: float) -> Measured:
    """os-gumbel-max."""
    return {"": step_time(n, k, {"kind": "gumbel", "location": loc, "scale": scale})}


def normal(n: int, k: int, mean: float, sd: float) -> Measured:
    """os-normal; 0 is so far below the mean that the cut there changes nothing."""
    return {"": step_time(n, k, {"kind": "normal", "mean": mean, "std": sd})}


def lognormal(n: int, k: int, median: float, sigma: float) -> Measured:
    """os-lognormal."""
    return {"": step_time(n, k, laws.lognormal(median, sigma))}


def two_point(n: int, k: int, base: float, slow: float, p: float) -> Measured:
    """os-twopoint."""
    return {"": step_time(n, k, laws.two_point(base, slow, p))}


def variance(n: int, k: int, mu: float) -> Measured:
    """os-exp-var: the unbiased variance of the steps of each replication.

    Where all are waited for, mean and mean square of all computing times are the controls.
    """
    steps = max(4 * _WORK // n, 200)
    described = scenario(barrier(n, k), n, laws.exponential(1 / mu), {"global_steps": steps})
    most = 6 * _MOST // (5 * n * steps)

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        taken = (column(trace, "computed") - column(trace, "compute_start")) / NANOSECONDS
        taken = taken[: n * steps]
        spread = float(np.var(step_seconds(trace), ddof=1))
        return [spread, float(taken.mean()), float((taken**2).mean())]

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        values = [row[0] for row in rows]
        if k < n:
            return {"": mean(values)}
        return {"": controlled(values, [row[1:] for row in rows], [1 / mu, 2 / mu**2])}

    return until_sure(replication, reduced, most)


def unequal_workers(rates: list[float]) -> Measured:
    """os-hetero-exp-max: workers are slowed down by factors of one law."""
    return {"": step_time(len(rates), len(rates), laws.exponential(1.0), rates)}


def slowed(rates: Sequence[float]) -> Part:
    """The workers of a cluster whose law has mean 1, made to have these rates."""
    factors = enumerate(1 / rate for rate in rates)
    slow = tuple({"rank": rank, "factor": factor} for rank, factor in factors if factor != 1.0)
    return {"slow_workers": slow}


def idle_share(n: int, delta: float, mu: float) -> Measured:
    """sync-idle-fraction: time at the barrier over all time, from the spans of the workers."""
    steps = max(_WORK // n, 10)
    law = laws.shifted(delta, mu)
    described = scenario({"kind": "on_write"}, n, law, {"global_steps": steps})

    def replication(number: int) -> list[float]:
        trace = ran(described, number, record=True)
        return [float(worker_time(trace)[:, Phase.BARRIER].sum()), float(n * trace.end)]

    return until_sure(
        replication, lambda rows: {"": over([row[0] for row in rows], [row[1] for row in rows])}
    )


def best_number(n: int, delta: float, mu: float) -> Measured:
    """best-k-shiftexp: where the rate of used gradients is highest, and what it is there.

    The optimum is flat. Where it lies is seen in steps of a full barrier, whose arrivals tell the
    rate of every k on the same draws; what cannot be told apart from the best is its interval.
    The rate is that of `backup_workers` with the k found, simulated for itself.
    """
    law = laws.shifted(delta, mu)
    steps, replications = max(_WORK // n, 100), 80
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


def speed_up(P: int) -> Measured:  # noqa: N803  (named as in the family)
    """rt-speedup-async-sync: gradients per second of `none` over those of `on_write`."""
    law = laws.exponential(1.0)
    steps, updates = 2 * _WORK // P, 2 * _WORK
    together = scenario({"kind": "on_write"}, P, law, {"global_steps": steps})
    alone = scenario({"kind": "none"}, P, law, {"global_steps": updates})

    def replication(number: int) -> list[float]:
        return [ran(together, number).end / steps, ran(alone, number).end / updates * P]

    return until_sure(
        replication, lambda rows: {"": over([row[0] for row in rows], [row[1] for row in rows])}
    )


def first_k(P: int, K: int, law: str, mean: float) -> Measured:  # noqa: N803
    """rt-ksync."""
    return {"": step_time(P, K, laws.named(law, mean))}
