"""One copy of a variable as an object: what `update` hands to its function."""

from typing import Literal, Protocol, TypeAlias, cast

from varsim.distribute.context import Context
from varsim.distribute.tensor import Tensor, Values
from varsim.values.operation import Device, Operation
from varsim.values.variable import Variable

Write: TypeAlias = Literal["assign", "assign_add", "assign_sub"]


class CopyWriter(Protocol):
    """A variable of which one copy can be written alone."""

    def write_copy(self, index: int, op: Write, value: object) -> "Operation[Unread]":
        """Write one copy, without aggregation."""


class Component:
    """Copy `index` of a variable; two with the same variable and index are the same."""

    __slots__ = ("index", "variable")

    def __init__(self, variable: Variable, index: int) -> None:
        self.variable = variable
        self.index = index

    @property
    def device(self) -> Device:
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
            isinstance(other, Component)
            and other.variable is self.variable
            and other.index == self.index
        )

    def __hash__(self) -> int:
        return hash((id(self.variable), self.index))


class Unread(Tensor):
    """What a write of one copy returns: that copy, not read before somebody looks at it.

    So it shows what later writes make of it (resource_variable_ops.py, _UnreadVariable).
    """

    __slots__ = ("_copy",)
    keeps_dtype = True

    def __init__(self, variable: Variable, index: int) -> None:
        self._copy = Component(variable, index)

    @property
    def array(self) -> Values:  # type: ignore[override]
        """The value now."""
        return self._copy.variable.values[self._copy.index]

    @property
    def device(self) -> Device:  # type: ignore[override]
        """The device of the copy."""
        return self._copy.device
