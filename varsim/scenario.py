"""One experiment, whole: seed, replications, cluster, workload, strategies, when to stop."""

from typing import Annotated, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from varsim.cluster.description import Cluster
from varsim.cluster.stop import Stop
from varsim.schema import Model
from varsim.strategies import AnyStrategy, Strategy
from varsim.values.workload import Workload

SCHEMA_VERSION = 1


class Targets(Model):
    """Goals to report on: the time it takes to get there."""

    loss: float | None = Field(None, description="time to this loss is reported")


class Scenario(Model):
    """One experiment; `simulate` needs nothing else."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    seed: int = Field(0, ge=0, lt=2**63)
    replications: PositiveInt = 5
    cluster: Cluster
    workload: Workload
    strategies: tuple[AnyStrategy, ...] = Field(min_length=1)
    stop: Stop
    targets: Targets = Targets()

    @model_validator(mode="after")
    def _strategies_fit(self) -> Self:
        labels = [strategy.label for strategy in self.strategies]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two strategies are called {label!r}; give them different names")
        for strategy in self.strategies:
            strategy.check(self.cluster_of(strategy))
        self._refuse_idle_knobs()
        return self

    def cluster_of(self, strategy: Strategy) -> Cluster:
        """The cluster this strategy runs on: the scenario's, with the strategy's own changes."""
        return self.cluster if strategy.on is None else strategy.on.applied_to(self.cluster)

    def _refuse_idle_knobs(self) -> None:
        served = [strategy for strategy in self.strategies if strategy.uses_servers]
        for strategy in self.strategies:
            if strategy.on is not None and strategy.on.parameter_servers and strategy not in served:
                raise ValueError(f"{strategy.label} uses no parameter servers")
        if served:
            return
        for key, idle in (
            ("parameter_servers", self.cluster.parameter_servers == 1),
            ("placement", self.cluster.placement == "partitioned"),
            ("network.server_bandwidth", self.cluster.network.server_bandwidth is None),
        ):
            if not idle:
                raise ValueError(
                    f"cluster.{key} has no effect: none of the strategies uses parameter servers"
                )
