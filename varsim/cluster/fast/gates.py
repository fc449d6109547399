"""Gates: when gradients make an update, and what that lets go on."""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.events import put
from varsim.cluster.fast.tables import Run
from varsim.cluster.fast.workers import apply, call_off, count_step, end, release_all


def accumulate(r: Run, g: int, item: int) -> None:
    """A part of a gradient goes into its accumulator, unless it is stale."""
    s, row, inside = r.state, r.gradients[g], r.accumulators[item]
    if row.label < inside.step:
        row.open -= 1
        if row.open == 0:
            end(r, g)
        return
    if inside.inside:
        r.after[inside.last * s.variables + item] = g
    else:
        inside.first = g
    inside.last = g
    inside.inside += 1
    serve(r, item)


def take_again(r: Run) -> None:
    """The chief takes from every accumulator."""
    s = r.state
    s.takes = s.variables
    for item in range(s.variables):
        r.accumulators[item].waits = 1
        serve(r, item)


def serve(r: Run, item: int) -> None:
    """A take that waits gets all gradients inside, if they are enough."""
    s, inside = r.state, r.accumulators[item]
    if inside.waits == 0 or inside.inside < s.needed:
        return
    g, number = inside.first, inside.inside
    inside.waits = inside.inside = 0
    inside.step += 1
    for _ in range(number):
        after = r.after[g * s.variables + item]
        apply(r, g)
        g = after
    s.takes -= 1
    if s.takes == 0:
        put(r, s.now, at.CHIEF_WAKES)


def count_update(r: Run) -> None:
    """The chief counts the step, puts tokens into the queue, and takes again."""
    s = r.state
    count_step(r)
    s.last_step = s.step
    if s.head_left == 0:
        s.head_step, s.head_left = s.step, s.tokens
    if s.waiting > s.served:
        while s.waiting > s.served and s.head_left:
            w = r.line[(s.line_at + s.served) % s.workers]
            r.workers[w].label = token(r)
            s.served += 1
        if s.woken == 0:
            s.woken = 1
            put(r, s.now, at.TOKENS_COME)
    take_again(r)


def token(r: Run) -> int:
    """The step of the oldest token, which is taken."""
    s = r.state
    step: int = s.head_step
    s.head_left -= 1
    if s.head_left == 0 and step < s.last_step:
        s.head_step, s.head_left = step + 1, s.tokens
    return step


def gather(r: Run, g: int) -> None:
    """A gradient is one for this step, by when it came and rank; the last needed ends the step."""
    s = r.state
    if s.left == 0 or s.latest < s.now:
        s.latest, s.first_now = s.now, s.left
    insert(r, g * s.variables)
    if s.left < s.needed or s.settling:
        return
    waits = 0
    for w in range(s.workers):
        other = r.workers[w]
        if other.come == 0:
            s.settling |= other.ready == s.now
            waits |= other.ready < s.now
    if s.settling or (waits and more_now(r)):
        s.settling = 1
        put(r, s.now, at.SETTLES, 0, at.SETTLED)
    else:
        end_step(r)


def more_now(r: Run) -> bool:
    """Whether something else is to happen at this moment."""
    s, heap = r.state, r.heap
    for place in range(3 * s.hole, 3 * s.events, 3):
        if heap[place] == s.now:
            kind, who = heap[place + 2] & at.KINDS, heap[place + 2] >> at.BITS
            if kind > at.GOES_ON or r.workers[who].awaited == heap[place + 1]:
                return True
    return False


def end_step(r: Run) -> None:
    """The first gradients make an update, and everybody goes on."""
    s = r.state
    left, s.left, s.settling = s.left, 0, 0
    update(r, 0)
    for place in range(s.needed, left):
        end(r, r.kept[place] // s.variables)
    others_give_up(r)
    release_all(r)


def others_give_up(r: Run) -> None:
    """Whoever has not done its part of the step gives up what it is at."""
    for w in range(r.state.workers):
        if r.workers[w].come:
            r.workers[w].come = 0
        else:
            call_off(r, w)


def keep_in_order(r: Run, what: int) -> None:
    """A gradient, or a part of one, is there; it is taken in with all that comes at this moment."""
    s = r.state
    if s.left == s.first_now:
        put(r, s.now, at.SETTLES, 0, at.SETTLED)
    insert(r, what)


def insert(r: Run, what: int) -> None:
    """Keep a part of a gradient (see `Run.kept`); those of one moment by rank."""
    s, kept = r.state, r.kept
    place, rank = s.left, r.gradients[what // s.variables].worker
    while place > s.first_now:
        before = kept[place - 1]
        other = r.gradients[before // s.variables].worker
        if other < rank or (other == rank and before < what):
            break
        kept[place] = before
        place -= 1
    kept[place] = what
    s.left += 1


def settle(r: Run) -> None:
    """All that comes at this moment has come."""
    s = r.state
    if s.kind == at.CUTOFF:
        end_step(r)
    elif s.kind == at.BOUND:
        left, s.left = s.left, 0
        for place in range(left):
            if s.stopped_by == 0:
                take_in(r, r.kept[place] // s.variables)
    else:
        settle_updates(r)


def settle_updates(r: Run) -> None:
    """Every so many of the gradients that have come make an update."""
    s, first, place, left = r.state, 0, r.state.first_now, r.state.left
    while place < left and s.stopped_by == 0:
        place += 1
        if place - first == s.needed:
            update(r, first)
            first = place
            if s.kind == at.RACE:
                for late in range(place, left):
                    end(r, r.kept[late] // s.variables)
                others_give_up(r)
                first = place = left
    for kept in range(first, place):
        r.kept[kept - first] = r.kept[kept]
    s.left = s.first_now = place - first


def update(r: Run, first: int) -> None:
    """So many gradients as are needed make an update."""
    s = r.state
    for place in range(first, first + s.needed):
        g = r.kept[place] // s.variables
        r.kept[place] = r.gradients[g].worker
        for _ in range(s.variables):
            apply(r, g)
    count_step(r)
    if s.kind == at.GROUPS:
        for place in range(first, first + s.needed):
            w = r.kept[place]
            if r.workers[w].come == 2:
                put(r, s.now, at.RELEASED, w)
            else:
                r.workers[w].come = 0


def take_in(r: Run, g: int) -> None:
    """A part of a gradient is applied; with the last, its worker has done another iteration."""
    s, row = r.state, r.gradients[g]
    worker, is_last = r.workers[row.worker], row.parts + 1 == s.variables
    apply(r, g)
    if not is_last:
        return
    count_step(r)
    worker.clock += 1
    if worker.clock != s.slowest + 1:
        return
    s.slowest_count -= 1
    if s.slowest_count == 0:
        s.slowest += 1
        for w in range(s.workers):
            s.slowest_count += r.workers[w].clock == s.slowest
        release_all(r)
