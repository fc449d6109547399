"""How servers handle requests where that takes time: one after the other, first come, first served.

Nothing of this is there in a cluster without overheads.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from varsim.cluster.clock import Activity, Clock, Pause
from varsim.cluster.overheads import Overheads
from varsim.cluster.waiting import TokenQueue
from varsim.cluster.worker import Worker
from varsim.trace import Phase

_READ, _WRITE, _TOKEN = int(Phase.READ), int(Phase.WRITE), int(Phase.TOKEN)


class Desk:
    """One server's attention (or that of equal servers, which always have equal queues)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free_at = 0

    def handle(self, hold: int) -> int:
        """Queue a request that takes `hold` ns; when it will have been handled (ns)."""
        self._free_at = max(self._free_at, self._clock.time) + hold
        return self._free_at


class Request(NamedTuple):
    """What is asked of one desk, and how long it takes (ns)."""

    desk: Desk
    hold: int


class Desks:
    """The desks of all servers, and what each request takes of which.

    `sizes`: for every desk the bytes of each variable on one of its servers; a server that holds
    nothing of a variable is not asked for it. The first desk has the tokens and the global_step.
    """

    def __init__(
        self, clock: Clock, overheads: Overheads, sizes: Sequence[Sequence[float]]
    ) -> None:
        self._clock = clock
        desks = [Desk(clock) for _ in sizes]

        def request(desk: Desk, base: float, size: float) -> Request:
            return Request(desk, round((base + overheads.copying(size)) * 1e9))

        pairs = list(zip(desks, sizes, strict=True))
        self._reads = [request(desk, overheads.pull, sum(column)) for desk, column in pairs]
        self._pushes = [
            [request(desk, overheads.push, column[item]) for desk, column in pairs if column[item]]
            for item in range(len(sizes[0]))
        ]
        self._answers = [request(desks[0], overheads.wake, 0.0)]
        self._commit = round(overheads.commit * 1e9)
        self._sending = max(
            sum(hold for requests in self._pushes for at, hold in requests if at is desk)
            for desk in desks
        )

    def handle_read(self, worker: Worker) -> Activity[None]:
        """Wait until all servers have handled a worker's request to read."""
        yield from worker.catch_up()
        yield from self._wait(worker, _READ, self._handled(self._reads), _longest(self._reads))

    def take_in(self, variable: int, then: Callable[[], None]) -> int:
        """A gradient of a variable is there: `then` is called once it is handled; when (ns)."""
        end = self._handled(self._pushes[variable])
        if end > self._clock.time:
            self._clock.call_at(end, then)
        else:
            then()
        return end

    def wait_for_push(self, worker: Worker, end: int) -> Activity[None]:
        """Wait until a worker's gradients are handled, which is at `end` (ns)."""
        yield from self._wait(worker, _WRITE, end, self._sending)

    def answer(self, worker: Worker, phase: int = _WRITE) -> Activity[None]:
        """A worker that may go on waits until it is told so."""
        yield from worker.catch_up()
        yield from self._wait(worker, phase, self._handled(self._answers), _longest(self._answers))

    def commit(self) -> Activity[None]:
        """The update loop makes the new global_step known."""
        yield from self._clock.sleep_until(self._clock.time + self._commit)

    def _handled(self, requests: Sequence[Request]) -> int:
        return max([desk.handle(hold) for desk, hold in requests])

    def _wait(self, worker: Worker, phase: int, end: int, alone: int) -> Activity[None]:
        if end > self._clock.time:
            worker.transferred(phase, end, alone)
            yield Pause(self._clock, end)


class AnsweredTokenQueue(TokenQueue):
    """A token queue on a server: a worker has its token once the server has answered it."""

    def __init__(self, clock: Clock, desks: Desks) -> None:
        super().__init__(clock)
        self._desks = desks

    def dequeue(self, worker: Worker) -> Activity[int]:
        """See TokenQueue."""
        step = yield from super().dequeue(worker)
        yield from self._desks.answer(worker, _TOKEN)
        return step


def _longest(requests: Sequence[Request]) -> int:
    return max(hold for _, hold in requests)
