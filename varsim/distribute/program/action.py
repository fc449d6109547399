"""What replicas and the outside can do in a step, by kind, with the names TensorFlow gives it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from pydantic import Field, PositiveInt

from varsim.distribute.checkpoint import restore, save
from varsim.distribute.component import Write
from varsim.distribute.context import Context
from varsim.distribute.program.given import Given, VariableDescription, drawn
from varsim.distribute.tensor import Tensor, Values
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import Computation, Operation
from varsim.values.schema import Model, one_of


class Described(NamedTuple):
    """A variable of a program, and what was said of it."""

    description: VariableDescription
    variable: DistributedVariable


Variables: TypeAlias = Mapping[str, Described]


class Seen(NamedTuple):
    """What an action wrote with, and what it saw; None where there is nothing."""

    handed: Values | None = None
    seen: Values | None = None


@dataclass(slots=True)
class Actor:
    """Who acts: a replica, or the outside; `saved` is the latest checkpoint.

    `moved`: the run's movements so far, by number, that the actor had a part in.
    """

    replica: int
    context: Context
    generator: np.random.Generator
    moved: list[int]
    saved: dict[str, Values] = field(default_factory=dict)

    def give(self, given: Given, description: VariableDescription) -> Tensor:
        """A tensor of the actor's own, on its device."""
        value = drawn(given, description, self.replica, self.generator)
        return Tensor(value, self.context.device)


class Action(Model, ABC):
    """One line of a program. `every`: in each step whose number it divides; `times`: so often."""

    kind: str
    times: PositiveInt = Field(1, le=100_000)
    every: PositiveInt = 1

    def happens_in(self, step: int) -> bool:
        """Does it happen in this step (from 1)?"""
        return step % self.every == 0

    def on(self, names: Mapping[str, object]) -> list[str]:
        """The variables it is about, of all there are; it is carried out on each in turn."""
        return [""]

    @abstractmethod
    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """Carry it out once, on one of the variables that `on` names."""


class OnVariable(Action, ABC):
    """An action on one variable."""

    variable: str

    def on(self, names: Mapping[str, object]) -> list[str]:
        """The one variable it names."""
        return [self.variable]


class Writing(OnVariable, ABC):
    """A write; `value` is a number, a list with one per replica, or {kind: normal, ...}."""

    value: Given

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """Hand over a tensor of this actor's own."""
        description, variable = there[name]
        given = actor.give(self.value, description)
        yield from variable.update(actor.context, cast("Write", self.kind), given)
        return Seen(handed=given.array)


class Assign(Writing):
    """tf.Variable.assign."""

    about: ClassVar[str] = "set the variable"

    kind: Literal["assign"] = "assign"


class AssignAdd(Writing):
    """tf.Variable.assign_add."""

    about: ClassVar[str] = "add to the variable"

    kind: Literal["assign_add"] = "assign_add"


class AssignSub(Writing):
    """tf.Variable.assign_sub."""

    about: ClassVar[str] = "subtract from the variable"

    kind: Literal["assign_sub"] = "assign_sub"


class MovingAverage(Writing):
    """x -= (x - value) (1 - momentum): how BatchNormalization keeps its moving statistics.

    (tf.python.training.moving_averages.assign_moving_average, without zero_debias.)
    """

    about: ClassVar[str] = "move the variable towards a value, as BatchNormalization does"

    kind: Literal["moving_average"] = "moving_average"
    momentum: float = Field(gt=0, lt=1)

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """Read as this actor sees it, then subtract a share of the difference."""
        description, variable = there[name]
        given = actor.give(self.value, description)
        old = yield from variable.read(actor.context)
        assert isinstance(old, Tensor)
        share = np.asarray(1.0 - self.momentum, description.dtype)
        with np.errstate(all="ignore"):
            difference = Tensor((old.array - given.array) * share, actor.context.device)
        yield from variable.update(actor.context, "assign_sub", difference)
        return Seen(handed=given.array)


class Read(OnVariable):
    """tf.Variable.read_value: the own copy in a replica; from outside the copies, aggregated."""

    about: ClassVar[str] = "read the variable"

    kind: Literal["read"] = "read"

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """Read as this actor sees it."""
        value = yield from there[name].variable.read(actor.context)
        assert isinstance(value, Tensor)
        return Seen(seen=value.array)


class Compute(Action):
    """One step of compute, as long as `cluster.compute` says."""

    about: ClassVar[str] = "compute for as long as cluster.compute says"

    kind: Literal["compute"] = "compute"

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """The actor's device is busy."""
        yield Computation(actor.context.device)
        return Seen()


class Save(Action):
    """tf.train.Checkpoint.save: every variable as it is read from outside, one value each."""

    about: ClassVar[str] = "write a checkpoint of all variables"

    kind: Literal["save"] = "save"

    def on(self, names: Mapping[str, object]) -> list[str]:
        """All variables, one after the other."""
        return list(names)

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """Read it, and keep what was read; writing the file takes no time."""
        saved = yield from save({name: there[name].variable}, actor.context)
        actor.saved |= saved
        return Seen(seen=saved[name])


class Restore(Action):
    """tf.train.Checkpoint.restore, from the latest checkpoint: a sum is shared out."""

    about: ClassVar[str] = "restore all variables from the latest checkpoint"

    kind: Literal["restore"] = "restore"

    def on(self, names: Mapping[str, object]) -> list[str]:
        """All variables, one after the other."""
        return list(names)

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[Seen]:
        """Send every copy its part; reading the file takes no time."""
        yield from restore(actor.saved, {name: there[name].variable})
        return Seen(seen=actor.saved[name])


REPLICA_ACTIONS: Final[dict[str, type[Action]]] = {
    "compute": Compute,
    "assign": Assign,
    "assign_add": AssignAdd,
    "assign_sub": AssignSub,
    "moving_average": MovingAverage,
    "read": Read,
}

OUTSIDE_ACTIONS: Final[dict[str, type[Action]]] = {
    "assign": Assign,
    "assign_add": AssignAdd,
    "assign_sub": AssignSub,
    "read": Read,
    "save": Save,
    "restore": Restore,
}

if TYPE_CHECKING:
    AnyReplicaAction: TypeAlias = Action
    AnyOutsideAction: TypeAlias = Action
else:
    AnyReplicaAction = one_of(REPLICA_ACTIONS)
    AnyOutsideAction = one_of(OUTSIDE_ACTIONS)
