"""Where an operation happens: outside, in a strategy's scope, in a replica, inside an update."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from varsim.values.device import HERE, Device
from varsim.values.distribute.refusal import RefusedRuntimeError
from varsim.values.operation import Merge, Operation

if TYPE_CHECKING:
    from varsim.values.distribute.strategy import Strategy
    from varsim.values.distribute.variable import DistributedVariable


@dataclass(frozen=True, slots=True)
class Context:
    """Who acts and where; TensorFlow keeps this in thread-local stacks, here it is handed on.

    `strategy`: whose scope, or none. `replica`: which replica of this worker runs, or none in
    cross-replica context. `updating`: which copy `update` is at. `device`: the current device.
    `aggregates`: inside variable_sync_on_read_context. `colocated`: inside colocate_vars_with.
    """

    strategy: "Strategy | None" = None
    replica: int | None = None
    updating: int | None = None
    device: Device = HERE
    aggregates: bool = False
    colocated: "DistributedVariable | None" = None

    @property
    def in_cross_replica(self) -> bool:
        """tf.distribute.in_cross_replica_context()."""
        return self.strategy is not None and self.strategy.has_scope and self.replica is None

    @property
    def replica_id(self) -> int:
        """ReplicaContext.replica_id_in_sync_group: which of all workers' replicas this is."""
        if self.strategy is None or self.replica is None:
            raise RefusedRuntimeError(
                "wrong_context", "only a replica has an id: ask inside the function given to run"
            )
        return self.strategy.replica_id(self.replica)

    def at(self, device: Device) -> "Context":
        """The same with another current device (tf.device)."""
        return replace(self, device=device)

    def aggregating(self) -> "Context":
        """The same inside variable_sync_on_read_context."""
        return replace(self, aggregates=True)

    def merge_call(
        self,
        function: Callable[..., object],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> Operation[object]:
        """ReplicaContext.merge_call: wait for all replicas of this worker, call once, go on.

        `function(context, *args)` gets the grouped arguments; its result is unpacked by replica.
        """
        if self.replica is None:
            raise RefusedRuntimeError(
                "wrong_context", "merge_call needs a replica: call the function itself instead"
            )
        return (yield Merge(function, args, kwargs or {}))


OUTSIDE = Context()
