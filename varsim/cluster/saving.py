"""Checkpoints of the variables on parameter servers, written in a run by the chief."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from varsim.cluster.batch import MessageBatch
from varsim.cluster.clock import Activity
from varsim.cluster.recovery import Checkpoint
from varsim.cluster.trace import Phase
from varsim.cluster.transport import Network, nothing
from varsim.cluster.worker import Worker
from varsim.distribute.variable import DistributedVariable
from varsim.values.gradient import Array
from varsim.values.optimizer import State

_NS: Final = 1e9


class Saved(NamedTuple):
    """What a checkpoint holds: values and slots of all variables, of one moment (ns)."""

    values: Sequence[Array]
    states: Sequence[State]
    at: int


class Saver:
    """Checkpoints of a run: the chief reads all variables, and writes them to storage.

    It does so before it reads them for an iteration, once `every` has passed since the last one or
    since it began, and trains on when the checkpoint is written; nobody else waits. What it holds
    is of the moment at which it was asked for. The reading shares the links with all else.
    """

    def __init__(self, described: Checkpoint, rate: float) -> None:
        assert isinstance(described.every, float), "an optimal interval is not known in a run"
        self._described, self._rate = described, rate
        self._every = round(described.every * _NS)
        self._size = 0.0
        self._since = 0
        self.saved: Saved | None = None
        self.written: list[tuple[int, int]] = []  # from when to when each was (ns)

    @property
    def takes(self) -> int:
        """How long one is written to storage, once it has been read (ns)."""
        if self._described.storage is None:
            return round(self._described.lasts * _NS)
        return round(self._size / min(self._described.storage, self._rate) * _NS)

    @property
    def restores(self) -> int:
        """How long the chief takes to bring the latest one back to the servers (ns)."""
        if self.saved is None:
            return 0
        again = 0 if self._described.storage is None else self.takes
        return again + round(self._described.restore * _NS)

    @property
    def lost_since(self) -> int:
        """Updates after this moment (ns) are gone when a server is."""
        return 0 if self.saved is None else self.saved.at

    def serves(self, variables: Sequence[DistributedVariable], size: float, now: int) -> None:
        """These variables are to be saved, of so many bytes; they are as they were saved last."""
        self._size, self._since = size, now
        if self.saved is not None:
            kept = zip(variables, self.saved.values, self.saved.states, strict=True)
            for variable, value, state in kept:
                variable.write(0, value)
                variable.states[0] = state

    def save(
        self,
        worker: Worker,
        network: Network,
        batch: MessageBatch,
        variables: Sequence[DistributedVariable],
    ) -> Activity[None]:
        """Save the variables, if that is due; `batch`: all of them on their way to the chief."""
        yield from worker.catch_up()
        begun = network.clock.time
        if begun - self._since < self._every:
            return
        values = [variable.values[0] for variable in variables]
        states = [variable.states[0] for variable in variables]
        yield from network.fetch(worker, batch, nothing)
        yield from worker.catch_up()
        end = network.clock.time + self.takes
        worker.transferred(int(Phase.WRITE), end, self.takes)
        yield end
        self.saved = Saved(values, states, begun)
        self.written.append((begun, end))
        self._since = end
