"""MultiWorkerMirroredStrategy: mirrored copies in several processes.

Each worker has an object of its own, with its own replicas and its own copies. They meet in
collectives, which every worker has to call in the same order (collective_all_reduce_strategy.py).
"""

from collections.abc import Sequence

from varsim.values.device import Device, Transfer, movement
from varsim.values.distribute.container import (
    Mirrored,
    is_mirrored,
    is_per_replica,
    regroup,
    tensors_of,
)
from varsim.values.distribute.context import Context
from varsim.values.distribute.creation import initial_value
from varsim.values.distribute.destination import destination_devices
from varsim.values.distribute.mirrored_strategy import MirroredStrategy
from varsim.values.distribute.packing import Implementation
from varsim.values.distribute.reducing import reduce_one_value, reduce_parts
from varsim.values.distribute.reduction import CollectiveAllReduce, CrossDeviceOps
from varsim.values.distribute.tensor import Tensor, Values
from varsim.values.operation import Exchange, Operation
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
        super().__init__(devices, CollectiveAllReduce(implementation, workers))
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
        """Always collectives."""
        return self._cross_device_ops

    @property
    def _alone(self) -> bool:
        return self._workers == 1

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
        devices = destination_devices(destination)
        tensors = tensors_of(value)
        results = yield from self._cross_device_ops.gather(tensors, devices, axis)
        return regroup(results, Mirrored)

    def _do_reduce(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if is_mirrored(value):
            return self._mirrored(op, value)
        if is_per_replica(value) and len(tensors_of(value)) == 1:
            (value,) = tensors_of(value)
        if not is_per_replica(value) and self._alone:
            return (yield from reduce_one_value(op, value, destination, self.num_replicas_in_sync))
        return (
            yield from reduce_parts(
                self._cross_device_ops, op, value, destination, workers=self._workers
            )
        )
