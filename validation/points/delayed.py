"""Descent with delayed gradients: asynchronous workers on a bowl of one dimension.

tau + 1 workers of equal, constant times take turns on one copy (`none`): after the first round
every gradient is tau updates old. What x is after each update is read off the run: its size from
the loss, its sign from which version each applied gradient was computed from.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.estimate import Measured, columns, exactly, mean, until_sure
from validation.points.scenario import Part, column, ran, scenario
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario

Numbers = NDArray[np.float64]

_COORDINATES: Final = 2_000
# Of a start-up, by which it has died out: e^-6 of it is left, of its square e^-12.
_DECAYS: Final = 6.0


def iterates(trace: Trace, rate: float, x0: float) -> Numbers:
    """X after 0, 1, 2, ... updates of a bowl whose loss is x^2 / 2."""
    updates = trace.global_step
    read = column(trace, "read_step")[:updates].tolist()
    replayed = [x0]
    for version in read:
        replayed.append(replayed[-1] - rate * replayed[version])
    sizes = np.sqrt(2 * np.array([row.loss for row in trace.evaluations[: updates + 1]]))
    assert len(sizes) == updates + 1, "the loss is measured after every update"
    found: Numbers = np.copysign(sizes, replayed)
    return found


def one_dimension(
    workers: int, law: Part, rate: float, updates: int, x0: float = 1.0
) -> Callable[[int], Trace]:
    """Replications of asynchronous descent from x0, without noise."""
    described = _asynchronous(workers, law, rate, updates, {"dimension": 1, "distance": x0})
    return lambda replication: ran(described, replication)


def _asynchronous(workers: int, law: Part, rate: float, updates: int, bowl: Part) -> Scenario:
    workload = {
        "problem": {"kind": "quadratic", **bowl},
        "optimizer": {"kind": "sgd", "learning_rate": rate},
        "evaluate_every": 1,
    }
    return scenario({"kind": "none"}, workers, law, {"global_steps": updates}, workload=workload)


def stability(tau: int) -> Measured:
    """delay-stability: the step at which the simulated error neither grows nor shrinks.

    Found by secants from steps at which it grows.
    """
    from scipy.optimize import newton

    def growth(rate: float) -> float:
        return math.log(factor_of(tau, rate))

    first, second = 3.2 / (tau + 1), 3 / (tau + 1)
    return exactly(float(newton(growth, first, x1=second, tol=1e-13)))


def decay(tau: int, a: float) -> Measured:
    """delay-rate."""
    return exactly(factor_of(tau, a))


def factor_of(tau: int, rate: float) -> float:
    """By what the error is multiplied per update in the long run, constant staleness tau.

    The error is a sum of tau + 1 powers, as the run remembers so many values: they follow from the
    first few rounds, in which all of them are large (Prony, 1795; least squares). Two that are
    equal, as where the error decays fastest, are told apart by 1e-7 at most.
    """
    order = tau + 1
    rows = 3 * order
    trace = one_dimension(order, laws.constant(1.0), rate, rows + order)(0)
    x = iterates(trace, rate, 1.0)
    if not np.isfinite(x).all():
        raise ValueError("so large a step that the error is beyond all numbers")
    before = np.lib.stride_tricks.sliding_window_view(x[:-1], order)[:rows]
    weights, *_ = np.linalg.lstsq(before, x[order : order + rows], rcond=None)
    return float(np.abs(np.roots([1.0, *(-weights[::-1])])).max(initial=0.0))


def noise_floor(tau: int, a: float, v: float) -> Measured:
    """delay-noise-floor: mean square of many coordinates over updates, after the start-up.

    The noise of a gradient has variance v / a^2.
    """
    factor = factor_of(tau, a)
    start = max(round(20 * (tau + 1) + 12 / a), math.ceil(-_DECAYS / math.log(factor or 0.1)))
    described = _asynchronous(
        tau + 1,
        laws.constant(1.0),
        a,
        start + round(6 / a),
        {
            "dimension": _COORDINATES,
            "condition_number": 1.0,
            "distance": 1e-9,
            "noise": math.sqrt(v) / a,
        },
    )

    def replication(number: int) -> list[float]:
        kept = [row.loss for row in ran(described, number).evaluations[start:]]
        return [2 * math.fsum(kept) / len(kept) / _COORDINATES]

    return until_sure(replication, columns(""))


def mean_iterate(N: int, a: float, x0: float, t: int) -> Measured:  # noqa: N803
    """async-quad-mean: the half-width is to be small compared with x0; the mean may be near 0."""
    distance = abs(x0)
    described = one_dimension(N, laws.exponential(1.0), a, max(t, 1), distance)

    def reduced(rows: object) -> Measured:
        assert isinstance(rows, list)
        return {"": mean([row[0] for row in rows], scale=distance)}

    def replication(number: int) -> list[float]:
        return [math.copysign(1.0, x0) * float(iterates(described(number), a, distance)[t])]

    return until_sure(replication, reduced)
