"""Control variates of steps: what chance did to the single draws is taken off their mean.

A step ends with the k-th of n computing times. How many of these are later than some fixed time is
chance as well, but chance of which all is known from the law of one draw. Let every draw that is
later multiply a number by z < 1: of n independent draws, each later with probability p, it is
(1 - p + p z)^n on average. In how far steps are long because these numbers happen to be small is
found by least squares, and taken off (Lavenberg and Welch, 1981). The variance of what is left is
a twentieth to a quarter, and so is the number of steps that are needed.

Coefficients that are fitted to the numbers they are used on cost degrees of freedom, and bias
(Nelson, 1990). So each half of the replications gets those of the other half (splitting; Avramidis
and Wilson, 1993), and the interval is the ordinary one, of the means of replications.
"""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from validation.points.estimate import Estimate, mean
from validation.points.scenario import NANOSECONDS, Floats, column, ran, step_seconds
from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.worker import slowness
from varsim.core.distribution import (
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
from varsim.core.distributions import BLOCK, Distribution, Mixture
from varsim.core.stream import stream
from varsim.scenario.training import Scenario

# The computing times behind the steps of a run, and the law of a single one of them.


_ROUNDED: Final = 1.0  # ns


def factors(described: Scenario) -> list[float]:
    """By how much longer each worker computes than the law says."""
    cluster = described.cluster
    slow = slowness(cluster.stragglers)
    return [slow[rank][0][1] if rank in slow else 1.0 for rank in range(cluster.workers)]


def draws(described: Scenario, trace: Trace) -> Floats:
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
            return math.fsum(
                one.weight / total * beyond(one.distribution, time) for one in components
            )
    raise ValueError(f"the chance of a long draw of law {law.about!r} is not known here")


def _normal(value: float) -> float:
    """The chance of a standard normal to be below."""
    return math.erfc(-value / math.sqrt(2)) / 2


_TIMES: Final = 8  # fixed times with which draws are compared
# What all the draws that decide make of 1 together: e^-weight. Fewer than 1 / e never, as with 0
# it would be the chance that the step is over, which is what the closed forms are made of. And no
# more of them than draws that decide and one: else nothing might be left for the steps to tell.
_WEIGHTS: Final = np.array([1.0, 0.5, 0.75, 0.25])
_SINGULAR: Final = 1e-10
# Half-widths by which controls may be off; by chance they are less than once in 10,000 times.
_MOST_OFF: Final = 2.0


class Steps(NamedTuple):
    """Of the steps of a replication a number each (steps,), and controls (steps, kinds).

    Controls are less their expectations, which must be known. `whole`: what the numbers are a share
    of, where they are (steps,).
    """

    values: Floats
    controls: Floats
    whole: Floats | None = None


class Lateness:
    """The controls of the steps of a scenario that end with the k-th of n draws.

    The fixed times go in equal parts from the shortest to the longest step of its first
    replication, which is used for that alone. Where less than half are waited for, it is draws
    that are not later that count.
    """

    def __init__(self, described: Scenario, k: int) -> None:
        self._described = described
        n = described.cluster.workers
        seen = step_seconds(ran(described, 0))
        self._times = np.linspace(seen.min(), seen.max(), _TIMES)
        self._early = 2 * k <= n
        deciding = min(k, n - k + 1)
        self._weights = _WEIGHTS[: deciding + 1] / deciding
        law, slower = described.cluster.compute_distribution(described.workload), factors(described)
        chances = np.array([[beyond(law, t / factor) for factor in slower] for t in self._times])
        if self._early:
            chances = 1 - chances
        each = 1 - chances[:, :, None] * -np.expm1(-self._weights)
        self._expected: Floats = each.prod(axis=1)

    def controls(self, trace: Trace) -> Floats:
        """Of each step of a run (steps, kinds), less their expectations."""
        taken = draws(self._described, trace)
        late = np.stack([(taken > time).sum(axis=1) for time in self._times], axis=1)
        counted = trace.workers - late if self._early else late
        found: Floats = np.exp(-counted[:, :, None] * self._weights) - self._expected
        return found.reshape(len(taken), -1)


def refined(replications: Sequence[Steps]) -> Estimate:
    """The mean of the values of all steps, less what their controls explain.

    If the controls themselves are off their expectations by more than chance explains, the law
    or the draws are wrong, and taking that off would hide it: then it is the plain mean.
    """
    left, taken_off = [], []
    halves = replications[::2], replications[1::2]
    for own, others in (halves, halves[::-1]):
        coefficients = _coefficients(others)
        taken_off += [float((one.controls @ coefficients).mean()) for one in own]
        left += [float(one.values.mean()) for one in own]
    chance = mean(taken_off)
    assert chance.half_width is not None
    if abs(chance.value) > _MOST_OFF * chance.half_width:
        return mean(left)
    return mean([value - off for value, off in zip(left, taken_off, strict=True)])


def refined_ratio(replications: Sequence[Steps]) -> Estimate:
    """The ratio of the means of values and of what they are a share of; by the delta method."""
    wholes = [one.whole for one in replications if one.whole is not None]
    bottom = math.fsum(float(one.mean()) for one in wholes) / len(wholes)
    means = (float(one.values.mean()) for one in replications)
    ratio = math.fsum(means) / len(replications) / bottom
    left = zip(replications, wholes, strict=True)
    rest = refined([Steps(one.values - ratio * whole, one.controls) for one, whole in left])
    assert rest.half_width is not None
    return Estimate(ratio + rest.value / bottom, rest.half_width / abs(bottom))


def _coefficients(replications: Sequence[Steps]) -> Floats:
    """Of the controls, by least squares over all steps."""
    values = np.concatenate([one.values for one in replications])
    controls = np.concatenate([one.controls for one in replications])
    controls = controls - controls.mean(axis=0)
    scales = controls.std(axis=0)
    scales[scales == 0] = np.inf
    fitted, *_ = np.linalg.lstsq(controls / scales, values - values.mean(), rcond=_SINGULAR)
    coefficients: Floats = fitted / scales
    return coefficients
