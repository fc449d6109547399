"""What the runs of a result cost, at the prices of its scenario."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Stop
from varsim.cluster.description.recovery import in_run
from varsim.cluster.record.trace import Phase, Trace
from varsim.scenario.training import Scenario
from varsim.study.goodput import KEPT
from varsim.study.gradients import Window
from varsim.study.measure import NANOSECONDS, Metric
from varsim.study.rounds import updates_per_round
from varsim.study.simulation import Run, run_one
from varsim.study.statistics import Estimate, interval
from varsim.study.why.levers import LEVERS, alone, times_only, without

if TYPE_CHECKING:
    from varsim.study.result import Result


COSTS: Final = {
    "cost_per_hour": Metric("/h", "price of the machines, and of what they send, in an hour"),
    "cost_per_million_examples": Metric("", "price of a million examples in applied gradients"),
    "cost_to_target": Metric("", "price of the time to the target loss"),
}


# Of collectives what a round sends is counted in the third one: by then syncs that are sent ahead,
# or applied late, come as regularly as all later ones.
_COUNTED: Final = (2, 3)
_VARIANCE: Final = next(lever for lever in LEVERS if lever.key == "variance")
_CARRYING: Final = [int(Phase.READ), int(Phase.WRITE)]


def sent_per_second(
    scenario: Scenario,
    trace: Trace,
    window: Window,
    spent: NDArray[np.int64],
    spent_in_window: NDArray[np.int64],
) -> float:
    """Bytes from machine to machine in a second of the window in which rates are measured.

    Where all workers meet, every round sends as much, before its updates or after: a run that ends
    with a round's last update has not sent what follows it. So the bytes of a round are spread over
    its updates. Else the bytes of a run are those of its reads and writes, and the window has the
    share of the time that these take (`spent`, see `worker_time`) which lies in it.
    """
    (index,) = (i for i, one in enumerate(scenario.strategies) if one.label == trace.strategy)
    strategy = scenario.strategies[index]
    disturbed = scenario.events or in_run(scenario.failures) or trace.standstill is not None
    if window.length <= 0 or math.isnan(trace.sent):
        return trace.sent * 0.0
    if strategy.sends.to in ("workers", "sums", "copies") and len(trace.steps) and not disturbed:
        updates = int(window.holds(trace.steps).sum())
        whole = strategy.round.of == "step" and trace.end == trace.steps[-1]
        each = trace.sent / len(trace.steps) if whole else _sent_per_update(scenario, index)
        return each * updates * NANOSECONDS / window.length
    carrying = int(spent[:, _CARRYING].sum())
    share = int(spent_in_window[:, _CARRYING].sum()) / carrying if carrying else 1.0
    lasted = window.length if carrying else trace.end
    return trace.sent * share * NANOSECONDS / lasted


@lru_cache(maxsize=256)
def _sent_per_update(scenario: Scenario, index: int) -> float:
    """Bytes from machine to machine for each update, in a round of steady compute times."""
    only = without(alone(scenario, index), [_VARIANCE])
    strategy = only.strategies[0]
    each = updates_per_round(strategy, only.cluster_of(strategy))
    changes = {"failures": None, "targets": type(only.targets)()}
    first, last = (
        run_one(Run(times_only(only.model_copy(update={**changes, "stop": stop})), 0, 0)).sent
        for stop in (Stop(global_steps=each * often, equal_examples=False) for often in _COUNTED)
    )
    return (last - first) / (each * (_COUNTED[1] - _COUNTED[0]))


def costs(result: "Result", strategy: str) -> dict[str, list[float]]:
    """Each of COSTS of a strategy, a value per replication; nan where it does not exist."""
    scenario, prices = result.scenario, result.scenario.prices
    assert prices is not None, "costs are of a scenario with prices"
    machines = scenario.hourly(scenario.strategy(strategy))
    speed = "examples_per_s" if scenario.failures is None else KEPT
    first = result.strategies.index(strategy) * result.replications
    runs = slice(first, first + result.replications)
    sent = (
        sent_per_second(scenario, *run)
        for run in zip(
            result.traces[runs],
            result.windows[runs],
            result.time_splits[runs],
            result.measured_splits[runs],
            strict=True,
        )
    )
    rates, times = result.values(strategy, speed), result.values(strategy, "time_to_target")
    rows = [prices.costs(machines, *run) for run in zip(sent, rates, times, strict=True)]
    return {name: [row[name] for row in rows] for name in COSTS}


def estimates(result: "Result", strategy: str) -> dict[str, Estimate]:
    """Each of COSTS over the replications; nothing without prices."""
    if result.scenario.prices is None:
        return {}
    return {
        name: interval(values, exact=result.exact(strategy, _follows_from(name)))
        for name, values in costs(result, strategy).items()
    }


def _follows_from(cost: str) -> str:
    """A metric that is random where a cost is."""
    return "time_to_target" if cost == "cost_to_target" else "examples_per_s"
