"""The steps of a case: each is what a user of `varsim.tf` types, and gives what was observed."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.conformance.records import Record, array
from tests.conformance.variables.program import Program, replica, updater
from tests.conformance.variables.world import ALGORITHMS, World
from varsim import tf
from varsim.distribute.cross_device_ops import concat_and_split, group_by_size, options
from varsim.tf.values import own

Observed = dict[str, Any]
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


def carry_out(world: World, step: Record) -> Observed:
    """One step, and what is seen of it."""
    program, kind = Program(world), step["op"]
    if kind in STEPS:
        return STEPS[kind](program, step)
    call = CALLS[kind]
    return in_context(program, step, lambda: call(program, step))


def in_context(program: Program, step: Record, act: Callable[[], object]) -> Observed:
    """Act in the context of a step: in every replica, or once."""
    world = program.world
    if step["context"] == "replica":
        return {"result": world.strategy.run(act)}
    with world.context(step["context"]):
        if "device" not in step:
            return {"result": act()}
        with tf.device(world.strategy.inner.devices[0]._replace(number=step["device"])):
            return {"result": act()}


# Calls that are made in the context of the step, in every replica or once.


def write(program: Program, step: Record) -> object:
    """assign, assign_add, assign_sub."""
    method = getattr(program.world.variables[step["var"]], step["op"])
    return method(program.given(step["value"]))


def read(program: Program, step: Record) -> object:
    """A read, by method or by conversion."""
    variable, how = program.world.variables[step["var"]], step["how"]
    if how.startswith("aggregate"):
        with tf.variable_sync_on_read_context():
            return tf.convert_to_tensor(variable) if how == "aggregate" else variable.read_value()
    return tf.convert_to_tensor(variable) if how == "tensor" else variable.read_value()


def scatter(program: Program, step: Record) -> object:
    """A sparse update."""
    variable = program.world.variables[step["var"]]
    return variable.scatter(step["method"], step["indices"], tf.Tensor(array(step["values"])))


def reduce_to(program: Program, step: Record) -> object:
    """extended.reduce_to."""
    kind, _, member = step["reduce"].partition(":")
    operation = tf.VariableAggregation[member] if kind == "aggregation" else step["reduce"]
    value = program.given(step["value"])
    place = program.destination(step["destination"], value)
    return program.world.strategy.extended.reduce_to(operation, value, place)


def batch_reduce_to(program: Program, step: Record) -> object:
    """extended.batch_reduce_to."""
    values = [program.given(pair["value"]) for pair in step["pairs"]]
    pairs = [
        (value, program.destination(pair["destination"], value))
        for value, pair in zip(values, step["pairs"], strict=True)
    ]
    return program.world.strategy.extended.batch_reduce_to(step["reduce"], pairs)


def broadcast_to(program: Program, step: Record) -> object:
    """extended.broadcast_to."""
    value = program.given(step["value"])
    # The recording program knew no "value" here and handed over None.
    place = program.destination(step["destination"], None)
    return program.world.strategy.extended.broadcast_to(value, place)


def reduce(program: Program, step: Record) -> object:
    """strategy.reduce."""
    return program.world.strategy.reduce(step["reduce"], program.given(step["value"]), step["axis"])


def gather(program: Program, step: Record) -> object:
    """strategy.gather."""
    return program.world.strategy.gather(program.given(step["value"]), step["axis"])


def update(program: Program, step: Record) -> object:
    """extended.update."""
    variable, function = program.world.variables[step["var"]], updater(program.world, step["fn"])
    args = [program.given(value) for value in step["args"]]
    kwargs = {name: program.given(value) for name, value in step.get("kwargs", {}).items()}
    extended = program.world.strategy.extended
    return extended.update(variable, function, args, kwargs, step.get("group", True))


CALLS: Final[dict[str, Callable[[Program, Record], object]]] = {
    **dict.fromkeys(("assign", "assign_add", "assign_sub"), write),
    "read": read,
    "scatter": scatter,
    "reduce_to": reduce_to,
    "batch_reduce_to": batch_reduce_to,
    "broadcast_to": broadcast_to,
    "reduce": reduce,
    "gather": gather,
    "update": update,
}

# Steps that say themselves where they happen, and what is seen of them.


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
        "devices": [copy.device.number for copy in variable.values],
        "ps_tasks": [copy.device.task for copy in variable.values],
        "initializer_calls": len(calls),
    }


def created_in_scope(program: Program, step: Record) -> Observed:
    """Does the strategy own the variable?"""
    extended, variable = program.world.strategy.extended, program.world.variables[step["var"]]
    return {"result": extended.variable_created_in_scope(variable)}


def local_results(program: Program, step: Record) -> Observed:
    """strategy.experimental_local_results."""
    with program.world.strategy.scope():
        value = program.given(step["value"])
    return {"result": program.world.strategy.experimental_local_results(value)}


def value_container(program: Program, step: Record) -> Observed:
    """extended.value_container."""
    variable, index = program.world.variables[step["var"]], step["index"]
    value = variable if index is None else variable.values[index]
    return {"result": program.world.strategy.extended.value_container(value)}


def run(program: Program, step: Record) -> Observed:
    """A program in all replicas."""
    with program.world.strategy.scope():
        args = [program.given(value) for value in step["args"]]

    def in_replica(*args: object) -> object:
        return program.run(step["program"], dict(zip(step["params"], args, strict=True)))

    return {"result": program.world.strategy.run(in_replica, args)}


def run_args(program: Program, step: Record) -> Observed:
    """A named function in all replicas."""
    args: Any = step["args"]
    with program.world.strategy.scope():
        args = program.given(args) if "list" in args else program.given(args["one"])

    def identity(value: Any) -> tf.Tensor:
        if isinstance(value, tf.Tensor):
            return tf.Tensor(np.array(value.array), value.device)
        return tf.convert_to_tensor(value)

    named: dict[str, Callable[..., object]] = {
        "identity": identity,
        "same": lambda x: x,
        "nothing": lambda *_: None,
        "pair": lambda x: [identity(x), x + 1],
        "replica_id_times": lambda x: x * replica().replica_id_in_sync_group,
    }
    return {"result": program.world.strategy.run(named[step["fn"]], args)}


def properties(program: Program, step: Record) -> Observed:
    """The properties of the strategy."""
    strategy = program.world.strategy
    with strategy.scope():
        inside = tf.in_cross_replica_context()
    found: Observed = {
        "in_cross_replica_context_in_scope": inside,
        "in_cross_replica_context_outside": tf.in_cross_replica_context(),
        "in_cross_replica_context_in_run": strategy.run(
            lambda: tf.Tensor(np.array(tf.in_cross_replica_context()))
        ),
        "replica_ids": strategy.run(
            lambda: tf.Tensor(np.array(replica().replica_id_in_sync_group, np.int32))
        ),
    }
    for name in PROPERTIES:
        try:
            of = strategy if hasattr(tf.Strategy, name) else strategy.extended
            value = getattr(of, name)
            found[name] = [device.number for device in value] if "devices" in name else value
        except tf.DistributionError as error:
            found[name] = error
    return {"properties": found}


def cross_device_ops(program: Program, step: Record) -> Observed:
    """Which algorithm the strategy uses."""
    with program.world.strategy.scope():
        value = program.given(step["value"]) if "value" in step else None
    inner: Any = program.world.strategy.inner
    algorithm = inner.cross_device_ops(own(value))
    implementation = getattr(algorithm, "implementation", None)
    return {
        "algorithm": algorithm.name,
        "implementation": implementation and implementation.name,
        "num_packs": getattr(algorithm, "num_packs", None),
    }


def communication_options(program: Program, step: Record) -> Observed:
    """Options, merged with others."""
    found = options(**step["options"])
    if "merged_with" in step:
        found = found.merge(options(**step["merged_with"]))
    names = ("bytes_per_pack", "timeout_seconds")
    seen = {name: getattr(found, name) for name in names}
    return {"options": seen | {"implementation": found.implementation.name}}


def packs(program: Program, step: Record) -> Observed:
    """How a batch is cut into packs, or tensors are repacked."""
    if step["op"] == "concat_and_split":
        return {"packs": concat_and_split([array(t) for t in step["tensors"]], step["num_packs"])}
    sizes = [int(np.prod(t["shape"])) * np.dtype(t["dtype"]).itemsize for t in step["tensors"]]
    return {"packs": group_by_size(sizes, step["bytes_per_pack"])}


def make_algorithm(program: Program, step: Record) -> Observed:
    """An algorithm object."""
    made: Any = ALGORITHMS[step["algorithm"]](step["num_packs"])
    return {"num_packs": made.num_packs}


# Steps that keep something: checkpoints, new strategies, optimizers.


def save(program: Program, step: Record) -> Observed:
    """A checkpoint of all variables."""
    world = program.world
    with world.context(step.get("context", "outside")):
        saved = world.checkpoints[step["to"]] = tf.Checkpoint(**world.variables).save()
    return {"saved": saved}


def restore(program: Program, step: Record) -> Observed:
    """Restore what exists now, and the rest when it comes to exist."""
    world = program.world
    world.pending = world.checkpoints[step["from"]]
    tf.Checkpoint(**world.variables).restore(world.pending)
    return {}


def restart(program: Program, step: Record) -> Observed:
    """A new strategy with new variables; of one that is refused, the error."""
    program.world.restart(step["strategy"])
    made: list[Observed] = []
    for record in step["variables"]:
        try:
            made.append(make(program.world, record))
        except tf.DistributionError as error:
            made.append({"error": error})
    return {"variables": made}


def optimizer(program: Program, step: Record) -> Observed:
    """An optimizer in the scope."""
    clips = (step.get("clipvalue"), step.get("clipnorm"))
    made: tf.Adam | tf.SGD
    with program.world.strategy.scope():
        if step["kind"] == "adam":
            settings = (step["learning_rate"], step["beta_1"], step["beta_2"], step["epsilon"])
            made = tf.Adam(*settings, *clips)
        else:
            nesterov = step.get("nesterov", False)
            made = tf.SGD(step["learning_rate"], step.get("momentum") or 0.0, nesterov, *clips)
    program.world.optimizers[step["name"]] = made
    return {}


def apply_gradients(program: Program, step: Record) -> Observed:
    """One step of an optimizer; slots under Keras's names.

    Keras's momentum is -learning_rate times varsim's velocity.
    """
    world, gradients = program.world, step["gradients"]
    used = world.optimizers[step["optimizer"]]

    def act() -> None:
        used.apply_gradients(
            [(program.given(value), world.variables[name]) for name, value in gradients.items()]
        )

    in_context(program, step, act)
    rule = used.inner.rule
    if isinstance(used, tf.Adam):
        slots = {"momentum": ("m", 1.0), "velocity": ("v", 1.0)}
    else:
        slots = {"momentum": ("velocity", -rule.learning_rate)} if rule.slots else {}
    seen = {
        keras: {
            name: [np.asarray(factor * value) for value in used.slots(variable)[own]]
            for name, variable in world.variables.items()
            if name in gradients
        }
        for keras, (own, factor) in slots.items()
    }
    return {"iterations": used.iterations, "slots": seen}


STEPS: Final[dict[str, Callable[[Program, Record], Observed]]] = {
    "copies": lambda program, step: {},  # they are looked at after every step
    "create": lambda program, step: make(
        program.world, step["variable"], step.get("context", "cross_replica")
    ),
    "variable_created_in_scope": created_in_scope,
    "local_results": local_results,
    "value_container": value_container,
    "properties": properties,
    "run": run,
    "run_args": run_args,
    "save": save,
    "restore": restore,
    "restart": restart,
    "optimizer": optimizer,
    "apply_gradients": apply_gradients,
    "cross_device_ops": cross_device_ops,
    "group_by_size": packs,
    "concat_and_split": packs,
    "communication_options": communication_options,
    "make_cross_device_ops": make_algorithm,
}
