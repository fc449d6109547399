"""Steps about the strategy itself: its properties, its algorithms, how it packs."""

from collections.abc import Callable
from typing import Final

import numpy as np

from tests.conformance.variables.program import Program
from tests.conformance.variables.records import Record, array
from tests.conformance.variables.steps import Observed
from tests.conformance.variables.world import World
from varsim.distribute.all_reduce import ALGORITHMS
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.cross_device_ops import concat_and_split, group_by_size, options
from varsim.distribute.tensor import Tensor
from varsim.values.operation import DistributionError, Operation

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


def properties(world: World, step: Record) -> Operation[Observed]:
    """The properties of the strategy."""
    strategy = world.strategy
    scope = strategy.scope()

    def of_each(ask: Callable[[Context], object]) -> Operation[object]:
        return strategy.run(scope, lambda context: Tensor(np.array(ask(context))))

    found: Observed = {
        "in_cross_replica_context_in_scope": scope.in_cross_replica,
        "in_cross_replica_context_outside": DEFAULT_CONTEXT.in_cross_replica,
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
