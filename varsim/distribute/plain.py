"""Variables with one place for each value: plain, and cut in shards along the first axis."""

from itertools import accumulate

import numpy as np

from varsim.distribute.container import Write
from varsim.distribute.context import Context, StrategyInterface
from varsim.distribute.tensor import Tensor, Values, convert
from varsim.distribute.variable import DistributedVariable, check_shape
from varsim.values.operation import Device, Operation, Transfer, movement
from varsim.values.optimizer import Optimizer
from varsim.values.variable import Attributes


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
        devices: tuple[Device, ...],
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

    def read_copy(self, index: int, device: Device) -> Operation[Tensor]:
        whole = yield from self.read_cross_replica(Context(device=device))
        assert isinstance(whole, Tensor)
        return whole

    def parts(self, value: Values) -> list[Values]:
        return np.split(value, self._ends[:-1])


def shard_ends(rows: int, shards: int) -> list[int]:
    """Where each shard ends; the first rows mod shards of them have one row more."""
    lengths = [rows // shards + (index < rows % shards) for index in range(shards)]
    return list(accumulate(lengths))
