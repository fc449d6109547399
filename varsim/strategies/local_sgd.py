"""Local SGD: replicas take steps by themselves and average their copies now and then."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from varsim.cluster.averaging import AveragedReplicas
from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import AnyCollective, Choice
from varsim.cluster.description import Cluster
from varsim.cluster.job import Job
from varsim.cluster.memory import Copies, Holds
from varsim.cluster.worker import Worker
from varsim.strategies.base import Deaths, OnDeath, Pair, Round, Sends, Strategy, cause
from varsim.units import Bytes
from varsim.values.workload import Workload


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
    `levels`: pairs [period, ranks] in place of a period; only the largest level whose period
    divides k (torchft: k + 1), not counted from warm-up, averages, in groups of that many
    neighbouring ranks (PyTorch: HierarchicalModelAverager). `ranks_per_group`: after warm-up
    gradients are averaged in groups of that many in every step (PyTorch: post_localSGD_hook).
    `optimizer_state`: whether every replica keeps the slots of its own optimizer, as PyTorch and
    torchft have it, or these are averaged, too.
    `collective`: the algorithm of all-reduces, as of on_write (default: ring), but none of the
    hierarchical ones: `levels` average group by group.
    With `on_death: continue_with_fewer` the others go on without a worker that dies. An average
    that it dies in changes no copy (torchft); one that restarts (0) waits for the end of an
    average, takes all that another worker has then, and goes on at its step. After an average the
    lowest rank that is left saves what it has, if there are checkpoints.
    Stich, 2019; Lin et al., 2020 (post-local and hierarchical). Also known as periodic averaging.
    """

    called: ClassVar[str] = "local SGD"
    about: ClassVar[str] = "local steps, then copies are averaged (periodic model averaging)"
    later: ClassVar[tuple[str, ...]] = ("on_death",)
    also_known_as: ClassVar[tuple[str, ...]] = (
        "fedavg",
        "federated_averaging",
        "periodic_averaging",
        "post_local_sgd",
    )
    others: ClassVar[Mapping[str, object]] = {
        "period": 3,
        "warmup_steps": 3,
        "convention": "pytorch",
        "before_warmup": Pair(
            {"warmup_steps": 4, "before_warmup": "none"},
            {"warmup_steps": 4, "before_warmup": "all_reduce"},
        ),
        "levels": Pair(
            {"period": None, "levels": ((2, 2), (4, 4))},
            {"period": None, "levels": ((1, 2), (4, 4))},
        ),
        "ranks_per_group": 2,
        "optimizer_state": "averaged",
        "collective": "halving_doubling",
        "segment_size": Pair(
            {"collective": "double_binary_tree", "segment_size": 100.0},
            {"collective": "double_binary_tree", "segment_size": 200.0},
        ),
        "on_death": "continue_with_fewer",
    }

    kind: Literal["local_sgd"] = "local_sgd"
    period: PositiveInt | None = None
    """H: local steps between two averages."""
    warmup_steps: NonNegativeInt = 0
    """Steps at the start that are not local."""
    before_warmup: Literal["all_reduce", "none"] | None = None
    """What happens in the steps of warm-up: gradients are all-reduced, or nothing is."""
    convention: Literal["torchft", "pytorch"] = "torchft"
    """Whether steps are counted as torchft does or as PyTorch does."""
    levels: Annotated[tuple[tuple[PositiveInt, PositiveInt], ...], Field(min_length=1)] | None = (
        None
    )
    """Averages in groups: `[period, workers in a group]`, from small to large."""
    ranks_per_group: PositiveInt | None = None
    """Workers in a group of a hierarchical collective."""
    optimizer_state: Literal["kept", "averaged"] = "kept"
    """Whether each worker keeps its optimizer's state or it is averaged, too."""
    collective: AnyCollective | None = None
    """Algorithm of the all-reduce: `varsim list collectives`; by default `ring`."""
    segment_size: Bytes | None = Field(None, gt=0)
    """Size of the segments of `double_binary_tree`."""
    on_death: OnDeath | None = None
    """What others do when a worker dies (`events`): by default they wait until it is back."""

    @model_validator(mode="after")
    def _period_or_levels(self) -> Self:
        if self.period is None and self.levels is None:
            raise ValueError(
                "local_sgd needs period (steps from average to average, for example 10), or levels"
            )
        if self.period is not None and self.levels is not None:
            raise ValueError("period has no effect: levels have periods of their own; leave it out")
        for (period, ranks), (longer, more) in pairwise(self.levels or ()):
            if longer <= period or more <= ranks:
                raise ValueError(
                    f"levels must ascend, in periods and in ranks: [{longer}, {more}] comes after "
                    f"[{period}, {ranks}]"
                )
        return self

    @model_validator(mode="after")
    def _settings_of_warm_up(self) -> Self:
        if self.before_warmup is not None and self.warmup_steps == 0:
            raise ValueError("before_warmup has no effect without warmup_steps (for example 100)")
        return self

    @model_validator(mode="after")
    def _settings_of_the_collective(self) -> Self:
        if self.collective == "push_pull":
            raise ValueError("collective push_pull needs servers; local_sgd has none")
        if self.collective in ("hierarchical", "hierarchical_leader"):
            raise ValueError(
                f"collective {self.collective} has groups of its own: here levels average group by "
                "group; take another collective"
            )
        self._choice.check_settings()
        return self

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """Averages that come soon."""
        return {"period": 2}

    @property
    def sends(self) -> Sends:
        """See Strategy; gradients that are averaged are as large."""
        return Sends("parameters", to="workers")

    @property
    def round(self) -> Round:
        """See Strategy; after its last step all have met."""
        return Round("outer step", steps=self.levels[-1][0] if self.levels else self.period or 1)

    @property
    def against_rollback(self) -> str:
        """See Strategy; steps of warm-up are others than those after it."""
        if self.warmup_steps:
            return (
                "steps of warm-up are other ones than those of the rest of its life: leave "
                "warmup_steps out"
            )
        return super().against_rollback

    def recurs_after(self, cluster: Cluster) -> int:
        """See Strategy; after the averages of all levels."""
        return math.lcm(*(period for period, _ in self.levels or ((self.period or 1, 0),)))

    def holds(self, cluster: Cluster) -> Holds:
        """And what copies are averaged in, beside them: PyTorch's averager makes one tensor."""
        return super().holds(cluster) + Holds(device=(Copies("a copy that is averaged"),))

    def check(self, cluster: Cluster) -> None:
        """Groups of ranks must be equal, and the last level is of all."""
        workers = cluster.workers
        groups = [("levels", ranks) for _, ranks in self.levels or ()]
        if self.ranks_per_group is not None:
            groups.append(("ranks_per_group", self.ranks_per_group))
        for key, ranks in groups:
            if workers % ranks:
                fit = ", ".join(str(n) for n in range(1, workers + 1) if workers % n == 0)
                raise ValueError(f"{key}: {workers} workers do not make groups of {ranks}: {fit}")
        if self.levels and self.levels[-1][1] != workers:
            raise ValueError(
                f"levels: the last one must average all {workers} workers, not {self.levels[-1][1]}"
            )
        for ranks in {workers, *(ranks for _, ranks in groups)}:
            self._choice.check_ranks(ranks)

    def check_workload(self, workload: Workload) -> None:
        """Plain SGD has no state; there may be too many segments."""
        self._choice.check_size(workload.size())
        if self.optimizer_state == "averaged" and not workload.update_rule().slots:
            raise ValueError(
                f"optimizer_state averaged has no effect: optimizer {workload.update_rule().kind} "
                "has no state"
            )
        super().check_workload(workload)

    def check_events(self, events: Sequence[Deaths]) -> None:
        """Who begins again can have what all have averaged, and nothing else."""
        super().check_events(events)
        given = {
            "levels": bool(self.levels),
            "ranks_per_group": self.ranks_per_group is not None,
            "before_warmup all_reduce": self._reduces_in_warm_up,
            "optimizer_state averaged": self.optimizer_state == "averaged",
        }
        for key in [key for key, used in given.items() if used] if events else ():
            raise ValueError(
                f"{key} does not go with {cause(events)}: a worker that restarts gets the "
                "latest average of all copies, which is not what its group has"
            )

    def start(self, job: Job) -> None:
        workers = len(job.workers)
        of_gradients = {self.ranks_per_group or 1}
        if self._reduces_in_warm_up:
            of_gradients.add(workers)
        of_copies = {ranks for _, ranks in self.levels or ()} or {workers}
        with_state = self.optimizer_state == "averaged"
        copies = AveragedReplicas(
            job,
            of_gradients,
            of_copies,
            choice=self._choice,
            with_state=with_state,
            leaves_out=self.leaves_out_the_dead,
        )
        job.observe(copies.aggregate, copies.divergence)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, copies, workers)

    def replica(self, worker: Worker, copies: AveragedReplicas, workers: int) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from copies.recover(worker)  # (0)
            yield from copies.average(
                worker, self._averaged(copies.steps[worker.rank] - 1, workers)
            )
        while True:
            step = copies.steps[worker.rank]
            together = self._reduced(step, workers)
            gradient = yield from worker.compute_gradient(copies.read(worker))  # (1)
            yield from copies.reduce(worker, gradient, together)  # (2)
            yield from worker.update_copy()
            copies.update(worker, gradient, together)  # (3)
            yield from copies.average(worker, self._averaged(step, workers))  # (4)

    @property
    def _choice(self) -> Choice:
        return Choice(self.collective or "ring", None, self.segment_size)

    @property
    def _reduces_in_warm_up(self) -> bool:
        return self.warmup_steps > 0 and self.before_warmup != "none"

    def _reduced(self, step: int, workers: int) -> int:
        """How many ranks average their gradients of a step; 1 where none do."""
        if step < self.warmup_steps:
            return workers if self._reduces_in_warm_up else 1
        return self.ranks_per_group or 1

    def _averaged(self, step: int, workers: int) -> int:
        """How many ranks average their copies after a step; 0 where none do."""
        if step < self.warmup_steps:
            return 0
        done = step if self.convention == "pytorch" else step + 1
        if self.levels:
            return max((ranks for period, ranks in self.levels if done % period == 0), default=0)
        assert self.period is not None
        return 0 if (done - self.warmup_steps) % self.period else workers
