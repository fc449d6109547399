"""Hubs of flows that meet in one link, in virtual time: `cluster.fair.Hub` over tables."""

from math import inf

from varsim.cluster.fast.mesh import join_mesh, mark, passes
from varsim.cluster.fast.tables import NEVER, Row, Run
from varsim.cluster.network.fair import MOST_GROUPS


def joins(r: Run, h: int, f: int, link: int) -> bool:
    """Whether a flow that shares only this link with those of a hub can join them."""
    hub = r.hubs[h]
    if link != hub.link:
        return bool(hub.flows == 1)
    if hub.groups < MOST_GROUPS:
        return True
    limit, g = ceiling(r, f, link), hub.group
    while g:
        if r.groups[g].ceiling == limit:
            return True
        g = r.groups[g].next
    return False


def ceiling(r: Run, f: int, link: int) -> float:
    """The least bandwidth of the other links of a flow."""
    limit, first = inf, f * r.state.most_hops
    for place in range(first, first + r.connections[r.flows[f].connection].hops):
        if r.crossed[place] != link:
            limit = min(limit, r.links[r.crossed[place]].bandwidth)
    return limit


def join(r: Run, h: int, f: int, link: int) -> int:
    """Let in a flow that shares a link with the others; before when nothing is due (Hub.add)."""
    s, hub, flow = r.state, r.hubs[h], r.flows[f]
    move(r, h, (s.now - hub.epoch) / 1e9)
    if link != hub.link:
        hub.link = link
        r.groups[hub.group].ceiling = ceiling(r, r.groups[hub.group].first, link)
    limit, before, g = ceiling(r, f, link), 0, hub.group
    while g and r.groups[g].ceiling < limit:
        before, g = g, r.groups[g].next
    if g == 0 or r.groups[g].ceiling != limit:
        after, g = g, s.free_group
        s.free_group = r.groups[g].next
        group = r.groups[g]
        group.next, group.first, group.last, group.flows = after, 0, 0, 0
        group.ceiling, group.virtual = limit, 0.0
        if before:
            r.groups[before].next = g
        else:
            hub.group = g
        hub.groups += 1
    group = r.groups[g]
    flow.group, flow.entered = g, group.virtual
    flow.target = group.virtual + mark(r, flow, 0)
    insert(r, group, f)
    group.flows += 1
    hub.flows += 1
    first = f * s.most_hops
    for place in range(first, first + r.connections[flow.connection].hops):
        r.links[r.crossed[place]].holder = h
    share(r, h)
    if group.first != f:
        return int(hub.due)
    _, _, due = first_due(r, h)
    return int(hub.epoch + round(due * 1e9))


def insert(r: Run, group: Row, f: int) -> None:
    """Put a flow among those of its group, by its next mark, then by its number."""
    flow = r.flows[f]
    before = group.last
    while before and (
        r.flows[before].target > flow.target
        or (r.flows[before].target == flow.target and r.flows[before].number > flow.number)
    ):
        before = r.flows[before].previous
    after = r.flows[before].next if before else group.first
    flow.previous, flow.next = before, after
    if before:
        r.flows[before].next = f
    else:
        group.first = f
    if after:
        r.flows[after].previous = f
    else:
        group.last = f


def remove_first(r: Run, group: Row) -> None:
    """Take the first flow out of its group."""
    group.first = r.flows[group.first].next
    if group.first:
        r.flows[group.first].previous = 0
    else:
        group.last = 0


def share(r: Run, h: int) -> None:
    """Set the rates: from the lowest ceiling up, nobody gets more than an even share."""
    hub = r.hubs[h]
    left, count, g = r.links[hub.link].bandwidth, hub.flows, hub.group
    while g:
        group = r.groups[g]
        even = left / count
        group.rate = even if even < group.ceiling else group.ceiling
        left -= group.rate * group.flows
        count -= group.flows
        g = group.next


def move(r: Run, h: int, time: float) -> None:
    """Let a hub's time pass, in seconds after its epoch."""
    hub = r.hubs[h]
    gone = time - hub.time
    if gone > 0:
        g = hub.group
        while g:
            group = r.groups[g]
            group.virtual += group.rate * gone
            g = group.next
        hub.time = time


def first_due(r: Run, h: int) -> tuple[int, int, float]:
    """The group of the next mark, after the one before it; when that is (s after the epoch)."""
    found, before_found, soonest = 0, 0, inf
    before, g = 0, r.hubs[h].group
    while g:
        group = r.groups[g]
        time = (r.flows[group.first].target - group.virtual) / group.rate
        if time < soonest:
            before_found, found, soonest = before, g, time
        before, g = g, group.next
    return before_found, found, r.hubs[h].time + soonest


def pass_hub(r: Run, h: int) -> int:
    """Pass all marks of a hub that are due; when the next one is (ns)."""
    s, hub = r.state, r.hubs[h]
    elapsed = s.now - hub.epoch
    while hub.flows:
        before, g, time = first_due(r, h)
        due = round(time * 1e9)
        if due > elapsed:
            return int(hub.epoch + due)
        move(r, h, time)
        group = r.groups[g]
        f = group.first
        group.virtual = virtual = r.flows[f].target
        while f and r.flows[f].target == virtual:
            flow = r.flows[f]
            remove_first(r, group)
            passes(r, f, flow.step)
            flow.step += 1
            if flow.step < r.connections[flow.connection].marked:
                flow.target = flow.entered + mark(r, flow, flow.step)
                insert(r, group, f)
            else:
                group.flows -= 1
                hub.flows -= 1
                first = f * s.most_hops
                for place in range(first, first + r.connections[flow.connection].hops):
                    if r.crossed[place] != hub.link or hub.flows == 0:
                        r.links[r.crossed[place]].holder = 0
            f = group.first
        if f == 0:
            if before:
                r.groups[before].next = group.next
            else:
                hub.group = group.next
            hub.groups -= 1
            group.next = s.free_group
            s.free_group = g
        share(r, h)
    return NEVER


def dissolve(r: Run, h: int) -> None:
    """Give all flows of a hub to the mesh, in the order of their start."""
    s, hub = r.state, r.hubs[h]
    move(r, h, (s.now - hub.epoch) / 1e9)
    begin = s.mesh_flows + s.coming
    while hub.group:
        g = hub.group
        group = r.groups[g]
        f = group.first
        while f:
            after = r.flows[f].next
            join_mesh(r, f, group.virtual - r.flows[f].entered, begin)
            f = after
        hub.group = group.next
        group.next = s.free_group
        s.free_group = g
    hub.groups = hub.flows = 0
    hub.due, hub.next = NEVER, s.free_hub
    s.free_hub = h
