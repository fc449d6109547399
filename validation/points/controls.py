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
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from validation.points.draws import beyond, draws, factors
from validation.points.estimate import Estimate, mean
from validation.points.scenario import ran, step_seconds
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario

Floats = NDArray[np.float64]

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

    Controls are less their expectations, which must be known.
    """

    values: Floats
    controls: Floats


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


def refined_ratio(above: Sequence[Steps], below: Sequence[Floats]) -> Estimate:
    """The ratio of the means of two numbers of steps; by the delta method, as `over`."""
    bottom = math.fsum(float(one.mean()) for one in below) / len(below)
    ratio = math.fsum(float(one.values.mean()) for one in above) / len(above) / bottom
    rest = refined(
        [
            Steps(one.values - ratio * other, one.controls)
            for one, other in zip(above, below, strict=True)
        ]
    )
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
