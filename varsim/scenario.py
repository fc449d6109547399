"""One experiment, whole: seed, replications, cluster, workload, strategies, when to stop."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

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
    replications: int = Field(5, ge=1, le=10_000)
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

    def with_only(self, strategies: tuple[Strategy, ...]) -> "Scenario":
        """The scenario with these of its strategies; what only the others used is left out."""
        cluster, workload = self.cluster, self.workload
        if not any(strategy.uses_servers for strategy in strategies):
            cluster = cluster.without_servers()
        if not any(strategy.evaluated_between_reads for strategy in strategies):
            workload = workload.model_copy(update={"evaluate_every": None})
        changes = {"strategies": strategies, "cluster": cluster, "workload": workload}
        return Scenario.model_validate({**dict(self), **changes})

    def _refuse_idle_knobs(self) -> None:
        served = [strategy for strategy in self.strategies if strategy.uses_servers]
        for strategy in self.strategies:
            if strategy.on is not None:
                strategy.on.check(uses_servers=strategy in served)
        if not served:
            self.cluster.check_no_servers()
        if self.workload.evaluate_every is not None and not any(
            strategy.evaluated_between_reads for strategy in self.strategies
        ):
            raise ValueError(
                "workload.evaluate_every has no effect: every strategy is only evaluated when read"
            )
        if not self.workload.has_values:
            for key, value in (
                ("stop.loss", self.stop.loss),
                ("targets.loss", self.targets.loss),
                ("workload.evaluate_every", self.workload.evaluate_every),
            ):
                if value is not None:
                    raise ValueError(f"{key} has no effect: problem timing has no loss")
