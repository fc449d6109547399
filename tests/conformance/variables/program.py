"""The little language of the cases: programs that run in replicas and in merges."""

from collections.abc import Callable, Sequence
from operator import add, mul, sub

import numpy as np

from tests.conformance.variables.records import Record
from tests.conformance.variables.world import Handed, World
from varsim.distribute.container import Component, Mirrored, PerReplica, part_on
from varsim.distribute.context import Context
from varsim.distribute.tensor import Tensor
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import (
    Device,
    DistributionError,
    Operation,
    RefusedProgramError,
    RefusedTypeError,
)
from varsim.values.variable import Aggregation, Variable

ARITHMETIC: dict[str, Callable[[object, object], object]] = {"add": add, "sub": sub, "mul": mul}
Names = dict[str, object]


class Program:
    """Executes statements in a context, with the values that one step hands over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.handed = Handed(world)

    def run(
        self, context: Context, statements: Sequence[Record], names: Names
    ) -> Operation[object]:
        """The returned value, or None."""
        for statement in statements:
            if "when_replica" in statement:
                if context.replica_id in statement["when_replica"]:
                    yield from self.run(context, statement["then"], names)
            elif "let" in statement:
                names[statement["let"]] = yield from self.value(context, statement["be"], names)
            elif "do" in statement:
                yield from self.value(context, statement["do"], names)
            else:
                return (yield from self.value(context, statement["return"], names))
        return None

    def value(self, context: Context, record: Record, names: Names) -> Operation[object]:
        """What an expression gives."""
        (form, *_) = record
        inner = record[form]
        strategy = context.strategy
        assert strategy is not None
        if form == "name":
            return names[inner]
        if form == "replica_id":
            return Tensor(np.array(context.replica_id, np.int32), context.device)
        if form == "num_replicas":
            return strategy.num_replicas_in_sync
        if form in ARITHMETIC:
            operands = yield from self.values(context, inner, names)
            return (yield from arithmetic(context, form, operands))
        if form == "cast":
            tensor = yield from self.value(context, inner[0], names)
            assert isinstance(tensor, Tensor)
            return tensor.cast(inner[1])
        if form == "list":
            return (yield from self.values(context, inner, names))
        if form == "item":
            items = yield from self.value(context, inner[0], names)
            assert isinstance(items, list | tuple)
            return items[inner[1]]
        if form == "read":
            return (yield from self.world.variables[inner].read(context))
        if form == "read_tensor":
            return (yield from self.world.variables[inner].as_tensor(context))
        if form in ("assign", "assign_add", "assign_sub"):
            value = yield from self.value(context, inner[1], names)
            return (yield from self.world.variables[inner[0]].update(context, form, value))
        if form == "update":
            args = yield from self.values(context, inner["args"], names)
            function = updater(self.world, inner["fn"])
            variable = self.world.variables[inner["var"]]
            return (yield from strategy.update(context, variable, function, args))
        if form == "all_reduce":
            value = yield from self.value(context, inner[1], names)
            return (yield from strategy.all_reduce(context, inner[0], value))
        if form == "all_gather":
            value = yield from self.value(context, inner[0], names)
            return (yield from strategy.all_gather(context, value, inner[1]))
        if form == "merge_call":
            args = yield from self.values(context, inner["args"], names)

            def merged(context: Context, *args: object) -> Operation[object]:
                return self.run(
                    context, inner["body"], dict(zip(inner["params"], args, strict=True))
                )

            return (yield from context.merge_call(merged, tuple(args)))
        if form in ("sum_local", "local", "stack_local", "container"):
            return (yield from self._local(context, form, inner, names))
        if form == "reduce_to":
            op, value = inner[0], (yield from self.value(context, inner[1], names))
            place = destination(self.handed, inner[2], value, context)
            return (yield from strategy.reduce_to(context, op, value, place))
        if form == "broadcast_to":
            value = yield from self.value(context, inner[0], names)
            place = destination(self.handed, inner[1], value, context)
            return (yield from strategy.broadcast_to(context, value, place))
        if form == "reduce":
            value = yield from self.value(context, inner[1], names)
            return (yield from strategy.reduce(context, inner[0], value))
        return self.handed.value(record, context)

    def values(
        self, context: Context, records: Sequence[Record], names: Names
    ) -> Operation[list[object]]:
        """Several expressions, in order."""
        found = []
        for record in records:
            found.append((yield from self.value(context, record, names)))  # noqa: PERF401
        return found

    def _local(self, context: Context, form: str, inner: object, names: Names) -> Operation[object]:
        """What can be asked of a merged value."""
        of = inner[0] if form == "local" else inner
        value = yield from self.value(context, of, names)
        if form == "container":
            return container(value)
        assert context.strategy is not None
        results = context.strategy.local_results(value)
        if form == "local":
            if inner[1] >= len(results):
                raise RefusedProgramError("UNKNOWN", "tuple index out of range")
            return results[inner[1]]
        if form == "sum_local":
            total: object = 0
            for part in results:
                total = yield from arithmetic(context, "add", [total, part])
            return total
        return Tensor(np.stack([part.array for part in results]))


def arithmetic(context: Context, form: str, operands: Sequence[object]) -> Operation[object]:
    """Python's arithmetic: variables are read, copies that stand for one value are one of them."""
    values = []
    for value in operands:
        if isinstance(value, Component):
            value = value.tensor()
        if isinstance(value, DistributedVariable):
            value = yield from value.as_tensor(context)
        values.append(part_on(context.device, value))
    try:
        return ARITHMETIC[form](*values)
    except DistributionError:
        raise
    except TypeError as error:
        raise RefusedTypeError("UNKNOWN", str(error)) from None


def container(value: object) -> str:
    """The name of the kind of an object."""
    kinds = {
        PerReplica: "per_replica",
        Mirrored: "mirrored",
        Tensor: "single",
        np.ndarray: "single",
        Variable: "variable",
        Component: "component",
        list: "list",
        tuple: "list",
        type(None): "nothing",
    }
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "literal")


def destination(handed: Handed, record: object, value: object, context: Context) -> object:
    """Where a reduction is to go."""
    if record == "value":
        return value
    assert isinstance(record, dict)
    if "device" in record:
        return Device(number=record["device"])
    if "text" in record:
        return record["text"]
    if "list" in record:
        return [destination(handed, item, value, context) for item in record["list"]]
    return handed.value(record, context)


def reduce_op(name: str) -> object:
    """The operation that a step names."""
    kind, _, member = name.partition(":")
    return Aggregation[member] if kind == "aggregation" else name


def updater(world: World, name: str) -> Callable[..., Operation[object]]:
    """A function for `update`, called with each copy."""
    name, _, other = name.partition(":")

    def write(context: Context, copy: Component, value: object) -> Operation[object]:
        return copy.write(context, name, value)

    def scale_add(context: Context, copy: Component, a: object, b: object) -> Operation[object]:
        scaled = yield from arithmetic(context, "mul", [copy, a])
        total = yield from arithmetic(context, "add", [scaled, b])
        return (yield from copy.assign(context, total))

    def nothing(context: Context, copy: Component) -> Operation[object]:
        return None
        yield

    def value_and_literal(context: Context, copy: Component, value: object) -> Operation[object]:
        return [(yield from copy.assign_add(context, value)), 3]

    def write_other(context: Context, copy: Component, value: object) -> Operation[object]:
        op = name.removesuffix("_other")
        return world.variables[other].update(context, op, value)

    if other:
        return write_other
    named = {
        "scale_add": scale_add,
        "nothing": nothing,
        "value_and_literal": value_and_literal,
    }
    return named.get(name, write)
