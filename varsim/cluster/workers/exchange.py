"""Gradient exchanges: how gradients leave the workers, and what these wait for then.

Wait-free back-propagation to servers, where gradients are pushed while they are computed; and sums
of gradients on servers: push, add and pull, part by part.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, groupby
from typing import Generic, NamedTuple, TypeVar

from varsim.cluster.clock import Activity
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.network.batch import Message
from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.network import Arrivals, Arrived, Network, deliver_item, nothing
from varsim.cluster.network.topology import Place, Routing
from varsim.cluster.primitives import Countdown
from varsim.cluster.record.trace import Phase, Span
from varsim.cluster.servers.placement import bytes_per_port, server_places
from varsim.cluster.servers.queues import Alone, Updater
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead, shares_of_compute
from varsim.learning.gradient import Gradient
from varsim.learning.workload import Workload

# What a worker sends at once: a gradient, or those of its micro-batches, added up.
Sent = TypeVar("Sent", contravariant=True)


class GradientExchange(ABC, Generic[Sent]):
    """Exchange of gradients: a worker begins one, and finishes it when what comes of it is there.

    `ready`: the shares of the backward pass after which parts of a gradient are sent (wait-free
    back-propagation: Zhang et al., 2017, Poseidon); without any, all of it is sent after the whole.
    """

    def __init__(self, job: Job, ready: Sequence[float] = ()) -> None:
        self._job, self._clock, self._network = job, job.clock, job.network
        self._shares = shares_of_compute(job.cluster, ready)
        # When the parts of each worker's latest gradient are ready (ns).
        self._moments: list[list[int]] = [[] for _ in job.workers]

    def begin(self, worker: Worker, read: WorkerRead) -> Activity[Gradient]:
        """Compute a gradient at the parameters read; takes no time where parts of it are sent."""
        if not self._shares:
            return worker.compute_gradient(read)
        return self._begin(worker, read)

    def _begin(self, worker: Worker, read: WorkerRead) -> Activity[Gradient]:
        yield from ()
        gradient, self._moments[worker.rank] = worker.begin_gradient(read, self._shares)
        return gradient

    def is_ready(self, worker: Worker) -> None:
        """All parts are ready now: of what a worker has added up, and of which it knows the end."""
        self._moments[worker.rank] = [self._clock.time for _ in self._shares]

    @abstractmethod
    def finish(self, worker: Worker, gradient: Sent) -> Activity[Sequence[int] | None]:
        """Compute it to the end, send it, and wait until what comes of it is there.

        Whose gradients are in that, by rank, none if it has failed; None: those of all.
        """


class Outbox:
    """Messages of one host: each goes on the links once the one before has passed."""

    def __init__(self, network: Network) -> None:
        self._network = network
        # The first is on the links.
        self._line: deque[tuple[Route, float, Callable[[], None]]] = deque()

    def send(self, route: Route, size: float, arrived: Callable[[], None]) -> None:
        """So many bytes are there to be sent; `arrived()` when they are at the other host."""
        self._line.append((route, size, arrived))
        if len(self._line) == 1:
            self._begin()

    def close(self) -> None:
        """What is in line is not sent any more."""
        while len(self._line) > 1:
            self._line.pop()

    def _begin(self) -> None:
        route, size, arrived = self._line[0]
        self._network.pass_on(route, size, self._passed, arrived)

    def _passed(self) -> None:
        self._line.popleft()
        if self._line:
            self._begin()


_WRITE = int(Phase.WRITE)


class WaitFreePush:
    """Pushes of gradients piece by piece, as the backward pass makes them.

    A piece is a message of its own. On links that are shared fairly, what goes to one server is
    handed over one piece after the other, as over one connection: each once the one before has
    passed. Where links are first come, first served, a piece is handed over when it is ready, and
    keeps its place in line. A variable's gradient is there when the last of its pieces is. Of a
    worker's time, writing is what it waits once it has computed.
    `ready`: the shares of the backward pass after which there are pieces; `ports`: where the
    servers are, each with the bytes of every variable there.
    Zhang et al., 2017 (Poseidon: wait-free back-propagation).
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.ports, made = _laid_out(job)
        self.ready = sorted(made)
        groups = [made[share] for share in self.ready]
        self._parts = [0] * len(job.trained)  # pieces of each variable
        for group in groups:
            for item, _ in group:
                self._parts[item] += 1
        self._pieces = []  # of each worker, for each moment
        for worker in job.workers:
            routes = [job.network.route(worker.place, place) for place, _ in self.ports]
            self._pieces.append(
                [[Message(item, routes[server], size) for (item, server), size in group.items()]
                 for group in groups]
            )  # fmt: skip

    def send(
        self, worker: Worker, gradient: Gradient, moments: Sequence[int], arrived: Arrived
    ) -> Activity[None]:
        """Send what was begun, its pieces as they are ready, at these moments (ns).

        `arrived(item, gradient)` as each variable is there, to the last.
        """
        clock, pieces = self._job.clock, self._pieces[worker.rank]
        deliver = partial(deliver_item, clock, content=gradient, arrived=arrived)
        arrivals = Arrivals(clock, self._parts, deliver)
        sending = _ExchangeSending(self._job, gradient, arrivals)
        for moment, group in zip(moments, pieces, strict=True):
            clock.call_at(moment, partial(sending.hand_over, group))
        try:
            yield gradient.computed
            if not arrivals.complete:
                worker.waits(_WRITE, self._job.network)
                yield arrivals.all
                worker.waits_for = None
        finally:
            arrivals.awaited = False
            sending.close()
        if clock.time > gradient.computed:
            alone = self._undisturbed(moments, pieces)
            worker.transferred(_WRITE, clock.time, max(0, alone - gradient.computed))

    def _undisturbed(self, moments: Sequence[int], pieces: Sequence[Sequence[Message]]) -> int:
        """When the last piece would be there if nobody else used the links (ns)."""
        network = self._job.network
        free: dict[Link, int] = {}
        last = 0
        for moment, group in zip(moments, pieces, strict=True):
            for _, route, size in group:
                start = end = moment
                for hop, link in enumerate(route):
                    start = max(start, free.get(link, 0))
                    overhead = 0 if hop else link.overhead
                    free[link] = start + overhead + link.hold(size)
                    start += overhead
                    end = max(end, free[link])
                last = max(last, end + network.latency(route))
        return last


def _laid_out(
    job: Job,
) -> tuple[list[tuple[Place, list[float]]], dict[float, dict[tuple[int, int], float]]]:
    """Where the servers are, with the bytes of every variable there, and what is made for them.

    The latter by the share of the backward pass after which it is ready, in bytes by (variable,
    server); variables are numbered among those that have a gradient.
    """
    workload = job.workload
    tensors = workload.tensor_sizes()
    sizes = [size for own in tensors for size in own]
    variables = [variable for variable, own in enumerate(tensors) for _ in own]
    shares, ratios = workload.sent_shares(), workload.gradient_ratios()
    placed = bytes_per_port([[size] for size in sizes], job.cluster)
    sent = [
        [size * shares[variable] for size in column]
        for variable, column in zip(variables, placed, strict=True)
    ]
    ports: list[tuple[Place, list[float]]] = []
    made: dict[float, dict[tuple[int, int], float]] = {}
    items = {variable: item for item, variable in enumerate(job.trained)}
    ready = workload.ready_after(sizes)
    for server, (place, column) in enumerate(server_places(job.network.routing, job.cluster, sent)):
        whole = [0.0] * len(tensors)
        for share, variable, size in zip(ready, variables, column, strict=True):
            whole[variable] += size
            if size and variable in items:
                group, key = made.setdefault(share, {}), (items[variable], server)
                group[key] = group.get(key, 0.0) + size * ratios[variable]
        ports.append((place, whole))
    return ports, made


class _ExchangeSending:
    """One gradient on its way; once nobody awaits it, nothing more is handed to the links."""

    def __init__(self, job: Job, gradient: Gradient, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self._job, self._clock = job, job.clock
        self._gradient = gradient
        self._connections: dict[Route, Outbox] = {}
        self._under_way = 0  # pieces
        self._begun = 0  # ns, when the first of these was handed over

    def hand_over(self, group: Sequence[Message]) -> None:
        """These are ready."""
        if not self.arrivals.awaited:
            return
        if not self._under_way:
            self._begun = self._clock.time
        self._under_way += len(group)
        network, in_order = self._job.network, self._job.cluster.network.sharing == "fair"
        for item, route, size in group:
            here = partial(self._here, item)
            if in_order:
                self._connections.setdefault(route, Outbox(network)).send(route, size, here)
            else:
                network.pass_on(route, size, nothing, here)

    def close(self) -> None:
        """The worker does not wait for it any more: it has arrived, or the worker has ended."""
        for connection in self._connections.values():
            connection.close()

    def _here(self, item: int) -> None:
        self._under_way -= 1
        if not self._under_way:
            gradient = self._gradient
            sent = (self._begun, self._clock.time, gradient.iteration)
            self._job.ledger.has_sent(Span(gradient.worker, _WRITE, *sent), gradient.computed)
        self.arrivals.part(item)


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
