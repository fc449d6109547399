"""Partitioners: rules by which tensors are cut into parts for the parameter servers."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from varsim.distribute.central import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    Partitioner,
)
from varsim.units import Bytes
from varsim.values.schema import Model, one_of


class TensorPartitioner(Model, ABC):
    """Says into how many parts a tensor is cut, as evenly as whole bytes allow.

    The numbers are those of TensorFlow's partitioners. Those cut between rows of the first axis;
    here a tensor is as many rows as bytes, since a model's tensors are known by their sizes.
    """

    def cut(self, size: int) -> list[int]:
        """The bytes of the parts of a tensor of `size` bytes, larger ones first."""
        number = self.parts(size)
        least, more = divmod(size, number)
        return [least + 1] * more + [least] * (number - more)

    def parts(self, size: int) -> int:
        """How many parts a tensor of `size` bytes is cut into; never more than bytes."""
        return max(1, min(size, self._rule().shards((size,), 1)))

    @abstractmethod
    def _rule(self) -> Partitioner:
        """The partitioner of TensorFlow's that counts them."""


class FixedShards(TensorPartitioner):
    """Every tensor is cut into the same number of parts.

    tf.distribute.experimental.partitioners.FixedShardsPartitioner.
    """

    about: ClassVar[str] = "every tensor into the same number of parts"

    kind: Literal["fixed"] = "fixed"
    shards: int = Field(ge=2, le=100_000)
    """Parts of every tensor."""

    def _rule(self) -> Partitioner:
        return FixedShardsPartitioner(self.shards)


class MinSize(TensorPartitioner):
    """As many parts as a tensor fills with `size` bytes each, rounded up, at most `max_shards`.

    tf.distribute.experimental.partitioners.MinSizePartitioner, whose default size is 256 KiB.
    """

    about: ClassVar[str] = "as many parts as a tensor fills at a given size each, up to a number"

    kind: Literal["min_size"] = "min_size"
    size: Bytes = Field(256 * 2**10, ge=1)
    """Least size aimed at for a part; as the number is rounded up, parts may be smaller."""
    max_shards: int = Field(ge=2, le=100_000)
    """The most parts of a tensor."""

    def _rule(self) -> Partitioner:
        return MinSizePartitioner(int(self.size), self.max_shards)


class MaxSize(TensorPartitioner):
    """As few parts as keep each at or below `size` bytes; at most `max_shards`, if that is given.

    tf.distribute.experimental.partitioners.MaxSizePartitioner; BytePS cuts so at 4 MB (Jiang et
    al., 2020; BYTEPS_PARTITION_BYTES).
    """

    about: ClassVar[str] = "the fewest parts that do not exceed a size (BytePS: 4 MB)"

    kind: Literal["max_size"] = "max_size"
    size: Bytes = Field(ge=1)
    """The most bytes of a part."""
    max_shards: int | None = Field(None, ge=2, le=100_000)
    """The most parts of a tensor."""

    def _rule(self) -> Partitioner:
        return MaxSizePartitioner(int(self.size), self.max_shards)


PARTITIONERS: Final[dict[str, type[TensorPartitioner]]] = {
    "fixed": FixedShards,
    "min_size": MinSize,
    "max_size": MaxSize,
}

if TYPE_CHECKING:
    AnyPartitioner: TypeAlias = TensorPartitioner
else:
    AnyPartitioner = one_of(PARTITIONERS)
