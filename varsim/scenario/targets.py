"""Targets, prices and reporting options of a scenario: how its results are judged."""

import math
import re
from typing import Annotated, ClassVar, Final, Self

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    model_validator,
)

from varsim.cluster.description.cluster import Cluster
from varsim.core.schema import Grown, Model
from varsim.core.units import ExamplesPerSecond, Seconds
from varsim.strategies.base import Strategy

# The targets, and whether they bound from below; each is the name of a metric but throughput, which
# is that of examples, and where hosts fail of those that were kept.
BOUNDS: Final = {
    "throughput": True,
    "staleness_p99": False,
    "wasted_compute": False,
    "step_time_p99": False,
    "time_to_target": False,
    "goodput": True,
}


def _share(given: object) -> object:
    """`95 %` is a share of 0.95; anything else is left as it is."""
    if isinstance(given, str) and (found := re.fullmatch(r"([0-9]+(?:\.[0-9]*)?) ?%", given)):
        if not 0 < float(found[1]) <= 100:
            raise ValueError("must be above 0 % and at most 100 %")
        return float(found[1]) / 100
    if isinstance(given, int | float) and 1 < given <= 100:
        raise ValueError(f"{given:g} is more than the whole: write {given:g} % or {given / 100:g}")
    return given


class Targets(Grown):
    """Goals of a scenario; each strategy meets them or misses them.

    `loss` alone is no bound: the time of the first update at or below it is reported. At least:
    `throughput`, `goodput` (of jobs among failures). At most: `staleness_p99` (updates),
    `wasted_compute` (share of all compute time), `step_time_p99`, `time_to_target` (until `loss`).
    A target is met where it is with 95 % certainty, by the one-sided Student t interval over the
    replications.
    """

    later: ClassVar[tuple[str, ...]] = ("goodput",)

    loss: float | None = Field(None, ge=0, description="time to this loss is reported")
    throughput: ExamplesPerSecond | None = Field(None, gt=0)
    """At least this many examples per second."""
    staleness_p99: float | None = Field(None, ge=0, description="updates")
    wasted_compute: float | None = Field(None, ge=0, lt=1, description="share of all compute time")
    step_time_p99: Seconds | None = Field(None, gt=0)
    """99 of 100 steps take at most this long."""
    time_to_target: Seconds | None = Field(None, gt=0)
    """The target `loss` is reached within this time."""
    goodput: Annotated[float, Field(gt=0, le=1), BeforeValidator(_share)] | None = None
    """Least share of the time of a job among failures that goes into work which is kept: 95 %."""

    @property
    def bounds(self) -> dict[str, float]:
        """The targets that are given, by name, but for the loss."""
        values = {name: getattr(self, name) for name in BOUNDS}
        return {name: value for name, value in values.items() if value is not None}

    def check(self, stop_loss: float | None, *, may_fail: bool) -> None:
        """Raise ValueError for a time to no loss, and for goodput where nothing fails."""
        if self.goodput is not None and not may_fail:
            raise ValueError("targets.goodput needs failures: without them no work is lost")
        if self.time_to_target is not None and self.loss is None and stop_loss is None:
            raise ValueError("targets.time_to_target needs targets.loss (for example loss: 0.4)")


_HOUR: Final = 3600.0  # seconds
_GIGABYTE: Final = 1e9  # bytes


class Prices(Model):
    """Prices in one currency: per hour of a worker's device and of a dedicated server, per GB sent.

    What is sent from machine to machine is counted once, however many links it passes; 1 GB is 10^9
    bytes. Parameter servers on the workers' machines cost nothing besides.
    """

    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    """Three capital letters, for the reports."""
    device_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Price of an hour of a worker's machine."""
    server_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Price of an hour of a server on a machine of its own."""
    gigabyte: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Price of 10^9 bytes sent from machine to machine."""

    @property
    def given(self) -> list[str]:
        """The names of those that are not 0."""
        return [key for key in ("device_hour", "server_hour", "gigabyte") if getattr(self, key)]

    @model_validator(mode="after")
    def _costs_something(self) -> Self:
        if not self.given:
            raise ValueError("give a price: device_hour, server_hour or gigabyte (in one currency)")
        return self

    def machines(self, strategy: Strategy, cluster: Cluster, spares: int = 0) -> float:
        """Price per hour of a strategy's machines, to nine decimals.

        `spares`: devices that stand by, and cost as much as those of workers.
        """
        workers, servers = counted(strategy, cluster)
        return round((workers + spares) * self.device_hour + servers * self.server_hour, 9)

    def costs(
        self, machines: float, sent_per_s: float, examples_per_s: float, time_to_target: float
    ) -> dict[str, float]:
        """Costs of a run by name; nan where undefined.

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


def counted(strategy: Strategy, cluster: Cluster) -> tuple[int, int]:
    """Numbers of workers and of dedicated servers of a strategy on its cluster."""
    own = strategy.traits.uses_servers and cluster.servers_on == "dedicated"
    return strategy.workers(cluster), cluster.parameter_servers if own else 0


EQUAL_WITHIN: Final = 0.02
# By default rates are measured between whole rounds: `varsim.study.gradients` says why.


class Reporting(Model):
    """How results are read; nothing here changes a run.

    `equal_within`: alternatives that differ by no more than this share are called
    practically equal, and none whose lead is less on average is called the best; of one that is,
    being ahead is sure, not by how much. `measure_after`: rates and
    shares (of updates, gradients, examples, the time split, wasted compute; times of steps and
    iterations), and the staleness and age of gradients, are measured from this moment of a run to
    its end, 0 s: over all of it. Left out: between whole rounds of all workers, from the end of the
    second to that of the last, where there are five or more and nothing is to happen in the middle
    of a run; else over all of it. Totals, losses, times to a loss, links and the staleness of
    copies always count from the start to the end.
    """

    equal_within: float = Field(
        EQUAL_WITHIN,
        ge=0,
        lt=1,
        description="share of a difference that does not matter: practically equal",
    )

    measure_after: Seconds | None = Field(
        None,
        ge=0,
        description="a warm-up, left out of all rates; 0 s measures the whole run (default: "
        "between whole rounds of all workers, from the end of the second to that of the last)",
    )

    def measuring(self) -> "Reporting":
        """The options that affect the numbers of a single run; the others at their defaults."""
        return self.model_copy(update={"equal_within": EQUAL_WITHIN})
