"""Update queues of parameter servers: threads that apply gradients, first come, first served."""

from collections.abc import Iterator, Sequence
from heapq import heapreplace
from itertools import chain

import numpy as np
from pydantic import Field, PositiveInt

from varsim.units import BytesPerSecond
from varsim.values.distribution import Constant
from varsim.values.distributions import AnyDistribution, Stream, check_alone, check_no_batch
from varsim.values.schema import Model


class ServerUpdate(Model):
    """Service time of one gradient of one variable on a server: of the part that it holds.

    `time`: a law, drawn anew for each, in the order in which they come to a server; `rate`: bytes
    of gradient per second, in addition. `threads`: how many gradients a server works on side by
    side; all others wait in one queue, first come, first served. A variable that lies on several
    servers is done when the last of them is. Reads do not wait for it.
    `none`: a gradient is applied at the end of that time, and its worker goes on then; with
    `use_locking` the lock is held for it. `sync_replicas`, `backup_workers`: it is added to what
    was gathered at the end of that time, whether it then counts or comes too late; the update with
    the mean takes no more than `overheads.commit`. `on_write` with `push_pull`: each part of a
    tensor is added to its sum at the end of that time.
    """

    time: AnyDistribution | None = None
    """Distribution of the time for a gradient of a variable."""
    rate: BytesPerSecond | None = Field(None, gt=0)
    """Bytes of a gradient that are applied per second."""
    threads: PositiveInt = Field(1, le=10_000)
    """Gradients that a server works on at the same time."""

    def refusals(self) -> Iterator[str]:
        if self.time is None and self.rate is None:
            yield "say how long an update takes: time, rate or both"
        if self.time is not None:
            check_no_batch(check_alone(self.time))

    @property
    def is_random(self) -> bool:
        """Whether equal servers may need different times."""
        return self.time is not None and not isinstance(self.time, Constant)

    def fixed(self, size: float) -> float:
        """Seconds that `size` bytes of a gradient take whatever is drawn."""
        return 0.0 if self.rate is None else size / self.rate

    def draws(self, number: int, stream: Stream) -> Iterator[float] | None:
        """Seconds that a server of this number takes in addition, one after the other."""
        if self.time is None:
            return None
        return chain.from_iterable(map(np.ndarray.tolist, self.time.blocks(number, stream)))

    def expectation(self, size: float) -> float:
        """Mean seconds for `size` bytes of a gradient."""
        drawn = 0.0 if self.time is None else self.time.expectation()
        return drawn + self.fixed(size)


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
