"""Service queues of parameter servers: requests, and after them the gradients that are applied.

Nothing of this is there in a cluster without overheads and `server_update`.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapreplace
from itertools import repeat
from typing import NamedTuple

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.description.servers import Overheads, ServerUpdate
from varsim.cluster.primitives import TokenQueue
from varsim.cluster.record.trace import Phase, RunRecorder
from varsim.cluster.workers.worker import Worker
from varsim.core.distributions import Stream


class ServiceQueue:
    """FIFO queue of a server, which so many threads serve."""

    def __init__(self, threads: int = 1) -> None:
        self._free_at = [0] * threads  # a heap

    def handle(self, come: int, hold: int) -> int:
        """One that comes at `come` and takes `hold` ns: when it is done (ns)."""
        end = max(come, self._free_at[0]) + hold
        heapreplace(self._free_at, end)
        return end


class Updater:
    """Updates by one server, or by equal ones with equal times.

    `number` and `stream` are for the law of its times, as a worker's; `sizes`: bytes of each
    variable's gradient on it; none of a variable that it does not hold.
    """

    def __init__(
        self,
        described: ServerUpdate,
        number: int,
        sizes: Sequence[float],
        stream: Stream,
    ) -> None:
        self._queue = ServiceQueue(described.threads)
        self._threads = described.threads
        self._fixed = [described.fixed(size) for size in sizes]
        self._times = described.draws(number, stream)

    def handle(self, variable: int, come: int, alone: "Alone") -> int:
        """A gradient of a variable comes at `come`; when it is done (ns)."""
        drawn = 0.0 if self._times is None else next(self._times)
        hold = round((drawn + self._fixed[variable]) * 1e9)
        alone.add(self, self._threads, hold)
        return self._queue.handle(come, hold)


class Alone:
    """Service time of one gradient, if all its parts came at once, and no other."""

    def __init__(self) -> None:
        self._queues: dict[Updater, ServiceQueue] = {}
        self.end = 0  # ns

    def add(self, updater: Updater, threads: int, hold: int) -> None:
        """One part takes a server `hold` ns."""
        queue = self._queues.setdefault(updater, ServiceQueue(threads))
        self.end = max(self.end, queue.handle(0, hold))


_READ, _WRITE, _TOKEN = int(Phase.READ), int(Phase.WRITE), int(Phase.TOKEN)


class Request(NamedTuple):
    """A request: the queue that handles it, of one server or of equal ones, for how long (ns)."""

    queue: ServiceQueue
    hold: int


class Handling:
    """Handling of one gradient on the servers."""

    def __init__(self) -> None:
        self.end = 0  # when all that has come of it is handled (ns)
        self.alone = Alone()


class RequestQueues:
    """Request queues of all servers, and what each kind of request takes of which.

    `read` and `pushed`: for every queue the bytes of each variable, and of its gradient, on one of
    its servers; a server that holds nothing of a variable is not asked for it. The first queue has
    the tokens and the global_step. `updaters`: of every queue, what then applies gradients, when
    called with the number of a variable.
    """

    def __init__(
        self,
        clock: Clock,
        overheads: Overheads,
        read: Sequence[Sequence[float]],
        pushed: Sequence[Sequence[float]],
        updaters: Sequence[Updater] = (),
    ) -> None:
        self._clock = clock
        queues = [ServiceQueue() for _ in read]

        def request(queue: ServiceQueue, base: float, size: float) -> Request:
            return Request(queue, hold(overheads, base, size))

        self._reads = [
            request(queue, overheads.pull, sum(column))
            for queue, column in zip(queues, read, strict=True)
        ]
        self._pushes = [
            [
                request(queue, overheads.push, column[item])
                for queue, column in zip(queues, pushed, strict=True)
                if column[item]
            ]
            for item in range(len(pushed[0]))
        ]
        self._updaters = [
            [updater for updater, column in zip(updaters, pushed, strict=False) if column[item]]
            for item in range(len(pushed[0]))
        ]
        self._updates = self._applies_at_once = bool(updaters)
        self._answers = [request(queues[0], overheads.wake, 0.0)]
        self._commit = round(overheads.commit * 1e9)
        self._sending = max(
            sum(hold for requests in self._pushes for at, hold in requests if at is queue)
            for queue in queues
        )

    def handle_read(self, worker: Worker) -> Activity[None]:
        """Wait until all servers have handled a worker's request to read."""
        yield from self._wait(worker, _READ, self._handled(self._reads), _longest(self._reads))

    def take_in(self, variable: int, handling: Handling, then: Callable[[], None]) -> None:
        """A gradient of a variable is there: `then` is called once it is handled."""
        requests = self._pushes[variable]
        if self._applies_at_once:
            end = self._applied(variable, handling.alone, self._ends(requests))
        else:
            end = self._handled(requests)
        handling.end = max(handling.end, end)
        if end > self._clock.time:
            self._clock.call_at(end, then)
        else:
            then()

    def wait_for_push(self, worker: Worker, handling: Handling) -> Activity[None]:
        """Wait until a worker's gradients are handled."""
        alone = self._sending + handling.alone.end
        yield from self._wait(worker, _WRITE, handling.end, alone)

    def keep(self) -> None:
        """From now on gradients are kept as they come, and applied by `apply_kept` alone."""
        self._applies_at_once = False

    def apply_kept(self, variables: Sequence[int]) -> Activity[None]:
        """Wait until the servers have applied a gradient of these variables, beginning now."""
        end = now = self._clock.time
        for variable in variables if self._updates else ():
            end = max(end, self._applied(variable, Alone(), repeat(now)))
        yield from self._clock.sleep_until(end)

    def answer(self, worker: Worker, phase: int = _WRITE) -> Activity[None]:
        """A worker that may go on waits until it is told so."""
        yield from self._wait(worker, phase, self._handled(self._answers), _longest(self._answers))

    def commit(self) -> Activity[None]:
        """The update loop makes the new global_step known."""
        yield from self._clock.sleep_until(self._clock.time + self._commit)

    def _applied(self, variable: int, alone: Alone, come: Iterable[int]) -> int:
        """When the servers are done with a gradient, which comes to each at its time (ns)."""
        updaters = zip(self._updaters[variable], come, strict=False)
        return max([updater.handle(variable, at, alone) for updater, at in updaters])

    def _handled(self, requests: Sequence[Request]) -> int:
        return max(self._ends(requests))

    def _ends(self, requests: Sequence[Request]) -> list[int]:
        now = self._clock.time
        return [queue.handle(now, hold) for queue, hold in requests]

    def _wait(self, worker: Worker, phase: int, end: int, alone: int) -> Activity[None]:
        if end > self._clock.time:
            worker.transferred(phase, end, alone)
            yield end


def hold(overheads: Overheads, base: float, size: float) -> int:
    """How long (ns) a server is at a request that takes `base` (s) and has so many bytes copied."""
    return round((base + overheads.copying(size)) * 1e9)


def queue_columns(
    update: ServerUpdate | None, sizes: Sequence[Sequence[float]], ratios: Sequence[float]
) -> tuple[list[Sequence[float]], list[list[float]]]:
    """For every queue the bytes of each variable, and of its gradient, on one of its servers.

    `sizes`: for every variable the bytes on each server, and `ratios` the bytes of its gradient for
    each. Servers that hold the same bytes of every variable, and never differ, have one queue.
    """
    columns: list[Sequence[float]] = [column for column in zip(*sizes, strict=True) if any(column)]
    if update is None or not update.is_random:
        columns = list(dict.fromkeys(columns))
    pushed = [
        [size * ratio for size, ratio in zip(column, ratios, strict=True)] for column in columns
    ]
    return columns, pushed


class AnsweredTokenQueue(TokenQueue):
    """Token queue on a server: a worker has its token once the server has answered it."""

    def __init__(self, clock: Clock, recorder: RunRecorder, queues: RequestQueues) -> None:
        super().__init__(clock, recorder)
        self._queues = queues

    def dequeue(self, worker: Worker) -> Activity[int]:
        step = yield from super().dequeue(worker)
        yield from self._queues.answer(worker, _TOKEN)
        return step


def _longest(requests: Sequence[Request]) -> int:
    return max(hold for _, hold in requests)
