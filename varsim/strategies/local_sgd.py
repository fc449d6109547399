"""Local SGD: replicas take steps by themselves and average their copies now and then."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import OF_ALL_REDUCES, AnyCollective, Choice
from varsim.cluster.copies.averaged import AveragedReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, no_effect
from varsim.core.units import Bytes
from varsim.learning.workload import Workload
from varsim.strategies.base import Strategy
from varsim.strategies.traits import OF_THE_DEAD, OnDeath, Pair, Round, Sends, Traits


class LocalSgd(Strategy):
    """Take `period` local steps, then average the copies of the model.

    Replicas: (1) compute a gradient on their own copy, (2) in the steps that average gradients,
    average it with those of others, (3) apply it to their own copy, (4) after the steps at which it
    is due, average the copies by an all-reduce, which is a barrier. One that restarts (0) gets the
    latest average from another and goes on at its step.
    Steps are counted k = 0, 1, ...; the first `warmup_steps` of them average no copies, but all
    gradients (`before_warmup: all_reduce`, the default: post-local SGD) or `none`. Copies are
    averaged after step k if (k - warmup_steps + 1) mod period = 0 in the `convention` of torchft,
    after period steps; in that of pytorch (PeriodicModelAverager) if (k - warmup_steps) mod period
    = 0, so that the first step after warm-up is averaged.
    Every replica keeps the slots of its own optimizer, as PyTorch and torchft have it.
    `collective`: the algorithm of all-reduces, as of on_write (default: ring), but none of groups.
    With `on_death: continue_with_fewer` the others go on without a worker that dies. An average
    that it dies in changes no copy (torchft); one that restarts (0) waits for the end of an
    average, takes all that another worker has then, and goes on at its step. When nobody
    is left, all begin from the start.
    Stich, 2019; Lin et al., 2020 (post-local). Also known as periodic averaging.
    """

    kind: Literal["local_sgd"] = "local_sgd"
    period: PositiveInt
    """H: local steps between two averages."""
    warmup_steps: NonNegativeInt = 0
    """Steps at the start that are not local."""
    before_warmup: Literal["all_reduce", "none"] | None = None
    """What happens in the steps of warm-up: gradients are all-reduced, or nothing is."""
    convention: Literal["torchft", "pytorch"] = "torchft"
    """Whether steps are counted as torchft does or as PyTorch does."""
    collective: AnyCollective | None = None
    """Algorithm of the all-reduce: `varsim list collectives`; by default `ring`."""
    segment_size: Bytes | None = Field(None, gt=0)
    """Size of the segments of `double_binary_tree`."""
    on_death: OnDeath | None = None
    """What others do when a worker dies (`events`): by default they wait until it is back."""

    def replica(self, worker: Worker, copies: AveragedReplicas) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from copies.recover(worker)  # (0)
            if self._averages(copies.steps[worker.rank] - 1):
                yield from copies.average(worker)
        while True:
            step = copies.steps[worker.rank]
            reduced = self._reduces(step)
            gradient = yield from worker.compute_gradient(copies.read(worker))  # (1)
            if reduced:
                yield from copies.reduce(worker, gradient)  # (2)
            yield from worker.update_copy()
            copies.update(worker, gradient, reduced=reduced)  # (3)
            if self._averages(step):
                yield from copies.average(worker)  # (4)

    def start(self, job: Job) -> None:
        copies = AveragedReplicas(
            job, choice=self._choice, leaves_out=self.traits.leaves_out_the_dead
        )
        job.observe(copies.aggregate, copies.divergence)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, copies)

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("before_warmup", "no warmup_steps", write="for example 100"),
        Refusal("collective: push_pull", "kind: local_sgd", "it needs servers; local_sgd has none"),
        Refusal(
            "collective: hierarchical",
            "kind: local_sgd",
            "that is of on_write and diloco",
            "take another collective",
        ),
        *OF_ALL_REDUCES,
        *OF_THE_DEAD,
        Refusal(
            "before_warmup: all_reduce",
            "events",
            "a worker that restarts gets the latest average of all copies, and there is none in "
            "warm-up",
            where="warmup_steps",
        ),
    )
    left_out: ClassVar[Mapping[str, object]] = {"collective": "ring", "before_warmup": "all_reduce"}

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """Averages that come soon."""
        return {"period": 2}

    @property
    def traits(self) -> Traits:
        """See Strategy; after its last step all have met; gradients are as large as copies."""
        why = ""
        if self.warmup_steps:
            why = (
                "steps of warm-up are other ones than those of the rest of its life: leave "
                "warmup_steps out"
            )
        sends, outer = Sends("parameters", to="workers"), Round("outer step", self.period)
        return Traits(sends, outer, on_death=self.on_death, no_rollback=why)

    def holds(self, cluster: Cluster) -> Holds:
        """And what copies are averaged in, beside them: PyTorch's averager makes one tensor."""
        return super().holds(cluster) + Holds(device=(Copies("a copy that is averaged"),))

    def check(self, cluster: Cluster) -> None:
        """There must be such an all-reduce of all workers."""
        super().check(cluster)
        self._choice.check_ranks(cluster.workers)

    def check_workload(self, workload: Workload) -> None:
        """There may be too many segments."""
        self._choice.check_size(workload.size())
        super().check_workload(workload)

    @property
    def _choice(self) -> Choice:
        return Choice(self.collective or "ring", None, self.segment_size)

    @property
    def _reduces_in_warm_up(self) -> bool:
        return self.warmup_steps > 0 and self.before_warmup != "none"

    def _reduces(self, step: int) -> bool:
        """Whether all average their gradients of a step."""
        return step < self.warmup_steps and self._reduces_in_warm_up

    def _averages(self, step: int) -> bool:
        """Whether all average their copies after a step."""
        if step < self.warmup_steps:
            return False
        done = step if self.convention == "pytorch" else step + 1
        return (done - self.warmup_steps) % self.period == 0

    called: ClassVar[str] = "local SGD"
    about: ClassVar[str] = "local steps, then copies are averaged (periodic model averaging)"
    later: ClassVar[tuple[str, ...]] = ("on_death",)
    also_known_as: ClassVar[tuple[str, ...]] = (
        "fedavg",
        "federated_averaging",
        "periodic_averaging",
    )
    others: ClassVar[Mapping[str, object]] = {
        "period": 3,
        "warmup_steps": 3,
        "convention": "pytorch",
        "before_warmup": Pair(
            {"warmup_steps": 4, "before_warmup": "none"},
            {"warmup_steps": 4, "before_warmup": "all_reduce"},
        ),
        "collective": "halving_doubling",
        "segment_size": Pair(
            {"collective": "double_binary_tree", "segment_size": 100.0},
            {"collective": "double_binary_tree", "segment_size": 200.0},
        ),
        "on_death": "continue_with_fewer",
    }
