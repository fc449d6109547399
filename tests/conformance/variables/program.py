"""The little language of the cases: values, and programs that run in replicas and in merges."""

from collections.abc import Callable, Sequence
from operator import add, mul, sub
from typing import Any

import numpy as np

from tests.conformance.records import Record, array
from tests.conformance.variables.world import World
from varsim import tf
from varsim.core.operation import RefusedProgramError, RefusedTypeError

ARITHMETIC: dict[str, Callable[[Any, Any], object]] = {"add": add, "sub": sub, "mul": mul}
Names = dict[str, object]


class Program:
    """Executes statements where it is called, with the values that one step hands over.

    Each of these is made once, so that it stays one object.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._made: dict[tuple[int, int], object] = {}

    def run(self, statements: Sequence[Record], names: Names) -> object:
        """The returned value, or None."""
        for statement in statements:
            if "when_replica" in statement:
                if replica().replica_id_in_sync_group in statement["when_replica"]:
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
        if form in ARITHMETIC:
            return arithmetic(form, self.values(inner, names))
        evaluate = getattr(self, f"_{form}", None)
        return self.given(record) if evaluate is None else evaluate(inner, names)

    def values(self, records: Sequence[Record], names: Names) -> list[Any]:
        """Several expressions, in order."""
        return [self.value(record, names) for record in records]

    def _name(self, inner: str, names: Names) -> object:
        return names[inner]

    def _replica_id(self, inner: object, names: Names) -> object:
        return tf.constant(np.array(replica().replica_id_in_sync_group, np.int32))

    def _num_replicas(self, inner: object, names: Names) -> object:
        return tf.get_strategy().num_replicas_in_sync

    def _cast(self, inner: Any, names: Names) -> object:
        return self.value(inner[0], names).cast(inner[1])

    def _list(self, inner: Any, names: Names) -> object:
        return self.values(inner, names)

    def _item(self, inner: Any, names: Names) -> object:
        return self.value(inner[0], names)[inner[1]]

    def _read(self, inner: str, names: Names) -> object:
        return self.world.variables[inner].read_value()

    def _read_tensor(self, inner: str, names: Names) -> object:
        return tf.convert_to_tensor(self.world.variables[inner])

    def _assign(self, inner: Any, names: Names, how: str = "assign") -> object:
        value = self.value(inner[1], names)
        return getattr(self.world.variables[inner[0]], how)(value)

    def _assign_add(self, inner: Any, names: Names) -> object:
        return self._assign(inner, names, "assign_add")

    def _assign_sub(self, inner: Any, names: Names) -> object:
        return self._assign(inner, names, "assign_sub")

    def _update(self, inner: Any, names: Names) -> object:
        args, function = self.values(inner["args"], names), updater(self.world, inner["fn"])
        variable = self.world.variables[inner["var"]]
        return tf.get_strategy().extended.update(variable, function, args)

    def _all_reduce(self, inner: Any, names: Names) -> object:
        return replica().all_reduce(inner[0], self.value(inner[1], names))

    def _all_gather(self, inner: Any, names: Names) -> object:
        return replica().all_gather(self.value(inner[0], names), inner[1])

    def _merge_call(self, inner: Any, names: Names) -> object:
        def merged(strategy: tf.Strategy, *args: object) -> object:
            return self.run(inner["body"], dict(zip(inner["params"], args, strict=True)))

        return replica().merge_call(merged, self.values(inner["args"], names))

    def _reduce(self, inner: Any, names: Names) -> object:
        return tf.get_strategy().reduce(inner[0], self.value(inner[1], names))

    def _reduce_to(self, inner: Any, names: Names) -> object:
        value = self.value(inner[1], names)
        place = self.destination(inner[2], value)
        return tf.get_strategy().extended.reduce_to(inner[0], value, place)

    def _broadcast_to(self, inner: Any, names: Names) -> object:
        value = self.value(inner[0], names)
        place = self.destination(inner[1], value)
        return tf.get_strategy().extended.broadcast_to(value, place)

    def _container(self, inner: Any, names: Names) -> object:
        return container(self.value(inner, names))

    def _local(self, inner: Any, names: Names) -> object:
        results = tf.get_strategy().experimental_local_results(self.value(inner[0], names))
        if inner[1] >= len(results):
            raise RefusedProgramError("UNKNOWN", "tuple index out of range")
        return results[inner[1]]

    def _sum_local(self, inner: Any, names: Names) -> object:
        total: object = 0
        for part in tf.get_strategy().experimental_local_results(self.value(inner, names)):
            total = arithmetic("add", [total, part])
        return total

    def _stack_local(self, inner: Any, names: Names) -> object:
        results = tf.get_strategy().experimental_local_results(self.value(inner, names))
        return tf.Tensor(np.stack([part.array for part in results]))

    def given(self, record: Record) -> Any:
        """A value in the context of this thread; in a replica its own part, outside a container."""
        if "list" in record:
            return [self.given(item) for item in record["list"]]
        if "variable" in record:
            return self.world.variables[record["variable"]]
        if "literal" in record:
            return record["literal"]
        strategy = self.world.strategy.inner
        for form in ("per_replica", "literals"):
            if form in record:
                ids = [strategy.replica_id(index) for index, _ in enumerate(strategy.devices)]
                parts = [
                    self._made_once(record, index, record[form][ids[index]], device)
                    for index, device in enumerate(strategy.devices)
                ]
                context = tf.get_replica_context()
                if context is not None:
                    return parts[ids.index(context.replica_id_in_sync_group)]
                return tf.PerReplica(parts) if len(parts) > 1 else parts[0]
        if "mirrored" in record:
            made = [tf.Tensor(array(record["mirrored"]), device) for device in strategy.devices]
            return tf.Mirrored(made) if len(made) > 1 else made[0]
        if "numpy" in record:
            return self._made_once(record, 0, record["numpy"], None)
        return self._made_once(record, 0, record["tensor"], strategy.current)

    def _made_once(
        self, record: Record, index: int, data: object, device: tf.Device | None
    ) -> object:
        if not isinstance(data, dict):
            return data  # a number
        key = (id(record), index)
        if key not in self._made:
            value = array(data)
            self._made[key] = value if device is None else tf.Tensor(value, device)
        return self._made[key]

    def destination(self, record: Any, value: object) -> object:
        """Where a reduction is to go."""
        if record == "value":
            return value
        if "device" in record:
            return tf.Device(number=record["device"])
        if "text" in record:
            return record["text"]
        if "list" in record:
            return [self.destination(item, value) for item in record["list"]]
        return self.given(record)


def replica() -> tf.ReplicaContext:
    """The context of the replica in which this is called."""
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


def updater(world: World, name: str) -> Callable[..., object]:
    """A function for `update`, called with each copy."""
    name, _, other = name.partition(":")

    def write(copy: tf.Copy, value: object) -> object:
        return getattr(copy, name)(value)

    def write_other(copy: tf.Copy, value: object) -> object:
        return getattr(world.variables[other], name.removesuffix("_other"))(value)

    def scale_add(copy: tf.Copy, a: object, b: object) -> object:
        return copy.assign(arithmetic("add", [arithmetic("mul", [copy, a]), b]))

    named: dict[str, Callable[..., object]] = {
        "scale_add": scale_add,
        "nothing": lambda copy: None,
        "value_and_literal": lambda copy, value: [copy.assign_add(value), 3],
    }
    return write_other if other else named.get(name, write)
