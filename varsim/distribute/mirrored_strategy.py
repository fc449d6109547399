"""MirroredStrategy and MultiWorkerMirroredStrategy: a copy of every variable on each replica."""

from collections.abc import Sequence

import numpy as np

from varsim.core.operation import (
    DeviceId,
    Exchange,
    Operation,
    RefusedProgramError,
    RefusedValueError,
    Transfer,
    movement,
)
from varsim.distribute.attributes import ReduceOp, Synchronization, Variable
from varsim.distribute.container import is_mirrored, is_per_replica, select, tensors_of
from varsim.distribute.context import Context
from varsim.distribute.cross_device_ops import (
    CollectiveAllReduce,
    CrossDeviceOps,
    Implementation,
    Options,
    ReductionToOneDevice,
    any_cpu,
    same_devices,
)
from varsim.distribute.mirrored import MirroredVariable, SyncOnReadVariable
from varsim.distribute.reducing import (
    batch_reduce_parts,
    broadcast_to,
    destination_devices,
    gather_parts,
    reduce_parts,
)
from varsim.distribute.strategy import NewVariable, ReplicaStrategy
from varsim.distribute.tensor import Tensor, Values
from varsim.distribute.variable import (
    DistributedVariable,
    check_mean,
    initial_value,
    mirrored_attributes,
)


class MirroredStrategy(ReplicaStrategy):
    """One process with a replica on each device; without an algorithm it chooses one.

    All CPUs: a ring; CPUs and GPUs: reduction to one device; GPUs: NCCL
    (MirroredExtended._make_collective_ops_with_fallbacks).
    """

    kind = "mirrored"

    def __init__(
        self, devices: Sequence[DeviceId], cross_device_ops: CrossDeviceOps | None = None
    ) -> None:
        super().__init__(devices)
        self._cross_device_ops = cross_device_ops or _chosen(self.devices)

    def cross_device_ops(self, value: object = None) -> CrossDeviceOps:
        """The algorithm, for a value: int32 always goes to one device.

        RefusedProgramError for what has no dtype.
        """
        if value is None:
            return self._cross_device_ops
        arrays = [value] if isinstance(value, np.ndarray) else [t.array for t in tensors_of(value)]
        if any(array.dtype == "int32" for array in arrays):
            return ReductionToOneDevice()
        return self._cross_device_ops

    def _create_variable(self, new: NewVariable) -> Operation[DistributedVariable]:
        attributes = mirrored_attributes(new.attributes)
        value = yield from self._initial(new.initial)
        check_mean(attributes, value)
        places = new.devices or self.devices
        yield from movement(
            "initial value", [Transfer(places[0], place, value.nbytes) for place in places]
        )
        on_read = attributes.synchronization is Synchronization.ON_READ
        made = SyncOnReadVariable if on_read else MirroredVariable
        return made(value, places, attributes, new.optimizer, self)

    def _initial(self, initial: object) -> Operation[Values]:
        """The value that all copies start from: copy 0 computes it."""
        return initial_value(initial)
        yield

    def _copies_of(self, variable: Variable) -> Sequence[int]:
        if not variable.replicated:
            raise RefusedProgramError(
                "assertion",
                "a mirrored strategy updates distributed variables only: create it in its scope",
            )
        return range(len(variable.values))

    def _reduce_to(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if is_mirrored(value):
            return self._mirrored(op, value)
        if not is_per_replica(value):
            return (yield from self._reduce_equal(context, op, value, destination))
        devices = destination_devices(destination)
        direct = not same_devices(tensors_of(value), devices) or any_cpu(devices)
        algorithm = ReductionToOneDevice() if direct else self.cross_device_ops(value)
        return (yield from reduce_parts(context, algorithm, op, value, destination))

    def _mirrored(self, op: ReduceOp, value: object) -> object:
        """MEAN of what stands for one value already is that value; SUM is refused."""
        if op is ReduceOp.MEAN:
            return value
        raise RefusedProgramError(
            "assertion",
            "a mirrored value or variable stands for one value and is not summed over replicas: "
            "use MEAN, or multiply it",
        )

    def _batch_reduce_to(
        self,
        context: Context,
        op: ReduceOp,
        pairs: Sequence[tuple[object, object]],
        options: Options,
    ) -> Operation[list[object]]:
        algorithm: CrossDeviceOps | None = None
        for value, _ in pairs:
            # Each int32 value gets an algorithm object of its own.
            own = self.cross_device_ops(value)
            if algorithm is not None and own is not algorithm:
                raise RefusedValueError(
                    "batch_mixed",
                    "Inputs to batch_reduce_to must be either all on the host or all on the "
                    "compute devices: reduce int32 values one by one, or use int64",
                )
            algorithm = own
        if algorithm is None:
            return []
        return (
            yield from batch_reduce_parts(context, algorithm, op, pairs, options, self._parties)
        )

    @property
    def _parties(self) -> int:
        return 1

    def _broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        if not isinstance(value, int | float):
            self.cross_device_ops(value)  # refuses what has no dtype
        return (yield from broadcast_to(context, value, destination))

    def _gather_to(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        if not is_per_replica(value):
            return value
        algorithm = self.cross_device_ops(value)
        return (yield from gather_parts(context, algorithm, value, destination, axis))


def _chosen(devices: Sequence[DeviceId]) -> CrossDeviceOps:
    kinds = {device.kind for device in devices}
    if kinds == {"cpu"}:
        return CollectiveAllReduce(Implementation.RING, devices=len(devices))
    if kinds == {"gpu"}:
        return CollectiveAllReduce(Implementation.NCCL, devices=len(devices))
    return ReductionToOneDevice()


class MultiWorkerMirroredStrategy(MirroredStrategy):
    """Worker `worker` of `workers`, each with as many replicas."""

    kind = "multi_worker_mirrored"

    def __init__(
        self,
        devices: Sequence[DeviceId],
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
        return len(self.devices) * self._workers

    @property
    def experimental_between_graph(self) -> bool:
        return True

    @property
    def should_checkpoint(self) -> bool:
        return self._worker == 0

    @property
    def current(self) -> DeviceId:
        return DeviceId(task=self._worker)

    def replica_id(self, replica: int) -> int:
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

    def _gather_to(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        algorithm = self.cross_device_ops(value)
        return (
            yield from gather_parts(context, algorithm, value, destination, axis, self._workers)
        )

    def _broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        return (yield from broadcast_to(context, value, destination))

    def _reduce_to(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if is_mirrored(value):
            return self._mirrored(op, value)
        if is_per_replica(value) and len(self.devices) == 1:
            value = select(0, value)
        if not is_per_replica(value) and self._workers == 1:
            return (yield from self._reduce_equal(context, op, value, destination))
        if is_per_replica(value):
            tensors_of(value)  # refuses numbers
        algorithm = self.cross_device_ops(value)
        return (yield from reduce_parts(context, algorithm, op, value, destination, self._workers))
