"""Checkpoints that are written in a run: by the chief, of the variables on parameter servers."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.description.recovery import Checkpoint
from varsim.cluster.network.batch import Message
from varsim.cluster.network.network import nothing
from varsim.cluster.record.ledger import Balance
from varsim.cluster.record.memory import full_slots
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import Phase
from varsim.cluster.servers.placement import bytes_per_port, server_places
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Array, Parameters
from varsim.learning.optimizer import State

_NS: Final = 1e9

# From when to when (ns).
Times: TypeAlias = tuple[int, int]


class Served(NamedTuple):
    """Values, slots and averages of all variables on servers."""

    values: Sequence[Array]
    states: Sequence[State]
    averages: tuple[int, Parameters] | None  # as MovingAverages.state


class SavedModel(NamedTuple):
    """What a checkpoint holds, of one moment.

    `since`: from when on (ns) what a worker does is not in it, by rank. `balance`: what that is
    made of.
    """

    content: Served
    since: list[int]
    balance: Balance


class Written(NamedTuple):
    """A complete checkpoint: the chief stopped for it from `begun` to `resumed` (ns).

    It was `complete` then, or later, if it was written beside the chief's work.
    """

    begun: int
    resumed: int
    complete: int


class Saver:
    """Checkpoints of what servers have: the chief reads all variables, and writes them to storage.

    One is due once `every` has passed since the last one, or since the job began; the chief makes
    it before it reads the variables for an iteration, and trains on when it is written, or
    `snapshot` later if it writes beside its work; nobody else waits. What a checkpoint holds is of
    the moment at which it was asked for. The reading shares the links with all else; the writing
    does not. Without a description none is ever written, and what there is to go back to is the
    start. Attaches itself to every server that is made in the job.
    """

    def __init__(self, job: Job, described: Checkpoint | None) -> None:
        self._job, self._ledger, self._workers = job, job.ledger, len(job.workers)
        self._rate = job.cluster.network.worker_rate
        self._saves = described is not None
        job.on_server.append(self._serve)
        self._described = described or Checkpoint(every=1.0, write=0.0)
        assert self._described.every != "optimal", "a run needs to know when"
        self._every = round(self._described.every * _NS)
        self._beside = self._described.mode == "asynchronous"
        self._since = self._busy = 0
        self._session = 0  # which of the chief's it is
        self._under_way: Times | None = None  # stopped for a write that is not complete
        self._start: SavedModel | None = None
        self._saved: SavedModel | None = None
        self.written: list[Written] = []
        self.thrown_away: list[Times] = []  # when the chief stopped in vain

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
    def last(self) -> SavedModel:
        """What was saved last, or was there at the start."""
        assert self._saved is not None, "there is no model"
        return self._saved

    def cost(self, spans: Rows) -> tuple[list[Times], list[int]]:
        """Time of the chief that complete checkpoints cost, and when they were; of a run's spans.

        From each computation beside a write the end of it, as long as that had become by it (ns).
        """
        own = self.written
        stops = [(one.begun, one.resumed) for one in own]
        slowdown = self._described.slowdown if self._beside else 0.0
        if own and slowdown:
            worker, phase, start, end, _ = map(spans.column, range(spans.columns))
            computing = (worker == 0) & (phase == Phase.COMPUTE)
            start, end = start[computing], end[computing]
        for one in own if slowdown else ():
            first, last = np.maximum(start, one.resumed), np.minimum(end, one.complete)
            longer = np.rint((last - first) * (slowdown / (1 + slowdown))).astype(np.int64)
            found = zip((last - longer).tolist(), last.tolist(), longer.tolist(), strict=True)
            stops += [(since, until) for since, until, by in found if by > 0]
        return stops, [one.complete for one in own]

    def begins(self, now: int) -> None:
        """The model is there, at the start of a session."""
        self._since = now

    def breaks_off(self) -> None:
        """The chief has died: what it writes is never complete."""
        self._session += 1
        if self._under_way is not None:
            self.thrown_away.append(self._under_way)
            self._under_way = None
        self._busy = 0

    def _serve(self, server: object) -> None:
        """The variables of a server, and their averages, are saved; they are as saved last."""
        assert isinstance(server, ParameterServer)
        first, network, cluster = server.variables[0], self._job.network, self._job.cluster
        each = 1 + full_slots(first.states[0], first.values[0]) + (server.averages is not None)
        placed = bytes_per_port(self._job.workload.tensor_sizes(), cluster)
        held = server_places(network.routing, cluster, placed)
        chief = self._job.workers[0].place
        self._batch = network.batch(
            [Message(0, network.route(at, chief), each * sum(sizes)) for at, sizes in held]
        )
        self._size = each * sum(map(sum, placed))
        self._server = server
        if self._saved is None:
            self._start = self._saved = self._now(0)
        self.restore()
        if self._saves:
            server.before_reads(self._save)

    def restore(self) -> None:
        """All is as it was saved last, or at the start."""
        values, states, averages = self.last.content
        for variable, value, state in zip(self._server.variables, values, states, strict=True):
            variable.write(0, value)
            variable.states[0] = state
        if self._server.averages is not None:
            self._server.averages.restore(averages or (0, tuple(values)))
        self._server.changed()

    def _save(self, worker: Worker) -> Activity[None]:
        """The chief saves the variables, if that is due, before it reads them."""
        if worker.rank != 0:
            return
        network, clock = self._job.network, self._job.clock
        begun = clock.time
        if begun - self._since < self._every or begun < self._busy:
            return
        saved = self._now(begun)
        yield from network.fetch(worker, self._batch, nothing)
        yield from self._write(worker, clock, saved, begun)

    def _write(self, worker: Worker, clock: Clock, saved: SavedModel, begun: int) -> Activity[None]:
        """The chief, which has had all of it since it had `begun` (ns), writes it to storage."""
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

    def _complete(self, saved: SavedModel, stopped: Times, now: int, session: int) -> None:
        if session == self._session:
            self._saved = saved
            self.written.append(Written(*stopped, now))
            if self._under_way == stopped:
                self._under_way = None

    def _now(self, time: int) -> SavedModel:
        """What there is to be saved now."""
        values = [variable.values[0] for variable in self._server.variables]
        states = [variable.states[0] for variable in self._server.variables]
        averages = None if self._server.averages is None else self._server.averages.state
        content = Served(values, states, averages)
        return SavedModel(content, [time] * self._workers, self._ledger.balance)
