"""Schedules of collectives: which rank sends which blocks to whom, in which order; no clock.

A schedule is a list of rounds, in each of which a rank sends at most once and receives at most
once. Rounds are no barriers, they only say what comes before what. A rank sends in a round as soon
as

- it has entered and what it sent in earlier rounds has left it,
- what it was sent in earlier rounds has arrived, and been added where it adds,
- the target has taken in all that it was sent in earlier rounds, for it receives in that order.

The first is what a port does, the second what a blocking receive does (MPI_Sendrecv), the third
what receives that are posted in order do (a send of MPI waits for its receive where the message is
long). So no two messages of a collective ever meet on a link of one rank.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Transfer(NamedTuple):
    """Blocks that one rank sends to another in a round.

    `adds`: the target adds them to its own; otherwise it keeps them as they are. `slack`: how many
    of the rounds right before this one may still owe the source their messages; only in stages of
    one round.
    """

    source: int
    target: int
    blocks: range
    adds: bool = False
    slack: int = 0


Round: TypeAlias = Sequence[Transfer]


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds that differ in nothing but which blocks are sent.

    In each of them the same ranks send as many blocks to the same ranks, who all add them or all
    do not; `transfers(i)` are those of the i-th, from 0.
    """

    rounds: int
    transfers: Callable[[int], Round]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a collective of `ranks` ranks moves its bytes, cut into `cut` equal blocks.

    `what`: what it is, in words. `meets`: no rank is done before all have entered.
    `ends(entries, hold, latency)`, where there is such a formula: when each rank is done, given
    when each entered, if every message holds its links for `hold`, arrives `latency` later and
    adding takes no time (all in ns). `around`: every rank sends to the next one only.
    """

    what: str
    ranks: int
    cut: int
    stages: tuple[Stage, ...]
    meets: bool = True
    ends: Callable[[Sequence[int], int, int], list[int]] | None = None
    around: bool = False

    @property
    def rounds(self) -> list[Round]:
        """All rounds, in order."""
        return [stage.transfers(index) for stage in self.stages for index in range(stage.rounds)]

    @property
    def patterns(self) -> list[tuple[int, Round]]:
        """How many rounds there are like this one, for each stage."""
        return [(stage.rounds, stage.transfers(0)) for stage in self.stages if stage.rounds]

    def traffic(self, size: float, parameters: int) -> tuple[float, float]:
        """Messages that are not empty, and bytes, of all ranks; `size` bytes are `parameters`."""
        counts = [
            (rounds, len(transfer.blocks))
            for rounds, transfers in self.patterns
            for transfer in transfers
        ]
        messages = sum(rounds * min(1.0, count * parameters / self.cut) for rounds, count in counts)
        return messages, sum(rounds * count for rounds, count in counts) * size / self.cut


def once(transfers: Round) -> Stage:
    """A single round."""
    return Stage(1, lambda _: transfers)
