"""Links shared max-min fairly over whole routes: `cluster.fair.FairShare` over flat memory."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import put, rise, sink
from varsim.cluster.flat.hub import give_up, hops, join, mark, pass_hub, passes, taken, takes
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.mesh import dissolve, join_mesh, pass_mesh, share_mesh


def transfer(m: Ints, reals: Floats, heap: Ints, w: int, batch: int, gradient: int) -> None:
    """A worker reads or sends a batch: a flow starts for each connection.

    `gradient`: what is sent; -1: something is read.
    """
    if m[m[at.FREE_TRANSFER]] == 0:  # whatever else there is room for is so for so many
        m[at.HALT] = at.CROWDED
        return
    t = taken(m, at.FREE_TRANSFER)
    m[w + at.TRANSFER] = t
    m[t + at.WAITER], m[t + at.CONTENT], m[t + at.BATCH_OF] = w, gradient, batch
    m[t + at.MISSING] = m[batch + at.ITEMS]
    for item in range(m[batch + at.ITEMS]):
        m[t + at.PARTS_LEFT + item] = m[m[batch + at.PARTS_OF] + item]
    for place in range(m[batch + at.CONNECTION_COUNT]):
        connection = m[m[batch + at.CONNECTIONS] + place]
        if m[connection + at.LINKS]:
            begin_flow(m, reals, heap, t, connection)
        else:
            for mark in range(m[connection + at.MARKS]):
                what = t * m[at.VARIABLES] + m[connection + at.CONNECTION + mark]
                put(m, heap, m[at.NOW], what << at.BITS | at.PART_PASSES)


def begin_flow(m: Ints, reals: Floats, heap: Ints, t: int, connection: int) -> None:
    """A flow starts for a connection of a transfer."""
    flow = taken(m, at.FREE_FLOW)
    m[flow] = m[connection + at.LINKS]
    m[flow + at.TRANSFER_OF], m[flow + at.CONNECTION_OF] = t, connection
    for hop in range(m[connection + at.LINKS]):
        link = m[connection + at.CONNECTION + hop]
        if link < 0:
            link = at.OWN_LINKS * m[m[t + at.WAITER] + at.RANK] - 1 - link
        m[flow + at.FLOW_SIZE + hop] = m[at.FAIR] + link * at.FAIR_LINK
    start(m, reals, heap, flow)


def start(m: Ints, reals: Floats, heap: Ints, flow: int) -> None:
    """Start a flow over all links of its route at once (FairShare.start)."""
    now, number = m[at.NOW], m[m[flow + at.CONNECTION_OF] + at.MARKS]
    m[at.FLOWS] += 1
    m[flow + at.NTH_FLOW], m[flow + at.MARK_NEXT] = m[at.FLOWS], 0
    if mark(m, reals, flow, number - 1) <= 0:
        for index in range(number):
            passes(m, flow, index)
        wake(m, heap, now)
        return
    if m[at.DUES] and m[m[at.DUES_AT]] <= now:
        pass_marks(m, reals, heap, now)
    used = found = 0
    for place in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
        if m[m[place] + at.HELD_BY]:
            used += 1
            found = m[place]
    hub = m[found + at.HELD_BY] if used == 1 else m[at.MESH]
    if used == 0:
        link = m[flow + at.FLOW_SIZE]
        hub = taken(m, at.FREE_HUB)
        m[hub + at.MEETING], m[hub + at.EPOCH], reals[m[hub + at.HUB_REALS]] = link, now, 0.0
        m[hub + at.DUE] = at.FOREVER
        expect(m, heap, hub, join(m, reals, hub, flow, link))
    elif hub != m[at.MESH] and takes(m, reals, hub, flow, found):
        before = m[hub + at.DUE]
        due = join(m, reals, hub, flow, found)
        if due < before:
            expect(m, heap, hub, due)
    else:
        for place in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
            hub = m[m[place] + at.HELD_BY]
            if hub and hub != m[at.MESH]:
                dissolve(m, reals, hub)
        join_mesh(m, reals, flow, 0.0, m[at.MESH_SIZE])
        wake(m, heap, now)


def pass_marks(m: Ints, reals: Floats, heap: Ints, now: int) -> None:
    """Collect all marks due by now; what stays expected is later."""
    while m[at.DUES] and m[m[at.DUES_AT]] <= now:
        time, hub = m[m[at.DUES_AT]], m[m[at.DUES_AT] + 2]
        m[at.DUES] -= 1
        last = m[at.DUES_AT] + 3 * m[at.DUES]
        sink(m, m[at.DUES], m[last], m[last + 1], m[last + 2], m[at.DUES_AT])
        if time != m[hub + at.DUE]:
            continue
        if hub == m[at.MESH]:
            expect(m, heap, hub, pass_mesh(m, reals, now))
        else:
            expect(m, heap, hub, pass_hub(m, reals, hub, now))
            if m[hub + at.FLOWING] == 0:
                give_up(m, at.FREE_HUB, hub)
    if m[at.PASSED_NOW]:
        wake(m, heap, now)


def expect(m: Ints, heap: Ints, hub: int, time: int) -> None:
    """A hub or the mesh is due then; what was expected before is out of date."""
    m[hub + at.DUE] = time
    if time < at.FOREVER:
        m[at.ENTRIES] += 1
        m[at.DUES] += 1
        rise(m, m[at.DUES] - 1, time, m[at.ENTRIES], hub, m[at.DUES_AT])
        if m[at.DUES] == m[at.MOST_DUES]:
            m[at.HALT] = at.CROWDED
        wake(m, heap, time)


def wake(m: Ints, heap: Ints, time: int) -> None:
    """See to the flows then, if that is not to be done earlier anyway."""
    if time < m[at.WAKE_AT]:
        m[at.WAKE_AT] = time
        put(m, heap, time, at.FLOWS_PASS)


def settle(m: Ints, reals: Floats, heap: Ints) -> None:
    """Tell what has passed, in the order in which flows were started, then see to the mesh."""
    if m[at.NOW] != m[at.WAKE_AT]:
        return
    number = collect(m, reals, heap)
    for place in range(m[at.TOLD], m[at.TOLD] + 2 * number, 2):
        flow, connection = m[place], m[m[place] + at.CONNECTION_OF]
        t = m[flow + at.TRANSFER_OF]
        if m[connection + at.IDLE] == 0:
            item = m[connection + at.CONNECTION + m[connection + at.LINKS] + m[place + 1]]
            reached(m, heap, t, item, m[connection + at.LAG])
        if m[place + 1] + 1 == m[connection + at.MARKS]:
            give_up(m, at.FREE_FLOW, flow)
            if m[connection + at.THEN]:
                begin_flow(m, reals, heap, t, m[connection + at.THEN])
    see_to_mesh(m, reals, heap)


def collect(m: Ints, reals: Floats, heap: Ints) -> int:
    """Collect what has passed and is to be told now, in order (TOLD); how many."""
    pass_marks(m, reals, heap, m[at.NOW])
    number, passed = m[at.PASSED_NOW], m[at.PASSED]
    m[at.PASSED_NOW], m[at.PASSED], m[at.TOLD] = 0, m[at.TOLD], passed
    for index in range(1, number):
        place = passed + 2 * index
        flow, step = m[place], m[place + 1]
        while place > passed and m[m[place - 2] + at.NTH_FLOW] > m[flow + at.NTH_FLOW]:
            m[place], m[place + 1] = m[place - 2], m[place - 1]
            place -= 2
        m[place], m[place + 1] = flow, step
    return number


def see_to_mesh(m: Ints, reals: Floats, heap: Ints) -> None:
    """Share the mesh anew if flows came or went, and say when the next mark is expected."""
    if m[at.CHANGED]:
        expect(m, heap, m[at.MESH], share_mesh(m, reals))
    m[at.WAKE_AT] = at.FOREVER
    if m[at.PASSED_NOW]:
        wake(m, heap, m[at.NOW])
    elif m[at.DUES]:
        wake(m, heap, m[m[at.DUES_AT]])


def reached(m: Ints, heap: Ints, t: int, item: int, lag: int) -> None:
    """A part of an item has passed its links; it is there a latency later.

    Of parts that are equally long on the way only the last one makes a difference.
    """
    if m[m[t + at.BATCH_OF] + at.EVEN] == 0 or is_last(m, t, item):
        what = (t * m[at.VARIABLES] + item) << at.BITS | at.PART_ARRIVES
        put(m, heap, m[at.NOW] + lag, what)


def is_last(m: Ints, t: int, item: int) -> bool:
    """One part more of an item is under way, or there: whether it is its last."""
    m[t + at.PARTS_LEFT + item] -= 1
    return m[t + at.PARTS_LEFT + item] == 0
