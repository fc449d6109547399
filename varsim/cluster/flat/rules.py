"""What a strategy says of itself to the engine for times alone."""

from typing import Final, Literal, NamedTuple

from varsim.cluster.buckets import Bucketing
from varsim.cluster.collectives.choice import Choice

# Variable of the environment that says which engine to use, here and in processes started here.
ENGINE: Final = "VARSIM_ENGINE"


class Rules(NamedTuple):
    """Who waits for whom, as `varsim.cluster.flat` has it.

    `needed`: gradients for an update; `tokens`: put into the queue after one, and `first` before.
    """

    kind: Literal["asynchronous", "locking", "accumulators", "cutoff"]
    needed: int = 1
    tokens: int = 0
    first: int = 0


class Reducing(NamedTuple):
    """Gradients of so many micro-batches are added up, and all-reduced among all workers.

    `bucketing`: how they are cut; None: not at all. `overlap`: parts are reduced in the backward
    pass, as they are ready.
    """

    choice: Choice
    bucketing: Bucketing | None = None
    micro_batches: int = 1
    overlap: bool = False
