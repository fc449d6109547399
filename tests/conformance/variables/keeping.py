"""Steps that keep something: checkpoints, new strategies, optimizers."""

import numpy as np

from tests.conformance.variables.program import Program
from tests.conformance.variables.records import Record
from tests.conformance.variables.steps import Observed, in_context, make_each
from tests.conformance.variables.world import World
from varsim.distribute.context import Context
from varsim.distribute.training import Clip, DistributedOptimizer
from varsim.distribute.variable import DistributedVariable, restore, save
from varsim.values.operation import Operation
from varsim.values.optimizer import Adam, Momentum, Optimizer, Sgd


def save_all(world: World, step: Record) -> Operation[Observed]:
    """A checkpoint of all variables."""
    saved = yield from save(world.variables, world.context(step.get("context", "outside")))
    world.checkpoints[step["to"]] = saved
    return {"saved": saved}


def restore_all(world: World, step: Record) -> Operation[Observed]:
    """Restore what exists now, and the rest when it comes to exist."""
    world.pending = world.checkpoints[step["from"]]
    yield from restore(world.pending, world.variables)
    return {}


def restart(world: World, step: Record) -> Operation[Observed]:
    """A new strategy with new variables."""
    world.restart(step["strategy"])
    return {"variables": (yield from make_each(world, step["variables"]))}


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
        return used.apply_gradients(context, pairs)

    yield from in_context(world, step, act)
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
