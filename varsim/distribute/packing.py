"""How many tensors travel together: packs by bytes, packs by number, and their options."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from varsim.distribute.tensor import Values
from varsim.values.refusal import RefusedValueError


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
