"""What a plan makes as small as it can: costs, times, machines, waste."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from varsim.prices import Prices, counted
from varsim.result.cost import COSTS
from varsim.result.statistics import Estimate
from varsim.scenario import Scenario
from varsim.strategies import Strategy
from varsim.sweep.case import SENT
from varsim.words.phrases import plus_minus, time


class Machines(NamedTuple):
    """The machines of a strategy on its cluster; `hourly` is their price, 0 without prices."""

    workers: int
    servers: int  # on machines of their own
    hourly: float
    prices: Prices | None

    @classmethod
    def of(cls, scenario: Scenario, strategy: Strategy) -> "Machines":
        """Those of a strategy of a scenario."""
        cluster, prices = scenario.cluster_of(strategy), scenario.prices
        hourly = 0.0 if prices is None else prices.machines(strategy, cluster)
        return cls(*counted(strategy, cluster), hourly, prices)

    def costs(self, measured: Mapping[str, float]) -> dict[str, float]:
        """What one run costs, by the names in COSTS; nothing without prices."""
        if self.prices is None:
            return {}
        times = (measured["examples_per_s"], measured["time_to_target"])
        return self.prices.costs(self.hourly, measured[SENT], *times)


class Objective(NamedTuple):
    """Something to minimize.

    `metric`: of a run, or empty where it follows from the machines or their costs. `floor` says of
    machines what it is at least, before anything was simulated; None: nothing is known.
    """

    about: str
    metric: str = ""
    floor: Callable[[Machines], float] | None = None
    needs_prices: bool = False
    needs_loss: bool = False


OBJECTIVES: Final = {
    "cost_per_hour": Objective(
        "the cost per hour", floor=lambda machines: machines.hourly, needs_prices=True
    ),
    "cost_per_million_examples": Objective("the cost of a million examples", needs_prices=True),
    "cost_to_target": Objective(
        "the cost until the target loss", needs_prices=True, needs_loss=True
    ),
    "time_to_target": Objective(
        "the time to the target loss", metric="time_to_target", needs_loss=True
    ),
    "step_time": Objective("the mean time of a step", metric="step_time_mean"),
    "staleness": Objective("the mean staleness", metric="staleness_mean"),
    "wasted": Objective("the share of compute time that is wasted", metric="wasted_compute"),
    "workers": Objective("the number of workers", floor=lambda machines: float(machines.workers)),
    "parameter_servers": Objective(
        "the number of parameter servers", floor=lambda machines: float(machines.servers)
    ),
}


def known(name: str, machines: Machines) -> bool:
    """Whether an objective is known without simulating anything."""
    if name == "cost_per_hour":
        return machines.prices is not None and not machines.prices.gigabyte
    return name in ("workers", "parameter_servers")


def free(name: str, machines: Machines) -> int:
    """How many of its machines an objective takes no account of."""
    prices = machines.prices if name in COSTS else None
    priced = prices is not None and prices.device_hour, prices is not None and prices.server_hour
    workers = 0 if name == "workers" or priced[0] else machines.workers
    return workers + (0 if name == "parameter_servers" or priced[1] else machines.servers)


def value(name: str, machines: Machines, measured: Mapping[str, float]) -> float:
    """An objective in one run; nan where it does not exist."""
    objective = OBJECTIVES[name]
    if objective.metric:
        return measured[objective.metric]
    if name in COSTS:
        return machines.costs(measured)[name]
    assert objective.floor is not None
    return objective.floor(machines)


def told(name: str, found: Estimate | float, currency: str) -> str:
    """An objective as text, with its unit."""
    estimate = found if isinstance(found, Estimate) else Estimate(found, found, found, 1)
    if name in ("time_to_target", "step_time"):
        return time(estimate)
    if name in COSTS:
        unit = currency + COSTS[name].unit
        exact = estimate.mean >= 1 and not estimate.half_width > 0
        return f"{estimate.mean:,.2f} {unit}" if exact else plus_minus(estimate, unit=unit)
    if name == "wasted":
        return plus_minus(estimate, 100, "%")
    if name == "staleness":
        return plus_minus(estimate, unit="updates")
    noun = {"workers": "worker", "parameter_servers": "parameter server"}[name]
    return f"{estimate.mean:,.0f} {noun}{'' if estimate.mean == 1 else 's'}"
