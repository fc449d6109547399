"""Programs on distributed variables: variables, actions by `kind`, steps.

A new action takes three places: here a frozen class, with what it does (`perform`, a generator; a
write derives from `Writing`), and a line in REPLICA_ACTIONS, CROSS_REPLICA_ACTIONS, or both; what
`explain` says of it (`report/products/story.py`, `story_rows.py`); messages: `study/program.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    cast,
)

import numpy as np
from pydantic import Field, PositiveInt, StringConstraints, model_validator

from varsim.core.operation import Computation, Operation
from varsim.core.schema import Model, one_of
from varsim.distribute.attributes import Aggregation, Synchronization
from varsim.distribute.container import Write
from varsim.distribute.context import Context
from varsim.distribute.tensor import Tensor, Values
from varsim.distribute.variable import DistributedVariable, VariableOptions, restore, save

_MOST_ELEMENTS = 10_000_000
_EXACT = 2**53  # beyond it a number in a file is not what it says


class VariableDescription(Model):
    """Distributed variable of a program; every element starts as `initial`.

    With `synchronization` it is the same under every mode that is compared; without, it takes the
    mode's.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")]
    """Its name."""
    shape: tuple[PositiveInt, ...] = Field((), max_length=8)
    """Its shape; by default one number."""
    dtype: Literal["float32", "float64", "int32", "int64"] = "float32"
    """What its elements are kept in."""
    initial: float = 0.0
    """Value of every element at the start."""
    synchronization: Literal["on_write", "on_read"] | None = None
    """The same in every mode: `on_write` or `on_read`."""
    aggregation: Literal["none", "sum", "mean", "only_first_replica"] = "none"
    """What becomes of the values of several replicas."""

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        if np.prod(self.shape, dtype=float) > _MOST_ELEMENTS:
            raise ValueError(f"shape: at most {_MOST_ELEMENTS:,} elements can be simulated")
        check_fits(self.initial, self, "initial")
        return self

    @property
    def whole_numbers(self) -> bool:
        """Whether its dtype holds whole numbers only."""
        return np.dtype(self.dtype).kind == "i"

    @property
    def filled_size(self) -> int:
        """Bytes of one value of it."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def filled(self, number: float) -> Values:
        """A value of this shape and dtype, every element the same."""
        return np.full(self.shape, number, self.dtype)

    def options(self, mode: str) -> VariableOptions:
        """Options of its creation; `mode` is the synchronization where none is given."""
        return VariableOptions(
            Synchronization[(self.synchronization or mode).upper()],
            Aggregation[self.aggregation.upper()],
            name=self.name,
        )


class NormalElements(Model):
    """Elements drawn from a normal distribution, new ones for each write and each replica."""

    kind: Literal["normal"] = "normal"
    mean: float = 0.0
    """Mean of an element."""
    standard_deviation: float = Field(gt=0)
    """Standard deviation of an element."""


# A number; one number for each replica; or numbers that are drawn.
WrittenValue = float | tuple[float, ...] | NormalElements


def check_written(given: WrittenValue, variable: VariableDescription, replicas: int | None) -> None:
    """Raise ValueError for a value that cannot be written; `replicas` None: cross-replica."""
    if isinstance(given, NormalElements):
        if variable.whole_numbers:
            raise ValueError(f"drawn numbers are not whole: {variable.name} is {variable.dtype}")
        check_fits(given.mean, variable, "mean")
        check_fits(given.standard_deviation, variable, "standard_deviation")
        return
    if isinstance(given, tuple):
        if replicas is None:
            raise ValueError("from outside a variable is given one number, not one per replica")
        if len(given) != replicas:
            there = f"there are {replicas} replicas: give {replicas} numbers, or one"
            raise ValueError(there if replicas > 1 else "there is 1 replica: give one number")
    for number in given if isinstance(given, tuple) else (given,):
        check_fits(number, variable, "value")


def check_fits(number: float, variable: VariableDescription, what: str) -> None:
    """ValueError for a number that the variable's dtype cannot hold."""
    if not variable.whole_numbers:
        if abs(number) > float(np.finfo(variable.dtype).max):
            raise ValueError(f"{what} {number:g} is too large for {variable.dtype}")
        return
    if number != int(number):
        raise ValueError(
            f"{what} {number:g} is not a whole number: {variable.name} is {variable.dtype}"
        )
    if abs(number) >= _EXACT:
        raise ValueError(f"{what} {number:g} is too large to be given to the last digit")
    limits = np.iinfo(variable.dtype)
    if not limits.min <= int(number) <= limits.max:
        raise ValueError(f"{what} {number:g} is too large for {variable.dtype}")


def draw_value(
    given: WrittenValue, variable: VariableDescription, replica: int, generator: np.random.Generator
) -> Values:
    """Value that an actor writes, of the variable's shape and dtype."""
    if isinstance(given, NormalElements):
        numbers = generator.normal(given.mean, given.standard_deviation, variable.shape)
        with np.errstate(over="ignore"):
            return np.asarray(numbers, variable.dtype)
    return variable.filled(given[replica] if isinstance(given, tuple) else given)


class ProgramVariable(NamedTuple):
    """Variable of a running program, with its description."""

    description: VariableDescription
    variable: DistributedVariable


Variables: TypeAlias = Mapping[str, ProgramVariable]


class ActionResult(NamedTuple):
    """Value an action wrote and value it read; None where there is none."""

    handed: Values | None = None
    seen: Values | None = None


@dataclass(slots=True)
class Actor:
    """Replica or cross-replica context that performs actions; `saved`: the latest checkpoint.

    `moved`: numbers of the run's movements so far that it took part in.
    """

    replica: int
    context: Context
    generator: np.random.Generator
    moved: list[int]
    saved: dict[str, Values] = field(default_factory=dict)

    def give(self, given: WrittenValue, description: VariableDescription) -> Tensor:
        """A tensor of the actor's own, on its device."""
        value = draw_value(given, description, self.replica, self.generator)
        return Tensor(value, self.context.device)


class Action(Model, ABC):
    """Action of a program, done `times` times in each step whose number `every` divides."""

    kind: str
    times: PositiveInt = Field(1, le=100_000)
    """How often in a row."""
    every: PositiveInt = 1
    """Only in steps whose number this divides."""

    def happens_in(self, step: int) -> bool:
        """Does it happen in this step (from 1)?"""
        return step % self.every == 0

    def on(self, names: Mapping[str, object]) -> list[str]:
        """The variables it is about, of all there are; it is carried out on each in turn."""
        return [""]

    @abstractmethod
    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        """Carry it out once, on one of the variables that `on` names."""


class OnVariable(Action, ABC):
    """An action on one variable."""

    variable: str
    """Name of the variable."""

    def on(self, names: Mapping[str, object]) -> list[str]:
        return [self.variable]


class Writing(OnVariable, ABC):
    """A write; `value` is a number, a list with one per replica, or {kind: normal, ...}."""

    value: WrittenValue
    """What is written: a number, a list with one for each replica, or `{kind: normal, ...}`."""

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        description, variable = there[name]
        given = actor.give(self.value, description)
        yield from variable.update(actor.context, cast("Write", self.kind), given)
        return ActionResult(handed=given.array)


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
    """How much of the average is kept."""

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        description, variable = there[name]
        given = actor.give(self.value, description)
        old = yield from variable.read(actor.context)
        assert isinstance(old, Tensor)
        share = np.asarray(1.0 - self.momentum, description.dtype)
        with np.errstate(all="ignore"):
            difference = Tensor((old.array - given.array) * share, actor.context.device)
        yield from variable.update(actor.context, "assign_sub", difference)
        return ActionResult(handed=given.array)


class Read(OnVariable):
    """tf.Variable.read_value: the own copy in a replica; from outside the copies, aggregated."""

    about: ClassVar[str] = "read the variable"

    kind: Literal["read"] = "read"

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        value = yield from there[name].variable.read(actor.context)
        assert isinstance(value, Tensor)
        return ActionResult(seen=value.array)


class Compute(Action):
    """One step of compute, as long as `cluster.compute` says."""

    about: ClassVar[str] = "compute for as long as cluster.compute says"

    kind: Literal["compute"] = "compute"

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        yield Computation(actor.context.device)
        return ActionResult()


class Save(Action):
    """tf.train.Checkpoint.save: every variable as it is read from outside, one value each."""

    about: ClassVar[str] = "write a checkpoint of all variables"

    kind: Literal["save"] = "save"

    def on(self, names: Mapping[str, object]) -> list[str]:
        return list(names)

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        saved = yield from save({name: there[name].variable}, actor.context)
        actor.saved |= saved
        return ActionResult(seen=saved[name])


class Restore(Action):
    """tf.train.Checkpoint.restore, from the latest checkpoint: a sum is shared out."""

    about: ClassVar[str] = "restore all variables from the latest checkpoint"

    kind: Literal["restore"] = "restore"

    def on(self, names: Mapping[str, object]) -> list[str]:
        return list(names)

    def perform(self, actor: Actor, there: Variables, name: str) -> Operation[ActionResult]:
        yield from restore(actor.saved, {name: there[name].variable})
        return ActionResult(seen=actor.saved[name])


REPLICA_ACTIONS: Final[dict[str, type[Action]]] = {
    "compute": Compute,
    "assign": Assign,
    "assign_add": AssignAdd,
    "assign_sub": AssignSub,
    "moving_average": MovingAverage,
    "read": Read,
}

CROSS_REPLICA_ACTIONS: Final[dict[str, type[Action]]] = {
    "assign": Assign,
    "assign_add": AssignAdd,
    "assign_sub": AssignSub,
    "read": Read,
    "save": Save,
    "restore": Restore,
}

# Every kind of action.
ACTIONS: Final = tuple(REPLICA_ACTIONS | CROSS_REPLICA_ACTIONS)

if TYPE_CHECKING:
    AnyReplicaAction: TypeAlias = Action
    AnyCrossReplicaAction: TypeAlias = Action
else:
    AnyReplicaAction = one_of(REPLICA_ACTIONS)
    AnyCrossReplicaAction = one_of(CROSS_REPLICA_ACTIONS)


class Program(Model):
    """Steps of a program: the actions of every replica, then those in cross-replica context.

    Replicas wait for each other where a variable requires it, and before cross-replica actions,
    which the chief performs on the machine of replica 0.
    """

    steps: PositiveInt = Field(le=100_000)
    """How many steps."""
    replicas: tuple[AnyReplicaAction, ...] = ()
    """What every replica does in a step, in order."""
    outside: tuple[AnyCrossReplicaAction, ...] = ()
    """What the program around the replicas does then."""

    @model_validator(mode="after")
    def _something_happens(self) -> Self:
        if not self.replicas and not self.outside:
            raise ValueError("replicas and outside are both empty: nothing would happen")
        for place, action in self.actions():
            if action.every > self.steps:
                raise ValueError(
                    f"program.{place}.every {action.every} is beyond the last step, {self.steps}: "
                    "it would never happen"
                )
        return self

    @model_validator(mode="after")
    def _saved_before_restored(self) -> Self:
        for index, action in enumerate(self.outside):
            if action.kind == "restore" and not self._saved(index, action.every):
                raise ValueError(
                    f"program.outside.{index}: nothing has been saved when it restores for the "
                    "first time; put {kind: save} before it"
                )
        return self

    def actions(self) -> Sequence[tuple[str, Action]]:
        """All actions, each with its place: `replicas.0`."""
        return [
            *[(f"replicas.{index}", action) for index, action in enumerate(self.replicas)],
            *[(f"outside.{index}", action) for index, action in enumerate(self.outside)],
        ]

    @property
    def longest(self) -> int:
        """After so many steps everything has happened."""
        return max(action.every for _, action in self.actions())

    def blocks(self) -> list[range]:
        """The steps, cut after every one in which something happens outside; the first is 1."""
        blocks, start = [], 1
        for step in range(1, self.steps + 1):
            if step == self.steps or any(one.happens_in(step) for one in self.outside):
                blocks.append(range(start, step + 1))
                start = step + 1
        return blocks

    def _saved(self, index: int, step: int) -> bool:
        """Is a checkpoint there when the action at `index` first happens, in `step`?"""
        return any(
            one.kind == "save" and (one.every < step or (one.every == step and place < index))
            for place, one in enumerate(self.outside)
        )
