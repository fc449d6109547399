"""Memory of a device in data-parallel training: parameters, gradients and optimizer state."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from varsim.cluster.layerwise import Sharding, Unit
from varsim.values.optimizer import Optimizer
from varsim.values.workload import Workload

_FP32 = 4  # bytes


class Memory(NamedTuple):
    """Bytes that a replica keeps on its device, without activations; and what they are made of.

    `optimizer`: its state, None where there is no optimizer to know it of. `whole`: what of shards
    is whole for a while: units that are gathered, or whose gradients are not yet reduced.
    `per_parameter`: the bytes of a parameter, its gradient and its state, each divided by the
    number of workers where it is sharded.
    """

    parameters: float
    gradients: float
    optimizer: float | None
    whole: float
    per_parameter: str

    @property
    def total(self) -> float:
        """All that is known of."""
        return self.parameters + self.gradients + (self.optimizer or 0.0) + self.whole


def replica_memory(
    workload: Workload,
    optimizer: Optimizer | None,
    workers: int,
    sharding: Sharding | None,
    layers: Sequence[Unit],
    *,
    prefetch: bool,
) -> Memory:
    """What a replica keeps, if so much of it is sharded.

    (b + g + k) bytes for each parameter, of which the shares of what is sharded are divided by the
    number of workers: Rajbhandari et al., 2020 (ZeRO), whose k of Adam in mixed precision is 12.
    The optimizer's slots are in fp32 at least, and so is a copy of parameters in less.
    """
    each, sent = workload.bytes_per_parameter, workload.gradient_bytes
    number = workload.size() / each
    state = 0
    if optimizer is not None:
        value = np.zeros(2)
        slots = sum(slot.shape == value.shape for slot in optimizer.init(value))
        state = slots * max(each, _FP32) + (_FP32 if each < _FP32 else 0)
    shards = {None: 0, "optimizer": 1, "gradients": 2, "parameters": 3}[sharding]
    parts = [
        (size, workers if shards >= least else 1)
        for size, least in ((each, 3), (sent, 2), (state, 1))
    ]
    kept = [number * size / parties for size, parties in parts]
    whole = 0.0
    if shards == 3:
        several = pairwise(layers) if prefetch else ()
        pairs = [one.parameters + other.parameters for one, other in several]
        whole += max([*pairs, *(unit.parameters for unit in layers)])
    if shards >= 2:
        whole += max(unit.gradients for unit in layers)
    said = " + ".join(
        f"{size}/{parties}" if parties > 1 else str(size)
        for size, parties in (parts if optimizer is not None else parts[:2])
    )
    return Memory(kept[0], kept[1], None if optimizer is None else kept[2], whole, said)
