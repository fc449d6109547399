"""All-reduces of gradients bucket by bucket, after the backward pass or while it runs."""

from collections.abc import Callable, Sequence
from functools import partial

from simpy.events import Event

from varsim.cluster.buckets import ReadyBucket
from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective, Member, Vector
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.job import Job
from varsim.cluster.pace import Slowed, shares_of_compute
from varsim.cluster.worker import Read, Worker
from varsim.values.gradient import Gradient


class BucketedReduction:
    """All-reduces of one step after the other, each of several buckets, one after the other.

    A worker begins with a bucket when it has it and is done with the one before; the bucket moves
    as its collective says. What is reduced stays reduced: one that dies between two buckets, and
    comes back, goes on where it was.
    """

    def __init__(self, job: Job, choice: Choice, buckets: Sequence[ReadyBucket]) -> None:
        self._number = len(buckets)
        self._collective = one_reduction(job, choice, buckets)
        self._reduced = [0] * len(job.workers)  # buckets of this step, by rank

    def renew(self, worker: Worker) -> None:
        """A worker has a gradient for its next step."""
        self._reduced[worker.rank] = 0

    def take_part(self, worker: Worker) -> Activity[None]:
        """Reduce what is left of this step; returns when this worker has all of it."""
        while self._reduced[worker.rank] < self._number:
            yield from self._collective.take_part(worker)
            self._reduced[worker.rank] += 1


class OverlappedReduction:
    """The same while the gradients are computed: each bucket is reduced once it is ready.

    On every worker a stream of its own takes part in the collectives, in the order of the buckets
    (wait-free back-propagation: Zhang et al., 2017, Poseidon; Li et al., 2020, PyTorch
    Distributed). The worker waits for it when it has computed, and only that is its time to wait
    or to write: what it does not see of communication is hidden behind computation.
    With the cluster's `overlap_pace`, buckets move at that share of their pace until all workers
    have computed: a ring goes at the pace of its slowest rank.
    """

    def __init__(self, job: Job, choice: Choice, buckets: Sequence[ReadyBucket]) -> None:
        self._job = job
        self._shares = shares_of_compute(job.cluster, [bucket.ready for bucket in buckets])
        self._streams = [_Stream(job, worker) for worker in job.workers]
        self._until = 0  # ns, when the last of those that compute will have computed
        share = job.cluster.overlap_pace
        slowed = None if share is None else partial(self._slowed, share)
        self._collective = one_reduction(job, choice, buckets, self._streams, slowed)

    def begin_gradient(self, worker: Worker, read: Read) -> Gradient:
        """A worker begins to compute a gradient, which is reduced as it goes."""
        gradient, moments = worker.begin_gradient(read, self._shares)
        stream = self._streams[worker.rank]
        stream.begins(Event(self._job.clock), gradient.computed)
        self._until = max(self._until, gradient.computed)
        self._job.spawn(self._reduce(stream, moments))
        return gradient

    def take_part(self, worker: Worker) -> Activity[None]:
        """Compute to the end, then wait until this worker has the whole mean."""
        yield from worker.catch_up()
        yield from self._streams[worker.rank].end()

    def _slowed(self, share: float) -> Slowed:
        return Slowed(self._until, share)

    def _reduce(self, stream: "_Stream", moments: Sequence[int]) -> Activity[None]:
        """All buckets of one gradient, which are ready at these moments (ns)."""
        for moment in moments:
            yield from self._job.clock.sleep_until(moment)
            yield from self._collective.take_part(stream)
        stream.done.succeed()


class _Stream:
    """A worker's part in collectives beside its computation; see `Member`.

    It is the worker that waits once this has computed; until then nobody sees it wait.
    """

    ready_at = 0

    def __init__(self, job: Job, worker: Worker) -> None:
        self.rank = worker.rank
        self._job = job
        self.waits_for: object = None
        self.done: Event
        self._worker = worker
        self._phase = 0
        self._seen = False
        self.computed = 0  # ns
        self._begun = 0  # to move a bucket, ns

    def begins(self, done: Event, computed: int) -> None:
        """The worker computes until `computed` (ns); `done` is to happen when all is reduced."""
        self.done = done
        self.computed = computed
        self._seen = False

    def end(self) -> Activity[None]:
        """The worker has computed and waits for the stream, if that is not done."""
        if self.done.callbacks is None:
            return
        self._seen = True
        if self.waits_for is not None:
            self._worker.waits(self._phase, self.waits_for)
        yield self.done

    def catch_up(self) -> Activity[None]:
        """It is never ahead of the clock."""
        yield from ()

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
        self._job.ledger.has_sent(self._begun, self._job.clock.time, self.computed)
        if self._seen:
            self._worker.goes_on()


def one_reduction(
    job: Job,
    choice: Choice,
    buckets: Sequence[ReadyBucket],
    members: Sequence[Member] | None = None,
    slowed: Callable[[], Slowed] | None = None,
) -> Collective:
    """What all meet in, once for every bucket of a step."""
    ranks = len(job.workers)
    vectors = [Vector(choice.schedule(ranks, size), size) for size, _ in buckets]
    schedule, size = vectors[0]
    number_bytes = job.workload.gradient_bytes
    return Collective(
        job,
        schedule,
        size,
        more=vectors[1:],
        members=members,
        number_bytes=number_bytes,
        slowed=slowed,
    )
