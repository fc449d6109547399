"""MultiWorkerMirroredStrategy: mirrored copies in several processes.

Each worker has an object of its own, with its own replicas and its own copies. They meet in
collectives, which every worker has to call in the same order (collective_all_reduce_strategy.py).
"""

from collections.abc import Sequence

from varsim.distribute.container import is_mirrored, is_per_replica, select, tensors_of
from varsim.distribute.context import Context
from varsim.distribute.creation import initial_value
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.packing import Implementation
from varsim.distribute.reducing import broadcast_to, gather_parts, reduce_one_value, reduce_parts
from varsim.distribute.reduction import CollectiveAllReduce, CrossDeviceOps
from varsim.distribute.tensor import Tensor, Values
from varsim.values.operation import Device, Exchange, Operation, Transfer, movement
from varsim.values.variable import ReduceOp


class MultiWorkerMirroredStrategy(MirroredStrategy):
    """Worker `worker` of `workers`, each with as many replicas."""

    kind = "multi_worker_mirrored"

    def __init__(
        self,
        devices: Sequence[Device],
        worker: int = 0,
        workers: int = 1,
        implementation: Implementation = Implementation.AUTO,
    ) -> None:
        super().__init__(devices, CollectiveAllReduce(implementation, workers, len(devices)))
        self._on_host = CollectiveAllReduce(implementation, workers, 1)
        self._worker = worker
        self._workers = workers

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all workers."""
        return len(self.devices) * self._workers

    @property
    def experimental_between_graph(self) -> bool:
        """Yes."""
        return True

    @property
    def should_checkpoint(self) -> bool:
        """Worker 0 alone, the chief."""
        return self._worker == 0

    @property
    def current(self) -> Device:
        """The first device of this worker."""
        return Device(task=self._worker)

    def replica_id(self, replica: int) -> int:
        """Counted over all workers."""
        return self._worker * len(self.devices) + replica

    def cross_device_ops(self, value: object = None) -> CrossDeviceOps:
        """Always collectives: of all replicas, or of one value from each worker."""
        parts = len(tensors_of(value)) if is_per_replica(value) else 1
        if value is None or parts == len(self.devices):
            return self._cross_device_ops
        return self._on_host

    @property
    def _parties(self) -> int:
        return self._workers

    def _initial(self, initial: object) -> Operation[Values]:
        """Worker 0 broadcasts its value, the others ignore theirs."""
        value = initial_value(initial)
        if self._workers == 1:
            return value
        everybody: list[Tensor] = yield Exchange(Tensor(value, self.devices[0]))
        first, *others = everybody
        yield from movement(
            "initial value",
            [Transfer(first.device, other.device, first.size) for other in others],
            parties=self._workers,
        )
        return first.array

    def _do_gather(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        algorithm = self.cross_device_ops(value)
        return (
            yield from gather_parts(context, algorithm, value, destination, axis, self._workers)
        )

    def _do_broadcast(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        return (yield from broadcast_to(context, value, destination))

    def _do_reduce(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if is_mirrored(value):
            return self._mirrored(op, value)
        if is_per_replica(value) and len(self.devices) == 1:
            value = select(0, value)
        if not is_per_replica(value) and self._workers == 1:
            return (
                yield from reduce_one_value(
                    context, op, value, destination, self.num_replicas_in_sync
                )
            )
        if is_per_replica(value):
            tensors_of(value)  # AttributeError for numbers
        algorithm = self.cross_device_ops(value)
        return (yield from reduce_parts(context, algorithm, op, value, destination, self._workers))
