"""A broadcast of worker 0 to all others.

What messages and copies cost besides (`overheads`) comes at the end of it.
"""

from simpy.events import Event

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.description.overheads import broadcast_overhead
from varsim.cluster.network.batch import Message
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker


class Broadcast:
    """Broadcast of `size` bytes from worker 0 to every other, each over its own route."""

    def __init__(self, job: Job, size: float) -> None:
        self._job = job
        first, *others = job.workers
        routes = [job.network.route(first.place, other.place) for other in others]
        messages = [Message(item, route, size) for item, route in enumerate(routes)]
        self._batch = job.network.batch(messages) if others else None
        self._arrivals = [Event(job.clock) for _ in others]
        self._copy: _Copy | None = None  # that is being sent
        self._sent = 0  # broadcasts sent to the last
        self._received = [0] * len(others)  # the latest that has arrived
        self._taken = [0] * len(others)  # the latest that somebody has gone on with
        self._overhead = 0  # ns
        if job.cluster.overheads is not None:
            seconds = broadcast_overhead(job.cluster.overheads, len(job.workers), size)
            self._overhead = round(seconds * 1e9)

    def take_part(self, worker: Worker) -> Activity[None]:
        """Send (worker 0) or receive (the others); returns when this worker's part is done."""
        if self._batch is None:
            return
        clock = self._job.clock
        if worker.rank == 0:
            self._copy = _Copy(self._sent + 1)
            try:
                yield from self._job.network.send(worker, self._batch, self._copy, self._arrived)
            except Ended:
                self._copy = None  # what is under way is lost; who comes back sends it again
                raise
            self._sent += 1
            if self._overhead:
                end = clock.time + self._overhead
                worker.transferred(Phase.WRITE, end, self._overhead)
                yield end
            return
        yield from worker.catch_up()
        item = worker.rank - 1
        worker.waits(Phase.READ, self)
        if self._received[item] == self._taken[item]:
            yield self._arrivals[item]
        if self._overhead:
            yield clock.time + self._overhead
        self._taken[item] += 1
        worker.goes_on()

    def _arrived(self, item: int, copy: "_Copy") -> None:
        if copy is not self._copy or self._received[item] == copy.number:
            return
        self._received[item] = copy.number
        event, self._arrivals[item] = self._arrivals[item], Event(self._job.clock)
        event.succeed()

    def __str__(self) -> str:
        return "a broadcast from worker 0"


class _Copy:
    """A copy of the model on its way, of the broadcast of this number."""

    arrived = -1

    def __init__(self, number: int) -> None:
        self.number = number
