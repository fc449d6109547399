"""What a strategy says of itself to the engine for times alone."""

from typing import Final, Literal, NamedTuple

# Variable of the environment that says which engine to use, here and in processes started here.
ENGINE: Final = "VARSIM_ENGINE"


class Rules(NamedTuple):
    """Who waits for whom, as `varsim.cluster.flat` has it.

    `needed`: gradients for an update; `tokens`: put into the queue after one, and `first` before;
    `bound`: how far a worker may be ahead, which `keeps` what it has read while that is new enough.
    """

    kind: Literal["asynchronous", "locking", "bounded", "accumulators", "cutoff"]
    needed: int = 1
    tokens: int = 0
    first: int = 0
    bound: int = 0
    keeps: bool = False
