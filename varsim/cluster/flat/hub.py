"""Hubs of flows that meet in one link, in virtual time: `cluster.fair.Hub` over flat memory.

What waits at a hub is a pairing heap through the records of its flows.
"""

from math import inf

from varsim.cluster.fair import MOST_GROUPS
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.layout import Floats, Ints


def taken(m: Ints, pool: int) -> int:
    """A free record of a pool; there is always one."""
    record = m[pool]
    m[pool] = m[record]
    return record


def give_up(m: Ints, pool: int, record: int) -> None:
    """A record is free again."""
    m[record] = m[pool]
    m[pool] = record


def hops(m: Ints, flow: int) -> int:
    """How many links a flow crosses; their addresses follow its record."""
    return m[flow]


def mark(m: Ints, reals: Floats, flow: int, index: int) -> float:
    """How many bytes have passed at a mark of a flow."""
    return reals[m[m[flow + at.CONNECTION_OF] + at.MARKS_AT] + index]


def ends(m: Ints, reals: Floats, flow: int) -> None:
    """All of a flow has passed its links (note_passed)."""
    connection = m[flow + at.CONNECTION_OF]
    if m[connection + at.IDLE]:
        return
    size = reals[m[connection + at.MARKS_AT] + m[connection + at.MARKS] - 1]
    for hop in range(m[connection + at.LINKS]):
        link = m[m[flow + at.FLOW_SIZE + hop] + at.LINK_REALS]
        reals[link + at.MOVED] += size
        if hop and m[connection + at.RELAYS] >> hop & 1:
            reals[link + at.RELAYED] += size


def passes(m: Ints, flow: int, index: int) -> None:
    """A mark of a flow is passed, which is to be told now."""
    place = m[at.PASSED] + 2 * m[at.PASSED_NOW]
    m[place], m[place + 1] = flow, index
    m[at.PASSED_NOW] += 1


def takes(m: Ints, reals: Floats, hub: int, flow: int, link: int) -> bool:
    """Whether a flow that shares only this link with those of a hub can join them."""
    if link != m[hub + at.MEETING]:
        return m[hub + at.FLOWING] == 1
    if m[hub + at.GROUPS] < MOST_GROUPS:
        return True
    limit, group = ceiling(m, reals, flow, link), m[hub + at.FIRST_GROUP]
    while group:
        if reals[m[group + at.GROUP_REALS] + at.CEILING] == limit:
            return True
        group = m[group]
    return False


def ceiling(m: Ints, reals: Floats, flow: int, link: int) -> float:
    """The least bandwidth of the other links of a flow."""
    limit = inf
    for place in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
        if m[place] != link:
            limit = min(limit, reals[m[m[place] + at.LINK_REALS]])
    return limit


def join(m: Ints, reals: Floats, hub: int, flow: int, link: int) -> int:
    """Let in a flow that shares a link with the others; before when nothing is due (Hub.add)."""
    move(m, reals, hub, (m[at.NOW] - m[hub + at.EPOCH]) / 1e9)
    if link != m[hub + at.MEETING]:
        m[hub + at.MEETING], group = link, m[hub + at.FIRST_GROUP]
        limit = ceiling(m, reals, m[group + at.ROOT], link)
        reals[m[group + at.GROUP_REALS] + at.CEILING] = limit
    limit, before, group = ceiling(m, reals, flow, link), hub + at.FIRST_GROUP, 0
    while m[before] and reals[m[m[before] + at.GROUP_REALS] + at.CEILING] < limit:
        before = m[before]
    group = m[before]
    if group == 0 or reals[m[group + at.GROUP_REALS] + at.CEILING] != limit:
        group = taken(m, at.FREE_GROUP)
        m[group], m[before] = m[before], group
        m[group + at.ROOT] = m[group + at.INSIDE_GROUP] = 0
        reals[m[group + at.GROUP_REALS] + at.CEILING] = limit
        reals[m[group + at.GROUP_REALS] + at.VIRTUAL] = 0.0
        m[hub + at.GROUPS] += 1
    virtual, own = reals[m[group + at.GROUP_REALS] + at.VIRTUAL], m[flow + at.FLOW_REALS]
    reals[own + at.ENTERED] = virtual
    reals[own + at.TARGET] = virtual + mark(m, reals, flow, 0)
    m[flow + at.CHILD] = m[flow + at.SIBLING] = 0
    m[group + at.ROOT] = melded(m, reals, m[group + at.ROOT], flow)
    m[group + at.INSIDE_GROUP] += 1
    m[hub + at.FLOWING] += 1
    for place in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
        m[m[place] + at.HELD_BY] = hub
    share(m, reals, hub)
    if m[group + at.ROOT] != flow:
        return m[hub + at.DUE]
    _, due = first(m, reals, hub)
    return m[hub + at.EPOCH] + round(due * 1e9)


def share(m: Ints, reals: Floats, hub: int) -> None:
    """Set the rates: from the lowest ceiling up, nobody gets more than an even share."""
    left, count = reals[m[m[hub + at.MEETING] + at.LINK_REALS]], m[hub + at.FLOWING]
    group = m[hub + at.FIRST_GROUP]
    while group:
        own, flows = m[group + at.GROUP_REALS], m[group + at.INSIDE_GROUP]
        even, limit = left / count, reals[own + at.CEILING]
        rate = even if even < limit else limit
        reals[own + at.GROUP_RATE] = rate
        left -= rate * flows
        count -= flows
        group = m[group]


def move(m: Ints, reals: Floats, hub: int, time: float) -> None:
    """Let a hub's time pass, in seconds after its epoch."""
    gone = time - reals[m[hub + at.HUB_REALS]]
    if gone > 0:
        group = m[hub + at.FIRST_GROUP]
        while group:
            own = m[group + at.GROUP_REALS]
            reals[own + at.VIRTUAL] += reals[own + at.GROUP_RATE] * gone
            group = m[group]
        reals[m[hub + at.HUB_REALS]] = time


def first(m: Ints, reals: Floats, hub: int) -> tuple[int, float]:
    """What comes before the group of the next mark, and when that is (seconds after the epoch)."""
    before = hub + at.FIRST_GROUP
    found, soonest = 0, inf
    while m[before]:
        group = m[before]
        own, head = m[group + at.GROUP_REALS], m[m[group + at.ROOT] + at.FLOW_REALS]
        time = (reals[head + at.TARGET] - reals[own + at.VIRTUAL]) / reals[own + at.GROUP_RATE]
        if time < soonest:
            found, soonest = before, time
        before = group
    return found, reals[m[hub + at.HUB_REALS]] + soonest


def pass_hub(m: Ints, reals: Floats, hub: int, now: int) -> int:
    """Pass all marks of a hub that are due; when the next one is (ns)."""
    elapsed = now - m[hub + at.EPOCH]
    while m[hub + at.FLOWING]:
        before, time = first(m, reals, hub)
        due = round(time * 1e9)
        if due > elapsed:
            return m[hub + at.EPOCH] + due
        move(m, reals, hub, time)
        group = m[before]
        flow = m[group + at.ROOT]
        virtual = reals[m[flow + at.FLOW_REALS] + at.TARGET]
        reals[m[group + at.GROUP_REALS] + at.VIRTUAL] = virtual
        while flow and reals[m[flow + at.FLOW_REALS] + at.TARGET] == virtual:
            m[group + at.ROOT] = merged(m, reals, m[flow + at.CHILD])
            passes(m, flow, m[flow + at.MARK_NEXT])
            m[flow + at.MARK_NEXT] += 1
            if m[flow + at.MARK_NEXT] < m[m[flow + at.CONNECTION_OF] + at.MARKS]:
                own = m[flow + at.FLOW_REALS]
                size = mark(m, reals, flow, m[flow + at.MARK_NEXT])
                reals[own + at.TARGET] = reals[own + at.ENTERED] + size
                m[flow + at.CHILD] = m[flow + at.SIBLING] = 0
                m[group + at.ROOT] = melded(m, reals, m[group + at.ROOT], flow)
            else:
                m[group + at.INSIDE_GROUP] -= 1
                m[hub + at.FLOWING] -= 1
                ends(m, reals, flow)
                for place in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
                    if m[place] != m[hub + at.MEETING] or m[hub + at.FLOWING] == 0:
                        m[m[place] + at.HELD_BY] = 0
            flow = m[group + at.ROOT]
        if flow == 0:
            m[before] = m[group]
            m[hub + at.GROUPS] -= 1
            give_up(m, at.FREE_GROUP, group)
        share(m, reals, hub)
    return at.FOREVER


def melded(m: Ints, reals: Floats, one: int, other: int) -> int:
    """Two heaps of flows as one: the next mark first, of those at one place the older flow."""
    if one == 0 or other == 0:
        return one + other
    here, there = m[one + at.FLOW_REALS] + at.TARGET, m[other + at.FLOW_REALS] + at.TARGET
    if reals[there] < reals[here] or (
        reals[there] == reals[here] and m[other + at.NTH_FLOW] < m[one + at.NTH_FLOW]
    ):
        one, other = other, one
    m[other + at.SIBLING] = m[one + at.CHILD]
    m[one + at.CHILD] = other
    return one


def merged(m: Ints, reals: Floats, flow: int) -> int:
    """All heaps of a row of siblings as one: in pairs, then from the last pair on."""
    pairs = 0
    while flow:
        other = m[flow + at.SIBLING]
        after = m[other + at.SIBLING] if other else 0
        m[flow + at.SIBLING] = 0
        if other:
            m[other + at.SIBLING] = 0
        pair = melded(m, reals, flow, other)
        m[pair + at.SIBLING] = pairs
        pairs, flow = pair, after
    heap = 0
    while pairs:
        after = m[pairs + at.SIBLING]
        m[pairs + at.SIBLING] = 0
        heap = melded(m, reals, heap, pairs)
        pairs = after
    return heap
