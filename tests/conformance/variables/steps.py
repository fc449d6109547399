"""The steps of a case: each is an operation of one worker that gives what was observed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.variables.program import Program, destination, reduce_op, updater
from tests.conformance.variables.records import Record, array
from tests.conformance.variables.world import World
from varsim.distribute.central import create_without_scope
from varsim.distribute.container import Component
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.tensor import Tensor, tensor_of
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.values.operation import DistributionError, Operation

Observed = dict[str, Any]
Step = Callable[[World, Record], Operation[Observed]]


def in_context(
    world: World, step: Record, act: Callable[[Context], Operation[object]]
) -> Operation[Observed]:
    """Act in the context of a step: in every replica, or once."""
    if step["context"] == "replica":
        strategy = world.strategy
        return {"result": (yield from strategy.run(strategy.scope(), act))}
    context = world.context(step["context"])
    if "device" in step:
        context = context.at(world.strategy.devices[0]._replace(number=step["device"]))
    return {"result": (yield from act(context))}


def write(world: World, step: Record) -> Operation[Observed]:
    """assign, assign_add, assign_sub."""
    program, variable = Program(world), world.variables[step["var"]]

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        return (yield from variable.update(context, step["op"], value))

    return (yield from in_context(world, step, act))


def read(world: World, step: Record) -> Operation[Observed]:
    """A read, by method or by conversion."""
    variable, how = world.variables[step["var"]], step["how"]

    def act(context: Context) -> Operation[object]:
        if how.startswith("aggregate"):
            context = context.aggregating()
        if how in ("tensor", "aggregate") or (how == "value" and variable.kind == "mirrored"):
            return (yield from variable.as_tensor(context))
        return (yield from variable.read(context))

    return (yield from in_context(world, step, act))


def scatter(world: World, step: Record) -> Operation[Observed]:
    """A sparse update."""

    def act(context: Context) -> Operation[object]:
        rows, values = np.array(step["indices"]), Tensor(array(step["values"]))
        return world.variables[step["var"]].scatter(context, step["method"], rows, values)

    return (yield from in_context(world, step, act))


def copies(world: World, step: Record) -> Operation[Observed]:
    """Nothing; the copies are looked at after every step."""
    return {}
    yield


def create(world: World, step: Record) -> Operation[Observed]:
    """A variable made by a step."""
    return (yield from make(world, step["variable"], step.get("context", "cross_replica")))


def make_each(world: World, records: list[Record]) -> Operation[list[Observed]]:
    """Create variables one after the other; of one that is refused, the error."""
    made: list[Observed] = []
    for record in records:
        try:
            made.append((yield from make(world, record)))
        except DistributionError as error:
            made.append({"error": error})
    return made


def make(world: World, record: Record, where: str = "cross_replica") -> Operation[Observed]:
    """Create a variable and describe it."""
    wanted = record.get("initial_per_worker", {world.worker: record["initial"]})[world.worker]
    calls = []

    def initializer() -> object:
        calls.append(1)
        return array(wanted)

    initial = initializer if record.get("initializer") == "callable" else Tensor(array(wanted))
    asked = VariableOptions(record["synchronization"], record["aggregation"], record["trainable"])
    strategy = world.other if record.get("scope") == "other" else world.strategy

    def act(context: Context) -> Operation[DistributedVariable]:
        if "colocate_with" in record:
            beside = world.variables[record["colocate_with"]]
            context = world.strategy.colocate_vars_with(context, beside)
        if context is DEFAULT_CONTEXT:
            return create_without_scope(initial, asked)
        return (yield from strategy.create(context, initial, asked))

    if where == "replica":
        variable = yield from strategy.run(strategy.scope(), act)
    else:
        scope = world.other.scope() if record.get("scope") == "other" else world.context(where)
        variable = yield from act(scope)
    assert isinstance(variable, DistributedVariable)
    world.variables[record["name"]] = variable
    if record["name"] in world.pending:
        yield from variable.restore(world.pending[record["name"]])
    return {
        "class": variable.kind,
        "trainable": variable.attributes.trainable,
        "synchronization": variable.synchronization.name,
        "aggregation": variable.aggregation.name,
        "copies": list(variable.values),
        "devices": [device.number for device in variable.devices],
        "ps_tasks": [device.task for device in variable.devices],
        "initializer_calls": len(calls),
    }


def created_in_scope(world: World, step: Record) -> Operation[Observed]:
    """Does the strategy own the variable?"""
    return {"result": world.strategy.created(world.variables[step["var"]])}
    yield


def reduce_to(world: World, step: Record) -> Operation[Observed]:
    """extended.reduce_to."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        place = destination(program.handed, step["destination"], value, context)
        return world.strategy.reduce_to(context, reduce_op(step["reduce"]), value, place)

    return (yield from in_context(world, step, act))


def batch_reduce_to(world: World, step: Record) -> Operation[Observed]:
    """extended.batch_reduce_to."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        pairs = []
        for pair in step["pairs"]:
            value = program.handed.value(pair["value"], context)
            place = destination(program.handed, pair["destination"], value, context)
            pairs.append((value, place))
        return world.strategy.batch_reduce_to(context, step["reduce"], pairs)

    return (yield from in_context(world, step, act))


def broadcast_to(world: World, step: Record) -> Operation[Observed]:
    """extended.broadcast_to."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        # The recording program knew no "value" here and handed over None.
        place = destination(program.handed, step["destination"], None, context)
        return world.strategy.broadcast_to(context, value, place)

    return (yield from in_context(world, step, act))


def reduce(world: World, step: Record) -> Operation[Observed]:
    """strategy.reduce."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        return world.strategy.reduce(context, step["reduce"], value, step["axis"])

    return (yield from in_context(world, step, act))


def gather(world: World, step: Record) -> Operation[Observed]:
    """strategy.gather."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        return world.strategy.gather(context, value, step["axis"])

    return (yield from in_context(world, step, act))


def local_results(world: World, step: Record) -> Operation[Observed]:
    """strategy.experimental_local_results."""
    value = Program(world).handed.value(step["value"], world.strategy.scope())
    return {"result": world.strategy.local_results(value)}
    yield


def update(world: World, step: Record) -> Operation[Observed]:
    """extended.update."""
    program, variable = Program(world), world.variables[step["var"]]
    function = updater(world, step["fn"])

    def act(context: Context) -> Operation[object]:
        args = [program.handed.value(value, context) for value in step["args"]]
        kwargs = {
            name: program.handed.value(value, context)
            for name, value in step.get("kwargs", {}).items()
        }
        group = step.get("group", True)
        return world.strategy.update(context, variable, function, args, kwargs, group=group)

    return (yield from in_context(world, step, act))


def value_container(world: World, step: Record) -> Operation[Observed]:
    """extended.value_container."""
    variable, index = world.variables[step["var"]], step["index"]
    value = variable if index is None else Component(variable, index)
    return {"result": world.strategy.value_container(value)}
    yield


def run(world: World, step: Record) -> Operation[Observed]:
    """A program in all replicas."""
    program, scope = Program(world), world.strategy.scope()
    args = [program.handed.value(value, scope) for value in step["args"]]

    def replica(context: Context, *args: object) -> Operation[object]:
        return program.run(context, step["program"], dict(zip(step["params"], args, strict=True)))

    return {"result": (yield from world.strategy.run(scope, replica, args))}


def run_args(world: World, step: Record) -> Operation[Observed]:
    """A named function in all replicas."""
    handed, scope = Program(world).handed, world.strategy.scope()
    args: Any = step["args"]
    args = handed.value(args, scope) if "list" in args else handed.value(args["one"], scope)
    named: dict[str, Callable[..., object]] = {
        "identity": lambda context, x: _tensor(context, x),
        "same": lambda _, x: x,
        "nothing": lambda _: None,
        "pair": lambda context, x: [_tensor(context, x), x + 1],
        "replica_id_times": lambda context, x: x * context.replica_id,
    }
    return {"result": (yield from world.strategy.run(scope, named[step["fn"]], args))}


def _tensor(context: Context, value: Any) -> Tensor:
    """A new tensor of a value."""
    return value.on(value.device) if isinstance(value, Tensor) else tensor_of(value, context.device)
