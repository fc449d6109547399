"""The computing times behind the steps of a run, and the law of a single one of them."""

import math
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from validation.points.scenario import NANOSECONDS, column
from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.worker import windows
from varsim.scenario.training import Scenario
from varsim.values.distribution import (
    Constant,
    Exponential,
    Gumbel,
    Lognormal,
    Normal,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)
from varsim.values.distributions import BLOCK, Distribution, Mixture
from varsim.values.stream import stream

_ROUNDED: Final = 1.0  # ns


def factors(described: Scenario) -> list[float]:
    """By how much longer each worker computes than the law says."""
    cluster = described.cluster
    return [windows(cluster.slow_workers, rank)[0][1] for rank in range(cluster.workers)]


def draws(described: Scenario, trace: Trace) -> NDArray[np.float64]:
    """Computing times (steps, workers) in seconds of a run in which all begin every step anew.

    Also those that were given up, of which the trace does not tell how long they would have been:
    drawn again from the streams of the run. What was computed to the end must agree with them.
    """
    steps = trace.global_step
    taken = np.empty((steps, trace.workers))
    law = described.cluster.compute_distribution(described.workload)
    for rank, factor in enumerate(factors(described)):
        blocks = law.blocks(
            rank,
            lambda block, rank=rank: stream(  # type: ignore[misc]
                described.seed, trace.replication, "compute", rank, block
            ),
        )
        drawn = np.concatenate(list(islice(blocks, math.ceil(steps / BLOCK))))
        taken[:, rank] = factor * drawn[:steps]
    step, ended = column(trace, "iteration"), column(trace, "computed")
    used = (ended >= 0) & (step < steps)
    seen = (ended - column(trace, "compute_start"))[used]
    again = taken[step[used], column(trace, "worker")[used]] * NANOSECONDS
    assert (column(trace, "read_step") == step)[used].all(), "a worker was not in every step"
    assert (np.abs(seen - again) <= _ROUNDED).all(), "a computing time is not the one drawn"
    return taken


def beyond(law: Distribution, time: float) -> float:
    """The chance of a single draw to be longer than `time` (s), by theory.

    ValueError where the law is none of those of closed forms.
    """
    match law:
        case Constant(value=value):
            return float(value > time)
        case Uniform(low=low, high=high):
            return min(1.0, max(0.0, (high - time) / (high - low)))
        case Exponential(mean=mean):
            return math.exp(-max(0.0, time) / mean)
        case ShiftedExponential(minimum=minimum, mean=mean):
            return math.exp(-max(0.0, time - minimum) / (mean - minimum))
        case Pareto(minimum=minimum, alpha=alpha):
            return float((minimum / max(minimum, time)) ** alpha)
        case Weibull(mean=mean, shape=shape):
            return math.exp(-((max(0.0, time) * math.gamma(1 + 1 / shape) / mean) ** shape))
        case Gumbel(location=location, scale=scale):
            return -math.expm1(-math.exp((location - time) / scale))
        case Normal(mean=mean, std=std):
            return _normal((mean - max(0.0, time)) / std) / _normal(mean / std)
        case Lognormal(mean=mean, spread=sigma):
            centre = math.log(mean) - sigma**2 / 2
            return 1.0 if time <= 0 else _normal((centre - math.log(time)) / sigma)
        case Mixture(components=components):
            total = math.fsum(one.weight for one in components)
            return math.fsum(one.weight / total * beyond(one.law, time) for one in components)
    raise ValueError(f"the chance of a long draw of law {law.about!r} is not known here")


def _normal(value: float) -> float:
    """The chance of a standard normal to be below."""
    return math.erfc(-value / math.sqrt(2)) / 2
