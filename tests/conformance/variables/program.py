"""The little language of the cases: programs that run in replicas and in merges."""

from collections.abc import Callable, Sequence
from operator import add, mul, sub
from typing import Any

import numpy as np

from tests.conformance.variables.records import Record
from tests.conformance.variables.world import Handed, World
from varsim import tf
from varsim.values.operation import RefusedProgramError, RefusedTypeError

ARITHMETIC: dict[str, Callable[[Any, Any], object]] = {"add": add, "sub": sub, "mul": mul}
Names = dict[str, object]


class Program:
    """Executes statements where it is called, with the values that one step hands over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.handed = Handed(world)

    def run(self, statements: Sequence[Record], names: Names) -> object:
        """The returned value, or None."""
        for statement in statements:
            if "when_replica" in statement:
                if _replica().replica_id_in_sync_group in statement["when_replica"]:
                    self.run(statement["then"], names)
            elif "let" in statement:
                names[statement["let"]] = self.value(statement["be"], names)
            elif "do" in statement:
                self.value(statement["do"], names)
            else:
                return self.value(statement["return"], names)
        return None

    def value(self, record: Record, names: Names) -> Any:
        """What an expression gives."""
        (form, *_) = record
        inner = record[form]
        strategy = tf.get_strategy()
        if form == "name":
            return names[inner]
        if form == "replica_id":
            return tf.constant(np.array(_replica().replica_id_in_sync_group, np.int32))
        if form == "num_replicas":
            return strategy.num_replicas_in_sync
        if form in ARITHMETIC:
            return arithmetic(form, self.values(inner, names))
        if form == "cast":
            return self.value(inner[0], names).cast(inner[1])
        if form == "list":
            return self.values(inner, names)
        if form == "item":
            return self.value(inner[0], names)[inner[1]]
        if form == "read":
            return self.world.variables[inner].read_value()
        if form == "read_tensor":
            return tf.convert_to_tensor(self.world.variables[inner])
        if form in ("assign", "assign_add", "assign_sub"):
            value = self.value(inner[1], names)
            return getattr(self.world.variables[inner[0]], form)(value)
        if form == "update":
            args = self.values(inner["args"], names)
            function = updater(self.world, inner["fn"])
            return strategy.extended.update(self.world.variables[inner["var"]], function, args)
        if form == "all_reduce":
            return _replica().all_reduce(inner[0], self.value(inner[1], names))
        if form == "all_gather":
            return _replica().all_gather(self.value(inner[0], names), inner[1])
        if form == "merge_call":

            def merged(strategy: tf.Strategy, *args: object) -> object:
                return self.run(inner["body"], dict(zip(inner["params"], args, strict=True)))

            return _replica().merge_call(merged, self.values(inner["args"], names))
        if form in ("sum_local", "local", "stack_local", "container"):
            return self._local(form, inner, names)
        if form == "reduce_to":
            value = self.value(inner[1], names)
            return strategy.extended.reduce_to(
                inner[0], value, destination(self.handed, inner[2], value)
            )
        if form == "broadcast_to":
            value = self.value(inner[0], names)
            place = destination(self.handed, inner[1], value)
            return strategy.extended.broadcast_to(value, place)
        if form == "reduce":
            return strategy.reduce(inner[0], self.value(inner[1], names))
        return self.handed.value(record)

    def values(self, records: Sequence[Record], names: Names) -> list[Any]:
        """Several expressions, in order."""
        return [self.value(record, names) for record in records]

    def _local(self, form: str, inner: Any, names: Names) -> object:
        """What can be asked of a merged value."""
        value = self.value(inner[0] if form == "local" else inner, names)
        if form == "container":
            return container(value)
        results = tf.get_strategy().experimental_local_results(value)
        if form == "local":
            if inner[1] >= len(results):
                raise RefusedProgramError("UNKNOWN", "tuple index out of range")
            return results[inner[1]]
        if form == "sum_local":
            total: object = 0
            for part in results:
                total = arithmetic("add", [total, part])
            return total
        return tf.Tensor(np.stack([part.array for part in results]))


def _replica() -> tf.ReplicaContext:
    context = tf.get_replica_context()
    assert context is not None
    return context


def arithmetic(form: str, operands: Sequence[object]) -> object:
    """Python's arithmetic."""
    try:
        return ARITHMETIC[form](*operands)
    except tf.DistributionError:
        raise
    except TypeError as error:
        raise RefusedTypeError("UNKNOWN", str(error)) from None


def container(value: object) -> str:
    """The name of the kind of an object."""
    kinds = {
        tf.PerReplica: "per_replica",
        tf.Mirrored: "mirrored",
        tf.Tensor: "single",
        np.ndarray: "single",
        tf.Variable: "variable",
        tf.Copy: "component",
        list: "list",
        tuple: "list",
        type(None): "nothing",
    }
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "literal")


def destination(handed: Handed, record: object, value: object) -> object:
    """Where a reduction is to go."""
    if record == "value":
        return value
    assert isinstance(record, dict)
    if "device" in record:
        return tf.Device(number=record["device"])
    if "text" in record:
        return record["text"]
    if "list" in record:
        return [destination(handed, item, value) for item in record["list"]]
    return handed.value(record)


def reduce_op(name: str) -> object:
    """The operation that a step names."""
    kind, _, member = name.partition(":")
    return tf.VariableAggregation[member] if kind == "aggregation" else name


def updater(world: World, name: str) -> Callable[..., object]:
    """A function for `update`, called with each copy."""
    name, _, other = name.partition(":")

    def write(copy: tf.Copy, value: object) -> object:
        return getattr(copy, name)(value)

    def scale_add(copy: tf.Copy, a: object, b: object) -> object:
        return copy.assign(arithmetic("add", [arithmetic("mul", [copy, a]), b]))

    def nothing(copy: tf.Copy) -> object:
        return None

    def value_and_literal(copy: tf.Copy, value: object) -> object:
        return [copy.assign_add(value), 3]

    def write_other(copy: tf.Copy, value: object) -> object:
        return getattr(world.variables[other], name.removesuffix("_other"))(value)

    if other:
        return write_other
    named: dict[str, Callable[..., object]] = {
        "scale_add": scale_add,
        "nothing": nothing,
        "value_and_literal": value_and_literal,
    }
    return named.get(name, write)
