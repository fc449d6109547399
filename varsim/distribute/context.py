"""Context of an operation: no scope, cross-replica, in a replica, or inside an update."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from varsim.core.operation import DEFAULT_DEVICE, DeviceId, Merge, Operation, RefusedRuntimeError
from varsim.distribute.attributes import Aggregation, Variable


class StrategyInterface(Protocol):
    """Interface of a strategy to its contexts and variables; see `Strategy`."""

    has_scope: ClassVar[bool]

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all workers."""

    @property
    def current(self) -> DeviceId:
        """The device that is current where nobody says otherwise."""

    def replica_id(self, replica: int) -> int:
        """The id of one of this worker's replicas among all."""

    def enter(self, context: "Context") -> "Context":
        """The context, entering the scope from outside; RuntimeError in another scope."""

    def local_results(self, value: object) -> tuple[object, ...]:
        """The parts of a value that belong to this worker's replicas."""

    def update(
        self,
        context: "Context",
        variable: Variable,
        function: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
        *,
        group: bool = True,
    ) -> Operation[object]:
        """Call a function once per copy of a variable."""

    def reduce(self, context: "Context", op: object, value: object) -> Operation[object]:
        """The parts of all replicas as one value."""

    def all_reduce(self, context: "Context", op: object, value: object) -> Operation[object]:
        """The parts of all replicas as one value, in every replica."""

    def aggregate(
        self, context: "Context", aggregation: Aggregation, value: object, destination: object
    ) -> Operation[object]:
        """The argument of a write, aggregated for a variable."""


@dataclass(frozen=True, slots=True)
class Context:
    """Context of an operation, passed on explicitly (TensorFlow: thread-local stacks).

    `strategy`: whose scope, or none. `replica`: which replica of this worker runs, or none in
    cross-replica context. `updating`: which copy `update` is at. `device`: the current device.
    `aggregates`: inside variable_sync_on_read_context. `colocated`: inside colocate_vars_with.
    """

    strategy: StrategyInterface | None = None
    replica: int | None = None
    updating: int | None = None
    device: DeviceId = DEFAULT_DEVICE
    aggregates: bool = False
    colocated: Variable | None = None

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

    def at(self, device: DeviceId) -> "Context":
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


DEFAULT_CONTEXT = Context()
