"""Cross-device algorithms (cross_device_ops.py): ring, packs, reduction to one device.

A ring all-reduce of n ranks cuts a vector in n chunks: in n - 1 rounds each rank sends a chunk on,
added up on the way, in n - 1 more the sums go round, so chunk c is added starting from rank c.
Chunks are multiples of 64 bytes, hence a short vector is one chunk, and the last ones may be empty
(tensorflow/core/common_runtime: ring_reducer.cc, base_collective_executor.cc AlignedChunkElts).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

import numpy as np

from varsim.core.operation import (
    DeviceId,
    Exchange,
    InvalidArgumentError,
    Movement,
    Operation,
    RefusedProgramError,
    RefusedTypeError,
    RefusedValueError,
    Transfer,
    movement,
)
from varsim.distribute.attributes import ReduceOp
from varsim.distribute.tensor import Tensor, Values, add_in_order, divide


class Implementation(Enum):
    """How collectives are carried out (tf.distribute.experimental.CommunicationImplementation)."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


@dataclass(frozen=True, slots=True)
class Options:
    """tf.distribute.experimental.CommunicationOptions."""

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: Implementation = Implementation.AUTO

    def merge(self, other: "Options") -> "Options":
        """These options, replaced by those of `other` that are not at their default."""
        return Options(
            other.bytes_per_pack or self.bytes_per_pack,
            self.timeout_seconds if other.timeout_seconds is None else other.timeout_seconds,
            self.implementation
            if other.implementation is Implementation.AUTO
            else other.implementation,
        )


def options(
    bytes_per_pack: int = 0,
    timeout_seconds: float | None = None,
    implementation: str | Implementation = Implementation.AUTO,
) -> Options:
    """Checked options; the implementation may be named in any case. ValueError if refused."""
    if bytes_per_pack < 0:
        raise RefusedValueError(
            "invalid_option",
            f"bytes_per_pack must be >= 0, not {bytes_per_pack}: use 0 for one pack",
        )
    if isinstance(implementation, str):
        if implementation.upper() not in Implementation.__members__:
            raise RefusedValueError(
                "invalid_option",
                f"{implementation} is not a valid CommunicationImplementation: "
                "use AUTO, RING or NCCL",
            )
        implementation = Implementation[implementation.upper()]
    return Options(bytes_per_pack, timeout_seconds, implementation)


def group_by_size(sizes: Sequence[int], bytes_per_pack: int) -> list[list[int]]:
    """Indices of values of these sizes (bytes), cut in packs (cross_device_utils.group_by_size).

    A new pack starts when the current one already holds more than the limit; 0: one pack.
    """
    if bytes_per_pack == 0:
        return [list(range(len(sizes)))]
    packs: list[list[int]] = []
    held = 0
    for index, size in enumerate(sizes):
        if not packs or held > bytes_per_pack:
            packs.append([])
            held = 0
        packs[-1].append(index)
        held += size
    return packs


def check_num_packs(num_packs: int) -> None:
    """ValueError if negative; 0 is no packing."""
    if num_packs < 0:
        raise RefusedValueError(
            "invalid_option", f"num_packs must be >= 0, not {num_packs}: use 0 for no packing"
        )


def concat_and_split(values: Sequence[Values], num_packs: int) -> list[Values]:
    """All values laid end to end and cut in equal parts; the last takes the rest.

    (cross_device_ops._ConcatAndSplitPacker.) ValueError unless there is at least one part.
    """
    if num_packs <= 0:
        raise RefusedValueError(
            "invalid_option",
            f"num_packs must be greater than zero, not {num_packs}: use 1 for one pack",
        )
    flat = np.concatenate([value.ravel() for value in values])
    part = flat.size // num_packs
    return np.split(flat, [part * index for index in range(1, num_packs)])


def unpack(packs: Sequence[Values], like: Sequence[Values]) -> list[Values]:
    """The reverse of `concat_and_split`: values of the same shapes as `like`."""
    flat = np.concatenate(list(packs))
    ends = np.cumsum([value.size for value in like])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(value.shape) for part, value in zip(parts, like, strict=True)]


ALIGNMENT = 64  # bytes; EIGEN_MAX_ALIGN_BYTES


def chunk_length(count: int, itemsize: int, ranks: int) -> int:
    """Elements per chunk of a vector of `count` elements."""
    base = -(-count // ranks)
    if itemsize >= ALIGNMENT:
        return base
    return (base * itemsize // ALIGNMENT + 1) * ALIGNMENT // itemsize


def ring_sum(values: Sequence[Values]) -> Values:
    """The sum over ranks with the ring's order of additions; shape and dtype of each value."""
    ranks, first = len(values), values[0]
    length = chunk_length(first.size, first.itemsize, ranks)
    if first.size <= length or any(value.shape != first.shape for value in values):
        return add_in_order(values)
    flat = [value.ravel() for value in values]
    parts = [
        add_in_order([value[begin : begin + length] for value in flat[rank:] + flat[:rank]])
        for rank, begin in enumerate(range(0, first.size, length))
    ]
    return np.concatenate(parts).reshape(first.shape)


def ring_movement(
    devices: Sequence[DeviceId], values: Sequence[Values], parties: int
) -> list[Movement]:
    """What the ring sends for values reduced together, round by round."""
    ranks = len(devices)
    if ranks == 1:
        return []
    chunks = [0] * ranks
    for value in values:
        length = chunk_length(value.size, value.itemsize, ranks)
        for chunk in range(ranks):
            part = min(max(value.size - chunk * length, 0), length)
            chunks[chunk] += part * value.itemsize
    rounds = [
        [
            Transfer(devices[rank], devices[(rank + 1) % ranks], chunks[(rank - step) % ranks])
            for rank in range(ranks)
        ]
        for step in range(2 * (ranks - 1))
    ]
    return movement("ring all-reduce", *rounds, parties=parties)


# The dtypes that TensorFlow's collectives take on CPUs (collective_ops.cc); gathering: GATHERED.
REDUCIBLE_DTYPES: Final = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
GATHERABLE_DTYPES: Final = REDUCIBLE_DTYPES[1:]

Devices = tuple[DeviceId, ...]
Pair = tuple[list[Tensor], Devices]


class CrossDeviceOps(ABC):
    """Reduction and gathering of per-replica tensors onto destinations.

    Tensors come one per replica of this worker; results one per destination, in their order.
    """

    name: ClassVar[str]

    @abstractmethod
    def reduce(
        self, op: ReduceOp, tensors: list[Tensor], devices: Devices
    ) -> Operation[list[Tensor]]:
        """Reduce one value; tensors of one shape, results of it too (MEAN of integers: floats)."""

    def batch_reduce(
        self, op: ReduceOp, pairs: Sequence[Pair], options: Options
    ) -> Operation[list[list[Tensor]]]:
        """Reduce several values, each with its own destinations."""
        results = []
        for tensors, devices in pairs:
            results.append((yield from self.reduce(op, tensors, devices)))
        return results

    def gather(self, tensors: list[Tensor], devices: Devices, axis: int) -> Operation[list[Tensor]]:
        """Join along an axis, in replica order, on the first destination; copy from there."""
        joined = concatenate([tensor.array for tensor in tensors], axis)
        inwards = [Transfer(one.device, devices[0], one.size) for one in tensors]
        outwards = [Transfer(devices[0], device, joined.nbytes) for device in devices]
        yield from movement("gather", inwards, outwards)
        return [Tensor(joined, device) for device in devices]


class ReductionToOneDevice(CrossDeviceOps):
    """Reduction in replica order on one device (default: the first destination), then copies."""

    name = "reduction_to_one_device"

    def __init__(self, device: DeviceId | None = None) -> None:
        self._device = device

    def reduce(
        self, op: ReduceOp, tensors: list[Tensor], devices: Devices
    ) -> Operation[list[Tensor]]:
        place = self._device or devices[0]
        result = combine(op, [tensor.array for tensor in tensors])
        yield from movement(
            "reduction to one device",
            [Transfer(tensor.device, place, tensor.size) for tensor in tensors],
            [Transfer(place, device, result.nbytes) for device in devices],
        )
        return [Tensor(result, device) for device in devices]


class CollectiveAllReduce(CrossDeviceOps):
    """Collective operations over all replicas of all workers, as a ring.

    `workers` processes take part, each with values on `devices` devices; every one of them has to
    call in the same order.
    """

    name = "collective_all_reduce"

    def __init__(
        self,
        implementation: Implementation = Implementation.AUTO,
        workers: int = 1,
        devices: int | None = None,
    ) -> None:
        self.implementation = implementation
        self._workers = workers
        self._devices = devices

    def reduce(
        self, op: ReduceOp, tensors: list[Tensor], devices: Devices
    ) -> Operation[list[Tensor]]:
        (results,) = yield from self._all_reduce(op, [tensors], Options())
        return (yield from copy_to(results, devices))

    def batch_reduce(
        self, op: ReduceOp, pairs: Sequence[Pair], options: Options
    ) -> Operation[list[list[Tensor]]]:
        """One all-reduce per pack, last value first, if each stays on its devices.

        A pack saves messages. It changes no value: each is added as if it went alone.
        """
        if all(same_devices(tensors, devices) for tensors, devices in pairs):
            return (yield from self._all_reduce(op, [tensors for tensors, _ in pairs], options))
        return (yield from super().batch_reduce(op, pairs, options))

    def gather(self, tensors: list[Tensor], devices: Devices, axis: int) -> Operation[list[Tensor]]:
        rank = tensors[0].array.ndim
        if not 0 <= axis < rank:
            raise RefusedValueError(
                "gather_rank",
                f"Requires start <= limit when delta > 0: there is no axis {axis} to gather along; "
                "use one that all parts have, and give scalars one of length 1",
            )
        if tensors[0].array.dtype.name not in GATHERABLE_DTYPES:
            raise RefusedTypeError(
                "dtype_unsupported",
                f"{tensors[0].array.dtype} is not in the list of allowed values of a collective, "
                f"which are {', '.join(GATHERABLE_DTYPES)}: cast it to one of them",
            )
        everybody = yield from self._exchange([tensors])
        arrays = [tensor.array for tensor in everybody[0]]
        joined = concatenate(arrays, axis)
        ring = [tensor.device for tensor in everybody[0]]
        count = len(ring)
        rounds = [
            [
                Transfer(ring[rank], ring[(rank + 1) % count], arrays[(rank - step) % count].nbytes)
                for rank in range(count)
            ]
            for step in range(count - 1)
        ]
        yield from movement("ring all-gather", *rounds, parties=self._workers)
        return (yield from copy_to([tensor_like(joined, one) for one in tensors], devices))

    def _check(self, tensors: list[Tensor]) -> None:
        """RefusedProgramError for fewer parts than devices; InvalidArgumentError for a dtype."""
        if self._devices is not None and len(tensors) < self._devices:
            raise RefusedProgramError(
                "batch_mixed",
                f"a collective of {self._devices} devices takes a part from each, not "
                f"{len(tensors)}: tuple index out of range; give a value for each replica, or "
                "reduce it by itself",
            )
        for tensor in tensors:
            if tensor.array.dtype.name not in REDUCIBLE_DTYPES:
                raise InvalidArgumentError(
                    "dtype_unsupported",
                    f"{tensor.array.dtype} is not in the list of allowed values of a collective, "
                    f"which are {', '.join(REDUCIBLE_DTYPES)}: cast it to one of them",
                )

    def _exchange(self, batch: list[list[Tensor]]) -> Operation[list[list[Tensor]]]:
        """The same values with the tensors of all workers' replicas, in order."""
        if self._workers == 1:
            return batch
        everybody: list[list[list[Tensor]]] = yield Exchange(batch)
        return [
            [tensor for worker in everybody for tensor in worker[index]]
            for index in range(len(batch))
        ]

    def _all_reduce(
        self, op: ReduceOp, batch: list[list[Tensor]], options: Options
    ) -> Operation[list[list[Tensor]]]:
        for tensors in batch:
            self._check(tensors)
        everybody = yield from self._exchange(batch)
        arrays = [[tensor.array for tensor in tensors] for tensors in everybody]
        sums = [ring_sum(values) for values in arrays]
        backwards = range(len(batch) - 1, -1, -1)
        sizes = [arrays[index][0].nbytes for index in backwards]
        for pack in group_by_size(sizes, options.bytes_per_pack):
            together = [backwards[place] for place in pack]
            ring = [tensor.device for tensor in everybody[together[0]]]
            values = [arrays[index][0] for index in together]
            yield from ring_movement(ring, values, self._workers)
        results = []
        for total, values, own in zip(sums, arrays, batch, strict=True):
            result = divide(total, len(values)) if op is ReduceOp.MEAN else total
            results.append([tensor_like(result, tensor) for tensor in own])
        return results


def combine(op: ReduceOp, values: Sequence[Values]) -> Values:
    """The sum from first to last, divided by the number for MEAN."""
    total = add_in_order(values) if len(values) > 1 else values[0]
    return divide(total, len(values)) if op is ReduceOp.MEAN else total


def concatenate(values: Sequence[Values], axis: int) -> Values:
    """Values joined along an axis; they may differ in length there only."""
    first = values[0]
    if len(values) == 1:
        return first
    if not -first.ndim <= axis < first.ndim:
        raise InvalidArgumentError(
            "axis_range",
            f"Expected concatenating dimensions in the range [{-first.ndim}, {first.ndim}), but "
            f"got {axis}; use an axis that all parts have, and give scalars one of length 1",
        )
    axis %= first.ndim
    rest = {value.shape[:axis] + value.shape[axis + 1 :] for value in values}
    if len(rest) > 1 or len({value.ndim for value in values}) > 1:
        raise InvalidArgumentError(
            "shape_mismatch",
            f"Shape mismatch: values may differ in length along axis {axis} only; pad them",
        )
    return np.concatenate(list(values), axis)


def tensor_like(array: Values, tensor: Tensor) -> Tensor:
    """A new tensor on the device of another."""
    return Tensor(array, tensor.device)


def copy_to(results: list[Tensor], devices: Devices) -> Operation[list[Tensor]]:
    """One tensor per destination: the result on that device, else a copy of the first."""
    if same_devices(results, devices):
        return results
    here = {tensor.device: tensor for tensor in results}
    missing = [device for device in devices if device not in here]
    yield from movement(
        "copy", [Transfer(results[0].device, device, results[0].size) for device in missing]
    )
    return [here[device] if device in here else results[0].on(device) for device in devices]


def same_devices(tensors: Sequence[Tensor], devices: Devices) -> bool:
    """Are these the devices of the tensors, in any order?"""
    return {tensor.device for tensor in tensors} == set(devices)


def any_cpu(devices: Devices) -> bool:
    """Is a CPU among them?"""
    return any(device.kind == "cpu" for device in devices)
