"""Copies that drift: averaged with those of neighbours, or tied to a centre by an elastic force."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from simpy.events import Event

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.copies.replicas import DriftingReplicas
from varsim.cluster.network.batch import Message, MessageBatch
from varsim.cluster.network.network import nothing
from varsim.cluster.primitives import Instant
from varsim.cluster.record.trace import Phase, Span
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.exchange import Outbox
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Array, Parameters
from varsim.learning.mixing import Shares

_BARRIER: Final = int(Phase.BARRIER)
_WRITE: Final = int(Phase.WRITE)


class _Sent:
    """What a worker has sent in a round: its copy, push-sum weight, updates by replica in it.

    `left`: how many, itself among them, have still to add it up.
    """

    def __init__(
        self, values: Parameters, weight: float, contained: NDArray[np.int64], left: int
    ) -> None:
        self.values, self.weight, self.contained, self.left = values, weight, contained, left


class _Sending:
    """What a worker sends beside its computation.

    Some of it has been on its way since `begun` (ns); by then its worker had waited for `waited`.
    """

    begun = waited = 0

    def __init__(self) -> None:
        self.under_way: dict[int, int] = {}  # messages, by round


class _NeighbouringReplicas(DriftingReplicas):
    """Local copies that take over from one another what each has come to."""

    def __init__(self, job: Job, *, counts_each: bool) -> None:
        super().__init__(job, counts_each=counts_each)
        # How many updates by each replica (column) something of is in each copy (row).
        number = len(job.workers)
        self.contained = np.zeros((number, number), dtype=np.int64)

    def missed(self, rank: int) -> int:
        """How many updates, made by others, a copy contains nothing of."""
        return self._made - int(np.add.reduce(self.contained[rank]))

    def _made_step(self, rank: int) -> None:
        self.contained[rank, rank] += 1
        super()._made_step(rank)


class MixedReplicas(_NeighbouringReplicas):
    """Every worker's own copy of the model, mixed with those of neighbours in rounds.

    In round k by the matrix `rounds[k mod their number]`. A worker sends its copy to everybody
    who has a weight for it, side by side on links that are shared fairly, else one message after
    the other, the next ranks first, and goes on; it waits only for those it has a weight for.
    Rounds of workers that are not neighbours may be far apart. Every copy comes with a weight, at
    first 1, which is mixed as well: a model is its copy divided by its weight (push-sum). Where
    rows of matrices add up to 1 that stays 1. From outside, the model is the mean of the copies: of
    all models in proportion to their weights.
    `overlap`: workers compute between `send_copy` and `mix`; what they send hides behind that.
    """

    def __init__(self, job: Job, rounds: Sequence[Shares], *, overlap: bool) -> None:
        super().__init__(job, counts_each=False)
        workers = len(job.workers)
        self._rounds = rounds
        self._size = job.workload.size()
        self._side_by_side = job.cluster.network.sharing == "fair"
        self._outboxes = [Outbox(job.network) for _ in job.workers]
        self._targets = [_targets(shares) for shares in rounds]
        self.weights = [1.0] * workers
        self._round = [0] * workers  # that each is in
        self._sent: dict[tuple[int, int], _Sent] = {}  # by round and rank
        self._come: dict[tuple[int, int], int] = {}  # messages there, by round and rank
        self._waiting: dict[int, Event] = {}
        self._since = [0] * workers  # when each began to wait (ns)
        self._waited = [0] * workers  # before (ns)
        self._sending = [_Sending() for _ in job.workers] if overlap else []

    def copy(self, rank: int) -> Parameters:
        values, weight = list(super().copy(rank)), self.weights[rank]
        for index in self._job.trained if weight != 1.0 else ():
            values[index] = values[index] / weight
        return tuple(values)

    def send_copy(self, worker: Worker) -> None:
        """Send the worker's copy to its neighbours of this round; takes it no time."""
        job, rank, number = self._job, worker.rank, self._round[worker.rank]
        targets = self._targets[number % len(self._rounds)][rank]
        takers = len(targets) + (rank in self._shares(rank))
        self._sent[number, rank] = _Sent(
            super().copy(rank), self.weights[rank], self.contained[rank].copy(), takers
        )
        if self._sending and targets:
            sending = self._sending[rank]
            if not sending.under_way:
                sending.begun, sending.waited = job.clock.time, self._waited[rank]
            sending.under_way[number] = len(targets)
        for target in targets:
            route = job.network.route(worker.place, job.workers[target].place)
            arrived = partial(self._arrive, rank, target, number)
            if self._side_by_side:
                job.network.pass_on(route, self._size, nothing, arrived)
            else:
                self._outboxes[rank].send(route, self._size, arrived)
            waits = target in self._waiting and self._round[target] == number
            if waits and not self._late(target):
                job.workers[target].turns_to(_WRITE)

    def mix(self, worker: Worker) -> Activity[None]:
        """Wait for the copies of the worker's neighbours of this round, and mix them."""
        rank, number = worker.rank, self._round[worker.rank]
        if self._missing(rank):
            self._waiting[rank] = Event(self._job.clock)
            self._since[rank] = self._job.clock.time
            worker.waits(_BARRIER if self._late(rank) else _WRITE, self)
            yield self._waiting[rank]
            del self._waiting[rank]
            self._waited[rank] += self._job.clock.time - self._since[rank]
            worker.goes_on()
        self._come.pop((number, rank), None)
        taken = [(part, self._take(number, one)) for one, part in self._shares(rank).items()]
        for index in self._job.trained:
            mixed = _mixed([(part, sent.values[index]) for part, sent in taken])
            self.variables[index].write(rank, mixed)
        self.weights[rank] = sum(part * sent.weight for part, sent in taken)
        self.contained[rank] = np.max([sent.contained for _, sent in taken], axis=0)
        self._round[rank] = number + 1

    def _shares(self, rank: int) -> Mapping[int, float]:
        """The parts that a worker takes of others' copies, and its own, in the round it is in."""
        return self._rounds[self._round[rank] % len(self._rounds)][rank]

    def _missing(self, rank: int) -> int:
        """How many messages a worker still has to get in the round it is in."""
        sources = self._shares(rank)
        return len(sources) - (rank in sources) - self._come.get((self._round[rank], rank), 0)

    def _arrive(self, source: int, rank: int, number: int) -> None:
        """A neighbour's copy is there."""
        if self._sending:
            self._has_sent(source, number)
        self._come[number, rank] = self._come.get((number, rank), 0) + 1
        if rank in self._waiting and self._round[rank] == number and not self._missing(rank):
            self._waiting[rank].succeed()

    def _has_sent(self, rank: int, number: int) -> None:
        """A message of a worker is there; with the last of a round, what was sent is recorded."""
        sending, now = self._sending[rank], self._job.clock.time
        sending.under_way[number] -= 1
        if not sending.under_way[number]:
            del sending.under_way[number]
            waiting = now - self._since[rank] if rank in self._waiting else 0
            waited = self._waited[rank] + waiting
            sent = Span(rank, _WRITE, sending.begun, now, number)
            self._job.ledger.has_sent(sent, now - (waited - sending.waited))
            sending.begun, sending.waited = now, waited

    def _take(self, number: int, rank: int) -> _Sent:
        sent = self._sent[number, rank]
        sent.left -= 1
        if not sent.left:
            del self._sent[number, rank]
        return sent

    def _late(self, rank: int) -> bool:
        """Whether some neighbour of a worker has not yet sent its copy of this round."""
        number = self._round[rank]
        return any((number, one) not in self._sent for one in self._shares(rank) if one != rank)

    def __str__(self) -> str:
        return "the models of its neighbours"


class _Meeting:
    """A worker's copy on its way to its partner."""

    arrived = -1  # ns

    def __init__(self, rank: int, partner: int) -> None:
        self.rank, self.partner = rank, partner


class PairedReplicas(_NeighbouringReplicas):
    """Every worker's own copy of the model, averaged with that of one partner at a time.

    At the moment at which a worker's copy is at its partner, both become their mean, of what the
    two hold then: nobody waits for a lock, and nothing is lost. Those who come at one moment go by
    rank. From outside, the model is the mean of the copies.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job, counts_each=True)
        self._order = Instant(job.clock, in_turn=True)
        self._changes = [0] * len(job.workers)  # of each copy, by others
        self._batches: dict[tuple[int, int], MessageBatch] = {}

    def version(self, rank: int) -> int:
        """How often a copy has been changed, by its own steps and by others."""
        return self.steps[rank] + self._changes[rank]

    def average(self, worker: Worker, partner: int) -> Activity[None]:
        """Send the worker's copy to its partner, where the two are averaged, and get the mean."""
        network, rank = self._job.network, worker.rank
        yield from self._order.wait(worker)
        there, back = self._batch(rank, partner), self._batch(partner, rank)
        yield from network.send(worker, there, _Meeting(rank, partner), self._meet)
        yield from network.fetch(worker, back, lambda: None)

    def settle(self) -> Activity[None]:
        """See DriftingReplicas; so are all who have come at this moment."""
        yield from super().settle()
        yield from self._order.wait_for_all()

    def _meet(self, _: int, meeting: _Meeting) -> None:
        one, other = meeting.rank, meeting.partner
        for variable in self.variables:
            mean = (variable.values[one] + variable.values[other]) / 2
            variable.write(one, mean)
            variable.write(other, mean)
        self.contained[[one, other]] = np.maximum(self.contained[one], self.contained[other])
        self._changes[other] += 1

    def _batch(self, source: int, target: int) -> MessageBatch:
        """The message with a copy from one worker to another."""
        if (source, target) not in self._batches:
            job = self._job
            route = job.network.route(job.workers[source].place, job.workers[target].place)
            batch = job.network.batch([Message(0, route, job.workload.size())])
            self._batches[source, target] = batch
        return self._batches[source, target]


def _targets(shares: Shares) -> list[list[int]]:
    """To whom each worker sends, the next ranks first; itself left out."""
    targets: list[list[int]] = [[] for _ in shares]
    for to, parts in enumerate(shares):
        for source in parts:
            if source != to:
                targets[source].append(to)
    for source, found in enumerate(targets):
        found.sort(key=lambda to: (to - source) % len(shares))
    return targets


def _mixed(parts: Sequence[tuple[float, Array]]) -> Array:
    """Arrays times their shares, added up in order."""
    (share, first), *others = parts
    total = share * first
    for share, value in others:
        total = total + share * value
    return total


class Difference:
    """Elastic difference of a worker's copy and the centre, on its way to the servers."""

    arrived = -1  # ns

    def __init__(self, rank: int, values: Parameters) -> None:
        self.rank = rank
        self.values = values  # by variable
        self.lost = False  # its worker has ended


class ElasticReplicas(DriftingReplicas):
    """Every worker's own copy of the model, and the centre, which is the model from outside.

    An exchange takes from the copy, and adds to the centre, `moving_rate` times what the copy and
    the centre that was read differ by.
    """

    def __init__(self, job: Job, moving_rate: float) -> None:
        super().__init__(job, counts_each=True)
        self._moving_rate = moving_rate
        self._server = ParameterServer(job, drops=False, whole=True)
        self._order = Instant(job.clock, in_turn=True)
        for worker in job.workers:
            worker.reads_ahead = False  # an exchange is part of the step that it comes after
        # Updates by each replica that are in its own copy, and that something of is in the centre.
        self._own = [0] * len(job.workers)
        self._in_centre = [0] * len(job.workers)
        self._all_in_centre = 0

    @property
    def centre(self) -> Parameters:
        """The centre variable as it is now."""
        return self._server.parameters

    def by_rank(self, worker: Worker) -> Activity[None]:
        """Of those who come at one moment, go on when those of lower ranks are through."""
        yield from self._order.wait(worker)

    def fetch(self, worker: Worker) -> Activity[Parameters]:
        """Read the centre."""
        if self._moving_rate:
            self._seen[worker.rank] = self._all_in_centre + self._not_in_centre(worker.rank)
        read = yield from self._server.fetch(worker)
        return read.parameters

    def draw(self, worker: Worker, centre: Parameters) -> Difference:
        """Draw a worker's copy toward the centre; by which difference."""
        rank = worker.rank
        values = tuple(
            [
                self._moving_rate * (own - middle)
                for own, middle in zip(self.copy(rank), centre, strict=True)
            ]
        )
        for variable, value in zip(self.variables, values, strict=True):
            variable.write(rank, variable.values[rank] - value)
        return Difference(rank, values)

    def push(self, worker: Worker, difference: Difference) -> Activity[None]:
        """Send a difference; every part is added to the centre as it arrives."""
        try:
            yield from self._server.push(worker, difference, self._receive)
        except Ended:
            difference.lost = True
            raise
        self._job.ledger.meet(worker.rank, self._job.clock.time)

    def _nobody_left(self) -> bool:
        """Never: the centre is the model."""
        return False

    def settle(self) -> Activity[None]:
        """See DriftingReplicas; so are all who have come at this moment."""
        yield from super().settle()
        yield from self._order.wait_for_all()

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again takes the centre for its copy; new slots."""
        read = yield from self._server.fetch(worker)
        self._begin_with(worker.rank, read.parameters, self._all_in_centre)
        self._own[worker.rank] = self._in_centre[worker.rank]

    def _receive(self, variable: int, difference: Difference) -> None:
        if not difference.lost:
            self._server.write(variable, self.centre[variable] + difference.values[variable])
            if self._moving_rate:
                self._all_in_centre += self._not_in_centre(difference.rank)
                self._in_centre[difference.rank] = self._own[difference.rank]

    def _not_in_centre(self, rank: int) -> int:
        """How many updates of a worker's own its copy has, and the centre has not."""
        return self._own[rank] - self._in_centre[rank]

    def _made_step(self, rank: int) -> None:
        self._own[rank] += 1
        super()._made_step(rank)
