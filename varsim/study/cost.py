"""What the runs of a result cost, at the prices of its scenario."""

from typing import TYPE_CHECKING, Final

from varsim.cluster.trace import Trace
from varsim.study.goodput import KEPT
from varsim.study.measure import NANOSECONDS, Metric
from varsim.study.statistics import Estimate, interval

if TYPE_CHECKING:
    from varsim.study.result import Result


COSTS: Final = {
    "cost_per_hour": Metric("/h", "price of the machines, and of what they send, in an hour"),
    "cost_per_million_examples": Metric("", "price of a million examples in applied gradients"),
    "cost_to_target": Metric("", "price of the time to the target loss"),
}


def sent_per_second(trace: Trace) -> float:
    """Bytes from machine to machine in a second of a run, on average."""
    return trace.sent * NANOSECONDS / trace.end if trace.end > 0 else 0.0


def costs(result: "Result", strategy: str) -> dict[str, list[float]]:
    """Each of COSTS of a strategy, a value per replication; nan where it does not exist."""
    scenario, prices = result.scenario, result.scenario.prices
    assert prices is not None, "costs are of a scenario with prices"
    machines = scenario.hourly(scenario.strategy(strategy))
    speed = "examples_per_s" if scenario.failures is None else KEPT
    rows = [
        prices.costs(machines, sent_per_second(result.trace(strategy, number)), rate, time)
        for number, (rate, time) in enumerate(
            zip(
                result.values(strategy, speed),
                result.values(strategy, "time_to_target"),
                strict=True,
            )
        )
    ]
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
