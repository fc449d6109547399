"""Links shared fairly: flows that meet in the links of one server, in virtual time.

The rules are those of `cluster.fair`, with a Hub for what servers send and another for what they
are sent; the mesh is never needed, as every other link is one worker's, and that has one flow at a
time. All flows of a hub have one size, so that those of one ceiling end in the order in which they
came: a queue does where the Hub has a heap.
"""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import put
from varsim.cluster.flat.layout import Floats, Ints


def start(m: Ints, reals: Floats, heap: Ints, w: int, hub: int, group: int) -> None:
    """Start a worker's flow through a hub, in its group (FairShare.start)."""
    now = m[at.NOW]
    m[at.FLOWS] += 1
    m[w + at.FLOW] = m[at.FLOWS]
    if m[at.DUES] and soonest(m) <= now:
        pass_marks(m, reals, heap, now)
    if m[hub + at.FLOWING] == 0:
        m[hub + at.EPOCH] = now
        reals[m[hub + at.HUB_REALS]] = 0.0
        add(m, reals, w, hub, group)
        _, due = first(m, reals, hub)
        expect(m, heap, hub, m[hub + at.EPOCH] + round(due * 1e9))
        return
    move(m, reals, hub, (now - m[hub + at.EPOCH]) / 1e9)
    if add(m, reals, w, hub, group):
        _, due = first(m, reals, hub)
        time = m[hub + at.EPOCH] + round(due * 1e9)
        if time < m[hub + at.DUE]:
            expect(m, heap, hub, time)


def add(m: Ints, reals: Floats, w: int, hub: int, group: int) -> bool:
    """Let a flow in, and set all rates anew; whether it is the first of its group to end."""
    virtual = m[group + at.VIRTUAL]
    if m[group + at.WAITERS] == 0:
        reals[virtual] = 0.0
    mark = reals[virtual] + reals[m[hub + at.HUB_REALS] + at.BYTES]
    own = m[w + at.FLOW_REALS]
    reals[own], reals[own + 1] = mark, reals[virtual]
    ring, room = group + at.WAITER, m[at.WORKER_COUNT]
    place = m[group + at.WAITERS]
    while place > 0:  # the virtual time may have been set back, by its rounding
        before = m[ring + (m[group + at.NEXT_ONE] + place - 1) % room]
        if reals[m[before + at.FLOW_REALS]] <= mark:
            break
        m[ring + (m[group + at.NEXT_ONE] + place) % room] = before
        place -= 1
    m[ring + (m[group + at.NEXT_ONE] + place) % room] = w
    m[group + at.WAITERS] += 1
    m[hub + at.FLOWING] += 1
    share(m, reals, hub)
    return place == 0


def share(m: Ints, reals: Floats, hub: int) -> None:
    """Set the rates: from the lowest ceiling up, nobody gets more than an even share."""
    left, count = reals[m[hub + at.HUB_REALS] + at.BANDWIDTH], m[hub + at.FLOWING]
    for number in range(m[hub + at.GROUPS]):
        group = m[hub + at.GROUPS_AT] + number * m[at.GROUP_SIZE]
        flows, virtual = m[group + at.WAITERS], m[group + at.VIRTUAL]
        if flows:
            even, ceiling = left / count, reals[virtual + at.CEILING]
            rate = even if even < ceiling else ceiling
            reals[virtual + at.RATE] = rate
            left -= rate * flows
            count -= flows


def move(m: Ints, reals: Floats, hub: int, time: float) -> None:
    """Let a hub's time pass, in seconds after its epoch."""
    gone = time - reals[m[hub + at.HUB_REALS]]
    if gone > 0:
        for number in range(m[hub + at.GROUPS]):
            group = m[hub + at.GROUPS_AT] + number * m[at.GROUP_SIZE]
            if m[group + at.WAITERS]:
                virtual = m[group + at.VIRTUAL]
                reals[virtual] += reals[virtual + at.RATE] * gone
        reals[m[hub + at.HUB_REALS]] = time


def first(m: Ints, reals: Floats, hub: int) -> tuple[int, float]:
    """The group of the flow that ends next, and when (seconds after the epoch)."""
    found, due = 0, 0.0
    for number in range(m[hub + at.GROUPS]):
        group = m[hub + at.GROUPS_AT] + number * m[at.GROUP_SIZE]
        if m[group + at.WAITERS]:
            virtual, head = m[group + at.VIRTUAL], m[group + at.WAITER + m[group + at.NEXT_ONE]]
            time = (reals[m[head + at.FLOW_REALS]] - reals[virtual]) / reals[virtual + at.RATE]
            if found == 0 or time < due:
                found, due = group, time
    return found, reals[m[hub + at.HUB_REALS]] + due


def end_flows(m: Ints, reals: Floats, hub: int, now: int) -> int:
    """Take the flows of a hub that end by now off their links; when the next one does (ns)."""
    elapsed = now - m[hub + at.EPOCH]
    while m[hub + at.FLOWING]:
        group, time = first(m, reals, hub)
        due = round(time * 1e9)
        if due > elapsed:
            return m[hub + at.EPOCH] + due
        move(m, reals, hub, time)
        size, moved = reals[m[hub + at.HUB_REALS] + at.BYTES], m[at.MOVED]
        mark = reals[m[m[group + at.WAITER + m[group + at.NEXT_ONE]] + at.FLOW_REALS]]
        reals[m[group + at.VIRTUAL]] = mark
        while m[group + at.WAITERS]:
            w = m[group + at.WAITER + m[group + at.NEXT_ONE]]
            if reals[m[w + at.FLOW_REALS]] != mark:
                break
            m[m[at.PASSED] + m[at.PASSED_NOW]] = w
            m[at.PASSED_NOW] += 1
            m[group + at.NEXT_ONE] = (m[group + at.NEXT_ONE] + 1) % m[at.WORKER_COUNT]
            m[group + at.WAITERS] -= 1
            m[hub + at.FLOWING] -= 1
            reals[moved + 2 * m[w + at.RANK] + m[hub + at.WAY]] += size
            reals[moved + 2 * m[at.WORKER_COUNT] + 1 - m[hub + at.WAY]] += size
        share(m, reals, hub)
    return at.FOREVER


def soonest(m: Ints) -> int:
    """When a hub may next be due (ns)."""
    found = at.FOREVER
    for place in range(m[at.DUES]):
        found = min(found, m[m[at.DUES_AT] + 2 * place])
    return found


def pass_marks(m: Ints, reals: Floats, heap: Ints, now: int) -> None:
    """Collect all flows that end by now; what stays expected is later."""
    place = 0
    while place < m[at.DUES]:
        entry = m[at.DUES_AT] + 2 * place
        time, hub = m[entry], m[entry + 1]
        if time > now:
            place += 1
            continue
        m[at.DUES] -= 1
        last = m[at.DUES_AT] + 2 * m[at.DUES]
        m[entry], m[entry + 1] = m[last], m[last + 1]
        if time == m[hub + at.DUE]:
            expect(m, heap, hub, end_flows(m, reals, hub, now))
    if m[at.PASSED_NOW]:
        wake(m, heap, now)


def expect(m: Ints, heap: Ints, hub: int, time: int) -> None:
    """A hub is due then; what was expected before is out of date."""
    m[hub + at.DUE] = time
    if time < at.FOREVER:
        entry = m[at.DUES_AT] + 2 * m[at.DUES]
        m[entry], m[entry + 1] = time, hub
        m[at.DUES] += 1
        if m[at.DUES] == m[at.MOST_DUES]:
            m[at.HALT] = at.STANDSTILL
        wake(m, heap, time)


def wake(m: Ints, heap: Ints, time: int) -> None:
    """See to the flows then, if that is not to be done earlier anyway."""
    if time < m[at.WAKE_AT]:
        m[at.WAKE_AT] = time
        put(m, heap, time, at.FLOWS_END)


def settle(m: Ints, reals: Floats, heap: Ints) -> None:
    """Tell which flows have ended, in the order in which they were started."""
    now = m[at.NOW]
    if now != m[at.WAKE_AT]:
        return
    pass_marks(m, reals, heap, now)
    number, passed = m[at.PASSED_NOW], m[at.PASSED]
    m[at.PASSED_NOW] = 0
    for index in range(1, number):
        w, place = m[passed + index], index
        while place > 0 and m[m[passed + place - 1] + at.FLOW] > m[w + at.FLOW]:
            m[passed + place] = m[passed + place - 1]
            place -= 1
        m[passed + place] = w
    for index in range(number):
        w = m[passed + index]
        put(m, heap, now + m[m[w + at.SENDS] + at.LATENCY], w << at.BITS | at.FLOW_ARRIVES)
    m[at.WAKE_AT] = at.FOREVER
    if m[at.DUES]:
        wake(m, heap, soonest(m))
