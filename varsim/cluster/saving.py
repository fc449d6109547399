"""Checkpoints of the variables on parameter servers, written in a run by the chief."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from varsim.cluster.batch import MessageBatch
from varsim.cluster.clock import Activity
from varsim.cluster.ledger import Balance, Ledger
from varsim.cluster.recovery import Checkpoint, RandomFailures
from varsim.cluster.rows import Rows
from varsim.cluster.trace import Phase
from varsim.cluster.transport import Network, nothing
from varsim.cluster.worker import Worker
from varsim.distribute.variable import DistributedVariable
from varsim.values.gradient import Array, Parameters
from varsim.values.optimizer import MovingAverages, State

_NS: Final = 1e9


class Saved(NamedTuple):
    """What a checkpoint holds: values, slots and averages of all variables, of one moment (ns)."""

    values: Sequence[Array]
    states: Sequence[State]
    averages: tuple[int, Parameters] | None  # as MovingAverages.state
    at: int
    balance: Balance


class Written(NamedTuple):
    """A complete checkpoint: the chief stopped for it from `begun` to `resumed` (ns).

    It was `complete` then, or later, if it was written beside the chief's work.
    """

    begun: int
    resumed: int
    complete: int


class Saver:
    """Checkpoints of a run: the chief reads all variables, and writes them to storage.

    It does so before it reads them for an iteration, once `every` has passed since the last one or
    since it began, and trains on when the checkpoint is written, or `snapshot` later if it writes
    beside its work; nobody else waits. What it holds is of the moment at which it was asked for.
    The reading shares the links with all else; the writing does not where the disk is that of the
    chief's host, which takes it along. Without a description none is ever written, and what there
    is to go back to is the start.
    """

    def __init__(self, described: Checkpoint | None, rate: float, ledger: Ledger) -> None:
        self._rate, self._ledger = rate, ledger
        self.saves = described is not None
        self._described = described or Checkpoint(every=1.0, write=0.0)
        assert self._described.every != "optimal", "a run needs to know when"
        self._every = round(self._described.every * _NS)
        self._beside = self._described.mode == "asynchronous"
        self._on_host = self._described.keep_on == "host"
        self._size = 0.0
        self._since = self._busy = 0
        self._session = 0  # which of the chief's it is
        self._under_way: tuple[int, int] | None = None  # stopped for a write that is not complete
        self._batch: MessageBatch
        self._variables: Sequence[DistributedVariable] = ()
        self._averages: MovingAverages | None = None
        self._start: Saved | None = None
        self._saved: Saved | None = None
        self.written: list[Written] = []
        self.thrown_away: list[tuple[int, int]] = []  # stops for writes that were never complete

    @classmethod
    def of(
        cls, described: Checkpoint | None, failures: RandomFailures, rate: float, ledger: Ledger
    ) -> "Saver | None":
        """That of a run; none where no model on servers is ever lost, or saved."""
        return cls(described, rate, ledger) if described or failures.of_servers else None

    @property
    def takes(self) -> int:
        """How long one is written to storage, once it has been read (ns)."""
        if self._described.storage is None:
            return round(self._described.lasts * _NS)
        rate = math.inf if self._on_host else self._rate
        return round(self._size / min(self._described.storage, rate) * _NS)

    @property
    def restores(self) -> int:
        """How long the chief takes to bring the latest one back to the servers (ns)."""
        if self._saved is self._start:
            return 0
        again = 0 if self._described.storage is None else self.takes
        return again + round(self._described.restore * _NS)

    @property
    def saved_at(self) -> int:
        """Updates after this moment (ns) are gone when a server is."""
        return self._last.at

    @property
    def balance(self) -> Balance:
        """What that is made of that was saved last, or of which there was a start."""
        return self._last.balance

    @property
    def _last(self) -> Saved:
        assert self._saved is not None, "nothing is served"
        return self._saved

    def cost(self, spans: Rows) -> tuple[list[tuple[int, int]], list[int]]:
        """Time of the chief that complete checkpoints cost, and when they were; of a run's spans.

        From each computation beside a write the end of it, as long as that had become by it (ns).
        """
        stops = [(one.begun, one.resumed) for one in self.written]
        slowdown = self._described.slowdown if self._beside else 0.0
        worker, phase, start, end, _ = map(spans.column, range(spans.columns))
        computing = (worker == 0) & (phase == Phase.COMPUTE)
        start, end = start[computing], end[computing]
        for one in self.written if slowdown else ():
            first, last = np.maximum(start, one.resumed), np.minimum(end, one.complete)
            longer = np.rint((last - first) * (slowdown / (1 + slowdown))).astype(np.int64)
            found = zip((last - longer).tolist(), last.tolist(), longer.tolist(), strict=True)
            stops += [(since, until) for since, until, by in found if by > 0]
        return stops, [one.complete for one in self.written]

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
        """All is as it was saved last, or at the start."""
        last = self._last
        for variable, value, state in zip(self._variables, last.values, last.states, strict=True):
            variable.write(0, value)
            variable.states[0] = state
        if self._averages is not None:
            self._averages.restore(last.averages or (0, tuple(last.values)))
        self._changed()

    def begins(self, now: int) -> None:
        """The chief's session begins."""
        self._since = now

    def breaks_off(self) -> None:
        """The chief has died: what it writes is never complete."""
        self._session += 1
        if self._under_way is not None:
            self.thrown_away.append(self._under_way)
            self._under_way = None
        self._busy = 0

    def host_goes(self) -> bool:
        """The chief's host goes to repair; whether what was saved goes with it."""
        gone = self._on_host and self._saved is not self._start
        if gone:
            self._saved = self._start
        return gone

    def save(self, worker: Worker, network: Network) -> Activity[None]:
        """Save the variables, if that is due."""
        yield from worker.catch_up()
        begun = network.clock.time
        if begun - self._since < self._every or begun < self._busy:
            return
        saved = self._now(begun)
        yield from network.fetch(worker, self._batch, nothing)
        yield from worker.catch_up()
        stops = round(self._described.snapshot * _NS) if self._beside else self.takes
        end = network.clock.time + stops
        worker.transferred(int(Phase.WRITE), end, stops)
        yield end
        self._since = end
        if not self._beside:
            self._complete(saved, end, end, self._session)
            return
        self._busy = end + self.takes
        self._under_way = begun, end
        worker.slows_down(end, self._busy, 1.0 + self._described.slowdown)
        then = partial(self._complete, saved, end, self._busy, self._session)
        network.clock.call_at(self._busy, then)

    def _complete(self, saved: Saved, resumed: int, now: int, session: int) -> None:
        if session == self._session:
            self._saved = saved
            self.written.append(Written(saved.at, resumed, now))
            if self._under_way == (saved.at, resumed):
                self._under_way = None

    def _now(self, time: int) -> Saved:
        """What there is to be saved now."""
        values = [variable.values[0] for variable in self._variables]
        states = [variable.states[0] for variable in self._variables]
        averages = None if self._averages is None else self._averages.state
        return Saved(values, states, averages, time, self._ledger.balance)
