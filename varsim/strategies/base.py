"""Base of all strategies: a frozen description that starts its processes in a job."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, ClassVar, Final

from pydantic import StringConstraints

from varsim.cluster.description.cluster import Cluster, ClusterChange
from varsim.cluster.description.servers import (
    OF_ALL,
    OF_AN_UPDATE_LOOP,
    OF_COLLECTIVES,
    OF_REDUCTIONS,
    OF_SERVERS,
)
from varsim.cluster.fast import Rules
from varsim.cluster.record.memory import (
    Copies,
    Holds,
    Memory,
    further_bytes,
    replica_memory,
    server_memory,
    worker_memory,
)
from varsim.cluster.workers.job import Job
from varsim.core.inert import visible
from varsim.core.refusal import refused
from varsim.core.schema import Grown
from varsim.learning.optimizer import AnyOptimizer
from varsim.learning.staleness import AnyStalenessPolicy
from varsim.learning.workload import Workload
from varsim.strategies.traits import Deaths, Round, Sends, Traits, Vain

_OVERHEADS: Final[Mapping[str, frozenset[str]]] = {
    "servers": OF_SERVERS,
    "sums": frozenset(),
    "centre": OF_SERVERS,
    "workers": OF_REDUCTIONS,
    "neighbours": frozenset(),
    "copies": OF_COLLECTIVES,
    "nobody": frozenset(),
}


class Strategy(Grown, ABC):
    """How the replicas keep their variables in sync. Fields are the keys of a scenario file.

    `name` tells two strategies of one kind apart; `on` changes the cluster for this one alone, and
    `optimizer` takes the place of the workload's. What else is to be known of a strategy follows
    from its `traits`.
    """

    # The field's name for it, with the kind where that does not tell it; by default the kind.
    called: ClassVar[str] = ""
    # Whether workers give up gradients that they are computing.
    gives_up: ClassVar[bool] = False
    # Fields that only change values: without effect where the problem has none.
    about_values: ClassVar[tuple[str, ...]] = ()
    # Of its own fields another value than that of `example`, which makes a difference to a run; or,
    # where it only does beside other settings, two of those.
    others: ClassVar[Mapping[str, object]] = {}
    # What it is made of, each with a docstring that is part of its reference.
    made_of: ClassVar[Sequence[type]] = ()

    kind: str
    name: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,60}$")] | None = None
    """What it is called in the comparison; by default its kind."""
    on: ClusterChange | None = None
    """What is different about the cluster for this strategy alone."""
    optimizer: AnyOptimizer | None = None
    """Takes the place of the workload's."""

    @property
    def label(self) -> str:
        """What tells it apart, in files, numbers and options: its name, or its kind."""
        return self.kind if self.name is None else visible(self.name)

    @property
    def title(self) -> str:
        """What people see in tables, plots and pages: its name, or the field's name for it."""
        return self.label if self.name is not None else self.known_name

    @property
    def known_name(self) -> str:
        """The field's name for it, with its settings: `all-reduce (DDP)` where that overlaps."""
        return self.called or self.kind

    @property
    def mention(self) -> str:
        """Its title within a sentence, where a given name is quoted."""
        return self.title if self.name is None else f"'{self.title}'"

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """Settings with which it can be tried on so many workers: what it cannot do without."""
        return {}

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What it sends and repeats, and what else it is."""

    @property
    def sends(self) -> Sends:
        """What it sends, and where to."""
        return self.traits.sends

    @property
    def round(self) -> Round:
        """What it repeats."""
        return self.traits.round

    def check_life(self, cluster: Cluster, policy: str, fewest: int) -> None:
        """Raise ValueError where the life of a job cannot be followed, or not with this policy."""
        if why := self.traits.against_rollback:
            raise ValueError(
                f"failures.horizon does not go with {self.label!r}: it follows jobs that a failure "
                f"stops as a whole, but here {why}"
            )
        if policy == "restart":
            return
        hosts = cluster.network.machines(self.workers(cluster))
        if why := self.traits.dies_with_workers(hosts):
            raise ValueError(
                f"recovery.policy {policy} does not go with {self.label!r}: {why} (write policy: "
                "restart)"
            )
        fewer = range(hosts - 1, fewest - 1, -1) if policy != "wait" else ()
        for workers in [number * cluster.workers_of_a_host for number in fewer]:
            try:
                self.check(cluster.model_copy(update={"workers": workers}))
            except ValueError as error:
                raise ValueError(
                    f"recovery.policy {policy} does not go with {self.label!r} when {workers} "
                    f"workers are left: {error}"
                ) from None

    def recurs_after(self, cluster: Cluster) -> int:
        """After so many updates workers do what they did after the start: a checkpoint's place."""
        return self.round.steps

    def saved_besides(self, cluster: Cluster) -> tuple[Copies, ...]:
        """What a checkpoint holds beside each worker's parameters and its optimizer's state."""
        return ()

    def holds(self, cluster: Cluster) -> Holds:
        """What devices and servers keep beside what follows from what it `sends`.

        Where servers sum up gradients, those sums; where parts of gradients are sent as they are
        ready, what has come of every worker's before all of it is there.
        """
        sums = Copies("sums of gradients", of="gradients")
        coming = Copies("gradients on their way", cluster.workers, of="gradients")
        held = {"sums": (sums,), "servers": (coming,) if self.traits.overlaps else ()}
        return Holds(servers=held.get(self.sends.to, ()))

    @property
    def lighter(self) -> Sequence[Mapping[str, object]]:
        """Changes of its own settings with which devices keep less, the smallest first."""
        return ()

    def memory(self, cluster: Cluster, workload: Workload) -> Memory:
        """What each worker keeps on its device."""
        if self.traits.updates_copies:
            optimizer = self.optimizer or workload.optimizer
            kept = replica_memory(workload, optimizer)
        else:
            kept = worker_memory(workload)
        further = further_bytes(
            self.holds(cluster).device,
            workload.size(),
            workload.gradient_size(),
            workload.bytes_per_parameter,
        )
        return kept._replace(further=further)

    def saves(self, cluster: Cluster, workload: Workload) -> float:
        """How many bytes a worker writes into a checkpoint, or the chief if servers are saved."""
        kept, each = self.memory(cluster, workload), workload.bytes_per_parameter
        besides = further_bytes(self.saved_besides(cluster), kept.parameters, 0.0, each)
        state = kept.optimizer or 0.0
        if self.traits.served:
            state = workload.size() * workload.update_rule().numbers_each
        return kept.parameters + state + sum(size for _, size in besides)

    def server_memory(self, cluster: Cluster, workload: Workload) -> Memory | None:
        """What the fullest server keeps; None where there are none."""
        if not self.traits.uses_servers:
            return None
        return server_memory(
            workload,
            self.optimizer or workload.optimizer,
            cluster,
            self.holds(cluster).servers,
            model=self.sends.to != "sums",
            updates=self.sends.to == "servers",
        )

    def subject_to(self) -> frozenset[str]:
        """The names of the cluster's overheads that occur in this strategy."""
        names = OF_ALL | _OVERHEADS[self.sends.to]
        return names | OF_AN_UPDATE_LOOP if self.sends.committed_by else names

    def workers(self, cluster: Cluster) -> int:
        """How many of the cluster's workers take part."""
        return cluster.workers

    def gradients_per_update(self, cluster: Cluster) -> int:
        """How many gradients go into one update of the model, at most."""
        return self.round.micro_batches * (self.round.gradients or self.workers(cluster))

    def iterations_per_update(self, cluster: Cluster) -> int:
        """Gradients that workers begin for each update of a long run; here those in it."""
        return self.gradients_per_update(cluster)

    def dropped_at_first(self) -> Vain:
        """Gradients that are in vain before updates come in their rhythm; here none."""
        return Vain()

    def says_only(self, known: Collection[str]) -> bool:
        """Whether all settings but the known ones are as if nothing was said of them."""
        fields = type(self).model_fields.items()
        return all(key in known or getattr(self, key) == field.default for key, field in fields)

    def rules(self, cluster: Cluster) -> Rules | None:
        """Who waits for whom, for the engine for times alone; None where that does not cover it."""
        return None

    def check(self, cluster: Cluster) -> None:
        """Raise RefusalError where the strategy does not fit the cluster it is to run on."""
        self._refuse(cluster=cluster)

    def check_workload(self, workload: Workload) -> None:
        """Raise RefusalError where the strategy does not fit what is trained.

        With `overlap` something must be ready before the rest.
        """
        if self.traits.overlaps and len(set(workload.ready_after(workload.tensors()))) == 1:
            raise refused(
                "overlap",
                "has no effect: all gradients are ready at once, at the end of the backward pass "
                "(name a model, or give workload.layers)",
            )

    def check_events(self, events: Sequence[Deaths]) -> None:
        """Raise ValueError where workers cannot be ended, or begin again, in this strategy."""
        self._refuse(events=events[0].cause if events else None)
        if any(one.ends_workers for one in events) and not self.traits.outlives_workers:
            can = []
            if "on_death" in type(self).model_fields:
                can.append("write on_death: continue_with_fewer, to go on with those who are left")
            if not self.traits.against_rollback:
                can.append("give failures.horizon, to follow the job from restart to restart")
            raise ValueError(
                f"failures without a horizon strike inside the run, and {self.label!r} does not go "
                f"on when workers die: {', or '.join(can) or 'leave it out'}"
            )

    def _refuse(self, **known: object) -> None:
        """Raise what of its conflicts is with what is known now."""
        for conflict in self.conflicts:
            error = conflict.of({"": self, **known}) if conflict.needs() & known.keys() else None
            if error is not None:
                raise error

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start the processes, one per role."""


class AsynchronousStrategy(Strategy, ABC):
    """Base of strategies in which gradients may be stale when servers apply them.

    `staleness_policy` says what becomes of them then; by default they are applied as they are.
    """

    others: ClassVar[Mapping[str, object]] = {
        "staleness_policy": {"kind": "drop_above", "staleness": 0}
    }

    staleness_policy: AnyStalenessPolicy | None = None
    """What becomes of a gradient if the variables were updated since they were read."""

    def holds(self, cluster: Cluster) -> Holds:
        """And what every worker has read, where a policy compares with that."""
        held = super().holds(cluster)
        if self.staleness_policy is None or not self.staleness_policy.needs_read:
            return held
        return held + Holds(servers=(Copies("what workers read", cluster.workers),))

    def check_workload(self, workload: Workload) -> None:
        """A policy for values needs some, and an optimizer that it goes with."""
        super().check_workload(workload)
        if self.staleness_policy is None:
            return
        if self.staleness_policy.about_values and not workload.has_values:
            says = f"{self.staleness_policy.kind} has no effect: problem timing has no values"
            raise refused("staleness_policy", says)
        self.staleness_policy.check(workload.update_rule())
