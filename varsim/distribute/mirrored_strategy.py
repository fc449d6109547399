"""MirroredStrategy: a replica and a copy of every variable on each device.

(mirrored_strategy.py)
"""

from collections.abc import Sequence

import numpy as np

from varsim.distribute.container import is_mirrored, is_per_replica, tensors_of
from varsim.distribute.context import Context
from varsim.distribute.creation import check_mean, initial_value, mirrored_attributes
from varsim.distribute.destination import destination_devices
from varsim.distribute.mirrored import MirroredVariable
from varsim.distribute.packing import Implementation, Options
from varsim.distribute.reducing import (
    batch_reduce_parts,
    broadcast_to,
    gather_parts,
    reduce_one_value,
    reduce_parts,
)
from varsim.distribute.reduction import (
    CollectiveAllReduce,
    CrossDeviceOps,
    ReductionToOneDevice,
    any_cpu,
    same_devices,
)
from varsim.distribute.strategy import Strategy
from varsim.distribute.sync_on_read import SyncOnReadVariable
from varsim.distribute.tensor import Values
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import Device, Operation, Transfer, movement
from varsim.values.optimizer import Optimizer
from varsim.values.refusal import RefusedAssertionError, RefusedValueError
from varsim.values.variable import Attributes, ReduceOp, Synchronization, Variable


class MirroredStrategy(Strategy):
    """One process with a replica on each device; without an algorithm it chooses one.

    All CPUs: a ring; CPUs and GPUs: reduction to one device; GPUs: NCCL
    (MirroredExtended._make_collective_ops_with_fallbacks).
    """

    kind = "mirrored"

    def __init__(
        self, devices: Sequence[Device], cross_device_ops: CrossDeviceOps | None = None
    ) -> None:
        super().__init__(devices)
        self._cross_device_ops = cross_device_ops or _chosen(self.devices)

    def cross_device_ops(self, value: object = None) -> CrossDeviceOps:
        """The algorithm, for a value: int32 always goes to one device.

        AttributeError for what has no dtype.
        """
        if value is None:
            return self._cross_device_ops
        arrays = [value] if isinstance(value, np.ndarray) else [t.array for t in tensors_of(value)]
        if any(array.dtype == "int32" for array in arrays):
            return ReductionToOneDevice()
        return self._cross_device_ops

    def _do_create(
        self,
        initial: object,
        attributes: Attributes,
        optimizer: Optimizer | None,
        devices: tuple[Device, ...] | None,
    ) -> Operation[DistributedVariable]:
        attributes = mirrored_attributes(attributes)
        value = yield from self._initial(initial)
        check_mean(attributes, value)
        places = devices or self.devices
        yield from movement(
            "initial value", [Transfer(places[0], place, value.nbytes) for place in places]
        )
        on_read = attributes.synchronization is Synchronization.ON_READ
        made = SyncOnReadVariable if on_read else MirroredVariable
        return made(value, places, attributes, optimizer, self)

    def _initial(self, initial: object) -> Operation[Values]:
        """The value that all copies start from: copy 0 computes it."""
        return initial_value(initial)
        yield

    def _do_copies(self, variable: Variable) -> Sequence[int]:
        if not variable.replicated:
            raise RefusedAssertionError(
                "assertion",
                "a mirrored strategy updates distributed variables only: create it in its scope",
            )
        return range(len(variable.values))

    def _do_reduce(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if is_mirrored(value):
            return self._mirrored(op, value)
        if not is_per_replica(value):
            return (
                yield from reduce_one_value(
                    context, op, value, destination, self.num_replicas_in_sync
                )
            )
        devices = destination_devices(destination)
        direct = not same_devices(tensors_of(value), devices) or any_cpu(devices)
        algorithm = ReductionToOneDevice() if direct else self.cross_device_ops(value)
        return (yield from reduce_parts(context, algorithm, op, value, destination))

    def _mirrored(self, op: ReduceOp, value: object) -> object:
        """MEAN of what stands for one value already is that value; SUM is refused."""
        if op is ReduceOp.MEAN:
            return value
        raise RefusedAssertionError(
            "assertion",
            "a mirrored value or variable stands for one value and is not summed over replicas: "
            "use MEAN, or multiply it",
        )

    def _do_batch_reduce(
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
        """How many workers take part."""
        return 1

    def _do_broadcast(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        if not isinstance(value, int | float):
            self.cross_device_ops(value)  # AttributeError for what has no dtype
        return (yield from broadcast_to(context, value, destination))

    def _do_gather(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        if not is_per_replica(value):
            return value
        algorithm = self.cross_device_ops(value)
        return (yield from gather_parts(context, algorithm, value, destination, axis))


def _chosen(devices: Sequence[Device]) -> CrossDeviceOps:
    """The algorithm for these devices."""
    kinds = {device.kind for device in devices}
    if kinds == {"cpu"}:
        return CollectiveAllReduce(Implementation.RING, devices=len(devices))
    if kinds == {"gpu"}:
        return CollectiveAllReduce(Implementation.NCCL, devices=len(devices))
    return ReductionToOneDevice()
