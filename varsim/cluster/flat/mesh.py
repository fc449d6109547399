"""Mesh of flows that share links in any way: `cluster.maxmin` over flat memory.

The same floats in the same order of operations.
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
            join_mesh(m, reals, flow, virtual - reals[m[flow + at.FLOW_REALS] + at.ENTERED])
            place = m[at.MESH_FLOWS] + m[at.MESH_SIZE] + m[at.COMING] - 1
            while place > m[at.MESH_FLOWS] + begin:
                if m[m[place - 1] + at.NTH_FLOW] < m[flow + at.NTH_FLOW]:
                    break
                m[place] = m[place - 1]
                place -= 1
            m[place] = flow
            flow = after
        m[hub + at.FIRST_GROUP] = m[group]
        give_up(m, at.FREE_GROUP, group)
    m[hub + at.GROUPS] = m[hub + at.FLOWING] = 0
    m[hub + at.DUE] = at.FOREVER
    give_up(m, at.FREE_HUB, hub)


def join_mesh(m: Ints, reals: Floats, flow: int, passed: float) -> None:
    """Take a flow of which some bytes have passed into the mesh (Mesh.add)."""
    if m[at.MESH_SIZE] + m[at.COMING] == 0:
        m[m[at.MESH] + at.EPOCH], reals[m[m[at.MESH] + at.HUB_REALS]] = m[at.NOW], 0.0
    reals[m[flow + at.FLOW_REALS] + at.SO_FAR] = passed
    m[m[at.MESH_FLOWS] + m[at.MESH_SIZE] + m[at.COMING]] = flow
    m[at.COMING] += 1
    for place in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
        link = m[place]
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
    latest, ended = -1.0, 0
    for place in range(m[at.MESH_FLOWS], m[at.MESH_FLOWS] + m[at.MESH_SIZE]):
        flow = m[place]
        own = m[flow + at.FLOW_REALS]
        due = reals[own + at.DUE_AT]
        if due * 1e9 > elapsed + 1 or round(due * 1e9) > elapsed:
            continue
        passes(m, flow, m[flow + at.MARK_NEXT])
        m[flow + at.MARK_NEXT] += 1
        if m[flow + at.MARK_NEXT] < m[m[flow + at.CONNECTION_OF] + at.MARKS]:
            reals[own + at.TARGET] = size = mark(m, reals, flow, m[flow + at.MARK_NEXT])
            reals[own + at.DUE_AT] = clock + (size - reals[own + at.SO_FAR]) / reals[own + at.RATE]
        else:
            latest = max(latest, due)
            ended += 1
    if ended:
        move_mesh(m, reals, latest)
        leave_mesh(m, reals)
    return next_mark(m, reals)


def leave_mesh(m: Ints, reals: Floats) -> None:
    """Take flows that have passed all their marks out of the mesh."""
    kept, size = m[at.MESH_FLOWS], m[at.MESH_SIZE]
    for place in range(m[at.MESH_FLOWS], m[at.MESH_FLOWS] + size + m[at.COMING]):
        flow = m[place]
        if m[flow + at.MARK_NEXT] < m[m[flow + at.CONNECTION_OF] + at.MARKS]:
            m[kept] = flow
            kept += 1
            continue
        m[at.MESH_SIZE] -= 1
        ends(m, reals, flow)
        for link in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
            m[m[link] + at.CROSSING] -= 1
            if m[m[link] + at.CROSSING] == 0:
                m[m[link] + at.HELD_BY] = 0
                m[at.MESH_LINKS] -= 1
                last, hole = m[m[at.USED] + m[at.MESH_LINKS]], m[m[link] + at.PLACE]
                m[hole], m[last + at.PLACE] = last, hole
    m[at.CHANGED] = 1


def share_mesh(m: Ints, reals: Floats) -> int:
    """Let new flows in, set all rates anew; when the next mark is due (ns)."""
    m[at.CHANGED] = 0
    if m[at.COMING]:
        move_mesh(m, reals, (m[at.NOW] - m[m[at.MESH] + at.EPOCH]) / 1e9)
        begin = m[at.MESH_FLOWS] + m[at.MESH_SIZE]
        for place in range(begin, begin + m[at.COMING]):
            size = mark(m, reals, m[place], m[m[place] + at.MARK_NEXT])
            reals[m[m[place] + at.FLOW_REALS] + at.TARGET] = size
        m[at.MESH_SIZE] += m[at.COMING]
        m[at.COMING] = 0
    fill(m, reals)
    clock = reals[m[m[at.MESH] + at.HUB_REALS]]
    for place in range(m[at.MESH_FLOWS], m[at.MESH_FLOWS] + m[at.MESH_SIZE]):
        own = m[m[place] + at.FLOW_REALS]
        left = reals[own + at.TARGET] - reals[own + at.SO_FAR]
        reals[own + at.DUE_AT] = clock + left / reals[own + at.RATE]
    return next_mark(m, reals)


def next_mark(m: Ints, reals: Floats) -> int:
    """When the next mark of a flow of the mesh is due (ns)."""
    if m[at.MESH_SIZE] == 0:
        return at.FOREVER
    m[at.PATIENCE] -= m[at.MESH_SIZE]
    due = inf
    for place in range(m[at.MESH_FLOWS], m[at.MESH_FLOWS] + m[at.MESH_SIZE]):
        due = min(due, reals[m[m[place] + at.FLOW_REALS] + at.DUE_AT])
    return max(m[at.NOW], m[m[at.MESH] + at.EPOCH] + round(due * 1e9))


def move_mesh(m: Ints, reals: Floats, time: float) -> None:
    """Let the time of the mesh pass, in seconds after its epoch."""
    clock = m[m[at.MESH] + at.HUB_REALS]
    gone = time - reals[clock]
    if gone > 0:
        for place in range(m[at.MESH_FLOWS], m[at.MESH_FLOWS] + m[at.MESH_SIZE]):
            own = m[m[place] + at.FLOW_REALS]
            reals[own + at.SO_FAR] += reals[own + at.RATE] * gone
        reals[clock] = time


def fill(m: Ints, reals: Floats) -> None:
    """Set the rates of all flows of the mesh, round by round (max_min_rates)."""
    waiting = m[at.UNFILLED]
    links, used = m[at.USED], m[at.MESH_LINKS]
    for place in range(links, links + used):
        own = m[m[place] + at.LINK_REALS]
        m[m[place] + at.USERS], reals[own + at.LEFT_OF] = m[m[place] + at.CROSSING], reals[own]
    for place in range(m[at.MESH_SIZE]):
        m[waiting + place] = m[m[at.MESH_FLOWS] + place]
    left = m[at.MESH_SIZE]
    while left:
        m[at.PATIENCE] -= left
        for place in range(links, links + used):
            link, own = m[place], m[m[place] + at.LINK_REALS]
            m[link + at.DISCONTENT] = 0
            if m[link + at.USERS]:
                reals[own + at.PROMISE] = reals[own + at.LEFT_OF] / m[link + at.USERS]
        for place in range(waiting, waiting + left):
            flow, lowest = m[place], inf
            last = flow + at.FLOW_SIZE + hops(m, flow)
            for hop in range(flow + at.FLOW_SIZE, last):
                lowest = min(lowest, reals[m[m[hop] + at.LINK_REALS] + at.PROMISE])
            reals[m[flow + at.FLOW_REALS] + at.RATE] = lowest
            for hop in range(flow + at.FLOW_SIZE, last):
                if reals[m[m[hop] + at.LINK_REALS] + at.PROMISE] > lowest:
                    m[m[hop] + at.DISCONTENT] = 1
        left = settle_rates(m, reals, waiting, left)
        for place in range(links, links + used):
            own = m[m[place] + at.LINK_REALS]
            reals[own + at.LEFT_OF] -= reals[own + at.TAKEN]
            reals[own + at.TAKEN] = 0.0


def settle_rates(m: Ints, reals: Floats, waiting: int, left: int) -> int:
    """Flows that all others of a link are content with keep their rates; how many are left.

    What is taken of a link is added up by the place that it has in a route, then by flow.
    """
    done, rest = m[at.FILLED], 0
    number = longest = 0
    for place in range(waiting, waiting + left):
        flow, settled = m[place], False
        for hop in range(flow + at.FLOW_SIZE, flow + at.FLOW_SIZE + hops(m, flow)):
            if m[m[hop] + at.DISCONTENT] == 0:
                settled = True
        if settled:
            m[done + number] = flow
            number += 1
            longest = max(longest, hops(m, flow))
        else:
            m[waiting + rest] = flow
            rest += 1
    if rest == 0:
        return rest
    for hop in range(longest):
        for place in range(done, done + number):
            flow = m[place]
            if hop < hops(m, flow):
                link = m[flow + at.FLOW_SIZE + hop]
                own = m[link + at.LINK_REALS] + at.TAKEN
                reals[own] += reals[m[flow + at.FLOW_REALS] + at.RATE]
                m[link + at.USERS] -= 1
    return rest
