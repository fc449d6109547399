"""Quadratic bowls: moments of synchronous SGD, local copies, and time to a target.

Curvature is 1: a step eta on curvature lam with noise sigma2 is a step eta lam with noise
sigma2 / lam^2. Every coordinate is a run of its own, so that one replication is many.
"""

import math
from typing import Final

import numpy as np

from validation.finding import Verdict
from validation.points import laws
from validation.points.estimate import Measured, columns, times, until_sure
from validation.points.order_statistics import barrier, step_time
from validation.points.outcome import NotRunError
from validation.points.scenario import Part, ran, scenario
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario

_COORDINATES: Final = 2_000
_STEPS: Final = (200, 1_000)  # within which a target is reached: first try, second
_MANY: Final = 20_000  # coordinates
_MOST_RUNS: Final = 20
_SURE: Final = 4.0  # standard errors


def second_moment(x0: float, eta: float, lam: float, sigma2: float, n: int, t: int) -> Measured:
    """quad-sgd-moment: from the loss after t steps, which is half the sum of squares."""
    described = _bowl({"kind": "on_write"}, n, eta, lam, sigma2, x0, max(t, 1))
    return until_sure(lambda r: [_moment(ran(described, r), t)], columns(""))


def stationary_moment(eta: float, lam: float, sigma2: float, n: int) -> Measured:
    """quad-sgd-floor: the mean over steps after a start-up in which what x was has died out."""
    factor = abs(1 - eta * lam)
    start = math.ceil(12 / -math.log(factor)) if factor else 1
    described = _bowl({"kind": "on_write"}, n, eta, lam, sigma2, 0.0, start + 60)

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        kept = [row.loss for row in trace.evaluations if row.global_step > start]
        return [math.fsum(kept) / len(kept) * 2 / _COORDINATES]

    return until_sure(replication, columns(""))


def local_spread(n: int, h: int, eta: float, lam: float, sigma2: float) -> Measured:
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
    n: int,
    k: int,
    mu: float,
    shift: float,
    x0: float,
    eta: float,
    lam: float,
    sigma2: float,
    eps: float,
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
