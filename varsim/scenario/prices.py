"""User-supplied prices of a cluster; there are no defaults."""

import math
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, model_validator

from varsim.cluster.description import Cluster
from varsim.strategies.base import Strategy
from varsim.values.schema import Model

_HOUR: Final = 3600.0  # seconds
_GIGABYTE: Final = 1e9  # bytes


class Prices(Model):
    """Prices in one currency: per hour of a worker's device and of a dedicated server, per GB sent.

    What is sent from machine to machine is counted once, however many links it passes; 1 GB is 10^9
    bytes. Parameter servers on the workers' machines cost nothing besides.
    """

    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    device_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    server_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    gigabyte: float = Field(0.0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _costs_something(self) -> Self:
        if not (self.device_hour or self.server_hour or self.gigabyte):
            raise ValueError("give a price: device_hour, server_hour or gigabyte (in one currency)")
        return self

    def machines(self, strategy: Strategy, cluster: Cluster) -> float:
        """What the machines of a strategy on its cluster cost in an hour, to nine decimals."""
        workers, servers = counted(strategy, cluster)
        return round(workers * self.device_hour + servers * self.server_hour, 9)

    def costs(
        self, machines: float, sent_per_s: float, examples_per_s: float, time_to_target: float
    ) -> dict[str, float]:
        """What a run costs, by the names in `result.cost.COSTS`; nan where it does not exist.

        `machines` are paid by the hour; bytes sent and examples are those of a second on average.
        """
        traffic = self.gigabyte * sent_per_s * _HOUR / _GIGABYTE if self.gigabyte else 0.0
        hourly = machines + traffic
        per_million = hourly * 1e6 / (_HOUR * examples_per_s) if examples_per_s > 0 else math.nan
        return {
            "cost_per_hour": hourly,
            "cost_per_million_examples": per_million,
            "cost_to_target": hourly * time_to_target / _HOUR,
        }

    def used_by(self, strategies: tuple[Strategy, ...], cluster: Cluster) -> "Prices | None":
        """Without what none of these strategies pays for; None where that is all of it."""
        changes = dict.fromkeys(self.idle(strategies, cluster), 0.0)
        left = self.model_copy(update=changes)
        return left if left.device_hour or left.server_hour or left.gigabyte else None

    def idle(self, strategies: tuple[Strategy, ...], cluster: Cluster) -> dict[str, str]:
        """The prices that none of these strategies ever pays, each with why."""
        placed = [(one, one.on.applied_to(cluster) if one.on else cluster) for one in strategies]
        served = any(one.uses_servers and own.servers_on == "dedicated" for one, own in placed)
        sends = any(one.uses_servers or one.workers(own) > 1 for one, own in placed)
        found = {}
        if self.server_hour and not served:
            found["server_hour"] = "none of the strategies has parameter servers of their own"
        if self.gigabyte and not sends:
            found["gigabyte"] = "none of the strategies sends anything"
        return found


def counted(strategy: Strategy, cluster: Cluster) -> tuple[int, int]:
    """The workers of a strategy on its cluster, and its servers on machines of their own."""
    own = strategy.uses_servers and cluster.servers_on == "dedicated"
    return strategy.workers(cluster), cluster.parameter_servers if own else 0
