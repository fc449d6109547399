"""Strategies with one copy on a parameter device: central storage, parameter servers."""

from collections.abc import Sequence

from varsim.distribute.container import is_per_replica
from varsim.distribute.context import Context
from varsim.distribute.creation import initial_value
from varsim.distribute.mirrored import AggregatingVariable
from varsim.distribute.packing import Options
from varsim.distribute.partition import Partitioner
from varsim.distribute.plain import PlainVariable, ShardedVariable
from varsim.distribute.reducing import (
    batch_reduce_parts,
    broadcast_to,
    gather_parts,
    reduce_one_value,
    reduce_parts,
)
from varsim.distribute.reduction import CrossDeviceOps, ReductionToOneDevice
from varsim.distribute.strategy import Strategy
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import HERE, Device, Operation
from varsim.values.optimizer import Optimizer
from varsim.values.variable import Attributes, ReduceOp, Variable


class CentralStorageStrategy(Strategy):
    """Replicas on several devices, variables on one (parameter_server_strategy.py, V1 extended).

    Values are reduced on the CPU that is device 0.
    """

    kind = "central_storage"

    def __init__(self, devices: Sequence[Device], parameter_device: Device) -> None:
        super().__init__(devices, [parameter_device])
        self._cross_device_ops = ReductionToOneDevice(HERE)

    @property
    def experimental_between_graph(self) -> bool:
        """Yes."""
        return True

    def cross_device_ops(self, value: object = None) -> CrossDeviceOps:
        """The algorithm, for any value."""
        return self._cross_device_ops

    def _do_create(
        self,
        initial: object,
        attributes: Attributes,
        optimizer: Optimizer | None,
        devices: tuple[Device, ...] | None,
    ) -> Operation[DistributedVariable]:
        value = initial_value(initial)
        made = AggregatingVariable if self.num_replicas_in_sync > 1 else PlainVariable
        return made(value, devices or self.parameters, attributes, optimizer, self)
        yield

    def _do_copies(self, variable: Variable) -> Sequence[int]:
        return [0] * len(variable.values)

    def _do_reduce(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        if not is_per_replica(value):
            return (
                yield from reduce_one_value(
                    context, op, value, destination, self.num_replicas_in_sync
                )
            )
        return (yield from reduce_parts(context, self._cross_device_ops, op, value, destination))

    def _do_batch_reduce(
        self,
        context: Context,
        op: ReduceOp,
        pairs: Sequence[tuple[object, object]],
        options: Options,
    ) -> Operation[list[object]]:
        return (yield from batch_reduce_parts(context, self._cross_device_ops, op, pairs, options))

    def _do_broadcast(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        return (yield from broadcast_to(context, value, destination))

    def _do_gather(
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
        super().__init__([HERE], Device("ps"))
        self._servers = servers
        self._partitioner = partitioner
        self._placed = 0

    def _do_create(
        self,
        initial: object,
        attributes: Attributes,
        optimizer: Optimizer | None,
        devices: tuple[Device, ...] | None,
    ) -> Operation[DistributedVariable]:
        value = initial_value(initial)
        shards = 1
        if self._partitioner and value.ndim and devices is None:
            rows = value.shape[0]
            shards = max(1, min(rows, self._partitioner.shards(value.shape, value.itemsize)))
        places = devices or self._next(shards)
        made = PlainVariable if shards == 1 else ShardedVariable
        return made(value, places, attributes, optimizer, self)
        yield

    def on_worker(self, device: Device) -> Context:
        """Where a function that the coordinator schedules on a worker runs: its one replica there.

        (ClusterCoordinator.schedule.)
        """
        return Context(self, 0, device=device)

    def _next(self, number: int) -> tuple[Device, ...]:
        """The next servers in turn."""
        first = self._placed
        self._placed += number
        return tuple(Device("ps", (first + index) % self._servers) for index in range(number))
