"""Components (single copies) and containers of per-replica values (distribute_utils.py)."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

from varsim.core.operation import DeviceId, Operation, RefusedProgramError
from varsim.distribute.attributes import Variable
from varsim.distribute.context import Context
from varsim.distribute.tensor import Tensor, Values

Write: TypeAlias = Literal["assign", "assign_add", "assign_sub"]


class CopyWriter(Protocol):
    """A variable of which one copy can be written alone."""

    def write_copy(self, index: int, op: Write, value: object) -> "Operation[Unread]":
        """Write one copy, without aggregation."""


class ContainerPart:
    """Copy `index` of a variable (tf.distribute's component); equal by variable and index."""

    __slots__ = ("index", "variable")

    def __init__(self, variable: Variable, index: int) -> None:
        self.variable = variable
        self.index = index

    @property
    def device(self) -> DeviceId:
        """The device of the copy."""
        return self.variable.devices[self.index]

    def tensor(self) -> Tensor:
        """Its value now."""
        return Tensor(self.variable.values[self.index], self.device)

    def write(self, context: Context, op: Write, value: object) -> "Operation[Unread]":
        """Write this copy alone, without aggregation; returns it, unread."""
        variable = cast(CopyWriter, self.variable)
        return (yield from variable.write_copy(self.index, op, value))

    def assign(self, context: Context, value: object) -> "Operation[Unread]":
        """Set this copy alone."""
        return (yield from self.write(context, "assign", value))

    def assign_add(self, context: Context, value: object) -> "Operation[Unread]":
        """Add to this copy alone."""
        return (yield from self.write(context, "assign_add", value))

    def assign_sub(self, context: Context, value: object) -> "Operation[Unread]":
        """Subtract from this copy alone."""
        return (yield from self.write(context, "assign_sub", value))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContainerPart)
            and other.variable is self.variable
            and other.index == self.index
        )

    def __hash__(self) -> int:
        return hash((id(self.variable), self.index))


class Unread(Tensor):
    """Result of a write of one copy: read lazily, so later writes show (_UnreadVariable)."""

    __slots__ = ("_copy",)
    keeps_dtype = True

    def __init__(self, variable: Variable, index: int) -> None:
        self._copy = ContainerPart(variable, index)

    @property
    def array(self) -> Values:  # type: ignore[override]
        """The value now."""
        return self._copy.variable.values[self._copy.index]

    @property
    def device(self) -> DeviceId:  # type: ignore[override]
        """The device of the copy."""
        return self._copy.device


class Container:
    """Values of this worker's replicas, in order."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[object]) -> None:
        self.values = tuple(values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.values}"


class PerReplica(Container):
    """Values that belong to their replicas (tf.distribute's PerReplica)."""


class Mirrored(Container):
    """Copies that stand for one value (tf.distribute's Mirrored)."""


def regroup(values: Sequence[object], wrap: type[Container] = PerReplica) -> object:
    """Group per-replica results into one object; lists, tuples and dicts item by item.

    One object in all replicas stays that object, the copies of a variable become the variable, all
    else is wrapped. RefusedProgramError where the structures differ.
    """
    first = values[0]
    if isinstance(first, list | tuple):
        kind = list if isinstance(first, list) else tuple
        lists = [_same_structure(value, first, kind) for value in values]
        items = [regroup([one[i] for one in lists], wrap) for i in range(len(first))]
        return items if isinstance(first, list) else tuple(items)
    if isinstance(first, dict):
        dicts = [_same_structure(value, first, dict) for value in values]
        return {key: regroup([one[key] for one in dicts], wrap) for key in first}
    if isinstance(first, ContainerPart) and all(
        isinstance(value, ContainerPart) and value.variable is first.variable for value in values
    ):
        return first.variable
    if all(value is first for value in values):
        return first
    return wrap(values)


def _same_structure(value: object, first: Any, kind: type[Any]) -> Any:
    """The value, checked to have the type, length and keys of the first one."""
    if not isinstance(value, kind):
        why = f"a {kind.__name__} in replica 0 and a {type(value).__name__} in another one"
    elif kind is dict and value.keys() != first.keys():
        why = f"names {sorted(first)} in replica 0 and {sorted(value)} in another one"
    elif len(value) != len(first):
        why = f"{len(first)} values in replica 0 and {len(value)} in another one"
    else:
        return value
    raise RefusedProgramError(
        "merge_call_mismatch",
        f"replicas hand over values that do not go together, {why}: let all of them make the same "
        "call, with arguments of the same structure",
    )


def select(replica: int, value: object) -> object:
    """The part of one replica of this worker, in lists, tuples and dicts too; else the value."""
    if isinstance(value, Container):
        return value.values[replica]
    if isinstance(value, Variable) and value.replicated:
        return component(value, replica)
    return map_structure(lambda item: select(replica, item), value, leaf=False)


def part_on(device: DeviceId, value: object) -> object:
    """The copy of a mirrored value on a device, else its first; any other value itself."""
    if not isinstance(value, Mirrored):
        return value
    here = [part for part in value.values if getattr(part, "device", None) == device]
    return (here or value.values)[0]


def map_structure(
    function: Callable[[object], object], value: object, *, leaf: bool = True
) -> object:
    """Apply a function inside lists, tuples and dicts; with `leaf`, to a bare value too."""
    if isinstance(value, list):
        return [function(item) if not leaf else map_structure(function, item) for item in value]
    if isinstance(value, tuple):
        return tuple(
            [function(item) if not leaf else map_structure(function, item) for item in value]
        )
    if isinstance(value, dict):
        return {
            key: function(item) if not leaf else map_structure(function, item)
            for key, item in value.items()
        }
    return function(value) if leaf else value


def component(variable: Variable, index: int) -> ContainerPart:
    """One copy of a variable as an object."""
    return ContainerPart(variable, index)


def is_per_replica(value: object) -> bool:
    """Is this a value with a part for each replica (values.DistributedValues)?"""
    return isinstance(value, Container) or (isinstance(value, Variable) and value.replicated)


def is_mirrored(value: object) -> bool:
    """Does this stand for one value: a mirrored container or variable?"""
    return isinstance(value, Mirrored) or (isinstance(value, Variable) and value.kind == "mirrored")


def tensors_of(value: object) -> list[Tensor]:
    """The tensors of a value, one for each part; RefusedProgramError if there are none."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, ContainerPart):
        return [value.tensor()]
    if isinstance(value, Variable):
        return [ContainerPart(value, index).tensor() for index in range(len(value.values))]
    if isinstance(value, Container):
        return [tensor for part in value.values for tensor in tensors_of(part)]
    raise RefusedProgramError(
        "literal_attribute",
        f"a {type(value).__name__} has no dtype and cannot be reduced: make it a tensor first",
    )


def devices_of(value: object) -> tuple[DeviceId, ...]:
    """The devices on which a value or variable lives."""
    if isinstance(value, Variable):
        return value.devices
    return tuple(tensor.device for tensor in tensors_of(value))
