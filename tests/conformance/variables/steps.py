"""The steps of a case: each is what a user of `varsim.tf` types, and gives what was observed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.variables.program import Program, destination, reduce_op, updater
from tests.conformance.variables.records import Record, array
from tests.conformance.variables.world import World, number
from varsim import tf

Observed = dict[str, Any]
Step = Callable[[World, Record], Observed]


def in_context(world: World, step: Record, act: Callable[[], object]) -> Observed:
    """Act in the context of a step: in every replica, or once."""
    if step["context"] == "replica":
        return {"result": world.strategy.run(act)}
    with world.context(step["context"]):
        if "device" not in step:
            return {"result": act()}
        place = world.strategy.inner.devices[0]._replace(number=step["device"])
        with tf.device(place):
            return {"result": act()}


def write(world: World, step: Record) -> Observed:
    """assign, assign_add, assign_sub."""
    program, variable = Program(world), world.variables[step["var"]]
    method = getattr(variable, step["op"])
    return in_context(world, step, lambda: method(program.handed.value(step["value"])))


def read(world: World, step: Record) -> Observed:
    """A read, by method or by conversion."""
    variable, how = world.variables[step["var"]], step["how"]

    def act() -> object:
        if how in ("tensor", "aggregate"):
            return tf.convert_to_tensor(variable)
        return variable.read_value()

    def aggregating() -> object:
        with tf.variable_sync_on_read_context():
            return act()

    return in_context(world, step, aggregating if how.startswith("aggregate") else act)


def scatter(world: World, step: Record) -> Observed:
    """A sparse update."""

    def act() -> object:
        values = tf.Tensor(array(step["values"]))
        variable = world.variables[step["var"]]
        return variable.scatter(step["method"], step["indices"], values)

    return in_context(world, step, act)


def copies(world: World, step: Record) -> Observed:
    """Nothing; the copies are looked at after every step."""
    return {}


def create(world: World, step: Record) -> Observed:
    """A variable made by a step."""
    return make(world, step["variable"], step.get("context", "cross_replica"))


def make_each(world: World, records: list[Record]) -> list[Observed]:
    """Create variables one after the other; of one that is refused, the error."""
    made: list[Observed] = []
    for record in records:
        try:
            made.append(make(world, record))
        except tf.DistributionError as error:
            made.append({"error": error})
    return made


def make(world: World, record: Record, where: str = "cross_replica") -> Observed:
    """Create a variable and describe it."""
    wanted = record.get("initial_per_worker", {world.worker: record["initial"]})[world.worker]
    calls = []

    def initializer() -> object:
        calls.append(1)
        return array(wanted)

    initial = initializer if record.get("initializer") == "callable" else tf.Tensor(array(wanted))

    def act() -> tf.Variable:
        return tf.Variable(
            initial,
            record["trainable"],
            synchronization=record["synchronization"],
            aggregation=record["aggregation"],
        )

    def beside() -> tf.Variable:
        if "colocate_with" not in record:
            return act()
        with world.strategy.extended.colocate_vars_with(world.variables[record["colocate_with"]]):
            return act()

    if where == "replica":
        variable = world.strategy.run(beside)
    else:
        with world.context("other_scope" if record.get("scope") == "other" else where):
            variable = beside()
    world.variables[record["name"]] = variable
    if record["name"] in world.pending:
        tf.Checkpoint(**{record["name"]: variable}).restore(world.pending)
    return {
        "class": variable.inner.kind,
        "trainable": variable.trainable,
        "synchronization": variable.synchronization.name,
        "aggregation": variable.aggregation.name,
        "copies": [copy.numpy() for copy in variable.values],
        "devices": [number(copy.device) for copy in variable.values],
        "ps_tasks": [copy.device.task for copy in variable.values],
        "initializer_calls": len(calls),
    }


def created_in_scope(world: World, step: Record) -> Observed:
    """Does the strategy own the variable?"""
    variable = world.variables[step["var"]]
    return {"result": world.strategy.extended.variable_created_in_scope(variable)}


def reduce_to(world: World, step: Record) -> Observed:
    """extended.reduce_to."""
    program = Program(world)

    def act() -> object:
        value = program.handed.value(step["value"])
        place = destination(program.handed, step["destination"], value)
        return world.strategy.extended.reduce_to(reduce_op(step["reduce"]), value, place)

    return in_context(world, step, act)


def batch_reduce_to(world: World, step: Record) -> Observed:
    """extended.batch_reduce_to."""
    program = Program(world)

    def act() -> object:
        pairs = []
        for pair in step["pairs"]:
            value = program.handed.value(pair["value"])
            pairs.append((value, destination(program.handed, pair["destination"], value)))
        return world.strategy.extended.batch_reduce_to(step["reduce"], pairs)

    return in_context(world, step, act)


def broadcast_to(world: World, step: Record) -> Observed:
    """extended.broadcast_to."""
    program = Program(world)

    def act() -> object:
        value = program.handed.value(step["value"])
        # The recording program knew no "value" here and handed over None.
        place = destination(program.handed, step["destination"], None)
        return world.strategy.extended.broadcast_to(value, place)

    return in_context(world, step, act)


def reduce(world: World, step: Record) -> Observed:
    """strategy.reduce."""
    program = Program(world)

    def act() -> object:
        value = program.handed.value(step["value"])
        return world.strategy.reduce(step["reduce"], value, step["axis"])

    return in_context(world, step, act)


def gather(world: World, step: Record) -> Observed:
    """strategy.gather."""
    program = Program(world)

    def act() -> object:
        return world.strategy.gather(program.handed.value(step["value"]), step["axis"])

    return in_context(world, step, act)


def local_results(world: World, step: Record) -> Observed:
    """strategy.experimental_local_results."""
    with world.strategy.scope():
        value = Program(world).handed.value(step["value"])
    return {"result": world.strategy.experimental_local_results(value)}


def update(world: World, step: Record) -> Observed:
    """extended.update."""
    program, variable = Program(world), world.variables[step["var"]]
    function = updater(world, step["fn"])

    def act() -> object:
        args = [program.handed.value(value) for value in step["args"]]
        kwargs = {
            name: program.handed.value(value) for name, value in step.get("kwargs", {}).items()
        }
        group = step.get("group", True)
        return world.strategy.extended.update(variable, function, args, kwargs, group)

    return in_context(world, step, act)


def value_container(world: World, step: Record) -> Observed:
    """extended.value_container."""
    variable, index = world.variables[step["var"]], step["index"]
    value = variable if index is None else variable.values[index]
    return {"result": world.strategy.extended.value_container(value)}


def run(world: World, step: Record) -> Observed:
    """A program in all replicas."""
    program = Program(world)
    with world.strategy.scope():
        args = [program.handed.value(value) for value in step["args"]]

    def replica(*args: object) -> object:
        return program.run(step["program"], dict(zip(step["params"], args, strict=True)))

    return {"result": world.strategy.run(replica, args)}


def run_args(world: World, step: Record) -> Observed:
    """A named function in all replicas."""
    args: Any = step["args"]
    with world.strategy.scope():
        handed = Program(world).handed
        args = handed.value(args) if "list" in args else handed.value(args["one"])

    def replica_id_times(x: Any) -> object:
        context = tf.get_replica_context()
        assert context is not None
        return x * context.replica_id_in_sync_group

    named: dict[str, Callable[..., object]] = {
        "identity": _identity,
        "same": lambda x: x,
        "nothing": lambda *_: None,
        "pair": lambda x: [_identity(x), x + 1],
        "replica_id_times": replica_id_times,
    }
    return {"result": world.strategy.run(named[step["fn"]], args)}


def _identity(value: Any) -> tf.Tensor:
    """A new tensor of a value."""
    if isinstance(value, tf.Tensor):
        return tf.Tensor(np.array(value.array), value.device)
    return tf.convert_to_tensor(value)
