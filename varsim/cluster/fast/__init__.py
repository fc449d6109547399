"""Second engine, for times alone: the same runs as on SimPy, from a table of who waits for whom.

What it promises, and what it leaves to SimPy, is a page of MODEL.md. A strategy with servers is a
row, a `rules.Gate`; a gate that is not there is a branch in `core.take` and in `core.pushed`. A
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
7. On fair links who reads or pushes starts a flow for each connection. When one may pass sooner
   than was expected, that puts in an event; there those that do put in one each for their arrival,
   in the order of their start, the rates of the mesh are set anew, if flows came or went, then the
   next is expected. What arrives last lets its worker go on by an event. Who is called off leaves
   its flows to themselves. Flows meet in hubs, or in the mesh, all of a run.

**The functions** (`core`, `links`) are written in the part of Python that numba compiles
(`compiled`): records with names, numbers, indices, nothing that allocates; and no circles of calls,
whose machine code cannot be kept. Tests interpret them, which takes far longer than SimPy. The loop
(`core.advance`) is left for more draws (DRY) or more room (FULL), and after so much work
(`patience`), as signals and other threads wait while machine code runs.
"""

from typing import Final

# The environment variable that says which engine is to make runs: `simpy`, `fast` or nothing.
ENGINE: Final = "VARSIM_ENGINE"
