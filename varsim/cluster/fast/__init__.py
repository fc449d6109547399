"""Second engine, for times alone: the same runs as on SimPy, from a table of who waits for whom.

It makes runs in which no values are worked out and nothing happens to a process, of strategies that
say their `rules` (`choice.uncovered` says why not). All else SimPy makes, and whatever this engine
does not know how to end (a deadlock, times beyond 64 bits: NotCoveredError).

**The contract.** The same gradients (by worker and iteration), updates, spans and evaluations as on
SimPy, to the nanosecond, and the same bytes on links but for the rounding of sums. In which order
rows of one moment are written, and how many events it takes, may differ. On fair links SimPy has
flows that meet in one link in a hub, and others in the mesh; here all of a run are in hubs, or in
the mesh. So a rate may differ in its last bit, which can make it another run (`network.fair`): the
one that SimPy makes without hubs, float by float.

**A strategy with servers is a row**, a `rules.Gate`: what becomes of gradients that arrive, and
what lets a worker go on whose gradient is there.

* free: they are applied as they come; it goes on at once.
* tokens: unless their label is old, they wait until there are `needed`; it takes one of the
  `tokens` that an update puts in, and `first` before all.
* cutoff: the first `needed` of a step are applied, all others dropped; it goes on with the next
  step, and who has not come by then gives up what it is at.
* bound: those of one moment are applied by rank; it waits while it is more than `bound` ahead of
  the slowest.
* batch: every `needed` make an update; it goes on at once.
* group: the same, but it waits for the update with its own.
* race: the first `needed` of a step make an update; it goes on at once, until the step is over.

So a strategy of a gate that is known needs a row; another gate is a branch in `core.take` and in
`core.pushed`. A network is tables, too: batches, their hops, messages and connections (`network`).

**Who comes first** of those who come at one moment is the same as on SimPy where the same things
put in their events in the same order. The heap is served by (time, priority, number); numbers are
given in the order in which events are put in:

1. A worker that reads puts in one event, when it will have computed: the end of a transfer on
   first-come links is known when it begins. Before it is set up, one for that moment.
2. A worker that pushes puts in one event, when its gradient will be there.
3. Who lets others go on puts in one event for all of them at this moment; so does the last take of
   the chief, for the chief. Where ranks or bounds decide, what arrives first at a moment puts in
   one for the end of it, and so does each worker that has to wait for that.
4. Who is called off goes on at once, within the event that ended the step, and what it waited for
   is off the heap.
5. An event is served to its end, also when the run is over by then.
6. Random numbers are those of the same streams, in the same order for each worker.
7. On fair links who reads or pushes starts a flow for each connection. When one may pass sooner
   than was expected, that puts in an event; there those that do put in one each for their arrival,
   in the order of their start, the rates of the mesh are set anew, if flows came or went, then the
   next is expected. What arrives last lets its worker go on by an event. Who is called off leaves
   its flows to themselves.

**The functions** (`core`, `links`) are written in the part of Python that numba compiles
(`compiled`): records with names, numbers, indices, nothing that allocates; and no circles of calls,
whose machine code cannot be kept. Tests interpret them, which takes far longer than SimPy. What is
written as it happens are gradients and updates; `served` makes a trace of that, and spans follow
from gradients. The loop (`core.advance`) is left for more draws (DRY) or more room (FULL), and
after so much work (`patience`), as signals and other threads wait while machine code runs.

**All-reduces** (`arrays`) need none of this, and no machine code. Nobody is done with one before
all have entered it, so that between two of them all workers' times are a few operations on arrays,
and their all-reduce is the recurrence there is (`reductions`). What is under way at the end is cut
there. Workers with copies of their own are in arrays, too, as they do not wait for
another from one read to the next.

**Left to SimPy**, which makes the same of it in more time: servers that take requests one by one,
that take time for updates, or that add up several variables one by one; locks; workers that are
slow at times; overheads of messages on fair links; all-reduces whose messages meet.
"""

from typing import Final

# The environment variable that says which engine is to make runs: `simpy`, `fast` or nothing.
ENGINE: Final = "VARSIM_ENGINE"
