"""Second engine, for times alone: the same runs as on SimPy, from a table of who waits for whom.

What it promises, and what it leaves to SimPy, is a page of MODEL.md. A strategy with servers is a
row, a `Gate`; a gate that is not there is a branch in `core.take` and in `core.pushed`. A
network is tables, too: batches, their hops, messages and connections (`network`). All-reduces are
made in arrays (`arrays`, `local`), without machine code.

**Who comes first** of those who come at one moment is the same as on SimPy where the same things
put in their events in the same order. The heap is served by (time, priority, number); numbers are
given in the order in which events are put in:

1. A worker puts in one event at a time: when it is set up, when what it reads will be there, when
   it will have computed, when its gradient will be there.
2. On first-come links these ends of transfers are known when they begin.
3. Who lets others go on puts in one event for all of them at this moment; so does the last take of
   the chief, for the chief. Where gradients of a moment are taken in by rank, what arrives first
   puts in one for the end of it, and so does each worker that goes on only then.
4. Who is called off goes on at once, within the event that ended the step, and what it waited for
   is off the heap.
5. An event is served to its end, also when the run is over by then.
6. Random numbers are those of the same streams, in the same order for each worker.
7. On fair links who reads or pushes starts a flow for each connection. When one may pass, or is
   there, sooner than was expected, that puts in an event; there those that are there are told in
   the order of their start, one event each, the rates of the mesh are set anew, if flows came or
   went, then the next is expected: in a hub when it is there, in the mesh when it passes, too. What
   arrives last lets its worker go on at once, or by an event where others are to come at this
   moment. Who is called off leaves its flows to themselves. Flows meet in hubs, or in the mesh, all
   of a run; links that cannot hold them up (`Link.binds`) take no part.

**The functions** (`core`, `links`) are written in the part of Python that numba compiles
(`compiled`): records with names, numbers, indices, nothing that allocates; and no circles of calls,
whose machine code cannot be kept. Tests interpret them, which takes far longer than SimPy. The loop
(`core.advance`) is left for more draws (DRY) or more room (FULL), and after so much work
(`patience`), as signals and other threads wait while machine code runs.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

# The environment variable that says which engine is to make runs: `simpy`, `fast` or nothing.
ENGINE: Final = "VARSIM_ENGINE"


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
