"""Steps about the strategy itself: its properties, its algorithms, how it packs."""

from typing import Any, Final

import numpy as np

from tests.conformance.variables.program import Program
from tests.conformance.variables.records import Record, array
from tests.conformance.variables.steps import Observed
from tests.conformance.variables.world import ALGORITHMS, World
from varsim import tf
from varsim.distribute.cross_device_ops import concat_and_split, group_by_size, options
from varsim.tf.values import own

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


def properties(world: World, step: Record) -> Observed:
    """The properties of the strategy."""
    strategy = world.strategy

    def replica_id() -> tf.Tensor:
        context = tf.get_replica_context()
        assert context is not None
        return tf.Tensor(np.array(context.replica_id_in_sync_group, np.int32))

    with strategy.scope():
        inside = tf.in_cross_replica_context()
    found: Observed = {
        "in_cross_replica_context_in_scope": inside,
        "in_cross_replica_context_outside": tf.in_cross_replica_context(),
        "in_cross_replica_context_in_run": strategy.run(
            lambda: tf.Tensor(np.array(tf.in_cross_replica_context()))
        ),
        "replica_ids": strategy.run(replica_id),
    }
    for name in PROPERTIES:
        try:
            of = strategy if hasattr(tf.Strategy, name) else strategy.extended
            value = getattr(of, name)
            found[name] = [device.number for device in value] if "devices" in name else value
        except tf.DistributionError as error:
            found[name] = error
    return {"properties": found}


def cross_device_ops(world: World, step: Record) -> Observed:
    """Which algorithm the strategy uses."""
    with world.strategy.scope():
        value = Program(world).handed.value(step["value"]) if "value" in step else None
    algorithm = world.strategy.inner.cross_device_ops(own(value))  # type: ignore[attr-defined]
    implementation = getattr(algorithm, "implementation", None)
    return {
        "algorithm": algorithm.name,
        "implementation": implementation and implementation.name,
        "num_packs": getattr(algorithm, "num_packs", None),
    }


def group(world: World, step: Record) -> Observed:
    """How a batch is cut into packs."""
    sizes = [int(np.prod(t["shape"])) * np.dtype(t["dtype"]).itemsize for t in step["tensors"]]
    return {"packs": group_by_size(sizes, step["bytes_per_pack"])}


def concat(world: World, step: Record) -> Observed:
    """How tensors are repacked."""
    return {"packs": concat_and_split([array(t) for t in step["tensors"]], step["num_packs"])}


def communication_options(world: World, step: Record) -> Observed:
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


def make_algorithm(world: World, step: Record) -> Observed:
    """An algorithm object."""
    made: Any = ALGORITHMS[step["algorithm"]](step["num_packs"])
    return {"num_packs": made.num_packs}
