"""The steps of a case: each is an operation of one worker that gives what was observed."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from conformance.variables.program import Program, destination, reduce_op, updater
from conformance.variables.records import Record, array
from conformance.variables.world import World
from varsim.values.distribute.checkpoint import restore, save
from varsim.values.distribute.component import Component
from varsim.values.distribute.context import OUTSIDE, Context
from varsim.values.distribute.creation import Asked
from varsim.values.distribute.packing import concat_and_split, group_by_size, options
from varsim.values.distribute.reduction import ALGORITHMS
from varsim.values.distribute.refusal import DistributionError
from varsim.values.distribute.single import create_outside
from varsim.values.distribute.tensor import Tensor
from varsim.values.distribute.training import Clip, DistributedOptimizer
from varsim.values.distribute.variable import DistributedVariable
from varsim.values.operation import Operation
from varsim.values.optimizer import Adam, Momentum, Optimizer, Sgd

Observed = dict[str, Any]
Step = Callable[[World, Record], Operation[Observed]]


PROPERTIES: Final = (
    "num_replicas_in_sync",
    "worker_devices",
    "parameter_devices",
    "experimental_require_static_shapes",
    "experimental_between_graph",
    "experimental_should_init",
    "should_checkpoint",
    "should_save_summary",
)


def _in_context(
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

    return (yield from _in_context(world, step, act))


def read(world: World, step: Record) -> Operation[Observed]:
    """A read, by method or by conversion."""
    variable, how = world.variables[step["var"]], step["how"]

    def act(context: Context) -> Operation[object]:
        if how.startswith("aggregate"):
            context = context.aggregating()
        if how in ("tensor", "aggregate"):
            return (yield from variable.as_tensor(context))
        return (yield from variable.read(context))

    return (yield from _in_context(world, step, act))


def scatter(world: World, step: Record) -> Operation[Observed]:
    """A sparse update."""

    def act(context: Context) -> Operation[object]:
        rows, values = np.array(step["indices"]), Tensor(array(step["values"]))
        return world.variables[step["var"]].scatter(context, step["method"], rows, values)

    return (yield from _in_context(world, step, act))


def copies(world: World, step: Record) -> Operation[Observed]:
    """Nothing; the copies are looked at after every step."""
    return {}
    yield


def create(world: World, step: Record) -> Operation[Observed]:
    """A variable made by a step."""
    return (yield from make(world, step["variable"], step.get("context", "cross_replica")))


def make(world: World, record: Record, where: str = "cross_replica") -> Operation[Observed]:
    """Create a variable and describe it."""
    wanted = record.get("initial_per_worker", {world.worker: record["initial"]})[world.worker]
    calls = []

    def initializer() -> object:
        calls.append(1)
        return array(wanted)

    initial = initializer if record.get("initializer") == "callable" else Tensor(array(wanted))
    asked = Asked(record["synchronization"], record["aggregation"], record["trainable"])
    strategy = world.other if record.get("scope") == "other" else world.strategy

    def act(context: Context) -> Operation[DistributedVariable]:
        if context is OUTSIDE:
            return create_outside(initial, asked)
        if "colocate_with" in record:
            context = context.colocated_with(world.variables[record["colocate_with"]])
        return (yield from strategy.create(context, initial, asked))

    if where == "replica":
        variable = yield from strategy.run(strategy.scope(), act)
    else:
        scope = world.other.scope() if record.get("scope") == "other" else world.context(where)
        variable = yield from act(scope)
    assert isinstance(variable, DistributedVariable)
    world.variables[record["name"]] = variable
    if record["name"] in world.pending:
        variable.restore(world.pending[record["name"]])
    return {
        "class": variable.kind,
        "trainable": variable.attributes.trainable,
        "synchronization": variable.synchronization.name,
        "aggregation": variable.aggregation.name,
        "copies": [copy.value for copy in variable.copies],
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

    return (yield from _in_context(world, step, act))


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

    return (yield from _in_context(world, step, act))


def broadcast_to(world: World, step: Record) -> Operation[Observed]:
    """extended.broadcast_to."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        place = destination(program.handed, step["destination"], value, context)
        return world.strategy.broadcast_to(context, value, place)

    return (yield from _in_context(world, step, act))


def reduce(world: World, step: Record) -> Operation[Observed]:
    """strategy.reduce."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        return world.strategy.reduce(context, step["reduce"], value, step["axis"])

    return (yield from _in_context(world, step, act))


def gather(world: World, step: Record) -> Operation[Observed]:
    """strategy.gather."""
    program = Program(world)

    def act(context: Context) -> Operation[object]:
        value = program.handed.value(step["value"], context)
        return world.strategy.gather(context, value, step["axis"])

    return (yield from _in_context(world, step, act))


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

    return (yield from _in_context(world, step, act))


def value_container(world: World, step: Record) -> Operation[Observed]:
    """extended.value_container."""
    variable, index = world.variables[step["var"]], step["index"]
    value = variable if index is None else Component(variable, index)
    return {"result": world.strategy.value_container(value)}
    yield


def properties(world: World, step: Record) -> Operation[Observed]:
    """The properties of the strategy."""
    strategy = world.strategy
    scope = strategy.scope()

    def of_each(ask: Callable[[Context], object]) -> Operation[object]:
        return strategy.run(scope, lambda context: Tensor(np.array(ask(context))))

    found: Observed = {
        "in_cross_replica_context_in_scope": scope.in_cross_replica,
        "in_cross_replica_context_outside": OUTSIDE.in_cross_replica,
        "in_cross_replica_context_in_run": (
            yield from of_each(lambda context: context.in_cross_replica)
        ),
        "replica_ids": (yield from of_each(lambda context: np.int32(context.replica_id))),
    }
    for name in PROPERTIES:
        try:
            value = getattr(strategy, name)
            found[name] = [device.number for device in value] if "devices" in name else value
        except DistributionError as error:
            found[name] = error
    return {"properties": found}


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
        "identity": lambda _, x: x.on(x.device),
        "same": lambda _, x: x,
        "nothing": lambda _: None,
        "pair": lambda _, x: [x.on(x.device), x + 1],
        "replica_id_times": lambda context, x: x * context.replica_id,
    }
    return {"result": (yield from world.strategy.run(scope, named[step["fn"]], args))}


def save_all(world: World, step: Record) -> Operation[Observed]:
    """A checkpoint of all variables."""
    saved = yield from save(world.variables, world.context(step.get("context", "outside")))
    world.checkpoints[step["to"]] = saved
    return {"saved": saved}


def restore_all(world: World, step: Record) -> Operation[Observed]:
    """Restore what exists now, and the rest when it comes to exist."""
    world.pending = world.checkpoints[step["from"]]
    restore(world.pending, world.variables)
    return {}
    yield


def restart(world: World, step: Record) -> Operation[Observed]:
    """A new strategy with new variables."""
    world.restart(step["strategy"])
    made = []
    for record in step["variables"]:
        made.append((yield from make(world, record)))  # noqa: PERF401
    return {"variables": made}


def optimizer(world: World, step: Record) -> Operation[Observed]:
    """An optimizer in the scope."""
    rate = step["learning_rate"]
    rule: Optimizer
    if step["kind"] == "adam":
        rule = Adam(
            learning_rate=rate,
            beta1=step["beta_1"],
            beta2=step["beta_2"],
            epsilon=step["epsilon"],
        )
    elif step.get("momentum"):
        nesterov = step.get("nesterov", False)
        rule = Momentum(learning_rate=rate, momentum=step["momentum"], nesterov=nesterov)
    else:
        rule = Sgd(learning_rate=rate)
    clip = Clip(step.get("clipvalue"), step.get("clipnorm"))
    world.optimizers[step["name"]] = yield from DistributedOptimizer.create(
        world.strategy, rule, clip
    )
    return {}


def apply_gradients(world: World, step: Record) -> Operation[Observed]:
    """One step of an optimizer."""
    used, program = world.optimizers[step["optimizer"]], Program(world)

    def act(context: Context) -> Operation[None]:
        pairs = [
            (program.handed.value(value, context), world.variables[name])
            for name, value in step["gradients"].items()
        ]
        return used.apply_gradients(context, pairs)  # type: ignore[arg-type]

    yield from _in_context(world, step, act)
    return {
        "iterations": int(used.iterations.value),
        "slots": _slots(used, [world.variables[name] for name in step["gradients"]], world),
    }


def _slots(
    used: DistributedOptimizer, trained: list[DistributedVariable], world: World
) -> Observed:
    """Slots under Keras's names: its momentum is -learning_rate times varsim's velocity."""
    rule = used.rule
    names = {name: variable for name, variable in world.variables.items() if variable in trained}
    if isinstance(rule, Adam):
        slots = {"momentum": ("m", 1.0), "velocity": ("v", 1.0)}
    else:
        slots = {"momentum": ("velocity", -rule.learning_rate)} if rule.slots else {}
    return {
        keras: {
            name: [np.asarray(factor * value) for value in used.slots(variable)[own]]
            for name, variable in names.items()
        }
        for keras, (own, factor) in slots.items()
    }


def cross_device_ops(world: World, step: Record) -> Operation[Observed]:
    """Which algorithm the strategy uses."""
    value = (
        Program(world).handed.value(step["value"], world.strategy.scope())
        if "value" in step
        else None
    )
    algorithm = world.strategy.cross_device_ops(value)  # type: ignore[attr-defined]
    implementation = getattr(algorithm, "implementation", None)
    return {
        "algorithm": algorithm.name,
        "implementation": implementation and implementation.name,
        "num_packs": getattr(algorithm, "num_packs", None),
    }
    yield


def group(world: World, step: Record) -> Operation[Observed]:
    """How a batch is cut into packs."""
    sizes = [int(np.prod(t["shape"])) * np.dtype(t["dtype"]).itemsize for t in step["tensors"]]
    return {"packs": group_by_size(sizes, step["bytes_per_pack"])}
    yield


def concat(world: World, step: Record) -> Operation[Observed]:
    """How tensors are repacked."""
    return {"packs": concat_and_split([array(t) for t in step["tensors"]], step["num_packs"])}
    yield


def communication_options(world: World, step: Record) -> Operation[Observed]:
    """Options, merged with others."""
    found = options(**step["options"])
    if "merged_with" in step:
        found = found.merge(options(**step["merged_with"]))
    return {
        "options": {
            "bytes_per_pack": found.bytes_per_pack,
            "timeout_seconds": found.timeout_seconds,
            "implementation": found.implementation.name,
        }
    }
    yield


def make_algorithm(world: World, step: Record) -> Operation[Observed]:
    """An algorithm object."""
    return {"num_packs": ALGORITHMS[step["algorithm"]](step["num_packs"]).num_packs}
    yield


STEPS: Final[dict[str, Step]] = {
    "assign": write,
    "assign_add": write,
    "assign_sub": write,
    "scatter": scatter,
    "read": read,
    "copies": copies,
    "create": create,
    "variable_created_in_scope": created_in_scope,
    "reduce_to": reduce_to,
    "batch_reduce_to": batch_reduce_to,
    "broadcast_to": broadcast_to,
    "reduce": reduce,
    "gather": gather,
    "local_results": local_results,
    "update": update,
    "value_container": value_container,
    "properties": properties,
    "run": run,
    "run_args": run_args,
    "save": save_all,
    "restore": restore_all,
    "restart": restart,
    "optimizer": optimizer,
    "apply_gradients": apply_gradients,
    "cross_device_ops": cross_device_ops,
    "group_by_size": group,
    "concat_and_split": concat,
    "communication_options": communication_options,
    "make_cross_device_ops": make_algorithm,
}
