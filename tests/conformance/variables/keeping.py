"""Steps that keep something: checkpoints, new strategies, optimizers."""

import numpy as np

from tests.conformance.variables.program import Program
from tests.conformance.variables.records import Record
from tests.conformance.variables.steps import Observed, in_context, make_each
from tests.conformance.variables.world import World
from varsim import tf


def save_all(world: World, step: Record) -> Observed:
    """A checkpoint of all variables."""
    with world.context(step.get("context", "outside")):
        saved = tf.Checkpoint(**world.variables).save()
    world.checkpoints[step["to"]] = saved
    return {"saved": saved}


def restore_all(world: World, step: Record) -> Observed:
    """Restore what exists now, and the rest when it comes to exist."""
    world.pending = world.checkpoints[step["from"]]
    tf.Checkpoint(**world.variables).restore(world.pending)
    return {}


def restart(world: World, step: Record) -> Observed:
    """A new strategy with new variables."""
    world.restart(step["strategy"])
    return {"variables": make_each(world, step["variables"])}


def optimizer(world: World, step: Record) -> Observed:
    """An optimizer in the scope."""
    clips = (step.get("clipvalue"), step.get("clipnorm"))
    made: tf.Adam | tf.SGD
    with world.strategy.scope():
        if step["kind"] == "adam":
            settings = (step["learning_rate"], step["beta_1"], step["beta_2"], step["epsilon"])
            made = tf.Adam(*settings, *clips)
        else:
            nesterov = step.get("nesterov", False)
            made = tf.SGD(step["learning_rate"], step.get("momentum") or 0.0, nesterov, *clips)
    world.optimizers[step["name"]] = made
    return {}


def apply_gradients(world: World, step: Record) -> Observed:
    """One step of an optimizer."""
    used, program = world.optimizers[step["optimizer"]], Program(world)

    def act() -> None:
        used.apply_gradients(
            [
                (program.handed.value(value), world.variables[name])
                for name, value in step["gradients"].items()
            ]
        )

    in_context(world, step, act)
    return {"iterations": used.iterations, "slots": _slots(used, step["gradients"], world)}


def _slots(used: tf.Adam | tf.SGD, trained: Record, world: World) -> Observed:
    """Slots under Keras's names: its momentum is -learning_rate times varsim's velocity."""
    rule = used.inner.rule
    if isinstance(used, tf.Adam):
        slots = {"momentum": ("m", 1.0), "velocity": ("v", 1.0)}
    else:
        slots = {"momentum": ("velocity", -rule.learning_rate)} if rule.slots else {}
    return {
        keras: {
            name: [np.asarray(factor * value) for value in used.slots(variable)[own]]
            for name, variable in world.variables.items()
            if name in trained
        }
        for keras, (own, factor) in slots.items()
    }
