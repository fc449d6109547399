"""DiLoCo: many inner steps alone, then an outer step on what they came to; also streaming."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import OF_ALL_REDUCES, AnyCollective, Choice
from varsim.cluster.copies.averaged import OuterReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, RefusalError, refused
from varsim.core.units import Bytes
from varsim.learning.gradient_form import Precision, Quantized
from varsim.learning.optimizer import AnyOptimizer, Momentum
from varsim.learning.workload import Workload
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Deaths, Pair, Round, Sends, Traits


class DiLoCo(Strategy):
    """Take inner steps alone; now and then move the shared model by the mean of what they changed.

    Replicas: (1) take an inner step on their own copy, with an optimizer of their own; (2) after a
    sync's send step they send their outer gradient, the shared model less their copy, and go on;
    (3) after its apply step they wait for the mean, if need be; (4) the `outer` optimizer (default:
    SGD with a Nesterov momentum of 0.9 at rate 0.7) makes an outer step on the shared model;
    (5) the copy becomes `mixing` times itself and 1 - mixing times the shared model.
    With `fragments` the model is cut into that many parts that take turns (streaming), which end
    after every inner_steps / fragments steps, so that much less is sent at a time. With a `delay`
    workers take that many inner steps while all-reduces are under way, which are hidden behind
    them, one after the other. By `convention` sync i = 0, 1, ... of torchft, of fragment i mod
    fragments, is sent delay steps before turn i ends, and applied as it ends; that of the `paper`,
    of fragment (i + 1) mod fragments, is sent as turn i ends, and applied delay steps later.
    `outer_precision`: what outer gradients are rounded to, and sent in; fp8, int8 and fp4 have one
    scale for each tensor, which is sent for free. The mean is taken exactly. The outer step itself
    takes no time.
    `collective`: the algorithm of their all-reduce, as of on_write (default: ring).
    When a worker dies (`events`) the others go on without it. A sync whose all-reduce it dies in
    has failed: its fragment of every copy goes back to the shared model and has the next turn, too
    (torchft). One that restarts (0) waits for the end of a sync, takes all that another worker
    has then, and goes on at its step. When nobody is left, all begin from the start.
    With `overlap` (1) and (2) run side by side: in the last step before a sync every tensor's part
    of the outer gradient is sent once the backward pass is through with it, last layers first. The
    first layer's comes last, so that to wait for each layer in the next forward pass only would
    save nothing.
    Douillard et al., 2023 (DiLoCo) and 2025 (Streaming DiLoCo); torchft.
    """

    kind: Literal["diloco"] = "diloco"
    inner_steps: PositiveInt = 100
    """H: local steps between two syncs of the same fragment."""
    fragments: PositiveInt = 1
    """Parts of the model, synchronized in turn (streaming)."""
    delay: NonNegativeInt = 0
    """Local steps between the sending of a fragment and its outer step."""
    convention: Literal["torchft", "paper"] = "torchft"
    """Whether steps are counted as torchft does or as the papers do."""
    mixing: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the local parameters that is kept when the shared ones come."""
    outer: AnyOptimizer | None = None
    """Outer optimizer; by default SGD with Nesterov momentum."""
    outer_precision: Precision | Quantized | None = None
    """What outer gradients are sent in; they are rounded to it."""
    collective: AnyCollective | None = None
    """Algorithm of the all-reduce: `varsim list collectives`; by default `ring`."""
    ranks_per_group: PositiveInt | None = None
    """Workers in a group of a hierarchical collective."""
    segment_size: Bytes | None = Field(None, gt=0)
    """Size of the segments of `double_binary_tree`, or `hierarchical` (default: in one)."""
    overlap: bool = False
    """Outer gradients are sent during the last backward pass before a sync."""

    def replica(self, worker: Worker, copies: OuterReplicas) -> Activity[None]:
        """One replica's training loop."""
        early, late = (self.delay, 0) if self.convention == "torchft" else (0, self.delay)
        rank = worker.rank
        if worker.restarts:
            yield from copies.recover(worker)  # (0)
        while True:
            step = copies.steps[rank] + 1
            sync = self._sync_at(step + early)
            gradient = yield from copies.compute(worker, sends=sync is not None)
            yield from worker.update_copy()
            copies.apply(worker, gradient)  # (1)
            if sync is not None:
                copies.offer(worker, sync, self._fragment_of(sync - copies.failed[rank]))  # (2)
            sync = self._sync_at(step - late)
            if sync is not None:
                fragment = self._fragment_of(sync - copies.failed[rank])
                yield from copies.merge(worker, sync, fragment, step - self.delay)  # (3-5)

    def start(self, job: Job) -> None:
        copies = OuterReplicas(
            job,
            self.fragments,
            self._outer,
            self.mixing,
            self.outer_precision,
            self._choice,
            overlap=self.overlap,
        )
        job.observe(copies.aggregate, copies.divergence)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, copies)

    conflicts: ClassVar[Sequence[Refusal]] = (
        Refusal("overlap", "fragments", "they are sent whole, after a step", "leave one out"),
        Refusal("collective: push_pull", "kind: diloco", "it needs servers; diloco has none"),
        *OF_ALL_REDUCES,
        Refusal(
            "overlap",
            "cluster.optimizer_time",
            "an outer gradient is ready after the inner update, which that puts after the whole "
            "backward pass",
        ),
        Refusal(
            "overlap", "cluster.overlap_pace", "that is said of all-reduces of gradients alone"
        ),
        Refusal(
            "overlap",
            "events",
            "what is already reduced of an outer gradient whose worker dies in its backward pass "
            "could not be taken back",
        ),
        Refusal("ranks_per_group", "events", "groups are not equal without a dead worker"),
    )
    left_out: ClassVar[Mapping[str, object]] = {"collective": "ring"}

    def refusals(self) -> Iterator[RefusalError | str]:
        if self.inner_steps % self.fragments:
            fit = [n for n in range(1, self.inner_steps + 1) if self.inner_steps % n == 0]
            near = ", ".join(map(str, fit if len(fit) < 9 else [*fit[:7], "..."]))
            yield (
                f"{self.inner_steps} inner_steps do not make {self.fragments} equal turns: "
                f"fragments may be {near}"
            )
        least, what = self.inner_steps, "inner_steps"
        if self.convention == "torchft":
            least, what = self._turn, "inner_steps / fragments"
        if self.delay >= least:
            more = ""
            if self.convention == "torchft" and self.delay < self.inner_steps:
                more = "; convention paper allows more"
            yield refused("delay", f"must be below {what} ({least}), not {self.delay}{more}")

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """Outer steps that come soon."""
        return {"inner_steps": 2}

    @property
    def traits(self) -> Traits:
        """See Strategy; an outer gradient is as large as the parameters that it is of."""
        why = ""
        if self.convention == "paper" and self.delay:
            why = (
                "with a delay in the convention of the paper outer gradients are under way at the "
                "end of every round: write convention: torchft, or leave delay out"
            )
        sends, outer = Sends("parameters", to="workers"), Round("outer step", self.inner_steps)
        return Traits(sends, outer, self.overlap, outlives=True, no_rollback=why)

    def saved_besides(self, cluster: Cluster) -> tuple[Copies, ...]:
        return (
            Copies("the shared model"),
            Copies("the outer optimizer's state", self._outer.numbers_each, of="slots"),
        )

    def holds(self, cluster: Cluster) -> Holds:
        """And the shared model, the outer optimizer's state, and outer gradients on their way."""
        under_way = min(self.fragments, self.delay // self._turn + 1)
        sent = Copies("outer gradients", under_way / self.fragments)
        return super().holds(cluster) + Holds(device=(*self.saved_besides(cluster), sent))

    @property
    def lighter(self) -> Sequence[Mapping[str, object]]:
        """With more fragments less is on its way at a time."""
        counts = range(self.fragments + 1, self.inner_steps + 1)
        return [{"fragments": count} for count in counts if self.inner_steps % count == 0]

    def check(self, cluster: Cluster) -> None:
        """There must be such an all-reduce of all workers."""
        super().check(cluster)
        self._choice.check_ranks(cluster.workers)

    def check_workload(self, workload: Workload) -> None:
        """There must be something in every fragment, and numbers that are rounded."""
        self._choice.check_size(workload.size() / self.fragments)
        numbers = sum(spec.size for spec in workload.problem.variables())
        if workload.has_values and self.fragments > numbers:
            says = f"may be at most {numbers}: the problem has no more numbers"
            raise refused("fragments", says)
        if self.outer_precision is not None and workload.sized:
            raise refused(
                "outer_precision",
                "has no effect: sizes are given in bytes, not as numbers of parameters",
            )
        super().check_workload(workload)

    def check_events(self, events: Sequence[Deaths]) -> None:
        """A worker that comes back is taken in after a sync, when no other may be under way."""
        super().check_events(events)
        if events and self.delay >= self._turn:
            raise refused(
                "delay",
                f"does not go with {events[0].cause}: a worker that comes back would miss the "
                "syncs that are under way, unless it is below inner_steps / fragments "
                f"({self._turn})",
            )

    @property
    def _outer(self) -> AnyOptimizer:
        return self.outer or Momentum(learning_rate=0.7, momentum=0.9, nesterov=True)

    @property
    def _choice(self) -> Choice:
        return Choice(self.collective or "ring", self.ranks_per_group, self.segment_size)

    @property
    def _turn(self) -> int:
        """Steps from one sync to the next."""
        return self.inner_steps // self.fragments

    def _sync_at(self, step: int) -> int | None:
        """The sync whose turn ends after a step (from 1), if one does."""
        return step // self._turn - 1 if step > 0 and step % self._turn == 0 else None

    def _fragment_of(self, turn: int) -> int:
        return (turn if self.convention == "torchft" else turn + 1) % self.fragments

    called: ClassVar[str] = "DiLoCo"
    about: ClassVar[str] = "inner steps alone, then outer steps on their mean; may be streaming"
    about_values: ClassVar[tuple[str, ...]] = ("outer", "mixing")
    others: ClassVar[Mapping[str, object]] = {
        "inner_steps": 8,
        "fragments": 2,
        "delay": 1,
        "convention": Pair({"delay": 1}, {"delay": 1, "convention": "paper"}),
        "mixing": 0.5,
        "outer": {"kind": "sgd", "learning_rate": 1.0},
        "overlap": True,
        "collective": "halving_doubling",
        "ranks_per_group": Pair(
            {"collective": "hierarchical", "ranks_per_group": 2},
            {"collective": "hierarchical", "ranks_per_group": 4},
        ),
        "segment_size": Pair(
            {"collective": "double_binary_tree", "segment_size": 100.0},
            {"collective": "double_binary_tree", "segment_size": 200.0},
        ),
    }
