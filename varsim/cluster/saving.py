"""Checkpoints that are written in a run: by the chief, of the variables on parameter servers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from varsim.cluster.batch import MessageBatch
from varsim.cluster.clock import Activity, Clock
from varsim.cluster.ledger import Balance, Ledger
from varsim.cluster.recovery import Checkpoint
from varsim.cluster.rows import Rows
from varsim.cluster.trace import Phase
from varsim.cluster.transport import Network, nothing
from varsim.cluster.worker import Worker
from varsim.distribute.variable import DistributedVariable
from varsim.values.gradient import Array, Parameters
from varsim.values.optimizer import MovingAverages, State

_NS: Final = 1e9

C = TypeVar("C")


@dataclass(eq=False)
class Saved(Generic[C]):
    """What a checkpoint holds, of one moment; and by which worker it is written.

    `since`: from when on (ns) what a worker does is not in it, by rank. `balance`: what that is
    made of.
    """

    content: C
    by: int
    since: list[int]
    balance: Balance


class Written(NamedTuple):
    """A complete checkpoint: a worker stopped for it from `begun` to `resumed` (ns).

    It was `complete` then, or later, if it was written beside the worker's work.
    """

    by: int
    begun: int
    resumed: int
    complete: int


class Saver(ABC, Generic[C]):
    """Checkpoints of a run: when one is due, who stops for it, when it is complete.

    One is due once `every` has passed since the last one, or since the job began. Who writes it
    trains on when it is written, or `snapshot` later if it writes beside its work; nobody else
    waits. Without a description none is ever written, and what there is to go back to is the start.
    """

    def __init__(self, described: Checkpoint | None, rate: float, ledger: Ledger) -> None:
        self._rate, self._ledger = rate, ledger
        self.saves = described is not None
        self._described = described or Checkpoint(every=1.0, write=0.0)
        assert self._described.every != "optimal", "a run needs to know when"
        self._every = round(self._described.every * _NS)
        self._beside = self._described.mode == "asynchronous"
        self._size = 0.0
        self._since = self._busy = 0
        self._writer = 0  # of the latest
        self._session = 0  # which of the writers' it is
        self._under_way: tuple[int, int] | None = None  # stopped for a write that is not complete
        self._start: Saved[C] | None = None
        self._saved: Saved[C] | None = None
        self.written: list[Written] = []
        self._thrown_away: list[tuple[int, tuple[int, int]]] = []  # stops in vain, by whom

    @abstractmethod
    def restore(self) -> None:
        """All is as it was saved last, or at the start."""

    @property
    def takes(self) -> int:
        """How long one is written to storage, once it has been read (ns)."""
        if self._described.storage is None:
            return round(self._described.lasts * _NS)
        return round(self._size / min(self._described.storage, self._rate) * _NS)

    @property
    def restores(self) -> int:
        """How long it takes to bring the latest one back (ns)."""
        if self._saved is self._start:
            return 0
        again = 0 if self._described.storage is None else self.takes
        return again + round(self._described.restore * _NS)

    @property
    def since(self) -> Sequence[int]:
        """From when on (ns) what workers do is gone when the model is, by rank."""
        return self._last.since

    @property
    def balance(self) -> Balance:
        """What that is made of that was saved last, or of which there was a start."""
        return self._last.balance

    @property
    def _last(self) -> Saved[C]:
        assert self._saved is not None, "there is no model"
        return self._saved

    def cost(self, spans: Rows, rank: int) -> tuple[list[tuple[int, int]], list[int]]:
        """Time of a worker that complete checkpoints cost, and when they were; of a run's spans.

        From each computation beside a write the end of it, as long as that had become by it (ns).
        """
        own = [one for one in self.written if one.by == rank]
        stops = [(one.begun, one.resumed) for one in own]
        slowdown = self._described.slowdown if self._beside else 0.0
        if own and slowdown:
            worker, phase, start, end, _ = map(spans.column, range(spans.columns))
            computing = (worker == rank) & (phase == Phase.COMPUTE)
            start, end = start[computing], end[computing]
        for one in own if slowdown else ():
            first, last = np.maximum(start, one.resumed), np.minimum(end, one.complete)
            longer = np.rint((last - first) * (slowdown / (1 + slowdown))).astype(np.int64)
            found = zip((last - longer).tolist(), last.tolist(), longer.tolist(), strict=True)
            stops += [(since, until) for since, until, by in found if by > 0]
        return stops, [one.complete for one in own]

    def thrown_away(self, rank: int) -> list[tuple[int, int]]:
        """When a worker stopped for writes that were never complete."""
        return [times for by, times in self._thrown_away if by == rank]

    def begins(self, now: int) -> None:
        """The model is there, at the start of a session."""
        self._since = now

    def breaks_off(self, rank: int) -> None:
        """A worker has died: what it writes is never complete."""
        if rank != self._writer:
            return
        self._session += 1
        if self._under_way is not None:
            self._thrown_away.append((rank, self._under_way))
            self._under_way = None
        self._busy = 0

    def _due(self, now: int) -> bool:
        return now - self._since >= self._every and now >= self._busy

    def _write(self, worker: Worker, clock: Clock, saved: Saved[C], begun: int) -> Activity[None]:
        """A worker, which has had all of it since it had `begun` (ns), writes it to storage."""
        self._writer = worker.rank
        stops = round(self._described.snapshot * _NS) if self._beside else self.takes
        end = clock.time + stops
        worker.transferred(int(Phase.WRITE), end, stops)
        yield end
        self._since = end
        stopped = begun, end
        if not self._beside:
            self._complete(saved, stopped, end, self._session)
            return
        self._busy = end + self.takes
        self._under_way = stopped
        worker.slows_down(end, self._busy, 1.0 + self._described.slowdown)
        then = partial(self._complete, saved, stopped, self._busy, self._session)
        clock.call_at(self._busy, then)

    def _complete(self, saved: Saved[C], stopped: tuple[int, int], now: int, session: int) -> None:
        if session == self._session:
            self._saved = saved
            self.written.append(Written(saved.by, *stopped, now))
            if self._under_way == stopped:
                self._under_way = None


class Served(NamedTuple):
    """Values, slots and averages of all variables on servers."""

    values: Sequence[Array]
    states: Sequence[State]
    averages: tuple[int, Parameters] | None  # as MovingAverages.state


class ServerSaver(Saver[Served]):
    """Checkpoints of what servers have: the chief reads all variables, and writes them to storage.

    It does so before it reads them for an iteration. What a checkpoint holds is of the moment at
    which it was asked for. The reading shares the links with all else; the writing does not.
    """

    def __init__(
        self, described: Checkpoint | None, rate: float, ledger: Ledger, workers: Sequence[Worker]
    ) -> None:
        super().__init__(described, rate, ledger)
        self._workers = len(workers)
        self._batch: MessageBatch
        self._variables: Sequence[DistributedVariable] = ()
        self._averages: MovingAverages | None = None

    def serves(
        self,
        variables: Sequence[DistributedVariable],
        averages: MovingAverages | None,
        batch: MessageBatch,
        size: float,
        changed: Callable[[], None],
    ) -> None:
        """Variables, and averages, of so many bytes to save; they are as they were saved last.

        `batch`: all of them on their way to the chief; `changed` is called when they are restored.
        """
        self._variables, self._batch, self._size = variables, batch, size
        self._averages, self._changed = averages, changed
        if self._saved is None:
            self._start = self._saved = self._now(0)
        self.restore()

    def restore(self) -> None:
        values, states, averages = self._last.content
        for variable, value, state in zip(self._variables, values, states, strict=True):
            variable.write(0, value)
            variable.states[0] = state
        if self._averages is not None:
            self._averages.restore(averages or (0, tuple(values)))
        self._changed()

    def save(self, worker: Worker, network: Network) -> Activity[None]:
        """Save the variables, if that is due."""
        yield from worker.catch_up()
        begun = network.clock.time
        if not self._due(begun):
            return
        saved = self._now(begun)
        yield from network.fetch(worker, self._batch, nothing)
        yield from worker.catch_up()
        yield from self._write(worker, network.clock, saved, begun)

    def _now(self, time: int) -> Saved[Served]:
        """What there is to be saved now."""
        values = [variable.values[0] for variable in self._variables]
        states = [variable.states[0] for variable in self._variables]
        averages = None if self._averages is None else self._averages.state
        content = Served(values, states, averages)
        return Saved(content, 0, [time] * self._workers, self._ledger.balance)
