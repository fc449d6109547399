"""Containers of per-replica values, and grouping by object identity (distribute_utils.py)."""

from collections.abc import Callable, Sequence
from typing import Any

from varsim.distribute.component import Component
from varsim.distribute.tensor import Tensor
from varsim.values.operation import Device
from varsim.values.refusal import RefusedAssertionError, RefusedAttributeError
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
    else is wrapped. So there is no container with one replica. AssertionError where replica 0 hands
    over a list, tuple or dict, and another one anything else than such a one, as long.
    """
    first = values[0]
    if isinstance(first, list | tuple):
        kind = list if isinstance(first, list) else tuple
        lists = [_alike(value, first, kind) for value in values]
        items = [regroup([one[i] for one in lists], wrap) for i in range(len(first))]
        return items if isinstance(first, list) else tuple(items)
    if isinstance(first, dict):
        dicts = [_alike(value, first, dict) for value in values]
        return {key: regroup([one[key] for one in dicts], wrap) for key in first}
    if isinstance(first, Component) and all(
        isinstance(value, Component) and value.variable is first.variable for value in values
    ):
        return first.variable
    if all(value is first for value in values):
        return first
    return wrap(values)


def _alike(value: object, first: Any, kind: type[Any]) -> Any:
    """The value, if it is of a kind and as long as the first one, of a dict with its keys."""
    if not isinstance(value, kind):
        why = f"a {kind.__name__} in replica 0 and a {type(value).__name__} in another one"
    elif kind is dict and value.keys() != first.keys():
        why = f"names {sorted(first)} in replica 0 and {sorted(value)} in another one"
    elif len(value) != len(first):
        why = f"{len(first)} values in replica 0 and {len(value)} in another one"
    else:
        return value
    raise RefusedAssertionError(
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


def part_on(device: Device, value: object) -> object:
    """Of copies that stand for one value the one on a device, or the first; else the value."""
    if not isinstance(value, Mirrored):
        return value
    here = [part for part in value.values if getattr(part, "device", None) == device]
    return (here or value.values)[0]


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
