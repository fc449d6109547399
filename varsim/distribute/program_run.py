"""Execution of a program on its variables under one synchronization, and the records it leaves."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from math import prod
from sys import maxsize
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from varsim.core.operation import CurrentTime, DeviceId, Movement, Operation, Parallel
from varsim.distribute.all_reduce import HierarchicalCopyAllReduce
from varsim.distribute.central import ParameterServerStrategy
from varsim.distribute.context import Context
from varsim.distribute.cross_device_ops import CrossDeviceOps, ReductionToOneDevice
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.program import (
    ACTIONS,
    Action,
    Actor,
    Program,
    ProgramVariable,
    VariableDescription,
)
from varsim.distribute.strategy import ReplicaStrategy
from varsim.distribute.tensor import Values

# In the place of a replica's number: whoever acts outside of the replicas.
CROSS_REPLICA: Final = -1

# Of more copies than these only the first are looked at.
MOST_COPIES: Final = 64
_SHOWN: Final = 8


class ValueSummary(NamedTuple):
    """Summary of a value: all elements of a small one, else the first three and the mean."""

    shape: tuple[int, ...]
    first: tuple[float, ...]  # those of integers are int
    mean: float  # of all elements, added as float64

    @classmethod
    def at(cls, value: Values) -> "ValueSummary":
        """Summary of an array."""
        with np.errstate(all="ignore"):
            mean = float(value.mean(dtype=np.float64))
        return cls(value.shape, tuple(value.ravel()[: _kept(value.shape)].tolist()), mean)

    @classmethod
    def filled(cls, shape: tuple[int, ...], number: float) -> "ValueSummary":
        """Summary of an array filled with one number."""
        return cls(shape, (number,) * _kept(shape), number)

    @property
    def whole(self) -> bool:
        """Whether all elements are there."""
        return len(self.first) == prod(self.shape)


def _kept(shape: tuple[int, ...]) -> int:
    size = prod(shape)
    return size if size <= _SHOWN else 3


class ActionRecord(NamedTuple):
    """Record of one action by one actor on one variable; times in ns."""

    step: int  # from 1
    part: str  # replicas or outside
    number: int  # of the action in its part, from 0
    kind: str
    variable: str  # empty for compute
    repetition: int  # from 0
    replica: int  # CROSS_REPLICA: none
    begin: int
    end: int
    handed: ValueSummary | None  # what it wrote with
    seen: ValueSummary | None  # what it read, saved or restored
    copies: tuple[ValueSummary, ...]  # the first MOST_COPIES of the variable, when it ended
    moved: tuple[int, ...] = ()  # the run's movements, counted from 0, that were made for it


class Spent(NamedTuple):
    """What an act took, of all acts there are; times in ns."""

    replica: int  # CROSS_REPLICA: none
    step: int  # from 1
    kind: int  # index in ACTIONS
    begin: int
    end: int
    movement: int  # the first that was made for it; -1: none


class VariableView(NamedTuple):
    """Final state of a variable as each actor last read it; None: never read."""

    variable: str
    replicas: tuple[ValueSummary | None, ...]  # what each read last
    outside: ValueSummary | None  # what it read or saved last
    copies: tuple[ValueSummary, ...]  # the first MOST_COPIES at the end


# Synchronization of variables without one of their own: mirrored copies under the first two, one
# copy on a parameter server under the last.
Mode: TypeAlias = Literal["on_write", "on_read", "none"]
Algorithm: TypeAlias = Literal["ring", "hierarchical_copy", "reduction_to_one_device"]

T = TypeVar("T")

_ALGORITHMS: dict[Algorithm, Callable[[], CrossDeviceOps]] = {
    "hierarchical_copy": HierarchicalCopyAllReduce,
    "reduction_to_one_device": ReductionToOneDevice,
}


class ProgramRun:
    """Execution of a program on replicas, each on the GPU of its own worker.

    `acts` is what happened, of `count` acts the first `most_acts`, and `spent` of all of them the
    fields of Spent; `current` the place of the action begun last: `replicas.0`; `began` is when the
    variables were there (ns), after `created` movements (known from then on).

    Under `none` the variables lie on the parameter servers in turn, and each worker goes on for
    itself, as ClusterCoordinator schedules it; the others are a MirroredStrategy over the GPUs.
    `generator(replica)` draws what a replica writes, or cross-replica context (CROSS_REPLICA).
    """

    def __init__(
        self,
        program: Program,
        variables: Sequence[VariableDescription],
        mode: Mode,
        replicas: int,
        servers: int,
        generator: Callable[[int], np.random.Generator],
        algorithm: Algorithm = "ring",
        most_acts: int | None = None,
    ) -> None:
        self.acts: list[ActionRecord] = []
        self.spent = array("q")
        self.count = 0
        self.current = ""
        self.began = 0
        self.created = maxsize
        self._most_acts = most_acts
        self._glances: dict[str, dict[int, tuple[Values, ValueSummary]]] = {}
        self._read: dict[tuple[str, int], ValueSummary] = {}
        self._movements = 0
        self._moved: list[int] = []  # by all replicas together, or by the outside
        self.devices = [DeviceId(task=rank, kind="gpu") for rank in range(replicas)]
        self.variables: dict[str, ProgramVariable] = {}
        self._program, self._mode, self._descriptions = program, mode, variables
        self._generators = {rank: generator(rank) for rank in (*range(replicas), CROSS_REPLICA)}
        self._strategy: ReplicaStrategy
        if mode == "none":
            self._strategy = ParameterServerStrategy(servers)
        else:
            chosen = _ALGORITHMS.get(algorithm)
            self._strategy = MirroredStrategy(self.devices, chosen() if chosen else None)

    def operation(self) -> Operation[int]:
        """The whole program, from the creation of its variables on; returns its end (ns)."""
        return self._noted(self._whole(), self._moved)

    def _whole(self) -> Operation[int]:
        strategy, scope = self._strategy, self._strategy.scope()
        for description in self._descriptions:
            value = description.filled(description.initial)
            variable = yield from strategy.create(scope, value, description.options(self._mode))
            self.variables[description.name] = ProgramVariable(description, variable)
        self.began = yield CurrentTime()
        self.created = self._movements
        outside = Actor(CROSS_REPLICA, scope, self._generators[CROSS_REPLICA], self._moved)
        for steps in self._program.blocks():
            yield from self._in_replicas(steps)
            yield from self._part(outside, "outside", self._program.outside, steps[-1:])
        end: int = yield CurrentTime()
        return end

    def views(self) -> list[VariableView]:
        """What is to be seen of every variable now."""
        return [
            VariableView(
                name,
                tuple(self._read.get((name, rank)) for rank in range(len(self.devices))),
                self._read.get((name, CROSS_REPLICA)),
                self._copies(name),
            )
            for name in self.variables
        ]

    def _in_replicas(self, steps: range) -> Operation[None]:
        """The replicas' part of these steps, until the last replica is done."""
        strategy = self._strategy
        if isinstance(strategy, ParameterServerStrategy):
            replicas = []
            for rank, context in enumerate(map(strategy.on_worker, self.devices)):
                moved: list[int] = []
                replicas.append(self._noted(self._replica(rank, context, steps, moved), moved))
            yield Parallel(tuple(replicas))
            return

        def function(context: Context) -> Operation[None]:
            # What a replica does not do alone, all do together.
            return self._replica(context.replica_id, context, steps, self._moved)

        yield from strategy.run(strategy.scope(), function)

    def _replica(
        self, rank: int, context: Context, steps: range, moved: list[int]
    ) -> Operation[None]:
        actor = Actor(rank, context, self._generators[rank], moved)
        return self._part(actor, "replicas", self._program.replicas, steps)

    def _noted(self, operation: Operation[T], moved: list[int]) -> Operation[T]:
        """The operation; the numbers of the movements it asks for are added to `moved`."""
        answer: object = None
        while True:
            try:
                request = operation.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(request, Movement):
                moved.append(self._movements)
                self._movements += 1
            answer = yield request

    def _part(
        self, actor: Actor, part: str, actions: Sequence[Action], steps: Iterable[int]
    ) -> Operation[None]:
        for step in steps:
            for number, action in enumerate(actions):
                if not action.happens_in(step):
                    continue
                for repetition in range(action.times):
                    for name in action.on(self.variables):
                        where = (step, part, number, action.kind, name, repetition)
                        yield from self._act(actor, action, name, where)

    def _act(
        self,
        actor: Actor,
        action: Action,
        name: str,
        where: tuple[int, str, int, str, str, int],
    ) -> Operation[None]:
        self.current = f"{where[1]}.{where[2]}"
        begin: int = yield CurrentTime()
        before = len(actor.moved)
        handed, seen = yield from action.perform(actor, self.variables, name)
        end: int = yield CurrentTime()
        saw = None if seen is None else ValueSummary.at(seen)
        if saw is not None and action.kind != "restore":
            self._read[name, actor.replica] = saw
        self.count += 1
        moved = tuple(actor.moved[before:])
        kind = ACTIONS.index(action.kind)
        self.spent.extend((actor.replica, where[0], kind, begin, end, moved[0] if moved else -1))
        if self._most_acts is None or self.count <= self._most_acts:
            gave = None if handed is None else ValueSummary.at(handed)
            copies = self._copies(name)
            act = ActionRecord(*where, actor.replica, begin, end, gave, saw, copies, moved)
            self.acts.append(act)

    def _copies(self, name: str) -> tuple[ValueSummary, ...]:
        """Summaries of the first copies of a variable; shared values are summarized once."""
        values = self.variables[name].variable.values[:MOST_COPIES] if name else []
        before = self._glances.get(name, {})
        now: dict[int, tuple[Values, ValueSummary]] = {}
        for value in values:
            key = id(value)
            now[key] = now.get(key) or before.get(key) or (value, ValueSummary.at(value))
        self._glances[name] = now
        return tuple(now[id(value)][1] for value in values)
