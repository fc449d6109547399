"""What a strategy says of itself to the engine for times alone."""

from typing import Literal, NamedTuple


class Rules(NamedTuple):
    """Who waits for whom, as `varsim.cluster.flat` has it.

    `needed`: gradients for an update; `tokens`: put into the queue after one, and `first` before.
    """

    kind: Literal["asynchronous", "locking", "accumulators", "cutoff"]
    needed: int = 1
    tokens: int = 0
    first: int = 0
