"""Quadratic bowls: synchronous descent, local copies, gradients that are late."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from validation.finding import NotRunError, Verdict
from validation.points import laws
from validation.points.estimate import (
    Answer,
    Measured,
    average,
    family,
    mean,
    times,
    until_sure,
)
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
from validation.points.scenario import Floats, Part, column, ran, scenario
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario


def _descent(
    strategy: Part,
    workers: int,
    law: Part,
    steps: int,
    rate: float,
    evaluate_every: int | None,
    **bowl: float,
) -> Scenario:
    """So many updates at a rate on a bowl whose loss is x^2 / 2, summed over its coordinates."""
    workload: dict[str, object] = {
        "problem": {"kind": "quadratic", **bowl},
        "optimizer": {"kind": "sgd", "learning_rate": rate},
    }
    if evaluate_every is not None:
        workload["evaluate_every"] = evaluate_every
    return scenario(strategy, workers, law, steps, workload=workload)


# Moments of synchronous SGD, local copies, and time to a target.
#
# Curvature is 1: a step eta on curvature lam with noise sigma2 is a step eta lam with noise
# sigma2 / lam^2. Every coordinate is a run of its own, so that one replication is many.


_COORDINATES: Final = 2_000
_STEPS: Final = (200, 1_000)  # within which a target is reached: first try, second
_MANY: Final = 20_000  # coordinates
_MOST_RUNS: Final = 20
_SURE: Final = 4.0  # standard errors
_NEARLY_0: Final = 1e-12  # a bowl starts at some distance from its optimum


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
    return _descent(
        strategy,
        n,
        laws.constant(1.0) if law is None else law,
        steps,
        eta * lam,
        None if strategy["kind"] == "on_read" else waited,
        dimension=coordinates,
        condition_number=1.0,
        noise=math.sqrt(sigma2) / lam,
        distance=(abs(x0) or _NEARLY_0) * math.sqrt(coordinates),
    )


def _moment(trace: Trace, index: int) -> float:
    """Mean square of the coordinates at one of the evaluations."""
    moment = 2 * trace.evaluations[index].loss / _COORDINATES
    if not math.isfinite(moment):
        raise ValueError("so large a step that the moment is beyond all numbers")
    return moment


@family("quad-sgd-moment")
def _second_moment(
    x0: Number, eta: Positive, lam: Positive, sigma2: NotNegative, n: Count, t: Whole
) -> Answer:
    """From the loss after t steps, which is half the sum of squares."""
    of_minutes(100 * t * n)
    described = _bowl({"kind": "on_write"}, n, eta, lam, sigma2, x0, max(t, 1))
    return average(lambda number: _moment(ran(described, number), t))


@family("quad-sgd-floor")
def _stationary_moment(eta: Positive, lam: Positive, sigma2: NotNegative, n: Count) -> Answer:
    """The mean over steps after a start-up in which what x was has died out."""
    why = "eta lam is not below 2: descent diverges, and there is no stationary moment"
    only_if(eta * lam < 2, why)
    factor = abs(1 - eta * lam)
    start = math.ceil(12 / -math.log(factor)) if factor else 1
    described = _bowl({"kind": "on_write"}, n, eta, lam, sigma2, 0.0, start + 60)

    def replication(number: int) -> float:
        trace = ran(described, number)
        kept = [row.loss for row in trace.evaluations if row.global_step > start]
        return math.fsum(kept) / len(kept) * 2 / _COORDINATES

    return average(replication)


@family("local-quad-spread")
def _local_spread(n: Count, h: Count, eta: Positive, lam: Positive, sigma2: NotNegative) -> Answer:
    """What the loss of one copy has more than that of the mean of all.

    E (x_i - mean)^2 = E x_i^2 - E mean^2, as all copies are alike; both are read from outside
    after h steps (`on_read`, aggregation `only_first_replica` and `mean`), on the same noise.
    """
    read = {"kind": "on_read", "read_every": h}
    one, mean = (
        _bowl({**read, "aggregation": aggregation}, n, eta, lam, sigma2, 0.0, h + 1)
        for aggregation in ("only_first_replica", "mean")
    )
    return average(lambda number: _moment(ran(one, number), 1) - _moment(ran(mean, number), 1))


@family("quad-time-to-target")
def _time_to_target(
    n: Count,
    k: OfN,
    mu: Positive,
    shift: NotNegative,
    x0: Number,
    eta: Positive,
    lam: Positive,
    sigma2: NotNegative,
    eps: Positive,
) -> Answer:
    """The first step whose mean square is below eps, and the time until then.

    The step is seen in runs of very many coordinates; the time is that many simulated steps of
    the strategy that waits for k of n.
    """
    law = laws.shifted(shift, mu)
    for steps in _STEPS:
        described = _bowl(barrier(n, k), n, eta, lam, sigma2, x0, steps, law, _MANY)
        first = _first_below(described, eps)
        if first is not None:
            return times(float(first), step_time(n, k, law))
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


# Descent with delayed gradients: asynchronous workers on a bowl of one dimension.
#
# tau + 1 workers of equal, constant times take turns on one copy (`none`): after the first round
# every gradient is tau updates old. What x is after each update is read off the run: its size from
# the loss, its sign from which version each applied gradient was computed from.


_DELAYED: Final = 2_000  # coordinates
# Of a start-up, by which it has died out: e^-6 of it is left, of its square e^-12.
_DECAYS: Final = 6.0
_NONE: Final[Part] = {"kind": "none"}


def _iterates(trace: Trace, rate: float, x0: float) -> Floats:
    """X after 0, 1, 2, ... updates of a bowl whose loss is x^2 / 2."""
    updates = trace.global_step
    replayed = [x0]
    for version in column(trace, "read_step")[:updates].tolist():
        replayed.append(replayed[-1] - rate * replayed[version])
    sizes = np.sqrt(2 * np.array([row.loss for row in trace.evaluations[: updates + 1]]))
    assert len(sizes) == updates + 1, "the loss is measured after every update"
    found: Floats = np.copysign(sizes, replayed)
    return found


def _factor(tau: int, rate: float) -> float:
    """By what the error is multiplied per update in the long run, constant staleness tau.

    The error is a sum of tau + 1 powers, as the run remembers so many values: they follow from the
    first few rounds, in which all of them are large (Prony, 1795; least squares). Two that are
    equal, as where the error decays fastest, are told apart by 1e-7 at most.
    """
    order = tau + 1
    rows = 3 * order
    law, bowl = laws.constant(1.0), {"dimension": 1, "distance": 1.0}
    x = _iterates(ran(_descent(_NONE, order, law, rows + order, rate, 1, **bowl)), rate, 1.0)
    if not np.isfinite(x).all():
        raise ValueError("so large a step that the error is beyond all numbers")
    before = np.lib.stride_tricks.sliding_window_view(x[:-1], order)[:rows]
    weights, *_ = np.linalg.lstsq(before, x[order : order + rows], rcond=None)
    return float(np.abs(np.roots([1.0, *(-weights[::-1])])).max(initial=0.0))


@family("delay-stability")
def _stability(tau: Whole) -> Answer:
    """The step at which the simulated error neither grows nor shrinks.

    Found by secants from steps at which it grows.
    """
    from scipy.optimize import newton

    of_minutes(100 * (tau + 1) ** 2)
    first, second = 3.2 / (tau + 1), 3 / (tau + 1)
    return float(newton(lambda rate: math.log(_factor(tau, rate)), first, x1=second, tol=1e-13))


@family("delay-rate")
def _decay(tau: Whole, a: Positive) -> Answer:
    of_minutes(4 * (tau + 1) ** 2)
    return _factor(tau, a)


@family("delay-noise-floor")
def _noise_floor(tau: Whole, a: Positive, v: Positive) -> Answer:
    """Mean square of many coordinates over updates, after the start-up.

    The noise of a gradient has variance v / a^2.
    """
    why = "so large a step diverges with this delay: there is no stationary variance"
    only_if(a < 2 * math.sin(math.pi / (4 * tau + 2)), why)
    factor = _factor(tau, a)
    start = max(round(20 * (tau + 1) + 12 / a), math.ceil(-_DECAYS / math.log(factor or 0.1)))
    described = _descent(
        _NONE,
        tau + 1,
        laws.constant(1.0),
        start + round(6 / a),
        a,
        1,
        dimension=_DELAYED,
        condition_number=1.0,
        distance=1e-9,
        noise=math.sqrt(v) / a,
    )

    def replication(number: int) -> float:
        kept = [row.loss for row in ran(described, number).evaluations[start:]]
        return 2 * math.fsum(kept) / len(kept) / _DELAYED

    return average(replication)


@family("async-quad-mean")
def _mean_iterate(N: Count, a: Positive, x0: Number, t: Whole) -> Answer:
    """The half-width is to be small compared with x0; the mean may be near 0."""
    only_if(x0 != 0, "x0 is 0, where nothing moves")
    of_minutes(10 * t)
    law, bowl = laws.exponential(1.0), {"dimension": 1, "distance": abs(x0)}
    described = _descent(_NONE, N, law, max(t, 1), a, 1, **bowl)

    def replication(number: int) -> float:
        return math.copysign(1.0, x0) * float(_iterates(ran(described, number), a, abs(x0))[t])

    def reduced(values: Sequence[float]) -> Measured:
        return {"": mean(values, scale=abs(x0))}

    return until_sure(replication, reduced)
