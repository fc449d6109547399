"""What a scenario is to reach: bounds on throughput, staleness, waste, times of steps or a loss."""

from typing import Final, NamedTuple

from pydantic import Field

from varsim.units import ExamplesPerSecond, Seconds
from varsim.values.schema import Model


class Bound(NamedTuple):
    """On which metric of a result a target is, and whether that is to be at least so much."""

    metric: str
    at_least: bool


BOUNDS: Final = {
    "throughput": Bound("examples_per_s", at_least=True),
    "staleness_p99": Bound("staleness_p99", at_least=False),
    "wasted": Bound("wasted_compute", at_least=False),
    "step_time_p99": Bound("step_time_p99", at_least=False),
    "time_to_loss": Bound("time_to_target", at_least=False),
}


class Targets(Model):
    """Goals of a scenario; each strategy meets them or misses them.

    `loss` alone is no bound: the time of the first update at or below it is reported. At least:
    `throughput`. At most: `staleness_p99` (updates), `wasted` (share of all compute time),
    `step_time_p99`, `time_to_loss` (until `loss`). A target is met where it is with 95 % certainty,
    by the one-sided Student t interval over the replications.
    """

    loss: float | None = Field(None, ge=0, description="time to this loss is reported")
    throughput: ExamplesPerSecond | None = Field(None, gt=0)
    staleness_p99: float | None = Field(None, ge=0, description="updates")
    wasted: float | None = Field(None, ge=0, lt=1, description="share of all compute time")
    step_time_p99: Seconds | None = Field(None, gt=0)
    time_to_loss: Seconds | None = Field(None, gt=0)

    @property
    def bounds(self) -> dict[str, float]:
        """The targets that are given, by name, but for the loss."""
        values = {name: getattr(self, name) for name in BOUNDS}
        return {name: value for name, value in values.items() if value is not None}

    def check(self, stop_loss: float | None) -> None:
        """Raise ValueError for a time to no loss."""
        if self.time_to_loss is not None and self.loss is None and stop_loss is None:
            raise ValueError("targets.time_to_loss needs targets.loss (for example loss: 0.4)")
