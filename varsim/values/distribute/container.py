"""Containers of per-replica values, and grouping by object identity (distribute_utils.py)."""

from collections.abc import Callable, Sequence

from varsim.values.device import Device
from varsim.values.distribute.component import Component
from varsim.values.distribute.refusal import RefusedAttributeError
from varsim.values.distribute.tensor import Tensor
from varsim.values.variable import Variable


class Container:
    """One value per replica of this worker, first to last."""

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
    """What the replicas hand over, as one object; lists, tuples and dicts item by item.

    One object in all replicas stays that object, the copies of a variable become the variable, all
    else is wrapped. So there is no container with one replica.
    """
    first = values[0]
    if isinstance(first, list | tuple):
        items = [
            regroup([value[i] for value in values], wrap)  # type: ignore[index]
            for i in range(len(first))
        ]
        return items if isinstance(first, list) else tuple(items)
    if isinstance(first, dict):
        return {key: regroup([value[key] for value in values], wrap) for key in first}  # type: ignore[index]
    if isinstance(first, Component) and all(
        isinstance(value, Component) and value.variable is first.variable for value in values
    ):
        return first.variable
    if all(value is first for value in values):
        return first
    return wrap(values)


def select(replica: int, value: object) -> object:
    """The part of one replica of this worker, in lists, tuples and dicts too; else the value."""
    if isinstance(value, Container):
        return value.values[replica]
    if isinstance(value, Variable) and value.replicated:
        return component(value, replica)
    return map_structure(lambda item: select(replica, item), value, leaf=False)


def map_structure(
    function: Callable[[object], object], value: object, *, leaf: bool = True
) -> object:
    """Apply a function to all that is inside lists, tuples and dicts; `leaf`: also to no such."""
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


def component(variable: Variable, index: int) -> Component:
    """One copy of a variable as an object."""
    return Component(variable, index)


def is_per_replica(value: object) -> bool:
    """Is this a value with a part for each replica (values.DistributedValues)?"""
    return isinstance(value, Container) or (isinstance(value, Variable) and value.replicated)


def is_mirrored(value: object) -> bool:
    """Does this stand for one value: a mirrored container or variable?"""
    return isinstance(value, Mirrored) or (isinstance(value, Variable) and value.kind == "mirrored")


def tensors_of(value: object) -> list[Tensor]:
    """The tensors of a value, one for each part; AttributeError if there are no tensors in it."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Component):
        return [value.tensor()]
    if isinstance(value, Variable):
        return [Component(value, index).tensor() for index in range(len(value.values))]
    if isinstance(value, Container):
        return [tensor for part in value.values for tensor in tensors_of(part)]
    raise RefusedAttributeError(
        "literal_attribute",
        f"a {type(value).__name__} has no dtype and cannot be reduced: make it a tensor first",
    )


def devices_of(value: object) -> tuple[Device, ...]:
    """The devices on which a value or variable lives."""
    if isinstance(value, Variable):
        return value.devices
    return tuple(tensor.device for tensor in tensors_of(value))
