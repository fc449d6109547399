"""Layer by layer: what is sharded or gathered while forward and backward passes go on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from varsim.cluster.buckets import Bucketing
from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective, Vector
from varsim.cluster.collectives import ring
from varsim.cluster.description import Cluster
from varsim.cluster.exchange import BackgroundCollectives, Stream
from varsim.cluster.job import Job
from varsim.cluster.trace import Phase
from varsim.cluster.worker import Read, Worker
from varsim.values.gradient import Gradient
from varsim.values.workload import Workload

# What of the model is cut into equal shards, one for each worker, and what comes before it, too.
Sharding: TypeAlias = Literal["optimizer", "gradients", "parameters"]
# Whether collectives go on beside the backward pass, or beside the next forward pass, too.
Overlap: TypeAlias = bool | Literal["forward"]


class Unit(NamedTuple):
    """Layers whose parameters are gathered, and gradients scattered, at once; sizes in bytes.

    `begins`, `ends`: of its forward and its backward pass, the shares of a compute time.
    """

    parameters: int
    gradients: int
    forward: tuple[float, float]
    backward: tuple[float, float]


def units(workload: Workload, bucketing: Bucketing | None, cluster: Cluster) -> list[Unit]:
    """The units of a workload in forward order; without bucketing the whole model.

    Forward passes are in proportion to backward passes. A unit begins with the layer in which its
    first tensor begins.
    """
    tensors, gradients = workload.tensors(), workload.gradient_tensors()
    if bucketing is None:
        cut = [tuple(range(len(tensors)))]
    else:
        cut = [bucket.tensors for bucket in reversed(bucketing.cut(gradients))]
    ready = workload.ready_after(tensors)
    begun = [1.0 - max(ready[tensor] for tensor in group) for group in cut]
    backward = cluster.share_of_backward
    forward = 1.0 - backward
    return [
        Unit(
            sum(tensors[tensor] for tensor in group),
            sum(gradients[tensor] for tensor in group),
            (forward * begin, forward * end),
            (1.0 - backward * end, 1.0 - backward * begin),
        )
        for group, begin, end in zip(cut, begun, [*begun[1:], 1.0], strict=True)
    ]


class Collect(NamedTuple):
    """A collective is handed over."""


class Await(NamedTuple):
    """A collective is waited for: the so many-th of this step, from 1; of the one `before`."""

    number: int
    before: bool = False


class Compute(NamedTuple):
    """Computation from one share of the compute time to another."""

    begin: float
    end: float


class Update(NamedTuple):
    """Update of a share of the parameters; in a forward pass that of the step before."""

    share: float


class Whole(NamedTuple):
    """The worker's copy has all of the update, which is counted."""


Line: TypeAlias = Collect | Await | Compute | Update | Whole


class Program(NamedTuple):
    """What every worker does in a step, and the collectives of it in the order of `Collect`."""

    vectors: list[Vector]
    forward: list[Line]
    backward: list[Line]
    rest: list[Line]


class LayerwiseStep:
    """Steps in which workers gather parameters or gradients layer by layer.

    Reduce-scatters and all-gathers of rings, the two halves of an all-reduce, are handed over to a
    stream (`BackgroundCollectives`), which carries them out one after the other; a worker's forward
    or backward pass of a unit waits for what it needs. `updated` is called when a worker's copy has
    all of an update: as its last collective ends where nothing comes after it, else by the worker.
    """

    def __init__(
        self,
        job: Job,
        layers: Sequence[Unit],
        sharding: Sharding | None,
        overlap: Overlap,
        updated: Callable[[Worker], None],
    ) -> None:
        self._job, self._updated = job, updated
        ranks = len(job.workers)
        halves = Halves(ranks, job.workload.gradient_bytes)
        if sharding == "parameters":
            self._program = _sharded(layers, halves, prefetch=bool(overlap))
        else:
            updates = job.cluster.optimizer_time is not None
            self._program = _gathered(layers, halves, sharding, overlap, updates=updates)
        # Else the program says when a worker's copy is whole.
        said = [*self._program.forward, *self._program.rest]
        self._ends_with_collective = not any(isinstance(line, Whole) for line in said)
        self._steps = [0] * ranks
        self._work = [0] * ranks  # ns, of the gradient under way
        streams = [Stream(job, worker) for worker in job.workers]
        first, *more = self._program.vectors
        collective = Collective(job, *first, more=more, members=streams)
        self._collectives = BackgroundCollectives(job, streams, collective.take_part, self._done)

    def forward(self, worker: Worker, read: Callable[[Worker], Read]) -> Activity[Gradient]:
        """Begin a gradient: its forward pass, of each unit once its parameters are there.

        `read`: by the end all of the worker's copy can be read.
        """
        yield from worker.catch_up()
        gradient, self._work[worker.rank] = worker.begin_layers()
        yield from self._perform(worker, self._program.forward)
        gradient.read = replace(read(worker), time=gradient.compute_start)
        return gradient

    def backward(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Its backward pass, in which gradients are handed over unit by unit."""
        yield from self._perform(worker, self._program.backward)
        gradient.computed = self._job.clock.time

    def finish(self, worker: Worker) -> Activity[None]:
        """Wait for what comes of it, update, and gather what the next step needs."""
        yield from self._perform(worker, self._program.rest)
        self._steps[worker.rank] += 1

    def _perform(self, worker: Worker, lines: Sequence[Line]) -> Activity[None]:
        rank = worker.rank
        step, work, each = self._steps[rank], self._work[rank], len(self._program.vectors)
        first = step == 0 and lines is self._program.forward
        for line in lines:
            if isinstance(line, Collect):
                self._collectives.begin(worker)
            elif isinstance(line, Await):
                number = (step - line.before) * each + line.number
                yield from self._collectives.finish(worker, number)
            elif isinstance(line, Compute):
                part = round(work * line.end) - round(work * line.begin)
                yield from worker.compute(part, goes_on=True)
            elif first:
                continue  # there was no step before
            elif isinstance(line, Update):
                yield from worker.update_copy(line.share)
            else:
                self._updated(worker)

    def _done(self, rank: int, number: int) -> None:
        if self._ends_with_collective and number % len(self._program.vectors) == 0:
            self._updated(self._job.workers[rank])


class Halves(NamedTuple):
    """Collectives among so many ranks, the halves of a ring all-reduce.

    `gradient_bytes`: of one number in gradients.
    """

    ranks: int
    gradient_bytes: int

    def scatter(self, unit: Unit) -> Vector:
        """Every rank gets its shard of the sum of a unit's gradients."""
        schedule = ring.reduce_scatter(self.ranks)
        return Vector(schedule, unit.gradients, number_bytes=self.gradient_bytes)

    def gather_gradients(self, unit: Unit) -> Vector:
        """Every rank gets the shards of the others: with `scatter` an all-reduce."""
        schedule = ring.all_gather(self.ranks)
        return Vector(schedule, unit.gradients, number_bytes=self.gradient_bytes)

    def gather(self, unit: Unit) -> Vector:
        """Every rank gets the shards of the parameters that others have."""
        return Vector(ring.all_gather(self.ranks), unit.parameters, int(Phase.READ))


def _sharded(layers: Sequence[Unit], halves: Halves, *, prefetch: bool) -> Program:
    """Parameters are gathered before each pass of a unit, and given up after it.

    Once a unit is there, the next one of the pass is gathered (`prefetch`). Rajbhandari et al.,
    2020 (ZeRO-3); Zhao et al., 2023 (PyTorch FSDP).
    """
    vectors: list[Vector] = []
    forward, backward, rest = list[Line](), list[Line](), list[Line]()
    for lines, order in ((forward, layers), (backward, layers[::-1])):
        awaited = 0
        for index, unit in enumerate(order):
            if not prefetch or index == 0:
                awaited = _collect(lines, vectors, halves.gather(unit))
            lines.append(Await(awaited))
            if prefetch and index + 1 < len(order):
                awaited = _collect(lines, vectors, halves.gather(order[index + 1]))
            _compute(lines, unit.forward if lines is forward else unit.backward)
            if lines is backward:
                number = _collect(lines, vectors, halves.scatter(unit))
                lines += [] if prefetch else [Await(number)]
    rest += [Await(len(vectors)), Update(1 / halves.ranks), Whole()]
    return Program(vectors, forward, backward, rest)


def _gathered(
    layers: Sequence[Unit],
    halves: Halves,
    sharding: Sharding | None,
    overlap: Overlap,
    *,
    updates: bool,
) -> Program:
    """Gradients are scattered in the order of the backward pass, then all is gathered again.

    Of shards of the optimizer's state the updated parameters are gathered (ZeRO-1 and 2), else the
    rest of the gradients. With `overlap: forward` in the order of the next forward pass, of which
    each unit waits for its own; it is updated then, if that takes time (`updates`). Zhang et al.,
    2023 (DeAR).
    """
    number, whole = len(layers), sum(unit.parameters for unit in layers)
    vectors = [halves.scatter(unit) for unit in reversed(layers)]
    gather = halves.gather if sharding else halves.gather_gradients
    vectors += [gather(unit) for unit in layers]
    forward, backward, rest = list[Line](), list[Line](), list[Line]()
    for index, unit in enumerate(layers):
        if overlap == "forward":
            forward.append(Await(number + index + 1, before=True))
            if sharding is None and updates:
                forward.append(Update(unit.parameters / whole))
                forward += [Whole()] if index + 1 == number else []
        _compute(forward, unit.forward)
    for unit in reversed(layers):
        _compute(backward, unit.backward)
        (backward if overlap else rest).append(Collect())
    if sharding is not None:
        rest += [Await(number), Update(1 / halves.ranks)]
    rest += [Collect()] * number
    if overlap != "forward":
        rest += [Await(2 * number), Whole()]
    return Program(vectors, forward, backward, rest)


def _compute(lines: list[Line], shares: tuple[float, float]) -> None:
    """Compute from one share to another, in one go with what is computed just before."""
    begin, end = shares
    before = lines[-1] if lines else None
    if isinstance(before, Compute):
        begin = before.begin
        lines.pop()
    lines.append(Compute(begin, end))


def _collect(lines: list[Line], vectors: list[Vector], vector: Vector) -> int:
    """Hand a vector over; the number of it."""
    vectors.append(vector)
    lines.append(Collect())
    return len(vectors)
