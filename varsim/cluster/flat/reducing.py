"""What a strategy of all-reduces says of itself to the engine for times alone."""

from typing import NamedTuple, TypeAlias

from varsim.cluster.buckets import Bucketing
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.flat.rules import Rules


class Reducing(NamedTuple):
    """Gradients of so many micro-batches are added up, and all-reduced among all workers.

    `bucketing`: how they are cut; None: not at all. `overlap`: parts are reduced in the backward
    pass, as they are ready.
    """

    choice: Choice
    bucketing: Bucketing | None = None
    micro_batches: int = 1
    overlap: bool = False


class Reading(NamedTuple):
    """Workers have copies of their own, which are read after every so many steps of theirs.

    `moves`: for that they are all-reduced; `write_back`: they become what was read; `broadcasts`:
    which rank 0 sends to the others.
    """

    every: int
    moves: bool
    write_back: bool
    broadcasts: bool


AnyRules: TypeAlias = Rules | Reducing | Reading
