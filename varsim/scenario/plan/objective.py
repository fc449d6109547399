"""What a plan can make as small as it can: costs, times, machines, waste."""

from collections.abc import Callable
from typing import Final, NamedTuple

from varsim.scenario.prices import Prices, counted
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy


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
