"""Keys of parameter servers: overheads, how tensors are cut, and how long an update takes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import numpy as np
from pydantic import Field, PositiveInt

from varsim.core.distribution import Constant
from varsim.core.distributions import AnyDistribution, Stream, check_alone, check_no_batch
from varsim.core.refusal import RefusalError, refused
from varsim.core.schema import Model, one_of
from varsim.core.units import Bytes, BytesPerSecond, Seconds
from varsim.distribute.central import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    Partitioner,
)

# What a strategy can be subject to, by what it uses.
OF_ALL: Final = frozenset({"first_iteration"})
OF_SERVERS: Final = frozenset({"pull", "push", "wake", "payload"})
OF_AN_UPDATE_LOOP: Final = frozenset({"commit"})
OF_COLLECTIVES: Final = frozenset({"message", "payload"})
OF_REDUCTIONS: Final = OF_COLLECTIVES | {"reduction"}

_RATES: Final = ("payload", "reduction")


class Overheads(Model):
    """What is not computation and not the network; nothing unless given.

    Every worker begins with its `first_iteration`: its graph is built, its connections are made. A
    parameter server handles one request after the other, so the more workers go on at one moment
    (with a token, or where there are none once their gradient is applied), the longer it takes.
    Where updates are locked, the lock is held for the `commit`, too. Messages of a collective, and
    their copies, take turns, as on one machine; a worker adds what it was sent before it sends that
    on.
    """

    first_iteration: Seconds = Field(0.0, ge=0)
    """Before each worker's first iteration."""
    pull: Seconds = Field(0.0, ge=0)
    """A server's time for a read."""
    push: Seconds = Field(0.0, ge=0)
    """A server's time for a variable's gradient."""
    commit: Seconds = Field(0.0, ge=0)
    """Between the last gradient of an update and the new global step."""
    wake: Seconds = Field(0.0, ge=0)
    """A server's time to let one worker go on."""
    message: Seconds = Field(0.0, ge=0)
    """Additional time for each message of a collective."""
    payload: BytesPerSecond | None = None
    """Rate at which what is sent and received is copied, in addition to the above."""
    reduction: BytesPerSecond | None = None
    """Rate at which a worker of an all-reduce adds what it was sent."""

    def refusals(self) -> Iterator[RefusalError]:
        for name in _RATES:
            rate = getattr(self, name)
            if rate is not None and rate <= 0:
                yield refused(name, "must be above 0")

    @property
    def given(self) -> list[str]:
        """The names of those that add something."""
        return [name for name in type(self).model_fields if getattr(self, name)]

    def copying(self, size: float) -> float:
        """Seconds that `size` bytes take to be copied."""
        return 0.0 if self.payload is None else size / self.payload

    def adding(self, size: float) -> float:
        """Seconds that `size` bytes take to be added up."""
        return 0.0 if self.reduction is None else size / self.reduction

    def only(self, names: frozenset[str]) -> "Overheads":
        """These of them."""
        return Overheads(**{name: getattr(self, name) for name in self.given if name in names})

    def stretched(self, factor: float) -> "Overheads":
        """All of them `factor` times as long."""
        values = {
            name: getattr(self, name) * (1 / factor if name in _RATES else factor)
            for name in self.given
        }
        return Overheads(**values)


def collective_overhead(overheads: Overheads, messages: float, size: float) -> float:
    """Seconds that the messages of a collective, which carry `size` bytes in all, add to it.

    One rank copies while another waits for its turn, so what takes longer counts.
    """
    return max(messages * overheads.message, overheads.copying(size))


def broadcast_overhead(overheads: Overheads, ranks: int, size: float) -> float:
    """Seconds that messages and copies add to a broadcast of `size` bytes from one rank to all."""
    return collective_overhead(overheads, ranks - 1, (ranks - 1) * size)


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


class ServerUpdate(Model):
    """Service time of one gradient of one variable on a server: of the part that it holds.

    Its `time` is drawn anew for each, in the order in which they come to a server, and `rate` comes
    in addition. Those that no thread works on wait in one queue, first come, first served. A
    variable on several servers is done when the last of them is. Reads do not wait for it.
    `none`: a gradient is applied at the end of that time, and its worker goes on then; with
    `use_locking` the lock is held for it. `sync_replicas`, `backup_workers`: it is added to what
    was gathered at the end of that time, whether it then counts or comes too late; the update with
    the mean takes no more than `overheads.commit`. `on_write` with `push_pull`: each part of a
    tensor is added to its sum at the end of that time.
    """

    time: AnyDistribution | None = None
    """Distribution of the time for a gradient of a variable."""
    rate: BytesPerSecond | None = Field(None, gt=0)
    """Bytes of a gradient that are applied per second."""
    threads: PositiveInt = Field(1, le=10_000)
    """Gradients that a server works on at the same time."""

    def refusals(self) -> Iterator[str]:
        if self.time is None and self.rate is None:
            yield "say how long an update takes: time, rate or both"
        if self.time is not None:
            check_no_batch(check_alone(self.time, key="time"), "time")

    @property
    def is_random(self) -> bool:
        """Whether equal servers may need different times."""
        return self.time is not None and not isinstance(self.time, Constant)

    def fixed(self, size: float) -> float:
        """Seconds that `size` bytes of a gradient take whatever is drawn."""
        return 0.0 if self.rate is None else size / self.rate

    def draws(self, number: int, stream: Stream) -> Iterator[float] | None:
        """Seconds that a server of this number takes in addition, one after the other."""
        if self.time is None:
            return None
        return chain.from_iterable(map(np.ndarray.tolist, self.time.blocks(number, stream)))

    def expectation(self, size: float) -> float:
        """Mean seconds for `size` bytes of a gradient."""
        drawn = 0.0 if self.time is None else self.time.expectation()
        return drawn + self.fixed(size)
