"""Layout of a run's memory: addresses of scalars, fields of records, kinds of events.

`m` is one flat list of integers: scalars at fixed addresses, then records. A record is the address
at which it begins; a field is what is added to it. What grows as a run goes on has its own list.
"""

from typing import Final, TypeAlias

# Numpy arrays where functions are compiled; lists where tests interpret them.
Ints: TypeAlias = list[int]
Floats: TypeAlias = list[float]


# Scalars that change.
(
    NOW,  # ns
    NUMBER,  # of the next event
    HALT,  # why the loop is left; 0 while it goes on
    PATIENCE,  # how much more it does before it is left all the same: events, rates of the mesh
    STOPPED_BY,  # 0 while the run goes on
    STALE,  # events on the heap that nobody waits for any more
    STEP,  # global_step
    PARTS,  # of gradients, applied
    EVENTS,  # on the heap
    HOLE,  # whether the first of them has been served
    BEGUN,  # gradients
    NEW_ROW,  # after the rows that have been used
    FREE_ROW,  # a list of those that are free again; 0 ends it
    LOG,  # used of the log
    ENDED,  # gradients in it that have ended
    AGGREGATED,
    EVALUATED,
    NEXT_LOOK,  # examples applied
    HEAD_STEP,  # the oldest tokens: their step, and how many there are
    HEAD_LEFT,
    LAST_STEP,  # of the latest tokens
    RING_AT,  # workers that wait: the first, how many, and how many of these may go on
    WAITING,
    SERVED,
    WOKEN,  # whether the event of those is on the heap
    LEFT,  # takes of the chief that are not served, gradients for a step
    LATEST,  # when the latest of those came (ns), and which was the first to come then
    FIRST_NOW,
    SETTLING,  # whether others that may come now are awaited before the step ends
    SLOWEST,  # clock of a worker, and how many workers have it
    SLOWEST_COUNT,
    FLOWS,  # of fair links, started
    WAKE_AT,  # when they are next seen to (ns)
    PASSED_NOW,  # how many have ended and are to be told of
    DUES,  # how many times at which something may be due, and how many there were
    ENTRIES,
    MESH_SIZE,  # flows in the mesh, how many come, and whether it is to be shared anew
    COMING,
    CHANGED,
    MESH_LINKS,  # how many links they use
    FREE_TRANSFER,  # lists of records that are free; their first field is the next one
    FREE_FLOW,
    FREE_HUB,
    FREE_GROUP,
    FREE_MESSAGE,
    BUCKET,  # the next that is all-reduced
    JOINED,  # how many replicas have; all: its ends are asked for
    WALK,  # the members of it; 0 until the first one joins
    WALK_BEFORE,  # those of the one before
    MOVED_AT,  # when all had joined the latest (ns)
    APPLIED_BY,  # replicas that have applied the mean of an even step, and of an odd one
    APPLIED_ODD,
    COMPUTED_BY,  # when all that compute will have (ns)
    MESSAGES_SENT,
    SENDING_TIME,  # of all replicas (ns), and the part of it in which they compute
    HIDDEN_TIME,
) = range(56)
# Scalars that do not.
(
    STRATEGY,
    VARIABLES,
    BATCH_SIZE,
    EVERY,  # examples from one evaluation to the next
    STACK,  # gradients worked out together
    WITHIN,  # where a draw is within its block: a mask
    PLANE,  # from a block to the next one of compute times
    ROWS,  # of gradients in flight, which are the end of the memory
    ROW,  # integers in one
    UNEVALUATED,  # a row: the first and last of a ring of those that are not worked out
    MOST_STEPS,  # stop rules; a large number: none
    MOST_EXAMPLES,
    MOST_NUMBER,
    MOST_ENDED,  # gradients in the log: from a column of theirs to the next one
    LOG_ROOM,  # when used so far, there must be more room
    ENDED_ROOM,
    ROWS_ROOM,
    HEAP_ROOM,
    WORKERS,  # records, and how many
    WORKER_COUNT,
    RING,  # room for each worker
    KEPT,  # gradients for a step, or of a moment, room for each worker and variable
    NEEDED,  # gradients for an update
    TOKENS,  # after an update
    BOUND,  # how far a clock may be ahead of the slowest
    KEEPS,  # whether workers go on with what they have read while it is new enough
    ACCUMULATORS,  # records, one per variable
    THERE,  # when each item of a batch is there
    ORDER,  # their order
    QUEUES,  # request queues of servers: how many, and when each is free
    QUEUES_AT,
    READ_HOLDS,  # of each queue
    PUSH_HOLDS,  # of each variable and queue; -1: nothing of it there
    ANSWER,  # hold
    COMMIT,  # ns
    SENDING,  # the longest that a server is at one gradient
    CONFIRMS,  # whether servers tell workers that their gradient is handled
    THREADS,  # of server updates; 0: they take no time
    LINES_AT,  # when each thread of each queue is free
    AT_ONCE,  # whether gradients are applied as they come
    FIXED,  # in `reals`: seconds of each variable and queue
    DRAWS_AT,  # how many draws of server updates each queue has used; 0: there are none
    MOST_DRAWN,  # draws that there are of each queue
    DRAWN_AT,  # in `reals`
    HANDLING,  # in a row: how it is handled by servers; 0: that takes no time
    BUSY_THREADS,  # of each queue, with one gradient alone
    FAIR,  # records of fair links; 0: links are not fair
    MESH,  # a record
    MESH_FLOWS,  # those in it, then those that come
    SO_FAR,  # in `reals`, of each: bytes passed, bytes at its next mark, rate, when that is due
    TARGETS,
    RATES,
    DUES_OF,
    ROUTES,  # of each: the `reals` of its links, of which there are MESH_HOPS
    MESH_HOPS,
    NO_LINK,  # what fills up short routes: it promises the world
    UNFILLED,  # room for each: those without a rate, those that got one in a round
    FILLED,
    UNFILLED_LINKS,  # that flows without a rate cross
    USED,  # links of the mesh
    PASSED,  # pairs of a flow and a mark that has passed; room for those that are told of
    TOLD,
    DUES_AT,  # a heap of times (ns), numbers, and hubs or the mesh
    MOST_DUES,
    MICRO_BATCHES,  # of a step
    PASSED_OVER,  # how many of them may be
    THRESHOLD,  # ns after which the rest of them is
    BREAKS_OFF,  # whether one is broken off then
    OVERLAPS,  # whether buckets are reduced as they are ready
    SHARES,  # in `reals`: of a computation after which each is
    BUCKETS,  # how many
    PLANS,  # a record of each
    PACE,  # in `reals`: the share of their pace at which messages go beside computation; 0: all
    WALKS,  # members of two, one after the other, each of all replicas
    SEND_SIZE,
    RECORDS_SENDS,
    FORESEEN,  # whether it is known when a reduction ends as all have joined it
    READ_EVERY,  # steps from one read of all copies to the next; 0: they are mirrored
    WRITES_BACK,  # whether copies become what was read
    PIECES,  # that servers add up: of how many workers each is in its sum; 0: there are none
    PIECE_COUNT,
    PUSHES,  # sends of each worker and piece, and of each piece and worker
    PULLS,
    SENDS_EARLY,  # whether they are pushed as they are ready
    PIECE_QUEUES,  # the first queue of each piece's server, and the one after its last
    PIECES_BY,  # pieces that are ready, of each bucket and those before
    SCALARS,
) = range(56, 143)

# A worker.
(
    RANK,
    MARK,  # its rank in codes of the log
    READY,  # its own time, ns
    ITERATION,
    PHASE,  # what it waits for
    GRADIENT,  # its latest
    AWAITED,  # the number of the event that it waits for
    DRAWN,  # compute times used
    DRAWS,  # compute times there are
    TIMES,  # where they are
    LABEL,  # step of its latest token
    COME,  # it has done its part of a step
    UNSENT,  # parts of its gradient
    LAST_ITEM,  # what is there last of what it pushes
    CLOCK,  # iterations that are applied
    STAMP,  # the slowest clock before its last read, of which the next two are
    COPY_AT,  # ns
    COPY_STEP,  # and its own steps since
    OWN,  # the first of its own links
    PULL,  # batches
    PUSH,
    PULLED,  # how often
    PULL_DUE,  # ns
    PULL_STARTS,  # ns, on every hop
    PUSHED,
    PUSH_DUE,
    PUSH_STARTS,
    WINDOWS,  # of slowness: how many, where they begin, and their factors in `reals`
    BOUNDS,
    FACTORS,
    TRANSFER,  # over fair links, that it waits for
    WORKER_SIZE,
) = range(32)

# What a replica has besides, at the address that is OWN of those that read from servers: ns that
# its copy takes to be updated; micro-batches left of its step, and when it gives them up (ns);
# gradients of an even step and of an odd one that it has offered, lists through their rows, and the
# last; which bucket it is at, whether its stream waits for that, for what, and is done with all;
# whether its worker waits for the stream; when it joined a reduction that not all have, else -1;
# updates that a copy of its own contains; and when each bucket is ready (ns).
REPLICA = OWN
UPDATE, BATCHES_LEFT, DEADLINE, OFFERED, _, LAST_OFFERED, AT_BUCKET = range(7)
STREAM_WAITS, STREAM_PHASE, STREAM_DONE, SEEN, JOINED_AT, CONTAINED, MOMENTS = range(7, 14)
SUMS_LEFT = CONTAINED  # of pieces, that servers add up
# How a bucket is all-reduced: for each rank where its sends begin and end, and its receipts; the
# overhead at the end of it (ns).
RANKS_SENDS, PLAN_OVERHEAD, PLAN = range(3)
FIRST_SEND, AFTER_SENDS, RECEIPTS_OF, OF_RANK = range(4)
# What a rank sends (plan.Send); its size in `reals`; of its links how many, the latency of all
# (ns), the overhead on the first (ns), and on which of them it is relayed (bits); then these links,
# each with how long it is held (ns).
TIMES_SENT, TARGET_RANK, NEEDS, NEEDS_MORE, TURN, PLAIN, ADDING = range(7)
SEND_REALS, CROSSED, SEND_LATENCY, AHEAD, RELAYED_ON, SEND = range(7, 13)
# The same of a piece that a worker pushes, or pulls: the next in line of its connection; its
# number; one more than the rank that pulls it (0: it is pushed); its connection, which has the
# first and the last of its line, and the first is on the links.
NEXT_SEND_IN_LINE, PIECE, PULLER, CONNECTION_OF_SEND = range(4)
FIRST_IN_LINE, LAST_IN_LINE, SENDER = range(3)
# A first-come link: when it is free (ns), messages, and what has passed it and was relayed, in
# `reals`.
FREE_AT, PASSED_BY, PASSED_REALS, PLAIN_LINK = range(4)
# A member of a walk (walk._Member): its worker, the first member; where it is in its sends, where
# they end, and how often it has sent that; messages that it is sent, that are here, that it
# received; whether it sends, has entered; members that could send to it (a list, each with its
# turn, -1 if it is in none), messages not yet added (a list by turn), the same rank in the walk
# after this one.
OF_WORKER, FIRST_MEMBER, NEXT_SEND, END_OF_SENDS, SENT_SO_FAR, RECEIPTS, HERE, RECEIVED = range(8)
OCCUPIED, ENTERED_WALK, FIRST_WAITER, NEXT_WAITER, WAITS_FOR_TURN = range(8, 13)
FIRST_UNADDED, LAST_UNADDED, LATER, MEMBER = range(13, 17)
# A message, after the next one: who sends it, as which of its sends, in which turn of the target;
# when it set off and until when all compute (ns), its number while it is on its links; when it
# begins to pass each (ns).
(_, SENT_BY, SENT_AS, TURN_OF, SET_OFF, SLOW_UNTIL, NTH_MESSAGE, PASSING) = range(8)

# A batch of messages, its hops and messages; a link is the address of when it is free, or
# -1 - n for the n-th of the worker's own.
ITEMS, ALONE, LATENCY, PAIR, HOPS, HOP_COUNT, MESSAGES, MESSAGE_COUNT = range(8)
EVEN, PARTS_OF, CONNECTIONS, CONNECTION_COUNT, BATCH = range(8, 13)
LINK, HOLD, BEGINS, AFTER, AFTER_COUNT, HOP = range(6)
ITEM, DELAY, PASSES, PASS_COUNT, MESSAGE = range(5)

# A connection of a batch over fair links: its links (those of the worker as above), its marks, in
# `reals`, its latency (ns), links that messages are passed on over (bits), the connection that has
# its flow after this one (0: none), whether it only keeps links busy; then links and items.
LINKS, MARKS, MARKS_AT, LAG, RELAYS, THEN, IDLE, CONNECTION = range(8)
# A transfer of a batch: the worker, the gradient (-1: it is read), the batch, items that are not
# there, and parts of each that are not.
NEXT_FREE, WAITER, CONTENT, BATCH_OF, MISSING, PARTS_LEFT = range(6)
# A flow, after how many links it crosses (or, if it is free, the next one): its transfer and
# connection, its number, its next mark, its place in the heap of a group, its numbers in `reals`;
# then the links.
(_, TRANSFER_OF, CONNECTION_OF, NTH_FLOW, MARK_NEXT, CHILD, SIBLING, FLOW_REALS) = range(8)
FLOW_SIZE = 8
ENTERED, TARGET, FLOW_NUMBERS = range(3)
# A fair link: its hub, or the mesh; flows of that; its place among links of the mesh; its bandwidth
# in `reals`, then bytes, and of the mesh what is left of it, promised and taken, its flows without
# a rate, and whether one of them has less elsewhere.
HELD_BY, CROSSING, PLACE, LINK_REALS, FAIR_LINK = range(5)
MOVED, RELAYED, LEFT_OF, PROMISE, TAKEN, USERS, DISCONTENT, LINK_NUMBERS = range(1, 9)
OWN_LINKS = 2  # of a worker on a star
# A hub, of which the mesh has the first fields: when it is due (ns), its first flow (ns), the time
# since (s, in `reals`); its link, its flows, groups by rising ceiling.
_, DUE, EPOCH, HUB_REALS, MEETING, FLOWING, FIRST_GROUP, GROUPS, HUB = range(9)
# A group, after the next one: the first to pass, how many; ceiling, rate, virtual time in `reals`.
NEXT_GROUP, ROOT, INSIDE_GROUP, GROUP_REALS, GROUP = range(5)
CEILING, GROUP_RATE, VIRTUAL, GROUP_NUMBERS = range(4)

# An accumulator: its step, gradients inside (a list through their rows), whether a take waits.
TAKE_STEP, INSIDE, FIRST, LAST, TAKE, ACCUMULATOR = range(6)

# A row: a GradientRow (before a gradient ends, the last fields hold something else), then the
# number of the gradient, whether it has ended, and events on the heap that are of this row: it is
# free for another gradient when it has ended, and there are none. Its worker is -1 if it is free.
(WORKER, NTH, READ_AT, READ_STEP, BEGUN_AT, COMPUTED_AT, ARRIVED) = range(7)
(APPLIED, APPLIED_STEP, OUTCOME, PARTS_APPLIED, FIELDS) = range(7, 12)
(COUNT, HAS_ENDED, LOOSE, OLDER, NEWER, NEXT) = range(FIELDS, FIELDS + 6)
IS_EVALUATED, LABELLED, OPEN = APPLIED, APPLIED_STEP, OUTCOME
# OLDER, NEWER: those not worked out that were begun before and after it; NEWER: the next free row.
# NEXT: for each variable, the next gradient inside its accumulator. Handling: when it is handled,
# how long that takes alone, and when threads of each queue are free then.
HANDLED, HANDLED_ALONE, BUSY = range(3)

# Codes of the log, beside those of spans: global_step rises; an evaluation: when, at which step,
# after how many parts; a batch sent again by this worker before it was through: when it started.
STEPS, LOOKS, STARTED, AGAIN = -1, -2, -3, -5  # AGAIN + 1: what was pushed
# A bucket was sent beside computation: from when, to when, and the code of a span.
SENT = -6
# Updates that a copy did not contain as it was begun with.
STALENESS = -7

# Kinds of events, each for a worker, which may be called off the first ones,
(
    STARTS,
    FETCHES,
    ASKS,
    COMPUTED,
    ARRIVES,
    GRADIENT_HANDLED,
    ANSWERED,
    # or for an item of a gradient, or for a number of workers.
    ITEM_ARRIVES,
    ITEM_HANDLED,
    CHIEF_STARTS,
    CHIEF_WAKES,
    COMMITS,
    TOKENS_COME,
    LOCKS,
    UPDATED,
    LOCK_COMMITS,
    STEP_ENDS,
    SETTLES,
    LOOKS_AHEAD,
    TAKES_IN,
    FLOWS_PASS,
    PART_PASSES,
    PART_ARRIVES,
    ALL_IS_THERE,
    TIME_IS_UP,
    CLOCK_ENDS,
    # Of replicas: what they take part in has ended for one, with its overhead; its copy is updated;
    # its stream starts, a bucket is ready, all are reduced, the stream is gone; it has computed.
    REDUCED,
    REDUCED_AT_LAST,
    COPY_UPDATED,
    STREAM_STARTS,
    BUCKET_READY,
    STREAM_ENDS,
    STREAM_GONE,
    CAUGHT_UP,
    # A message has passed its links, and at the pace it has; has arrived; is added by its target.
    MESSAGE_PASSES,
    MESSAGE_LEAVES,
    MESSAGE_ARRIVES,
    MESSAGE_COMES,
    MESSAGE_ADDED,
    # Replicas have met, but for the last to come, which has gone on.
    ALL_HAVE_MET,
    # Pieces of a worker's gradient are ready; one is in its sum; a worker has all sums.
    PIECES_READY,
    PIECE_ADDED,
    SUMS_THERE,
) = range(43)
BITS = 6  # an event is whom it is for, and its kind in so many bits
KINDS = (1 << BITS) - 1

# The order of events of one instant: a priority, and the number in which they were put in.
URGENT = 0
NORMAL = 1 << 52
SETTLED = 2 << 52
AT_LAST = 3 << 52

FOREVER = 1 << 62

# Why the loop is left.
OVER, DRY, FULL, STANDSTILL, CROWDED, ASKS_FOR_ENDS = range(1, 7)

# What stopped a run.
BY_TIME, BY_STEPS, BY_EXAMPLES, BY_EVENTS = range(1, 5)
REASONS: Final = ("", "time", "global_steps", "examples", "events")

# Who waits for whom.
ASYNCHRONOUS, LOCKING, BOUNDED, SYNCHRONOUS, BACKUP, MIRRORED = range(6)
