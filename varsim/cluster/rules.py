"""Who waits for whom: what a strategy says of itself to the engine for times alone."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["free", "tokens", "cutoff", "bound", "batch", "group", "race"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class Rules:
    """Rules of a strategy: a Gate, a Reading or, of gradients that are all-reduced, a Reducing."""


@dataclass(frozen=True)
class Gate(Rules):
    """What lets a worker go on whose gradient is there, of strategies with servers.

    * free: gradients are applied as they come; it goes on at once.
    * tokens: unless their label is old, they wait until there are `needed`; it takes one of the
      `tokens` that an update puts in, and `first` before all.
    * cutoff: the first `needed` of a step are applied, all others dropped; it goes on with the next
      step, and who has not come by then gives up what it is at.
    * bound: those of one moment are applied by rank; it waits while it is more than `bound` ahead
      of the slowest, and `keeps` what it has read while that is new enough.
    * batch: every `needed` make an update; it goes on at once.
    * group: the same, but it waits for the update with its own.
    * race: the first `needed` of a step make an update; it goes on at once, until the step is over.
    """

    kind: Kind
    needed: int = 1
    tokens: int = 0
    first: int = 0
    bound: int = 0
    keeps: bool = False

    @property
    def each(self) -> int:
        """Gradients for an update, at least about."""
        return max(self.needed, self.tokens, 1)


@dataclass(frozen=True)
class Reading(Rules):
    """Workers have copies of their own, which are read after every so many steps of theirs.

    `moves`: for that they are all-reduced; `write_back`: they become what was read.
    """

    every: int
    moves: bool
    write_back: bool
