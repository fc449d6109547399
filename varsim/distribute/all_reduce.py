"""All-reduce in packs between GPUs: hierarchical copy and NCCL (cross_device_ops.py)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from varsim.core.operation import InvalidArgumentError, Operation, Transfer, movement
from varsim.distribute.attributes import ReduceOp
from varsim.distribute.cross_device_ops import (
    CrossDeviceOps,
    Devices,
    Options,
    Pair,
    ReductionToOneDevice,
    any_cpu,
    check_num_packs,
    concat_and_split,
    ring_movement,
    ring_sum,
    same_devices,
    unpack,
)
from varsim.distribute.tensor import Tensor, Values, add_in_order, divide


class AllReduceOps(CrossDeviceOps, ABC):
    """Base of the algorithms that all-reduce packs on GPUs; the rest goes to one device."""

    def __init__(self, num_packs: int = 1) -> None:
        check_num_packs(num_packs)
        self.num_packs = num_packs

    def reduce(
        self, op: ReduceOp, tensors: list[Tensor], devices: Devices
    ) -> Operation[list[Tensor]]:
        """An all-reduce between GPUs; to one device if a CPU takes part or devices differ."""
        if same_devices(tensors, devices) and not any_cpu(devices):
            (result,) = yield from self.all_reduce(op, [tensors])
            return result
        return (yield from ReductionToOneDevice().reduce(op, tensors, devices))

    def batch_reduce(
        self, op: ReduceOp, pairs: Sequence[Pair], options: Options
    ) -> Operation[list[list[Tensor]]]:
        """All values in packs if each stays on its devices; else one by one."""
        if all(same_devices(tensors, devices) for tensors, devices in pairs):
            return (yield from self.all_reduce(op, [tensors for tensors, _ in pairs]))
        return (yield from super().batch_reduce(op, pairs, options))

    def all_reduce(self, op: ReduceOp, batch: list[list[Tensor]]) -> Operation[list[list[Tensor]]]:
        """Sum each value over the replicas; results on the devices of its tensors."""
        arrays = [[tensor.array for tensor in tensors] for tensors in batch]
        devices = tuple(tensor.device for tensor in batch[0])
        sums: list[Values] = []
        if self.num_packs and len({value[0].dtype for value in arrays}) == 1:
            columns = [list(column) for column in zip(*arrays, strict=True)]  # by replica
            packs = [concat_and_split(column, self.num_packs) for column in columns]
            packed = [list(pack) for pack in zip(*packs, strict=True)]  # by pack
            totals = []
            for index, pack in enumerate(packed):
                totals.append((yield from self.all_sum(index, devices, pack)))
            sums = unpack(totals, [value[0] for value in arrays])
        else:
            for index, value in enumerate(arrays):
                sums.append((yield from self.all_sum(index, devices, value)))
        results = []
        for total, tensors in zip(sums, batch, strict=True):
            result = divide(total, len(tensors)) if op is ReduceOp.MEAN else total
            results.append([Tensor(result, tensor.device) for tensor in tensors])
        return results

    @abstractmethod
    def all_sum(self, index: int, devices: Devices, values: list[Values]) -> Operation[Values]:
        """The sum of one pack."""


class HierarchicalCopyAllReduce(AllReduceOps):
    """Two halves of n // 2 devices: each half adds on its main device, then the two sums are added.

    Pack i has main devices i mod n and n // 2 further, and is added on the first. Made for the
    8-GPU DGX-1. An odd device out is left out of the sum, as in TensorFlow.
    """

    name = "hierarchical_copy"

    def all_sum(self, index: int, devices: Devices, values: list[Values]) -> Operation[Values]:
        count = len(devices)
        if count == 1:
            return values[0]
        half = count // 2
        main = index % count
        other = (main + half) % count
        begins = (0, half) if main < half else (half, 0)
        groups = [range(begin, begin + half) for begin in begins]
        sums = [add_in_order([values[rank] for rank in group]) for group in groups]
        total = add_in_order(sums)
        size = total.nbytes
        mains = (main, other)
        yield from movement(
            "hierarchical copy",
            [
                Transfer(devices[rank], devices[to], size)
                for group, to in zip(groups, mains, strict=True)
                for rank in group
            ],
            [Transfer(devices[other], devices[main], size)],
            [Transfer(devices[main], devices[other], size)],
            [
                Transfer(devices[to], devices[rank], size)
                for group, to in zip(groups, mains, strict=True)
                for rank in group
            ],
            [Transfer(devices[main], devices[rank], size) for rank in range(2 * half, count)],
        )
        return total


class NcclAllReduce(AllReduceOps):
    """NCCL all-sum per pack, between GPUs only; here with the ring's order of additions."""

    name = "nccl"

    def all_sum(self, index: int, devices: Devices, values: list[Values]) -> Operation[Values]:
        if any_cpu(devices):
            raise InvalidArgumentError(
                "algorithm_needs_gpu",
                "NcclAllReduce works on GPUs only: use ReductionToOneDevice on CPUs",
            )
        yield from ring_movement(devices, values[:1], parties=1)
        return ring_sum(values)
