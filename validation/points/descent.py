"""Quadratic bowls: synchronous descent, local copies, gradients that are late."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from validation.finding import NotRunError, Verdict
from validation.points import laws
from validation.points.estimate import Measured, columns, exactly, mean, times, until_sure
from validation.points.order_statistics import barrier, step_time
from validation.points.parameters import (
    Count,
    NotNegative,
    Number,
    OfN,
    Positive,
    Whole,
    of_minutes,
    only_if,
)
from validation.points.scenario import Part, column, ran, scenario
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario

# Quadratic bowls: moments of synchronous SGD, local copies, and time to a target.
#
# Curvature is 1: a step eta on curvature lam with noise sigma2 is a step eta lam with noise
# sigma2 / lam^2. Every coordinate is a run of its own, so that one replication is many.


_COORDINATES: Final = 2_000
_STEPS: Final = (200, 1_000)  # within which a target is reached: first try, second
_MANY: Final = 20_000  # coordinates
_MOST_RUNS: Final = 20
_SURE: Final = 4.0  # standard errors


def second_moment(
    x0: Number, eta: Positive, lam: Positive, sigma2: NotNegative, n: Count, t: Whole
) -> Measured:
    """quad-sgd-moment: from the loss after t steps, which is half the sum of squares."""
    of_minutes(100 * t * n)
    described = _bowl({"kind": "on_write"}, n, eta, lam, sigma2, x0, max(t, 1))
    return until_sure(lambda r: [_moment(ran(described, r), t)], columns(""))


def stationary_moment(eta: Positive, lam: Positive, sigma2: NotNegative, n: Count) -> Measured:
    """quad-sgd-floor: the mean over steps after a start-up in which what x was has died out."""
    why = "eta lam is not below 2: descent diverges, and there is no stationary moment"
    only_if(eta * lam < 2, why)
    factor = abs(1 - eta * lam)
    start = math.ceil(12 / -math.log(factor)) if factor else 1
    described = _bowl({"kind": "on_write"}, n, eta, lam, sigma2, 0.0, start + 60)

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        kept = [row.loss for row in trace.evaluations if row.global_step > start]
        return [math.fsum(kept) / len(kept) * 2 / _COORDINATES]

    return until_sure(replication, columns(""))


def local_spread(n: Count, h: Count, eta: Positive, lam: Positive, sigma2: NotNegative) -> Measured:
    """local-quad-spread: what the loss of one copy has more than that of the mean of all.

    E (x_i - mean)^2 = E x_i^2 - E mean^2, as all copies are alike; both are read from outside
    after h steps (`on_read`, aggregation `only_first_replica` and `mean`), on the same noise.
    """
    one, mean = (
        _bowl(
            {"kind": "on_read", "read_every": h, "aggregation": aggregation},
            *(n, eta, lam, sigma2, 0.0, h + 1),
        )
        for aggregation in ("only_first_replica", "mean")
    )

    def replication(number: int) -> list[float]:
        return [_moment(ran(one, number), 1) - _moment(ran(mean, number), 1)]

    return until_sure(replication, columns(""))


def time_to_target(
    n: Count,
    k: OfN,
    mu: Positive,
    shift: NotNegative,
    x0: Number,
    eta: Positive,
    lam: Positive,
    sigma2: NotNegative,
    eps: Positive,
) -> Measured:
    """quad-time-to-target: the first step whose mean square is below eps, and the time until then.

    The step is seen in runs of very many coordinates; the time is that many simulated steps of
    the strategy that waits for k of n.
    """
    law = laws.shifted(shift, mu)
    for steps in _STEPS:
        described = _bowl(barrier(n, k), n, eta, lam, sigma2, x0, steps, law, coordinates=_MANY)
        first = _first_below(described, eps)
        if first is not None:
            return {"": times(float(first), step_time(n, k, law))}
    raise NotRunError(Verdict.NOT_RUN, f"not below eps within {_STEPS[-1]} steps")


def _first_below(described: Scenario, eps: float) -> int | None:
    """The first step whose mean square is at most eps, once that and the one before are sure."""
    runs: list[list[float]] = []
    while len(runs) < _MOST_RUNS:
        trace = ran(described, len(runs))
        runs.append([2 * row.loss / _MANY for row in trace.evaluations])
        moments = np.mean(runs, axis=0)
        if not (moments <= eps).any():
            return None
        first = int(np.argmax(moments <= eps))
        # A mean square of normal numbers has this standard error at most, as a share of itself.
        sure = _SURE * math.sqrt(2 / (_MANY * len(runs)))
        if all(abs(moment / eps - 1) > sure for moment in moments[max(first - 1, 0) : first + 1]):
            return first
    raise NotRunError(Verdict.NOT_RUN, f"too close to eps at step {first} to tell by simulation")


def _moment(trace: Trace, index: int) -> float:
    """Mean square of the coordinates at one of the evaluations."""
    moment = 2 * trace.evaluations[index].loss / _COORDINATES
    if not math.isfinite(moment):
        raise ValueError("so large a step that the moment is beyond all numbers")
    return moment


def _bowl(
    strategy: Part,
    n: int,
    eta: float,
    lam: float,
    sigma2: float,
    x0: float,
    steps: int,
    law: Part | None = None,
    coordinates: int = _COORDINATES,
) -> Scenario:
    """Workers on a round bowl, each coordinate x0 from the optimum; the loss after every step."""
    waited = strategy.get("replicas_to_aggregate", n)
    problem: dict[str, object] = {
        "kind": "quadratic",
        "dimension": coordinates,
        "condition_number": 1.0,
        "noise": math.sqrt(sigma2) / lam,
        "distance": (abs(x0) or _NEARLY_0) * math.sqrt(coordinates),
    }
    workload: dict[str, object] = {
        "problem": problem,
        "optimizer": {"kind": "sgd", "learning_rate": eta * lam},
    }
    if strategy["kind"] != "on_read":
        workload["evaluate_every"] = waited
    law = laws.constant(1.0) if law is None else law
    return scenario(strategy, n, law, {"global_steps": steps}, workload=workload)


# A bowl starts at some distance from its optimum.
_NEARLY_0: Final = 1e-12


# Descent with delayed gradients: asynchronous workers on a bowl of one dimension.
#
# tau + 1 workers of equal, constant times take turns on one copy (`none`): after the first round
# every gradient is tau updates old. What x is after each update is read off the run: its size from
# the loss, its sign from which version each applied gradient was computed from.


Numbers = NDArray[np.float64]

_DELAYED: Final = 2_000
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


def stability(tau: Whole) -> Measured:
    """delay-stability: the step at which the simulated error neither grows nor shrinks.

    Found by secants from steps at which it grows.
    """
    from scipy.optimize import newton

    of_minutes(100 * (tau + 1) ** 2)

    def growth(rate: float) -> float:
        return math.log(factor_of(tau, rate))

    first, second = 3.2 / (tau + 1), 3 / (tau + 1)
    return exactly(float(newton(growth, first, x1=second, tol=1e-13)))


def decay(tau: Whole, a: Positive) -> Measured:
    """delay-rate."""
    of_minutes(4 * (tau + 1) ** 2)
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


def noise_floor(tau: Whole, a: Positive, v: Positive) -> Measured:
    """delay-noise-floor: mean square of many coordinates over updates, after the start-up.

    The noise of a gradient has variance v / a^2.
    """
    why = "so large a step diverges with this delay: there is no stationary variance"
    only_if(a < 2 * math.sin(math.pi / (4 * tau + 2)), why)
    factor = factor_of(tau, a)
    start = max(round(20 * (tau + 1) + 12 / a), math.ceil(-_DECAYS / math.log(factor or 0.1)))
    described = _asynchronous(
        tau + 1,
        laws.constant(1.0),
        a,
        start + round(6 / a),
        {
            "dimension": _DELAYED,
            "condition_number": 1.0,
            "distance": 1e-9,
            "noise": math.sqrt(v) / a,
        },
    )

    def replication(number: int) -> list[float]:
        kept = [row.loss for row in ran(described, number).evaluations[start:]]
        return [2 * math.fsum(kept) / len(kept) / _DELAYED]

    return until_sure(replication, columns(""))


def mean_iterate(N: Count, a: Positive, x0: Number, t: Whole) -> Measured:
    """async-quad-mean: the half-width is to be small compared with x0; the mean may be near 0."""
    only_if(x0 != 0, "x0 is 0, where nothing moves")
    of_minutes(10 * t)
    distance = abs(x0)
    described = one_dimension(N, laws.exponential(1.0), a, max(t, 1), distance)

    def reduced(rows: object) -> Measured:
        assert isinstance(rows, list)
        return {"": mean([row[0] for row in rows], scale=distance)}

    def replication(number: int) -> list[float]:
        return [math.copysign(1.0, x0) * float(iterates(described(number), a, distance)[t])]

    return until_sure(replication, reduced)
