"""Layer by layer: what is sharded or gathered while forward and backward passes go on."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.cluster.collectives.collective import Collective, CollectiveOutcome, Vector, own_links
from varsim.cluster.collectives.plan import CollectivePlan, MessagePath, Paths
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.network.link import Link
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.allreduce import BackgroundCollectives, Layout, Stream, Unit
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead
from varsim.learning.gradient import Gradient


class Collect(NamedTuple):
    """A collective is handed over."""


class Await(NamedTuple):
    """A collective is waited for: the so many-th of this step, from 1; of the one `before`."""

    number: int
    before: bool = False


class AwaitCopies(NamedTuple):
    """So many all-reduces of this step between groups are waited for."""

    number: int


class LayerCompute(NamedTuple):
    """Computation from one share of the compute time to another."""

    begin: float
    end: float


class Update(NamedTuple):
    """Update of a share of the parameters; in a forward pass that of the step before."""

    share: float


class Whole(NamedTuple):
    """The worker's copy has all of the update, which is counted."""


Line: TypeAlias = Collect | Await | AwaitCopies | LayerCompute | Update | Whole


class Passes(NamedTuple):
    """The forward and the backward pass of a micro-batch."""

    forward: list[Line]
    backward: list[Line]


class LayerProgram:
    """What every worker does in a step, and the collectives of it in the order of `Collect`.

    `copies`: what groups all-reduce, each once the reduce-scatter is done whose number, from 1,
    stands in `scattered` at its place.
    """

    def __init__(self, layout: Layout, cluster: Cluster, number_bytes: int) -> None:
        self.shards = layout.shards(cluster)
        self._scatter, self._gather = layout.choice.halves(self.shards)
        self._between = ring_all_reduce(cluster.workers // self.shards)
        self._number_bytes = number_bytes  # of one number in a gradient
        self.vectors: list[Vector] = []
        self.copies: list[Vector] = []
        self.scattered: list[int] = []
        self.passes: list[Passes] = []
        self.rest: list[Line] = []

    def scatter(self, lines: list[Line], unit: Unit) -> None:
        """Every rank gets its shard of the sum of a unit's gradients."""
        size, number_bytes = unit.gradients, self._number_bytes
        self._collect(lines, Vector(self._scatter, size, number_bytes=number_bytes))
        self.scattered.append(len(self.vectors))
        size_of_shard = size / self.shards
        self.copies.append(Vector(self._between, size_of_shard, number_bytes=number_bytes))

    def gather(self, lines: list[Line], unit: Unit) -> int:
        """Every rank gets the shards of the parameters that others have; the number of it."""
        return self._collect(lines, Vector(self._gather, unit.parameters, int(Phase.READ)))

    def gather_gradients(self, lines: list[Line], unit: Unit) -> int:
        """Every rank gets the shards of the others: with `scatter` an all-reduce."""
        vector = Vector(self._gather, unit.gradients, number_bytes=self._number_bytes)
        return self._collect(lines, vector)

    def begin_pass(self) -> Passes:
        """Passes of the next micro-batch, which begin when all is there that was scattered."""
        passes = Passes([], [])
        if self.scattered:
            self.await_sums(passes.forward)
        self.passes.append(passes)
        return passes

    def await_sums(self, lines: list[Line]) -> None:
        """Wait for all that has been scattered."""
        lines += [Await(self.scattered[-1]), AwaitCopies(len(self.scattered))]

    def _collect(self, lines: list[Line], vector: Vector) -> int:
        self.vectors.append(vector)
        lines.append(Collect())
        return len(self.vectors)


class LayerwiseStep:
    """Steps in which workers gather parameters or gradients layer by layer.

    Reduce-scatters and all-gathers, the two halves of an all-reduce, are handed over to a stream
    (`BackgroundCollectives`), which carries them out one after the other; a worker's forward or
    backward pass of a unit waits for what it needs. All-reduces between groups have a stream of
    their own (PyTorch: all_reduce_stream). `updated` is called when a worker's copy has all of an
    update: as its last collective ends where nothing comes after it, else by the worker.
    """

    def __init__(
        self, job: Job, layers: Sequence[Unit], layout: Layout, updated: Callable[[Worker], None]
    ) -> None:
        self._job, self._updated = job, updated
        ranks = len(job.workers)
        program = LayerProgram(layout, job.cluster, job.workload.gradient_bytes)
        self._program, group = program, program.shards
        if layout.sharding == "parameters":
            _sharded(program, layers, layout)
        else:
            updates = job.cluster.optimizer_time is not None
            _gathered(program, layers, layout, updates=updates)
        job.gradients.accumulate(layout.micro_batches)
        # Else the program says when a worker's copy is whole.
        said = [*program.passes[0].forward, *program.rest]
        self._ends_with_collective = not any(isinstance(line, Whole) for line in said)
        self._steps = [0] * ranks
        self._work = [0] * ranks  # ns, of the gradient under way
        together = [range(first, first + group) for first in range(0, ranks, group)]
        levels = [Level(together, program.vectors)]
        if group < ranks:
            # Rings over all cards of nodes, and others over single ones, would not meet there.
            several = len({job.workers[rank].place.machine for rank in together[0]}) > 1
            apart = [range(place, ranks, group) for place in range(group)]
            by_all = several and program.vectors[0].schedule.side_by_side
            levels.append(Level(apart, program.copies, by_all_cards=by_all))
        crossed = Counter(link for level in levels for link in level.links(job))
        shared = {link for link, groups in crossed.items() if groups > 1}
        self._collectives = levels[0].begin(job, shared, self._done)
        self._copies = levels[1].begin(job, shared) if group < ranks else None

    def forward(
        self, worker: Worker, micro_batch: int, read: Callable[[Worker], WorkerRead]
    ) -> Activity[Gradient]:
        """Begin a gradient: its forward pass, of each unit once its parameters are there.

        `read`: by the end all of the worker's copy can be read.
        """
        gradient, self._work[worker.rank] = worker.begin_layers()
        yield from self._perform(worker, self._program.passes[micro_batch].forward)
        gradient.read = replace(read(worker), time=gradient.compute_start)
        return gradient

    def backward(self, worker: Worker, micro_batch: int, gradient: Gradient) -> Activity[None]:
        """Its backward pass, in which gradients are handed over unit by unit."""
        yield from self._perform(worker, self._program.passes[micro_batch].backward)
        gradient.computed = self._job.clock.time

    def finish(self, worker: Worker) -> Activity[None]:
        """Wait for what comes of it, update, and gather what the next step needs."""
        yield from self._perform(worker, self._program.rest)
        self._steps[worker.rank] += 1

    def _perform(self, worker: Worker, lines: Sequence[Line]) -> Activity[None]:
        rank, program = worker.rank, self._program
        step, work, each = self._steps[rank], self._work[rank], len(program.vectors)
        first = step == 0 and lines is program.passes[0].forward
        for line in lines:
            if isinstance(line, Collect):
                self._collectives.begin(worker)
            elif isinstance(line, Await):
                number = (step - line.before) * each + line.number
                yield from self._collectives.finish(worker, number)
            elif isinstance(line, AwaitCopies):
                if self._copies is not None:
                    number = step * len(program.copies) + line.number
                    yield from self._copies.finish(worker, number)
            elif isinstance(line, LayerCompute):
                part = round(work * line.end) - round(work * line.begin)
                yield from worker.compute(part, goes_on=True)
            elif first:
                continue  # there was no step before
            elif isinstance(line, Update):
                yield from worker.update_copy(line.share)
            else:
                self._updated(worker)

    def _done(self, rank: int, number: int) -> None:
        worker, each = self._job.workers[rank], len(self._program.vectors)
        if self._copies is not None and (number - 1) % each + 1 in self._program.scattered:
            self._copies.begin(worker)
        if self._ends_with_collective and number % each == 0:
            self._updated(worker)


class Level(NamedTuple):
    """Collectives for the same vectors, side by side in groups of ranks; each is in one group.

    `by_all_cards`: rings leave nodes as one of all workers does.
    """

    groups: Sequence[range]
    vectors: Sequence[Vector]
    by_all_cards: bool = False

    def begin(
        self,
        job: Job,
        shared: Collection[Link],
        done: Callable[[int, int], None] = lambda rank, number: None,
    ) -> BackgroundCollectives[CollectiveOutcome]:
        """Streams that carry them out; on links `shared` with others message by message.

        For what others send is not seen by the recurrence of one collective.
        """
        streams = [Stream(job, worker) for worker in job.workers]
        first, *more = self.vectors
        by_message = True if any(map(shared.__contains__, self.links(job))) else None
        of_rank = dict[int, Collective]()
        for ranks in self.groups:
            members, paths = [streams[rank] for rank in ranks], self._paths(job, ranks)
            made = Collective(
                job, *first, more=more, members=members, paths=paths, by_message=by_message
            )
            of_rank.update(dict.fromkeys(ranks, made))
        return BackgroundCollectives(
            job, streams, lambda stream: of_rank[stream.rank].take_part(stream), done
        )

    def links(self, job: Job) -> Iterator[Link]:
        """Those that each group crosses, group by group."""
        schedule, size, *_ = self.vectors[0]
        for ranks in self.groups:
            yield from CollectivePlan(schedule, size, self._paths(job, ranks)).crossings.links

    def _paths(self, job: Job, ranks: range) -> Paths:
        if not self.by_all_cards:
            return own_links(job, ranks, side_by_side=self.vectors[0].schedule.side_by_side)
        places = [worker.place for worker in job.workers]
        route = job.network.routing.side_by_side(places)
        return lambda source, target: MessagePath(
            job.network, route(places[ranks[source]], places[ranks[target]])
        )


def _sharded(program: LayerProgram, layers: Sequence[Unit], layout: Layout) -> None:
    """Parameters are gathered before each pass of a unit, and given up after it.

    Once a unit is there, the next one of the pass is gathered (`overlap`). A micro-batch begins
    when all of the one before is scattered, as all-gathers of a forward pass wait for the passes
    before it, and these for their reduce-scatters (PyTorch FSDP: _wait_for_computation_stream,
    _post_backward_final_callback). Rajbhandari et al., 2020 (ZeRO-3); Zhao et al., 2023.
    """
    prefetch = bool(layout.overlap)
    for _ in range(layout.micro_batches):
        forward, backward = program.begin_pass()
        for lines, order in ((forward, layers), (backward, layers[::-1])):
            awaited = 0
            for index, unit in enumerate(order):
                if not prefetch or index == 0:
                    awaited = program.gather(lines, unit)
                lines.append(Await(awaited))
                if prefetch and index + 1 < len(order):
                    awaited = program.gather(lines, order[index + 1])
                _compute(lines, unit.forward if lines is forward else unit.backward)
                if lines is backward:
                    program.scatter(lines, unit)
                    if not prefetch:
                        program.await_sums(lines)
    program.await_sums(program.rest)
    program.rest += [Update(1 / program.shards), Whole()]


def _gathered(
    program: LayerProgram, layers: Sequence[Unit], layout: Layout, *, updates: bool
) -> None:
    """Gradients are scattered in the order of the backward pass, then all is gathered again.

    Those of each micro-batch, or of all, added up. Of shards of the optimizer's state the updated
    parameters are gathered (ZeRO-1 and 2), else the rest of the gradients. With `overlap: forward`
    in the order of the next forward pass, of which each unit waits for its own; it is updated then,
    if that takes time (`updates`). Zhang et al., 2023 (DeAR).
    """
    sharding, overlap, rest = layout.sharding, layout.overlap, program.rest
    whole, last = sum(unit.parameters for unit in layers), layout.micro_batches - 1
    scattered = len(layers) * (layout.micro_batches if layout.scatters_each else 1)
    for micro_batch in range(layout.micro_batches):
        forward, backward = program.begin_pass()
        for number, unit in enumerate(layers, 1):
            if overlap == "forward" and micro_batch == 0:
                forward.append(Await(scattered + number, before=True))
                if sharding is None and updates:
                    forward.append(Update(unit.parameters / whole))
                    forward += [Whole()] if number == len(layers) else []
            _compute(forward, unit.forward)
        for unit in reversed(layers):
            _compute(backward, unit.backward)
            if overlap and (micro_batch == last or layout.scatters_each):
                program.scatter(backward, unit)
        if not overlap and (micro_batch == last or layout.scatters_each):
            for unit in reversed(layers):
                program.scatter(rest if micro_batch == last else backward, unit)
    if sharding is not None:
        program.await_sums(rest)
        rest.append(Update(1 / program.shards))
    gather = program.gather if sharding else program.gather_gradients
    for unit in layers:
        gather(rest, unit)
    if overlap != "forward":
        rest += [Await(len(program.vectors)), Whole()]


def _compute(lines: list[Line], shares: tuple[float, float]) -> None:
    """Compute from one share to another, in one go with what is computed just before."""
    begin, end = shares
    before = lines[-1] if lines else None
    if isinstance(before, LayerCompute):
        begin = before.begin
        lines.pop()
    lines.append(LayerCompute(begin, end))
