"""Memory of a device or server: parameters, gradients, optimizer state, and further copies."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.servers.placement import bytes_per_port
from varsim.learning.gradient import Array
from varsim.learning.optimizer import Optimizer, State
from varsim.learning.workload import Workload

_FP32 = 4  # bytes


class Copies(NamedTuple):
    """Further copies that a strategy keeps: what they are, how many, and what one is as large as.

    "slots": a number of the optimizer's state for each parameter, in fp32 at least.
    """

    what: str
    number: float = 1.0
    of: Literal["parameters", "gradients", "slots"] = "parameters"


class Holds(NamedTuple):
    """What each device, and all servers together, keep beside what follows from what is sent.

    That is, on a device: parameters and a gradient, and the optimizer's state where replicas update
    copies of their own; on servers that have the model: parameters, and its state where they update
    it.
    """

    device: tuple[Copies, ...] = ()
    servers: tuple[Copies, ...] = ()

    def __add__(self, other: object) -> "Holds":
        """Both."""
        assert isinstance(other, Holds)
        return Holds(self.device + other.device, self.servers + other.servers)


class Memory(NamedTuple):
    """Bytes that a device or a server keeps, and what they are made of.

    `optimizer`: its state, None where there is no optimizer to know it of. `whole`: what of shards
    is whole for a while: units that are gathered, or whose gradients are not yet reduced.
    `per_parameter`: the bytes of a parameter, its gradient and its state, as far as they are kept,
    each divided by the number of shards where it is sharded. `further`: other copies, in words.
    """

    parameters: float
    gradients: float
    optimizer: float | None
    whole: float
    per_parameter: str
    further: tuple[tuple[str, float], ...] = ()

    @property
    def total(self) -> float:
        """All that is known of."""
        own = self.parameters + self.gradients + (self.optimizer or 0.0) + self.whole
        return own + sum(size for _, size in self.further)


def replica_memory(
    workload: Workload,
    optimizer: Optimizer | None,
    shards: int = 1,
    stage: int = 0,
    whole: float = 0.0,
) -> Memory:
    """What a replica with a copy of its own keeps, if so much of it is sharded.

    `stage`: from which on it is, of the state (1), gradients (2) and parameters (3); `whole`: bytes
    of shards that it has whole for a while.
    (b + g + k) bytes for each parameter, of which the shares of what is sharded are divided by the
    number of `shards`, the workers of a group: Rajbhandari et al., 2020 (ZeRO), whose k of Adam in
    mixed precision is 12.
    The optimizer's slots are in fp32 at least, and so is a copy of parameters in less.
    """
    each, sent = workload.bytes_per_parameter, workload.gradient_bytes
    number = workload.size() / each
    parts = [
        (size, shards if stage >= least else 1)
        for size, least in ((each, 3), (sent, 2), (_state(workload, optimizer), 1))
    ]
    kept = [number * size / parties for size, parties in parts]
    said = " + ".join(
        f"{size}/{parties}" if parties > 1 else str(size)
        for size, parties in (parts if optimizer is not None else parts[:2])
    )
    return Memory(kept[0], kept[1], None if optimizer is None else kept[2], whole, said)


def worker_memory(workload: Workload) -> Memory:
    """What a worker without a copy of its own keeps: what it reads and sends, for each batch."""
    parts = zip(workload.tensor_sizes(), workload.sent_shares(), strict=True)
    read = [sum(sizes) * share for sizes, share in parts]  # of every variable, for a batch
    sent = [size * ratio for size, ratio in zip(read, workload.gradient_ratios(), strict=True)]
    said = f"{workload.bytes_per_parameter} + {workload.gradient_bytes}"
    return Memory(sum(read), sum(sent), 0.0, 0.0, said)


def server_memory(
    workload: Workload,
    optimizer: Optimizer | None,
    cluster: Cluster,
    copies: Sequence[Copies],
    *,
    model: bool,
    updates: bool,
) -> Memory:
    """What the fullest server keeps: its part of the `model`, and of what it `updates` with."""
    placed = bytes_per_port(workload.tensor_sizes(), cluster)
    parts = [sum(column) for column in zip(*placed, strict=True)]
    sent = [
        [size * share * ratio for size in column]
        for column, share, ratio in zip(
            placed, workload.sent_shares(), workload.gradient_ratios(), strict=True
        )
    ]
    gradients = [sum(column) for column in zip(*sent, strict=True)]
    each, state = workload.bytes_per_parameter, _state(workload, optimizer)

    def kept(part: float, gradient: float) -> Memory:
        slots: float | None = 0.0
        if updates:
            slots = None if optimizer is None else part / each * state
        said = [str(each)] * model + [str(state)] * (updates and optimizer is not None)
        further = further_bytes(copies, part, gradient, each)
        return Memory(part * model, 0.0, slots, 0.0, " + ".join(said), further)

    every = map(kept, parts, gradients)
    return max(every, key=lambda one: one.total)


def further_bytes(
    copies: Sequence[Copies], parameters: float, gradient: float, each: int
) -> tuple[tuple[str, float], ...]:
    """Bytes of further copies, by what they are; a parameter has so many bytes `each`."""
    slots = parameters / each * max(each, _FP32)
    size = {"parameters": parameters, "gradients": gradient, "slots": slots}
    return tuple((one.what, one.number * size[one.of]) for one in copies if one.number)


def _state(workload: Workload, optimizer: Optimizer | None) -> int:
    """Bytes of an optimizer's state for each parameter."""
    if optimizer is None:
        return 0
    each = workload.bytes_per_parameter
    return optimizer.numbers_each * max(each, _FP32) + (_FP32 if each < _FP32 else 0)


def full_slots(state: State, value: Array) -> int:
    """How many slots of an optimizer are as large as the value they stand beside."""
    return sum(slot.shape == value.shape for slot in state)
