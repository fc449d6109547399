"""Scenario of training: seed, replications, cluster, workload, strategies, stop rule."""

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, TypeAlias

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, model_validator

from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.description.failures import ProcessEvent, refused_events
from varsim.cluster.description.recovery import (
    Checkpoint,
    RandomFailures,
    Recovery,
    check_beside,
    check_life,
    check_steps,
    in_run,
    left_of,
    restores,
)
from varsim.cluster.failures.life import fewest
from varsim.cluster.record.memory import Memory
from varsim.cluster.servers.placement import check_parts
from varsim.core.refusal import RefusalError, RefusalsError
from varsim.learning.workload import Workload
from varsim.scenario.fitting import MemoryLimits, Misfit, Setting
from varsim.scenario.long_steps import check_long_steps
from varsim.scenario.targets import Prices, Reporting, Targets
from varsim.scenario.use import served, unused, without_unused
from varsim.scenario.writing import ShownAsFile
from varsim.strategies import AnyStrategy, Strategy, meant

if TYPE_CHECKING:
    from varsim.scenario.variables import VariablesScenario


class Scenario(ShownAsFile):
    """Scenario of training: a cluster, what is trained, and strategies that are compared.

    It is immutable, and shows itself as its file with all defaults; `varsim.load` makes one.

    Examples
    --------
    >>> import varsim
    >>> scenario = varsim.load("slow_worker")
    >>> scenario.name, scenario.cluster.workers, len(scenario.strategies)
    ('slow_worker', 4, 6)
    >>> scenario.replace({"cluster.workers": 8}).cluster.workers
    8

    """

    kind: ClassVar[str] = "training"
    later: ClassVar[tuple[str, ...]] = ("memory", "failures", "checkpoint", "recovery")

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    """Name of the scenario, and of the folder of its report."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Where all random numbers come from; another seed, other draws."""
    replications: int = Field(5, ge=1, le=10_000)
    """Runs of each strategy, each on draws of its own; intervals are over these."""
    cluster: Cluster
    """Workers, servers and the network between them."""
    workload: Workload
    """What is trained."""
    strategies: tuple[AnyStrategy, ...] = Field(min_length=1)
    """What is compared, at least one."""
    events: tuple[ProcessEvent, ...] = ()
    """Processes that die and restart, in order of time."""
    failures: RandomFailures | None = None
    """Hosts that fail at random, inside the run or over a horizon beyond it."""
    checkpoint: Checkpoint | None = None
    """How a job that fails at random is saved."""
    recovery: Recovery | None = None
    """How it restarts."""
    stop: Stop
    """When a run ends: as soon as one of these holds."""
    targets: Targets = Targets()
    """What a strategy is to reach."""
    prices: Prices | None = None
    """What machines and traffic cost."""
    memory: MemoryLimits = MemoryLimits()
    """Memory of devices and servers, and what becomes of a strategy that exceeds it."""
    report: Reporting = Reporting()
    """How results are read."""

    @model_validator(mode="after")
    def _strategies_fit(self, info: ValidationInfo) -> Self:
        """Check the strategies that will run: those that the context names, by default all."""
        wanted: Sequence[str] = (info.context or {}).get("strategies", ())
        chosen = meant(self.strategies, wanted)
        names = [name for one in self.strategies for name in dict.fromkeys((one.label, one.title))]
        if twice := [name for name in names if names.count(name) > 1]:
            message = f"two strategies are called {twice[0]!r}; give them different names"
            last = max(
                index
                for index, one in enumerate(self.strategies)
                if twice[0] in (one.label, one.title)
            )
            key = "kind" if self.strategies[last].name is None else "name"
            raise RefusalError(message, "strategies", last, key)
        found: list[RefusalError] = []  # of each strategy, and of each event
        for index, strategy in compress(enumerate(self.strategies), chosen):
            try:
                if strategy.on is not None:
                    strategy.on.check(
                        uses_servers=strategy.traits.uses_servers,
                        reduces=strategy.sends.to == "workers",
                    )
                strategy.check(self.cluster_of(strategy))
                strategy.check_workload(self.workload_of(strategy))
                strategy.check_events(self.events or in_run(self.failures))
                self._check_memory(strategy, (info.context or {}).get("must_fit", False))
                if self.failures is not None and self.failures.horizon is not None:
                    recovery = self.recovery or Recovery()
                    cluster = self.cluster_of(strategy)
                    strategy.check_life(cluster, recovery.policy, recovery.fewest or 1)
            except ValueError as error:
                known = error if isinstance(error, RefusalError) else RefusalError(str(error))
                found.append(known.within("strategies", index))
        if not any(chosen):
            return self  # whoever asked for strategies that are not there is told so
        found += refused_events(self.events, self.cluster.workers, self.stop.time)
        if found:
            raise RefusalsError(found) if len(found) > 1 else found[0]
        self._refuse_unused_settings(list(compress(self.strategies, chosen)))
        if (info.context or {}).get("text"):  # of a file, that people wrote
            for index, strategy in compress(enumerate(self.strategies), chosen):
                check_long_steps(self.workload, self.cluster_of(strategy), strategy, index)
        if self.stop.time is not None and (self.report.measure_after or 0) >= self.stop.time:
            raise ValueError("report.measure_after leaves nothing to measure before stop.time")
        if len(self.strategies) == 1 and not self.stop.equal_examples:
            raise ValueError("stop.equal_examples has no effect: there is only one strategy")
        self.targets.check(self.stop.loss, may_fail=self.failures is not None)
        return self

    def _refuse_unused_recovery(self, running: Sequence[Strategy]) -> None:
        if self.failures is None:
            for key in ("checkpoint", "recovery"):
                if getattr(self, key) is not None:
                    raise ValueError(f"{key} has no effect without failures (failures: of: ...)")
            return
        known = self.failures, self.checkpoint, self.events, self.cluster, self.stop
        check_beside(*known, **served(self.strategies))
        for strategy in running:
            cluster = self.cluster_of(strategy)
            rules = self.failures, self.checkpoint_of(strategy), self.recovery or Recovery()
            whose = served([strategy])
            servers, chief = whose["servers"], whose["chief"]
            check_life(*rules, cluster, strategy.workers(cluster), servers)
            if in_run(self.failures) and restores(self.failures, cluster, servers, chief):
                self._through_storage(strategy)  # refuses one that takes longer than its interval
        if not in_run(self.failures):
            needs = {one.label: self.least_steps(one) for one in running}
            check_steps(self.stop, needs, random=any(steps_are_random(self, o) for o in running))

    def least_steps(self, strategy: Strategy) -> tuple[int, int]:
        """With fewer global steps, and fewer examples, in `stop` no life of a job is made."""
        cluster, random = self.cluster_of(strategy), steps_are_random(self, strategy)
        least = fewest(
            random=random, each=strategy.recurs_after(cluster), drifts=strategy.traits.drifts
        )
        each = strategy.gradients_per_update(cluster)
        alike = self.stop_of(strategy) == self.stop
        most = each if alike or self.largest_update is None else self.largest_update
        return -(-least * each // most), least * each * self.workload.batch_size

    def checkpoint_of(self, strategy: Strategy) -> Checkpoint | None:
        """How a job of a strategy is saved, with the time that takes where that is foreseen."""
        if self.checkpoint is None or in_run(self.failures):
            return self.checkpoint
        return self._through_storage(strategy)

    def _through_storage(self, strategy: Strategy) -> Checkpoint | None:
        """A checkpoint of a strategy with the time that its write to storage takes."""
        cluster, workload = self.cluster_of(strategy), self.workload_of(strategy)
        if self.checkpoint is None:
            return None
        try:
            return self.checkpoint.through(cluster.network, strategy.saves(cluster, workload))
        except ValidationError as error:
            (why,) = (one["ctx"]["error"] for one in error.errors())
            raise why.within("checkpoint") from None

    @property
    def target_loss(self) -> float | None:
        """The loss whose time is reported: targets.loss, or else stop.loss."""
        return self.stop.loss if self.targets.loss is None else self.targets.loss

    @property
    def largest_update(self) -> int | None:
        """The most gradients that an update of some strategy takes; None where all take as many."""
        sizes = {one.gradients_per_update(self.cluster_of(one)) for one in self.strategies}
        differ = len(sizes) > 1
        if len(self.strategies) > 1:
            differ = differ or any(one.round.varies for one in self.strategies)
        return max(sizes) if differ else None

    def stop_of(self, strategy: Strategy) -> Stop:
        """Stop rule of a strategy: `stop`, or equal examples where updates differ in size."""
        most = self.largest_update
        if self.stop.global_steps is None or not self.stop.equal_examples or most is None:
            return self.stop
        fixed = not strategy.round.varies
        if fixed and strategy.gradients_per_update(self.cluster_of(strategy)) == most:
            return self.stop
        return self.stop.over_equal_examples(most * self.workload.batch_size)

    def cluster_of(self, strategy: Strategy) -> Cluster:
        """The cluster this strategy runs on: the scenario's, with the strategy's own changes."""
        return self.cluster if strategy.on is None else strategy.on.applied_to(self.cluster)

    def workload_of(self, strategy: Strategy) -> Workload:
        """The workload this strategy trains: the scenario's, with the strategy's own optimizer.

        A baseline that is not of the scenario uses the optimizer of the first strategy where the
        workload has none.
        """
        own = strategy.optimizer
        if own is None and self.workload.optimizer is None:
            own = self.strategies[0].optimizer
        return self.workload if own is None else self.workload.with_optimizer(own)

    @property
    def undisturbed(self) -> "Scenario":
        """The scenario with nothing that fails at random."""
        return self.model_copy(update=dict.fromkeys(("failures", "checkpoint", "recovery")))

    def with_distribution_alone(self, speed: float = 1.0) -> "Scenario":
        """The scenario with its device replaced by the distribution that it implies, sped up.

        Itself where compute times are given.
        """
        cluster = self.cluster.with_distribution_alone(self.workload, speed)
        return self if cluster is self.cluster else self.model_copy(update={"cluster": cluster})

    def strategy(self, label: str) -> Strategy:
        """The strategy of this label."""
        return next(one for one in self.strategies if one.label == label)

    def hourly(self, strategy: Strategy) -> float:
        """Price per hour of a strategy's machines and of the spares that stand by."""
        assert self.prices is not None
        cluster, spares = self.cluster_of(strategy), self.recovery and self.recovery.spares
        standing = cluster.workers_of_a_host * (spares.hot + spares.cold) if spares else 0
        return self.prices.machines(strategy, cluster, standing)

    def memory_of(self, strategy: Strategy) -> Memory:
        """What each worker of a strategy keeps on its device, with activations if given."""
        return self.memory.of_device(strategy, self.cluster_of(strategy), self.workload)

    def server_memory_of(self, strategy: Strategy) -> Memory | None:
        """What the fullest server of a strategy keeps; None where it has none."""
        return strategy.server_memory(self.cluster_of(strategy), self.workload)

    def misfits(self, strategy: Strategy) -> list[Misfit]:
        """Where a strategy is known not to fit."""
        return self._setting(strategy).misfits if self.knows_memory else []

    def too_large(self, strategy: Strategy) -> bool:
        """Whether a strategy is known not to fit its devices or servers."""
        return bool(self.misfits(strategy))

    @property
    def knows_memory(self) -> bool:
        """Whether anything is known of the memory there is."""
        return bool(self.memory.sizes(self.cluster)) or self.memory.server is not None

    def refusal(self, strategy: Strategy) -> str:
        """Why a strategy that does not fit is refused, and what would fit; empty of others."""
        setting = self._setting(strategy)
        return next(map(setting.refusal, self.misfits(strategy)), "")

    def _setting(self, strategy: Strategy) -> Setting:
        return Setting(self.memory, strategy, self.cluster_of(strategy), self.workload)

    def _check_memory(self, strategy: Strategy, must_fit: bool) -> None:
        """Raise ValueError where a strategy that `must_fit` does not."""
        if must_fit and self.memory.exceeded == "refuse" and self.too_large(strategy):
            raise ValueError(self.refusal(strategy))

    def _tells_memory(self, strategy: Strategy) -> bool:
        """Whether it is said what a strategy keeps, of which the optimizer's state is a part."""
        stored = self.checkpoint is not None and self.checkpoint.storage is not None
        return strategy.traits.shards or self.knows_memory or stored

    def with_only(self, strategies: tuple[Strategy, ...]) -> "Scenario":
        """The scenario with these of its strategies; what only the others used is left out."""
        left = without_unused(self, strategies)
        workload = left.workload
        known = self.failures, self.checkpoint, self.recovery, self.cluster
        failing = left_of(*known, **served(strategies))
        tells = self.model_copy(update=failing)._tells_memory
        idle = not (workload.has_values or any(map(tells, strategies)))
        if idle or all(strategy.optimizer is not None for strategy in strategies):
            workload = workload.with_optimizer(None)
        most = max(strategy.workers(self.cluster) for strategy in strategies)
        changes = {
            **failing,
            "strategies": strategies,
            "workload": workload,
            "events": tuple(event for event in self.events if event.rank < most),
            "stop": self._stop_of_all(strategies),
        }
        return Scenario.model_validate({**dict(left), **changes})

    def _stop_of_all(self, strategies: Sequence[Strategy]) -> Stop:
        """Stop rule with which these strategies run alone as they do beside the others."""
        rules = [self.stop_of(strategy) for strategy in strategies]
        rule = self.stop if self.stop in rules else rules[0]
        return rule.model_copy(update={"equal_examples": True}) if len(rules) == 1 else rule

    def _refuse_unused_events(self, running: Sequence[Strategy]) -> None:
        most = max(strategy.workers(self.cluster) for strategy in self.strategies)
        for index, event in enumerate(self.events):
            if event.rank >= most:
                raise ValueError(
                    f"events.{index}: {event}, which takes part in none of the strategies"
                )
            without = [
                strategy.label for strategy in running if strategy.sends.committed_by != "chief"
            ]
            if event.process == "chief" and without:
                instead = "" if event.stop else "name a worker ({worker: 0}), or "
                raise ValueError(
                    f"events.{index}: {event}, but {without[0]!r} has no chief: {instead}"
                    "leave that strategy out"
                )

    def _check_optimizers(self, running: Sequence[Strategy]) -> None:
        """Raise ValueError where one is missing, or one is used by no strategy."""
        if not self.workload.has_values:
            return
        without = [strategy.label for strategy in running if strategy.optimizer is None]
        if self.workload.optimizer is None and without:
            example = "(for example {kind: sgd, learning_rate: 0.1})"
            if len(without) == len(self.strategies):
                raise ValueError(f"workload.optimizer is missing {example}")
            index = self.strategies.index(self.strategy(without[0]))
            message = f"optimizer of {without[0]!r} is missing {example}"
            raise RefusalError(message, "strategies", index, "kind")
        if self.workload.optimizer is not None and all(
            strategy.optimizer is not None for strategy in self.strategies
        ):
            raise ValueError(
                "workload.optimizer has no effect: every strategy has an optimizer of its own; "
                "leave one of them out"
            )

    def _refuse_unused_settings(self, running: Sequence[Strategy]) -> None:
        self._refuse_unused_events(running)
        self._refuse_unused_recovery(running)
        self._check_optimizers(running)
        for strategy in running:
            if strategy.traits.uses_servers:
                check_parts(self.workload, self.cluster_of(strategy))
        for use in unused(self, self.strategies):
            raise ValueError(f"{use.path} has no effect: {use.why}")
        if self.cluster.device is not None:
            self.workload.flops_per_example()
        if not self.workload.has_values:
            # The state of it takes memory.
            told = any(map(self._tells_memory, self.strategies))
            if self.workload.optimizer is not None and not told:
                raise ValueError(
                    "workload.optimizer has no effect: problem timing has no values, nothing is "
                    "sharded, and no device's memory is known"
                )
            for index, strategy in enumerate(self.strategies):
                if strategy.optimizer is not None and not self._tells_memory(strategy):
                    raise ValueError(
                        f"strategies.{index}.optimizer has no effect: problem timing has no values"
                    )
                for key in strategy.about_values:
                    if getattr(strategy, key) != type(strategy).model_fields[key].default:
                        raise ValueError(
                            f"strategies.{index}.{key} has no effect: problem timing has no values"
                        )


# A scenario of any kind: of training, or a program of variables.
AnyScenario: TypeAlias = "Scenario | VariablesScenario"


def steps_are_random(scenario: AnyScenario, strategy: Strategy) -> bool:
    """Whether the times of events may differ between replications of a strategy's own steps.

    Compute times and the servers' own are all that is drawn; values matter where they end a run.
    """
    if not isinstance(scenario, Scenario):
        return scenario.times_are_random
    cluster = scenario.cluster_of(strategy)
    update = cluster.server_update if strategy.traits.uses_servers else None
    return (
        cluster.compute_distribution(scenario.workload).is_random
        or (update is not None and update.time is not None and update.time.is_random)
        or (scenario.stop.loss is not None and scenario.workload.problem.is_random)
    )


def steps_repeat(scenario: AnyScenario, strategy: Strategy) -> bool:
    """Whether steps were seen to repeat, as of a life of constant ones: more would tell no more."""
    followed = scenario.failures is not None and not in_run(scenario.failures)
    return followed and not steps_are_random(scenario, strategy)


def times_are_random(scenario: AnyScenario, strategy: Strategy) -> bool:
    """Whether times may differ between replications of a strategy: its steps, or its failures."""
    failures = scenario.failures is not None and scenario.failures.is_random
    return failures or steps_are_random(scenario, strategy)


def is_random(scenario: AnyScenario, strategy: Strategy) -> bool:
    """Whether anything in the replications of a strategy may differ, times or values."""
    return _values_are_random(scenario) or times_are_random(scenario, strategy)


def runs_made(scenario: AnyScenario, strategy: Strategy) -> int:
    """How often the steps of a strategy are run: once where every replication has the same."""
    struck = any(one.is_random for one in in_run(scenario.failures))
    random = _values_are_random(scenario) or steps_are_random(scenario, strategy)
    return scenario.replications if random or struck else 1


def _values_are_random(scenario: AnyScenario) -> bool:
    """Whether what is learnt may differ; no number depends on the values of a program."""
    return isinstance(scenario, Scenario) and scenario.workload.problem.is_random
