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

import numpy as np
from numpy.typing import NDArray

from varsim.core.units import span

Times: TypeAlias = NDArray[np.int64]
Sent: TypeAlias = Callable[[Times, int, int, int], tuple[Times, Times]]  # see Schedule


class ScheduledTransfer(NamedTuple):
    """Blocks that one rank sends to another in a round.

    `adds`: the target adds them to its own; otherwise it keeps them as they are. `slack`: how many
    of the rounds right before this one may still owe the source their messages; only in stages of
    one round.
    """

    source: int
    target: int
    blocks: Sequence[int]
    adds: bool = False
    slack: int = 0


Round: TypeAlias = Sequence[ScheduledTransfer]


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds that differ in nothing but which blocks are sent.

    In each of them the same ranks send as many blocks to the same ranks, who all add them or all
    do not; `transfers(i)` are those of the i-th, from 0. `pattern`: the same but for the blocks, by
    default those of the first; where stages share its transfers, plans are made faster.
    """

    rounds: int
    transfers: Callable[[int], Round]
    pattern: Round | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a collective of `ranks` ranks moves its bytes, cut into `cut` equal blocks.

    `what`: what it is, in words. `ends(entries, hold, latency)`, where there is such a formula:
    when each rank is done, given when each entered, if every message holds its links for `hold`,
    arrives `latency` later and adding takes no time (all in ns); `sent(..., until)`: how many
    messages each has sent off by a moment, and when the next would set off. `side_by_side`: it
    stands for as many that are alike as nodes have network cards, each with an equal share of the
    bytes; what it sends from node to node leaves by all of them. `agents`: of each rank; they send
    and receive side by side: agent a of rank r is number r + a `ranks` as a source and target. What
    one agent of a rank sends another of it is there at once.
    """

    what: str
    ranks: int
    cut: int
    stages: tuple[Stage, ...]
    ends: Callable[[Sequence[int] | Times, int, int], Sequence[int] | Times] | None = None
    sent: Sent | None = None
    side_by_side: bool = False
    agents: int = 1

    @property
    def everybody(self) -> int:
        """How many send and receive: all agents of all ranks."""
        return self.ranks * self.agents

    @property
    def rounds(self) -> list[Round]:
        """All rounds, in order."""
        return [stage.transfers(index) for stage in self.stages for index in range(stage.rounds)]

    @property
    def patterns(self) -> list[tuple[int, Round]]:
        """How many rounds there are like this one but for its blocks, for each stage."""
        return [
            (stage.rounds, stage.transfers(0) if stage.pattern is None else stage.pattern)
            for stage in self.stages
            if stage.rounds
        ]

    def traffic(self, size: float, parameters: int) -> tuple[float, float]:
        """Messages that are not empty, and bytes, of all ranks; `size` bytes are `parameters`."""
        counts = [
            (rounds, len(transfer.blocks))
            for rounds, transfers in self.patterns
            for transfer in transfers
            if (transfer.source - transfer.target) % self.ranks
        ]
        messages = sum(rounds * min(1.0, count * parameters / self.cut) for rounds, count in counts)
        return messages, sum(rounds * count for rounds, count in counts) * size / self.cut


def once(transfers: Round) -> Stage:
    """A single round."""
    return Stage(1, lambda _: transfers)


def flaw(schedule: object, ranks: int) -> str:
    """Why a schedule is no all-reduce of so many ranks; empty where it is one.

    Followed in values: for each block, the ranks whose contribution it has.
    """
    if not isinstance(schedule, Schedule):
        return f"it returns a {type(schedule).__name__}, not a Schedule"
    if schedule.ranks != ranks or schedule.cut < 1:
        return f"its schedule is of {schedule.ranks} ranks and {schedule.cut} blocks"
    everybody = schedule.everybody  # other agents have nothing of their own
    past = [[[1 << one if one < ranks else 0] * schedule.cut for one in range(everybody)]]
    for number, transfers in enumerate(schedule.rounds):
        now = [list(blocks) for blocks in past[-1]]
        for side in ("source", "target"):
            busy = sorted(getattr(one, side) for one in transfers)
            if busy and not 0 <= busy[0] <= busy[-1] < everybody:
                return f"a {side} of round {number} is none of the ranks {span(0, ranks - 1)}"
            if len(set(busy)) < len(busy):
                return f"a rank is the {side} of two messages in round {number}"
        for source, target, blocks, adds, slack in transfers:
            if not blocks or not 0 <= blocks[0] <= blocks[-1] < schedule.cut:
                return f"round {number} sends none of the blocks {span(0, schedule.cut - 1)}"
            for block in blocks:
                sent = past[max(0, number - slack)][source][block]
                if adds and sent & now[target][block]:
                    return f"rank {target} adds twice what it has of block {block}, round {number}"
                now[target][block] = sent | now[target][block] if adds else sent
        past.append(now)
    for rank, ended in enumerate(past[-1][:ranks]):
        for block, has in enumerate(ended):
            if has != (1 << ranks) - 1:
                missing = next(r for r in range(ranks) if not has >> r & 1)
                return f"rank {rank} ends without what rank {missing} has of block {block}"
    return ""
