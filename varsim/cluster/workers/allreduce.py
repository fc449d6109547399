"""All-reduces of gradients: bucket by bucket, after the backward pass or beside it."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from simpy.events import Event

from varsim.cluster.clock import END_OF_TIME, Activity, Killed, Process
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector
from varsim.cluster.collectives.group import Group
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.trace import Span
from varsim.cluster.workers.buckets import ReadyBucket
from varsim.cluster.workers.exchange import GradientExchange
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Slowed, Worker
from varsim.learning.gradient import Gradient
from varsim.learning.workload import Workload

# What taking part in a collective comes to.
T = TypeVar("T")


class AllReduce(GradientExchange[Sequence[Gradient]]):
    """All-reduces of one step after the other, each of one or several buckets, one by one.

    A worker begins with a bucket when it has it and is done with the one before; the bucket moves
    as its collective says. What is reduced stays reduced: one that dies between two buckets, and
    comes back, goes on where it was.
    With `overlap` each bucket is reduced once it is ready, while the gradients are computed (Li et
    al., 2020, PyTorch Distributed). On every worker a stream of its own takes part in the
    collectives, in the order of the buckets. The worker waits for it when it has computed, and only
    that is its time to wait or to write: what it does not see of communication is hidden behind
    computation. With the cluster's `overlap_pace`, buckets move at that share of their pace until
    all workers have computed: a ring goes at the pace of its slowest rank.
    """

    def __init__(
        self,
        job: Job,
        group: Group,
        choice: Choice,
        buckets: Sequence[ReadyBucket],
        *,
        overlap: bool,
    ) -> None:
        super().__init__(job, [bucket.ready for bucket in buckets] if overlap else ())
        share = job.cluster.overlap_pace
        self._streams = [Stream(job, worker) for worker in job.workers] if overlap else []
        # When the last of those that compute will have computed (ns), by step; each's own steps.
        self._until: list[int] = []
        self._steps = [0] * len(job.workers)
        self._number = len(buckets)
        # The commonest reduction takes a shorter way: nobody dies between it and the update.
        self._plain = self._number == 1 and not overlap and not job.cluster.optimizer_time
        self._latest: list[Sequence[Gradient] | None] = [None] * len(job.workers)
        self._reduced = [0] * len(job.workers)  # buckets of the latest gradient, by rank
        self._group = group
        group.meet_for(
            partial(vectors_of, choice, job.cluster, job.workload, buckets),
            self._streams,
            partial(self._slowed, share) if overlap and share is not None else None,
        )

    def finish(
        self, worker: Worker, gradient: Sequence[Gradient]
    ) -> Activity[Sequence[int] | None]:
        """Reduce all buckets; returns when this worker has the whole mean."""
        if self._plain:
            return self._group.meet(worker)
        if self._streams:
            return self._finish_stream(worker)
        return self._reduce_rest(worker, gradient)

    def _reduce_rest(
        self, worker: Worker, gradient: Sequence[Gradient]
    ) -> Activity[Sequence[int] | None]:
        """Reduce the buckets of a gradient that are not yet reduced."""
        rank, present = worker.rank, None
        if self._latest[rank] is not gradient:
            self._latest[rank], self._reduced[rank] = gradient, 0
        while self._reduced[rank] < self._number:
            present = yield from self._group.meet(worker)
            self._reduced[rank] += 1
        return present

    def _finish_stream(self, worker: Worker) -> Activity[None]:
        stream = self._streams[worker.rank]
        step = self._steps[worker.rank]
        self._steps[worker.rank] += 1
        if step == len(self._until):
            self._until.append(0)
        self._until[step] = max(self._until[step], worker.since)
        stream.begins(worker.since)
        self._job.spawn(self._reduce(stream, self._moments[worker.rank]))
        yield from worker.finish_computing()
        yield from stream.end()

    def _reduce(self, stream: "Stream", moments: Sequence[int]) -> Activity[None]:
        """All buckets of one gradient, which are ready at these moments (ns)."""
        for moment in moments:
            yield from self._clock.sleep_until(moment)
            yield from self._group.meet(stream)
        stream.done.succeed()

    def _slowed(self, share: float, reduction: int) -> Slowed:
        """The pace of the so many-th reduction, a bucket of a step."""
        step = reduction // self._number
        return Slowed(self._until[step] if step < len(self._until) else 0, share)


def vectors_of(
    choice: Choice,
    cluster: Cluster,
    workload: Workload,
    buckets: Sequence[ReadyBucket],
    ranks: Sequence[int],
) -> list[Vector]:
    """What these workers all-reduce for each bucket."""
    number_bytes = workload.gradient_bytes
    return [
        Vector(
            choice.schedule_on(cluster.network, ranks, size),
            size,
            number_bytes=number_bytes,
        )
        for size, _ in buckets
    ]


class BackgroundCollectives(Generic[T]):
    """Collectives that workers hand over, compute on, and come back for: one after the other.

    A stream per worker takes part in them, as a communicator does, in the order in which they are
    handed over; `take_part` has one take part in the next. Only what is left when a worker comes
    back is its time to wait, to read or to write. `done(rank, number)` is called as a worker has
    the result of one; they are counted from 1.
    """

    def __init__(
        self,
        job: Job,
        streams: Sequence["Stream"],
        take_part: Callable[["Stream"], Activity[T]],
        done: Callable[[int, int], None] = lambda rank, number: None,
    ) -> None:
        ranks = len(job.workers)
        self._job, self._streams, self._take_part = job, streams, take_part
        # When the vectors of those not yet begun are ready (ns).
        self._moments: list[deque[int]] = [deque() for _ in job.workers]
        self._busy: list[Process | None] = [None] * ranks
        self.done = [0] * ranks  # how many, by worker
        self._results: list[T | None] = [None] * ranks  # of the latest
        self._awaited: list[int | None] = [None] * ranks  # how many are to be done, who waits
        self._told = done
        job.processes.on_deaths(self._died)

    def begin(self, worker: Worker, moments: Sequence[int] = (0,)) -> None:
        """Hand over the next ones; takes the worker no time.

        `moments`: when its part of each is ready (ns); by default it is, of one.
        """
        rank = worker.rank
        self._moments[rank] += moments
        if self._busy[rank] is None:
            self._busy[rank] = self._job.clock.process(self._carry_out(self._streams[rank]))

    def finish(self, worker: Worker, number: int) -> Activity[T | None]:
        """Wait until so many are done; what taking part in the latest of all has come to."""
        rank, stream = worker.rank, self._streams[worker.rank]
        if self.done[rank] < number:
            self._awaited[rank] = number
            stream.begins(self._job.clock.time)
            yield from stream.end()
            self._awaited[rank] = None
            stream.begins(END_OF_TIME)
        return self._results[rank]

    def _carry_out(self, stream: "Stream") -> Activity[None]:
        rank = stream.rank
        while self._moments[rank]:
            yield from self._job.clock.sleep_until(self._moments[rank].popleft())
            self._results[rank] = yield from self._take_part(stream)
            self.done[rank] += 1
            self._told(rank, self.done[rank])
            if self.done[rank] == self._awaited[rank]:
                stream.done.succeed()
        self._busy[rank] = None

    def _died(self, ranks: Sequence[int]) -> None:
        """Workers' streams die with them."""
        for rank in ranks:
            process, self._busy[rank] = self._busy[rank], None
            self._streams[rank].ends()
            if process is not None:
                self._job.clock.end(process, Killed())
            self._moments[rank].clear()
            self._awaited[rank] = None


class Stream:
    """A worker's part in collectives beside its computation; see `Member`.

    It is the worker that waits once this has computed; until then nobody sees it wait.
    """

    def __init__(self, job: Job, worker: Worker) -> None:
        self.rank = worker.rank
        self._job = job
        self.waits_for: object = None
        self.done: Event
        self._worker = worker
        self._phase = 0
        self._seen = False
        self.computed = END_OF_TIME  # ns
        self._begun = 0  # to move a bucket, ns

    def begins(self, computed: int) -> None:
        """The worker computes until `computed` (ns); `done` is to happen when all is reduced."""
        self.done = Event(self._job.clock)
        self.computed = computed
        self._seen = False

    def ends(self) -> None:
        """The worker has died: nobody sees it wait."""
        self._seen, self.waits_for = False, None

    def end(self) -> Activity[None]:
        """The worker has computed and waits for the stream, if that is not done."""
        if self.done.callbacks is None:
            return
        self._seen = True
        if self.waits_for is not None:
            self._worker.waits(self._phase, self.waits_for)
        yield self.done

    def waits(self, phase: int, what: object) -> None:
        """See Worker."""
        self._phase, self.waits_for = phase, what
        if self._seen:
            self._worker.waits(phase, what)

    def turns_to(self, phase: int) -> None:
        """See Worker; all are there, and a bucket moves."""
        self._phase = phase
        self._begun = self._job.clock.time
        if self._seen:
            self._worker.turns_to(phase)

    def goes_on(self) -> None:
        """See Worker; a bucket has moved."""
        self.waits_for = None
        sent = (self._phase, self._begun, self._job.clock.time, self._worker.iteration)
        self._job.ledger.has_sent(Span(self.rank, *sent), self.computed)
        if self._seen:
            self._worker.goes_on()
