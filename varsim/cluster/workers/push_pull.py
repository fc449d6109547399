"""Sums of gradients on parameter servers: push, add and pull, part by part."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, groupby
from typing import NamedTuple

from varsim.cluster.clock import Activity
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.network.topology import Place, Routing
from varsim.cluster.primitives import Countdown
from varsim.cluster.record.trace import Phase, Span
from varsim.cluster.servers.placement import bytes_per_port, server_places
from varsim.cluster.servers.queues import Alone, Updater
from varsim.cluster.workers.exchange import GradientExchange, Outbox
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Gradient
from varsim.learning.workload import Workload


class ServerSums(GradientExchange[Sequence[Gradient]]):
    """Sums of all workers' gradients, one for every part of a tensor that lies on a server.

    What one host sends to another goes over one connection. Of a worker's time, what it waits for
    others that compute is the barrier, then it is writing.
    """

    def __init__(self, job: Job, *, overlap: bool) -> None:
        layout = laid_out(job.cluster, job.workload, job.network.routing)
        self._pieces = layout.pieces
        moments = layout.moments(overlap=overlap)
        super().__init__(job, [share for share, _ in moments])
        self._groups = [group for _, group in moments]
        self._overlap = overlap
        workers = [worker.place for worker in job.workers]
        self._up = [[self._connection(one, place) for place in layout.places] for one in workers]
        self._down = [[self._connection(place, one) for one in workers] for place in layout.places]
        self._summing = None if job.cluster.server_update is None else _Summing(job, layout)
        self._summed = [0] * len(layout.pieces)  # of how many workers, for the sum to come
        self._sums = [Countdown(job.clock, 0) for _ in job.workers]  # of this step, to come
        self._waiting: list[Worker] = []  # who has computed, until all have

    def finish(self, worker: Worker, gradient: Sequence[Gradient]) -> Activity[None]:
        """Push each part when it is ready; returns when this worker has all sums."""
        rank = worker.rank
        sums = self._sums[rank] = Countdown(self._clock, len(self._pieces))
        for moment, group in zip(self._moments[rank], self._groups, strict=True):
            self._clock.call_at(moment, partial(self._push, rank, group))
        yield from worker.finish_computing()
        worker.waits(Phase.BARRIER, self)
        self._waiting.append(worker)
        if len(self._waiting) == len(self._up):
            for other in self._waiting:
                other.turns_to(Phase.WRITE)
            self._waiting = []
        yield from sums.wait()
        worker.goes_on()
        if self._overlap:
            begun, now = self._moments[rank][0], self._clock.time
            self._job.recorder.sent(Span(rank, Phase.WRITE, begun, now, worker.iteration))

    def _connection(
        self, source: Place, target: Place
    ) -> Callable[[float, Callable[[], None]], None]:
        """A connection on which each message goes once the one before has passed."""
        return partial(Outbox(self._network).send, self._network.route(source, target))

    def _push(self, rank: int, group: list[int]) -> None:
        """These parts of a worker's gradient are ready."""
        for number in group:
            server, size, _ = self._pieces[number]
            self._up[rank][server](size, partial(self._come, number))

    def _come(self, number: int) -> None:
        """A part of some worker is at its server."""
        if self._summing is None:
            self._add(number)
        else:
            self._clock.call_at(self._summing.end(number), partial(self._add, number))

    def _add(self, number: int) -> None:
        """It is in the sum; that of all workers goes to each of them.

        Nobody pushes a part again before it has the sum, so there is one sum of it at a time.
        """
        self._summed[number] += 1
        if self._summed[number] < len(self._up):
            return
        self._summed[number] = 0
        server, size, _ = self._pieces[number]
        for rank, connection in enumerate(self._down[server]):
            connection(size, self._sums[rank].count)

    def __str__(self) -> str:
        return f"sums of gradients that {len(self._waiting)} of {len(self._up)} have computed"


class ShardPiece(NamedTuple):
    """A part of one tensor's gradient on one server: a message of its own each way.

    `server`: the number of its place; `size` in bytes; `ready`: the share of the backward pass
    after which it is there.
    """

    server: int
    size: float
    ready: float


class PushPullLayout(NamedTuple):
    """Where the servers are, how many each place stands for, and what there is, in that order.

    A backward pass makes the last tensor first, and the parts of one at once.
    """

    places: list[Place]
    counts: list[int]
    pieces: list[ShardPiece]

    def moments(self, *, overlap: bool) -> list[tuple[float, list[int]]]:
        """After which shares of a backward pass pieces are pushed, and which ones."""
        numbered = list(enumerate(self.pieces))
        return [
            (share, [number for number, _ in group])
            for share, group in groupby(numbered, lambda one: one[1].ready if overlap else 1.0)
        ]


def laid_out(cluster: Cluster, workload: Workload, routing: Routing) -> PushPullLayout:
    """The gradients of a workload on the servers of a cluster, whose workers have their places."""
    partitioner = cluster.partitioner
    parts = [
        (index, part)
        for index, size in enumerate(workload.gradient_tensors())
        for part in ([size] if partitioner is None else partitioner.cut(size))
    ]
    whole = cluster.model_copy(update={"partitioner": None})
    placed = bytes_per_port([[size] for _, size in parts], whole)
    shards = [column for column in zip(*placed, strict=True) if any(column)]
    found = server_places(routing, cluster, placed, in_turn=True)
    counts = [1] * len(found) if len(found) == len(shards) else list(Counter(shards).values())
    ready = workload.ready_after(workload.tensors())
    backwards = sorted(range(len(parts)), key=lambda part: (ready[parts[part][0]], -parts[part][0]))
    pieces = [
        ShardPiece(server, column[part], ready[parts[part][0]])
        for part in backwards
        for server, (_, column) in enumerate(found)
        if column[part]
    ]
    return PushPullLayout([place for place, _ in found], counts, pieces)


class _Summing:
    """Service times of sums at every server; equal servers with equal times are one."""

    def __init__(self, job: Job, layout: PushPullLayout) -> None:
        described = job.cluster.server_update
        assert described is not None
        self._clock, self._pieces = job.clock, layout.pieces
        numbers = count()
        self._updaters = []
        for server, equal in enumerate(layout.counts):
            sizes = [_size_on(server, equal, piece) for piece in layout.pieces]
            own = [next(numbers) for _ in range(equal)][: equal if described.is_random else 1]
            self._updaters.append(
                [
                    Updater(
                        described,
                        number,
                        sizes,
                        job.streams("server update", number),
                    )
                    for number in own
                ]
            )

    def end(self, number: int) -> int:
        """When a part that is at its server now will be in the sum (ns)."""
        now, alone = self._clock.time, Alone()
        own = self._updaters[self._pieces[number].server]
        return max([updater.handle(number, now, alone) for updater in own])


def _size_on(server: int, equal: int, piece: ShardPiece) -> float:
    """What one of so many equal servers has of a piece."""
    return piece.size / equal if piece.server == server else 0.0
