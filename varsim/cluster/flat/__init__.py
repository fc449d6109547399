"""Second engine, for times alone: the same runs as on SimPy, as plain functions over flat memory.

It makes runs in which no values are worked out and nothing happens to a process, of strategies that
say their `rules`: with servers, on all networks; of all-reduces, where their recurrence holds
(`uncovered` says why not). All else SimPy makes, and whatever this engine does not know how to end
(a deadlock, times beyond 64 bits: NotCoveredError).

**The contract.** The same gradients (by worker and iteration), updates, spans, evaluations and
bytes on links as on SimPy, to the nanosecond. In which order rows of one moment are written, and
how many events it takes, may differ. On fair links the last bit of a rate can make it another run
(`cluster.fair`); there the same floats are worked out in the same order, which need not stay so.

With servers (all-reduces: see below) there is a heap of events here, too, served by (time,
priority, number): starts of processes first, then everything else, the time limit last; numbers are
given in the order in which events are put in. Who comes first of those who come at one moment is
the same where the same things put in their events in the same order:

1. A worker that reads puts in one event, when it will have computed: the end of a transfer on
   first-come links is known when it begins. A worker whose own time is ahead of the clock (it is
   being set up) first puts in one for that moment; where servers handle requests, one for the
   end of that.
2. A worker that pushes puts in one event for every variable that arrives before the last, in the
   order of their arrival, then its own for the last. What arrives and has to be handled puts in an
   event for its end, if that is later; then the worker does, in the same way, for the end of it
   all, and for the answer.
3. Who lets others go on puts in one event for all of them at this moment: tokens that come, a step
   that is over, a slowest clock that moves, the next in a lock's line; and so does the last take of
   the chief, for the chief. Where ranks or bounds decide, what arrives first at a moment puts in
   one for the end of it, and so does each worker that has to wait for that.
4. Who is called off a step goes on at once, within the event that ended it, and what it waited for
   is off the heap (here: its event is passed over).
5. An event is served to its end, also when the run is over by then.
6. Random numbers are those of the same streams, in the same order for each worker and server.
7. On fair links (`sharing`) who reads or pushes starts a flow for each server; where messages have
   an overhead, one for that and one for the message, for each of them in turn. When one may pass a
   mark sooner than was expected, that puts in an event; there those that do put in one each for
   their arrival, in the order of their start, the rates of the mesh are set anew, if flows came or
   went, then the next is expected. What arrives last lets its worker go on by an event. Who is
   called off leaves its flows to themselves.

**The memory** (`layout`): `m`, integers, with scalars at fixed addresses, then records of links,
batches, queues, workers and draws, then rows of gradients in flight; `reals`; and a `log`: columns
of gradients that have ended, then pairs, in the order in which things happen (spans, steps,
evaluations). When it is full, it is read (`record`): spans are put in order by worker (`decoding`),
and all is packed. The heap holds (time, priority and number, what): what is a kind of event, and
for whom (an address, or a number).

**The functions** (`core`, `worker`, `books`, `links`, `sharing`, `hub`, `mesh`; per strategy
`asynchronous`, `bounded`, `accumulators`, `cutoff`) take what they need of (m, reals, log, heap),
in this order, and are written in the part of Python that numba compiles: integers, indices, no
objects, nothing that allocates; and no circles of calls, whose machine code cannot be kept.
`compiled` makes it; tests interpret them. The loop (`core.advance`) is left for more draws (DRY) or
more room (FULL), which `run` sees to, and goes on; and after so much work (PATIENCE), as signals
and other threads wait while machine code runs. Where more transfers than expected are left behind
(CROWDED), the run begins anew.

**A strategy** is a kind in `rules` and `layout`, a module of functions, and its branches in
`core.receive` (a part of a gradient is there) and `core.pushed` (all of a worker's is). Another
rule for links is another `links.hand_over`, with what `network` lays out for it.

**All-reduces** (`mirrored`) need none of this, and no machine code. Nobody is done with one before
all have entered it, so that between two of them all workers' times are a few operations on arrays,
and their all-reduce is the recurrence there is (`reductions`). What is under way at the end is cut
there. Where messages meet, where micro-batches are dropped, and where servers add gradients up,
SimPy makes the run.

Workers with copies of their own (`local`) are in arrays, too, as they do not wait for another from
one read to the next; what rank 0 sends to all of them then goes message by message, on a clock of
its own (`broadcasts`). Of what happens at one moment what was begun first comes first, then the
order in which they went on from their latest meeting decides.
"""
