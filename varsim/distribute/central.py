"""Strategies with one copy of each variable, from the default one to parameter servers.

Their variables have one place for each value: plain, and cut in shards along the first axis.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, prod

import numpy as np

from varsim.core.operation import (
    DEFAULT_DEVICE,
    DeviceId,
    Operation,
    RefusedNotImplementedError,
    RefusedRuntimeError,
    Transfer,
    movement,
)
from varsim.distribute.attributes import Attributes, ReduceOp, Variable
from varsim.distribute.container import Write, is_per_replica
from varsim.distribute.context import DEFAULT_CONTEXT, Context, StrategyInterface
from varsim.distribute.cross_device_ops import CrossDeviceOps, Options, ReductionToOneDevice
from varsim.distribute.mirrored import AggregatingVariable
from varsim.distribute.reducing import (
    batch_reduce_parts,
    broadcast_to,
    gather_parts,
    reduce_parts,
)
from varsim.distribute.strategy import NewVariable, ReplicaStrategy
from varsim.distribute.tensor import Tensor, Values, convert
from varsim.distribute.variable import (
    DistributedVariable,
    VariableOptions,
    check_shape,
    checked,
    initial_value,
)
from varsim.learning.optimizer import Optimizer


class PlainVariable(DistributedVariable):
    """One copy, written and read directly, whatever synchronization and aggregation it reports."""

    kind = "plain"

    def enter(self, context: Context) -> Context:
        return context

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        return (yield from self.write_copy(0, op, value))

    def write_cross_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        return (yield from self.write_copy(0, op, value))

    def read_cross_replica(self, context: Context) -> Operation[object]:
        return (yield from self.read_copy(0, context.device))


class ShardedVariable(DistributedVariable):
    """One value cut along the first axis, each part on its own server (sharded_variable.py).

    `values` are the shards, in order.
    """

    kind = "sharded"

    def __init__(
        self,
        initial: Values,
        devices: tuple[DeviceId, ...],
        attributes: Attributes,
        optimizer: Optimizer | None = None,
        strategy: StrategyInterface | None = None,
    ) -> None:
        super().__init__(initial, devices, attributes, optimizer, strategy)
        self._ends = shard_ends(initial.shape[0], len(devices))
        self.values = self.parts(initial)
        self.states = [optimizer.init(part) if optimizer else () for part in self.values]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._ends[-1], *self.values[0].shape[1:])

    def enter(self, context: Context) -> Context:
        return context

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        return (yield from self.write_cross_replica(context, op, value))

    def write_cross_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Every shard with its part; returns the variable itself, nothing is read back."""
        device = value.device if isinstance(value, Tensor) else context.device
        array = convert(value, self.dtype)
        check_shape(op, self.shape, array.shape)
        parts = self.parts(array)
        yield from movement(
            op,
            [
                Transfer(device, place, part.nbytes)
                for part, place in zip(parts, self.devices, strict=True)
            ],
        )
        for index, part in enumerate(parts):
            yield from self.write_copy(index, op, Tensor(part, self.devices[index]))
        return self

    def read_cross_replica(self, context: Context) -> Operation[object]:
        yield from movement(
            "read",
            [
                Transfer(device, context.device, shard.nbytes)
                for shard, device in zip(self.values, self.devices, strict=True)
            ],
        )
        return Tensor(np.concatenate(self.values), context.device)

    def read_copy(self, index: int, device: DeviceId) -> Operation[Tensor]:
        whole = yield from self.read_cross_replica(Context(device=device))
        assert isinstance(whole, Tensor)
        return whole

    def parts(self, value: Values) -> list[Values]:
        return np.split(value, self._ends[:-1])


def shard_ends(rows: int, shards: int) -> list[int]:
    """Where each shard ends; the first rows mod shards of them have one row more."""
    lengths = [rows // shards + (index < rows % shards) for index in range(shards)]
    return list(accumulate(lengths))


class Partitioner(ABC):
    """Number of shards of a variable, cut along the first axis (partitioned_variables.py)."""

    @abstractmethod
    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """The number wanted; the strategy never makes more shards than rows."""


@dataclass(frozen=True, slots=True)
class FixedShardsPartitioner(Partitioner):
    """Always the same number."""

    num_shards: int

    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        return self.num_shards


@dataclass(frozen=True, slots=True)
class MinSizePartitioner(Partitioner):
    """As many as the bytes fill at the minimum size, rounded up: shards may be smaller than it."""

    min_shard_bytes: int = 256 << 10
    max_shards: int = 1

    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """max(1, min(rows, max_shards, ceil(bytes / minimum)))."""
        size = prod(shape) * itemsize
        return max(1, min(shape[0], self.max_shards, ceil(size / self.min_shard_bytes)))


@dataclass(frozen=True, slots=True)
class MaxSizePartitioner(Partitioner):
    """As few as keep each shard below a size, in whole rows."""

    max_shard_bytes: int
    max_shards: int | None = None

    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """ceil(rows / max(1, floor(limit / bytes per row))), at most max_shards."""
        row = prod(shape[1:]) * itemsize
        rows = max(1, self.max_shard_bytes // row) if row else shape[0]
        number = ceil(shape[0] / rows) if rows else 1
        return number if self.max_shards is None else min(number, self.max_shards)


class OneDeviceStrategy(ReplicaStrategy):
    """One replica on one device; reductions hand back what they are given."""

    kind = "one_device"

    def __init__(self, device: DeviceId = DEFAULT_DEVICE) -> None:
        super().__init__([device])

    def _create_variable(self, new: NewVariable) -> Operation[DistributedVariable]:
        return PlainVariable(*new.at(self.parameters), self)
        yield

    def _copies_of(self, variable: Variable) -> Sequence[int]:
        return [0] * len(variable.values)

    def _reduce_to(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        return value
        yield

    def _broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        return value
        yield

    def _gather_to(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        return value
        yield


class DefaultStrategy(OneDeviceStrategy):
    """Default strategy: its scope changes nothing; parts of the extended API are missing."""

    kind = "default"
    has_scope = False

    @property
    def worker_devices(self) -> tuple[DeviceId, ...]:
        raise _devices_undefined()

    @property
    def parameter_devices(self) -> tuple[DeviceId, ...]:
        raise _devices_undefined()

    @property
    def experimental_between_graph(self) -> bool:
        raise _missing("experimental_between_graph")

    @property
    def experimental_should_init(self) -> bool:
        raise _missing("experimental_should_init")

    def _broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        raise _missing("broadcast_to")

    def colocate_vars_with(self, context: Context, variable: DistributedVariable) -> Context:
        return replace(self.enter(context), colocated=variable)


def create_without_scope(
    initial: object, options: VariableOptions, context: Context = DEFAULT_CONTEXT
) -> PlainVariable:
    """A variable created outside of every scope: plain, whatever its options."""
    return PlainVariable(
        initial_value(initial), (context.device,), checked(options), options.optimizer
    )


def _devices_undefined() -> RefusedRuntimeError:
    return RefusedRuntimeError(
        "devices_undefined",
        "method unsupported by default: use a strategy that has devices, such as OneDeviceStrategy",
    )


def _missing(what: str) -> RefusedNotImplementedError:
    return RefusedNotImplementedError(
        "not_implemented",
        f"{what} must be implemented in descendants, and is not without a strategy: use one, such "
        "as OneDeviceStrategy",
    )


class CentralStorageStrategy(ReplicaStrategy):
    """Replicas on several devices, variables on one (parameter_server_strategy.py, V1 extended).

    Values are reduced on the CPU that is device 0.
    """

    kind = "central_storage"

    def __init__(self, devices: Sequence[DeviceId], parameter_device: DeviceId) -> None:
        super().__init__(devices, [parameter_device])
        self._cross_device_ops = ReductionToOneDevice(DEFAULT_DEVICE)

    @property
    def experimental_between_graph(self) -> bool:
        return True

    def cross_device_ops(self, value: object = None) -> CrossDeviceOps:
        """The algorithm, for any value."""
        return self._cross_device_ops

    def _create_variable(self, new: NewVariable) -> Operation[DistributedVariable]:
        made = AggregatingVariable if self.num_replicas_in_sync > 1 else PlainVariable
        return made(*new.at(self.parameters), self)
        yield

    def _copies_of(self, variable: Variable) -> Sequence[int]:
        return [0] * len(variable.values)

    def _reduce_to(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if not is_per_replica(value):
            return (yield from self._reduce_equal(context, op, value, destination))
        return (yield from reduce_parts(context, self._cross_device_ops, op, value, destination))

    def _batch_reduce_to(
        self,
        context: Context,
        op: ReduceOp,
        pairs: Sequence[tuple[object, object]],
        options: Options,
    ) -> Operation[list[object]]:
        return (yield from batch_reduce_parts(context, self._cross_device_ops, op, pairs, options))

    def _broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        return (yield from broadcast_to(context, value, destination))

    def _gather_to(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        if not is_per_replica(value):
            return value
        return (yield from gather_parts(context, self._cross_device_ops, value, destination, axis))


class ParameterServerStrategy(CentralStorageStrategy):
    """A coordinator with variables on parameter servers (parameter_server_strategy_v2.py).

    Variables and shards go to the servers in turn, one count for both. With a partitioner,
    variables of rank 1 and more are cut along the first axis.
    """

    kind = "parameter_server"

    def __init__(self, servers: int, partitioner: Partitioner | None = None) -> None:
        super().__init__([DEFAULT_DEVICE], DeviceId("ps"))
        self._servers = servers
        self._partitioner = partitioner
        self._placed = 0

    def _create_variable(self, new: NewVariable) -> Operation[DistributedVariable]:
        value = initial_value(new.initial)
        shards = 1
        if self._partitioner and value.ndim and new.devices is None:
            rows = value.shape[0]
            shards = max(1, min(rows, self._partitioner.shards(value.shape, value.itemsize)))
        made = PlainVariable if shards == 1 else ShardedVariable
        return made(value, new.devices or self._next(shards), new.attributes, new.optimizer, self)
        yield

    def on_worker(self, device: DeviceId) -> Context:
        """Context of a function scheduled on a worker (ClusterCoordinator.schedule)."""
        return Context(self, 0, device=device)

    def _next(self, number: int) -> tuple[DeviceId, ...]:
        first = self._placed
        self._placed += number
        return tuple(DeviceId("ps", (first + index) % self._servers) for index in range(number))
