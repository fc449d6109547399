"""Mesh of flows that share links in any way: `cluster.maxmin` over flat memory.

The same floats in the same order of operations. What is gone through at every change lies in rows,
by the place of a flow among those of the mesh; its links are where these have their `reals`.
"""

from math import inf

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.hub import ends, give_up, hops, mark, merged, move, passes
from varsim.cluster.flat.layout import Floats, Ints


def dissolve(m: Ints, reals: Floats, hub: int) -> None:
    """Give all flows of a hub to the mesh, in the order of their start."""
    move(m, reals, hub, (m[at.NOW] - m[hub + at.EPOCH]) / 1e9)
    begin = m[at.MESH_SIZE] + m[at.COMING]
    while m[hub + at.FIRST_GROUP]:
        group = m[hub + at.FIRST_GROUP]
        virtual, flow = reals[m[group + at.GROUP_REALS] + at.VIRTUAL], m[group + at.ROOT]
        while flow:
            after = merged(m, reals, m[flow + at.CHILD])
            passed = virtual - reals[m[flow + at.FLOW_REALS] + at.ENTERED]
            join_mesh(m, reals, flow, passed, begin)
            flow = after
        m[hub + at.FIRST_GROUP] = m[group]
        give_up(m, at.FREE_GROUP, group)
    m[hub + at.GROUPS] = m[hub + at.FLOWING] = 0
    m[hub + at.DUE] = at.FOREVER
    give_up(m, at.FREE_HUB, hub)


def join_mesh(m: Ints, reals: Floats, flow: int, passed: float, begin: int) -> None:
    """Take a flow of which some bytes have passed into the mesh (Mesh.add).

    It is put by its number among those from the place `begin` on.
    """
    flows, so_far, place = m[at.MESH_FLOWS], m[at.SO_FAR], m[at.MESH_SIZE] + m[at.COMING]
    if place == 0:
        m[m[at.MESH] + at.EPOCH], reals[m[m[at.MESH] + at.HUB_REALS]] = m[at.NOW], 0.0
    while place > begin and m[m[flows + place - 1] + at.NTH_FLOW] > m[flow + at.NTH_FLOW]:
        m[flows + place] = m[flows + place - 1]
        reals[so_far + place] = reals[so_far + place - 1]
        place -= 1
    m[flows + place], reals[so_far + place] = flow, passed
    m[at.COMING] += 1
    for hop in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
        link = m[hop]
        if m[link + at.CROSSING] == 0:
            m[link + at.PLACE] = m[at.USED] + m[at.MESH_LINKS]
            m[m[link + at.PLACE]] = link
            m[at.MESH_LINKS] += 1
        m[link + at.HELD_BY] = m[at.MESH]
        m[link + at.CROSSING] += 1
    m[at.CHANGED] = 1


def pass_mesh(m: Ints, reals: Floats, now: int) -> int:
    """Pass one mark of each flow of the mesh that is due; when the next one is (ns)."""
    elapsed, clock = now - m[m[at.MESH] + at.EPOCH], reals[m[m[at.MESH] + at.HUB_REALS]]
    dues, latest, soonest, ended = m[at.DUES_OF], -1.0, inf, 0
    for place in range(m[at.MESH_SIZE]):
        due = reals[dues + place]
        if due * 1e9 > elapsed + 1 or round(due * 1e9) > elapsed:
            soonest = min(soonest, due)
            continue
        flow = m[m[at.MESH_FLOWS] + place]
        passes(m, flow, m[flow + at.MARK_NEXT])
        m[flow + at.MARK_NEXT] += 1
        if m[flow + at.MARK_NEXT] < m[m[flow + at.CONNECTION_OF] + at.MARKS]:
            reals[m[at.TARGETS] + place] = size = mark(m, reals, flow, m[flow + at.MARK_NEXT])
            due = clock + (size - reals[m[at.SO_FAR] + place]) / reals[m[at.RATES] + place]
            reals[dues + place] = due
            soonest = min(soonest, due)
        else:
            latest = max(latest, due)
            ended += 1
    if ended:
        move_mesh(m, reals, latest)
        leave_mesh(m, reals)
    return next_mark(m, soonest)


def leave_mesh(m: Ints, reals: Floats) -> None:
    """Take flows that have passed all their marks out of the mesh."""
    flows, routes, each = m[at.MESH_FLOWS], m[at.ROUTES], m[at.MESH_HOPS]
    targets, rates, so_far = m[at.TARGETS], m[at.RATES], m[at.SO_FAR]
    dues, kept, size = m[at.DUES_OF], 0, m[at.MESH_SIZE]
    for place in range(size + m[at.COMING]):
        flow = m[flows + place]
        if m[flow + at.MARK_NEXT] == m[m[flow + at.CONNECTION_OF] + at.MARKS]:
            m[at.MESH_SIZE] -= 1
            ends(m, reals, flow)
            leave_links(m, flow)
            continue
        if kept < place:
            m[flows + kept] = flow
            reals[so_far + kept], reals[dues + kept] = reals[so_far + place], reals[dues + place]
            reals[targets + kept] = reals[targets + place]
            reals[rates + kept] = reals[rates + place]
            for hop in range(each):
                m[routes + kept * each + hop] = m[routes + place * each + hop]
        kept += 1
    m[at.CHANGED] = 1


def leave_links(m: Ints, flow: int) -> None:
    """A flow is off its links."""
    for hop in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
        link = m[hop]
        m[link + at.CROSSING] -= 1
        if m[link + at.CROSSING] == 0:
            m[link + at.HELD_BY] = 0
            m[at.MESH_LINKS] -= 1
            last, hole = m[m[at.USED] + m[at.MESH_LINKS]], m[link + at.PLACE]
            m[hole], m[last + at.PLACE] = last, hole


def share_mesh(m: Ints, reals: Floats) -> int:
    """Let new flows in, set all rates anew; when the next mark is due (ns)."""
    m[at.CHANGED] = 0
    if m[at.COMING]:
        let_in(m, reals)
    fill(m, reals)
    clock, soonest = reals[m[m[at.MESH] + at.HUB_REALS]], inf
    targets, rates, so_far, dues = m[at.TARGETS], m[at.RATES], m[at.SO_FAR], m[at.DUES_OF]
    for place in range(m[at.MESH_SIZE]):
        due = clock + (reals[targets + place] - reals[so_far + place]) / reals[rates + place]
        reals[dues + place] = due
        soonest = min(soonest, due)
    return next_mark(m, soonest)


def let_in(m: Ints, reals: Floats) -> None:
    """Let the flows in that come."""
    move_mesh(m, reals, (m[at.NOW] - m[m[at.MESH] + at.EPOCH]) / 1e9)
    each, begin = m[at.MESH_HOPS], m[at.MESH_SIZE]
    for place in range(begin, begin + m[at.COMING]):
        flow, route = m[m[at.MESH_FLOWS] + place], m[at.ROUTES] + place * each
        reals[m[at.TARGETS] + place] = mark(m, reals, flow, m[flow + at.MARK_NEXT])
        for hop in range(each):
            m[route + hop] = m[at.NO_LINK]
        for hop in range(hops(m, flow)):
            m[route + hop] = m[m[flow + at.FLOW_SIZE + hop] + at.LINK_REALS]
    m[at.MESH_SIZE] += m[at.COMING]
    m[at.COMING] = 0


def next_mark(m: Ints, soonest: float) -> int:
    """When the next mark of a flow of the mesh is due (ns), `soonest` seconds after its epoch."""
    if m[at.MESH_SIZE] == 0:
        return at.FOREVER
    m[at.PATIENCE] -= m[at.MESH_SIZE]
    return max(m[at.NOW], m[m[at.MESH] + at.EPOCH] + round(soonest * 1e9))


def move_mesh(m: Ints, reals: Floats, time: float) -> None:
    """Let the time of the mesh pass, in seconds after its epoch."""
    clock, so_far, rates = m[m[at.MESH] + at.HUB_REALS], m[at.SO_FAR], m[at.RATES]
    gone = time - reals[clock]
    if gone > 0:
        for place in range(m[at.MESH_SIZE]):
            reals[so_far + place] += reals[rates + place] * gone
        reals[clock] = time


def fill(m: Ints, reals: Floats) -> None:
    """Set the rates of all flows of the mesh, round by round (max_min_rates)."""
    waiting, links, used = m[at.UNFILLED], m[at.UNFILLED_LINKS], m[at.MESH_LINKS]
    each, routes, rates, left = m[at.MESH_HOPS], m[at.ROUTES], m[at.RATES], m[at.MESH_SIZE]
    for place in range(used):
        link = m[m[at.USED] + place]
        m[links + place] = own = m[link + at.LINK_REALS]
        reals[own + at.USERS], reals[own + at.LEFT_OF] = float(m[link + at.CROSSING]), reals[own]
    for place in range(left):
        m[waiting + place] = place
    while left:
        m[at.PATIENCE] -= left
        for place in range(links, links + used):
            own = m[place]
            reals[own + at.PROMISE] = reals[own + at.LEFT_OF] / reals[own + at.USERS]
            reals[own + at.DISCONTENT] = reals[own + at.TAKEN] = 0.0
        for place in range(waiting, waiting + left):
            first, lowest = routes + m[place] * each, inf
            for hop in range(first, first + each):
                lowest = min(lowest, reals[m[hop] + at.PROMISE])
            reals[rates + m[place]] = lowest
            for hop in range(first, first + each):
                if reals[m[hop] + at.PROMISE] > lowest:
                    reals[m[hop] + at.DISCONTENT] = 1.0
        left = settle_rates(m, reals, left)
        before, used = used, 0
        for place in range(links, links + before):
            own = m[place]
            if reals[own + at.USERS] > 0.0:
                reals[own + at.LEFT_OF] -= reals[own + at.TAKEN]
                m[links + used] = own
                used += 1


def settle_rates(m: Ints, reals: Floats, left: int) -> int:
    """Flows that all others of a link are content with keep their rates; how many are left.

    What is taken of a link is added up by the place that it has in a route, then by flow.
    """
    waiting, done, each, routes = m[at.UNFILLED], m[at.FILLED], m[at.MESH_HOPS], m[at.ROUTES]
    number = rest = 0
    for place in range(waiting, waiting + left):
        first, settled = routes + m[place] * each, False
        for hop in range(first, first + each):
            if reals[m[hop] + at.DISCONTENT] == 0.0:
                settled = True
        if settled:
            m[done + number] = m[place]
            number += 1
        else:
            m[waiting + rest] = m[place]
            rest += 1
    if rest == 0:
        return rest
    rates = m[at.RATES]
    for hop in range(each):
        for place in range(done, done + number):
            own = m[routes + m[place] * each + hop]
            reals[own + at.TAKEN] += reals[rates + m[place]]
            reals[own + at.USERS] -= 1.0
    return rest
