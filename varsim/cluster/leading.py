"""Checkpoints of workers' copies of a model, written in a run by the one that leads the others."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.interruptions import Rules
from varsim.cluster.ledger import Balance, Ledger
from varsim.cluster.recovery import Checkpoint
from varsim.cluster.saving import Saved, Saver, ServerSaver
from varsim.cluster.worker import Worker
from varsim.distribute.variable import DistributedVariable
from varsim.values.gradient import Array, Parameters
from varsim.values.optimizer import State
from varsim.values.task import Batches


class Held(NamedTuple):
    """All that a worker has of a model, and counts: what another one takes from it.

    `counts`: first of all its steps. `shared`: what is the same for all, of an outer optimizer.
    """

    values: Sequence[Array]
    states: Sequence[State]
    counts: Sequence[int]
    rows: Sequence[NDArray[np.int64]] = ()
    shared: tuple[Parameters, Sequence[State]] = ((), ())


class Holdings(NamedTuple):
    """What workers hold, by rank: copies of variables, counts, and rows of numbers."""

    variables: Sequence[DistributedVariable]
    counts: list[list[int]]
    rows: list[NDArray[np.int64]]

    def of(self, rank: int) -> Held:
        """What one of them holds."""
        values = [variable.values[rank] for variable in self.variables]
        states = [variable.states[rank] for variable in self.variables]
        counts = [count[rank] for count in self.counts]
        return Held(values, states, counts, [row[rank].copy() for row in self.rows])

    def take(self, rank: int, held: Held) -> None:
        """One of them takes all that another one has, or had."""
        for variable, value, state in zip(self.variables, held.values, held.states, strict=True):
            variable.values[rank] = value
            variable.states[rank] = state
        for count, number in zip(self.counts, held.counts, strict=True):
            count[rank] = number
        for row, numbers in zip(self.rows, held.rows, strict=True):
            row[rank] = numbers


class Restorable(Protocol):
    """Copies of a model, all of which can be what one of them was."""

    @property
    def steps(self) -> Sequence[int]:
        """How many steps each has made, by rank."""

    def held(self, rank: int) -> Held:
        """All that a worker has."""

    def restore(self, held: Held) -> None:
        """All have what one of them had."""

    def count_up_to(self, steps: int) -> None:
        """So many steps count, whoever has still to make them."""


class Pass(NamedTuple):
    """A worker has met the others: after how many steps, when (ns), after how many batches."""

    steps: int
    time: int
    batches: int


class Led(NamedTuple):
    """What all have whose leader had something, after so many `batches` each, by rank."""

    held: Held
    batches: list[int]

    @property
    def steps(self) -> int:
        """How many have been made."""
        return self.held.counts[0]


class CopySaver(Saver[Led]):
    """Checkpoints of what a worker has right after it has met the others, written by the leader.

    That is the member of the lowest rank. It has all it writes; to storage it goes over its link,
    which it does not share then. What all were at is restored with it: of whoever had met the
    others then, or did later, what it did after that is not in it.
    """

    def __init__(
        self,
        described: Checkpoint,
        rate: float,
        ledger: Ledger,
        workers: Sequence[Worker],
        clock: Clock,
    ) -> None:
        super().__init__(described, rate, ledger)
        self._workers, self._clock = workers, clock
        self._copies: Restorable
        self._passed: dict[int, Pass] = {}  # the latest since all began, by rank
        self._latest: Saved[Led] | None = None  # since then

    def keeps(self, copies: Restorable, size: float) -> None:
        """Copies, of so many bytes, to save; they are as they were saved last."""
        self._copies, self._size = copies, size
        if self._saved is None:
            none = [0] * len(self._workers)
            self._start = self._saved = Saved(Led(copies.held(0), none), 0, none, Balance())
        else:
            self.restore()

    def restore(self) -> None:
        self._passed.clear()
        self._latest = None
        held, drawn = self._last.content
        self._copies.restore(held)
        for worker, batches in zip(self._workers, drawn, strict=True):
            worker.turn_back(batches)

    def passes(self, worker: Worker) -> None:
        """A worker has met the others, and has what all have."""
        rank = worker.rank
        steps, saved = self._copies.steps[rank], self._latest
        self._passed[rank] = Pass(steps, self._clock.time, worker.batches)
        if saved is not None and saved.content.steps == steps:
            saved.since[rank] = self._clock.time
            saved.content.batches[rank] = worker.batches
        self.count()

    def save(self, worker: Worker) -> Activity[None]:
        """A worker that leads saves what it has, if that is due."""
        yield from worker.catch_up()
        begun = self._clock.time
        if not self._due(begun):
            return
        held, passed = self._copies.held(worker.rank), []
        for other in self._workers:
            now = Pass(held.counts[0], begun, other.batches)
            latest = self._passed.get(other.rank, now)
            passed.append(latest if latest.steps == now.steps else now)
        content = Led(held, [one.batches for one in passed])
        self._latest = saved = Saved(content, worker.rank, [one.time for one in passed], None)
        self.count()
        yield from self._write(worker, self._clock, saved, begun)

    def count(self) -> None:
        """Once all steps that a checkpoint has count: what it is made of."""
        saved, now = self._latest, self._ledger.balance
        if saved is None or saved.balance is not None or now.kept < saved.content.steps:
            return
        steps = saved.content.steps
        ahead = sum(max(0, own - steps) for own in self._copies.steps)
        parts = now.parts - ahead * self._ledger.variables
        saved.balance = Balance(steps, parts, now.updates - (now.kept - steps), now.rows)

    def settle(self) -> None:
        if self._last.balance is None:
            self._copies.count_up_to(self._last.content.steps)
            self.count()

    def breaks_off(self, rank: int) -> None:
        super().breaks_off(rank)
        if rank == self._writer and self._latest is not self._saved:
            self._latest = None


def saver_of(
    rules: Rules,
    rate: float,
    ledger: Ledger,
    workers: Sequence[Worker],
    clock: Clock,
    batches: Callable[[int, int], Iterator[Batches]],
) -> Saver[Any] | None:
    """That of a run; none where no model on servers is ever lost, nor any saved.

    `rate`: of a worker's link. `batches`: of a worker, from that of some number on.
    """
    described = rules.checkpoint
    if not rules.copies:
        there = described or rules.failures.of_servers
        return ServerSaver(described, rate, ledger, workers) if there else None
    if described is None:
        return None
    for worker in workers:
        worker.repeat_batches(partial(batches, worker.rank))
    return CopySaver(described, rate, ledger, workers, clock)
