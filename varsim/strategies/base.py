"""What every strategy is: a frozen description that starts its processes in a job."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import StringConstraints

from varsim.cluster.description import Cluster, ClusterChange
from varsim.cluster.envelope import Envelope, Estimate
from varsim.cluster.events import ProcessEvent
from varsim.cluster.job import Job
from varsim.cluster.overheads import OF_ALL, OF_AN_UPDATE_LOOP, OF_SERVERS
from varsim.inert import visible
from varsim.values.optimizer import AnyOptimizer
from varsim.values.schema import Model
from varsim.values.workload import Workload


def check_overlap(workload: Workload) -> None:
    """Raise ValueError where no gradient is ready before the others."""
    if len(set(workload.ready_after(workload.tensors()))) == 1:
        raise ValueError(
            "overlap has no effect: all gradients are ready at once, at the end of the backward "
            "pass (name a model, or give workload.layers)"
        )


class Strategy(Model, ABC):
    """How the replicas keep their variables in sync. Fields are the keys of a scenario file.

    `name` tells two strategies of one kind apart; `on` changes the cluster for this one alone, and
    `optimizer` takes the place of the workload's.
    """

    # False where the model is only measured when the strategy has it read.
    evaluated_between_reads: ClassVar[bool] = True
    # Whether worker 0's process has an update loop besides: the chief.
    has_chief: ClassVar[bool] = False
    # False where replicas meet in queues only, never at a barrier.
    waits_for_others: ClassVar[bool] = True
    # Whether what is sent are gradients, and not parameters alone.
    sends_gradients: ClassVar[bool] = False
    # Whether replicas update copies of the model of their own.
    updates_copies: ClassVar[bool] = False
    # Fields that only change values: without effect where the problem has none.
    about_values: ClassVar[tuple[str, ...]] = ()

    kind: str
    name: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,60}$")] | None = None
    on: ClusterChange | None = None
    optimizer: AnyOptimizer | None = None

    @property
    def label(self) -> str:
        """What it is called in tables and plots."""
        return self.kind if self.name is None else visible(self.name)

    @property
    def uses_servers(self) -> bool:
        """Whether anything is sent to parameter servers."""
        return False

    @property
    def overlaps(self) -> bool:
        """Whether gradients are sent while the backward pass still runs."""
        return False

    def subject_to(self) -> frozenset[str]:
        """The names of the cluster's overheads that occur in this strategy."""
        names = OF_ALL
        if self.uses_servers:
            names |= OF_SERVERS
        if self.has_chief:
            names |= OF_AN_UPDATE_LOOP
        return names

    def workers(self, cluster: Cluster) -> int:
        """How many of the cluster's workers take part."""
        return cluster.workers

    @property
    def period(self) -> int:
        """How many steps of a replica make a round, at whose end it may wait for others."""
        return 1

    def gradients_per_update(self, cluster: Cluster) -> int:
        """How many gradients go into one update of the model; here one."""
        return 1

    def dropped_at_first(self) -> int:
        """How many gradients are in vain before updates come in their rhythm; here none."""
        return 0

    def check(self, cluster: Cluster) -> None:
        """Raise ValueError where the strategy does not fit the cluster it is to run on."""

    def check_workload(self, workload: Workload) -> None:
        """Raise ValueError where the strategy does not fit what is trained."""

    def check_events(self, events: Sequence[ProcessEvent]) -> None:
        """Raise ValueError where workers cannot be ended, or begin again, in this strategy."""

    @abstractmethod
    def estimate(self, envelope: Envelope) -> Estimate:
        """A rough time from one update to the next, and how it comes about."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start the processes, one per role."""


def meant(strategies: Sequence[Strategy], names: Sequence[str]) -> list[bool]:
    """Which of them are meant: those with these labels, and of a name that is no label that kind.

    Of no names all are.
    """
    labels = {strategy.label for strategy in strategies}
    of_kind = {name for name in names if name not in labels}
    return [
        not names or strategy.label in names or strategy.kind in of_kind for strategy in strategies
    ]
