"""Mesh of flows of any routes, every change of which sets all rates anew: `cluster.maxmin`."""

from math import inf

from varsim.cluster.fast.tables import NEVER, Row, Run

MESH = 1  # the hub that stands for it


def mark(r: Run, flow: Row, index: int) -> float:
    """How many bytes have passed at a mark of a flow."""
    size: float = r.sizes[r.connections[flow.connection].marks + index]
    return size


def passes(r: Run, f: int, index: int) -> None:
    """A mark of a flow is passed, which is to be told now: in the order of starts, and of marks."""
    passed, place, number = r.passed, 2 * r.state.passed, r.flows[f].number
    while place > 0 and r.flows[passed[place - 2]].number > number:
        passed[place], passed[place + 1] = passed[place - 2], passed[place - 1]
        place -= 2
    passed[place], passed[place + 1] = f, index
    r.state.passed += 1


def join_mesh(r: Run, f: int, passed: float, begin: int) -> None:
    """Take a flow of which some bytes have passed into the mesh (Mesh.add).

    It is put by its number among those from the place `begin` on.
    """
    s, flow, place = r.state, r.flows[f], r.state.mesh_flows + r.state.coming
    if place == 0:
        r.hubs[MESH].epoch, r.hubs[MESH].time = s.now, 0.0
    while place > begin and r.flows[r.mesh[place - 1]].number > flow.number:
        r.mesh[place] = r.mesh[place - 1]
        place -= 1
    r.mesh[place] = f
    flow.passed = passed
    s.coming += 1
    first = f * s.most_hops
    for hop in range(first, first + r.connections[flow.connection].hops):
        link = r.links[r.crossed[hop]]
        if link.crossing == 0:
            link.place = s.mesh_links
            r.used[s.mesh_links] = r.crossed[hop]
            s.mesh_links += 1
        link.holder = MESH
        link.crossing += 1
    s.changed = 1


def pass_mesh(r: Run) -> int:
    """Pass one mark of each flow of the mesh that is due; when the next one is (ns)."""
    s, mesh = r.state, r.hubs[MESH]
    elapsed, latest, soonest, ended = s.now - mesh.epoch, -1.0, inf, 0
    for place in range(s.mesh_flows):
        f = r.mesh[place]
        flow = r.flows[f]
        if flow.due * 1e9 > elapsed + 1 or round(flow.due * 1e9) > elapsed:
            soonest = min(soonest, flow.due)
            continue
        passes(r, f, flow.step)
        flow.step += 1
        if flow.step < r.connections[flow.connection].marked:
            flow.target = mark(r, flow, flow.step)
            flow.due = mesh.time + (flow.target - flow.passed) / flow.rate
            soonest = min(soonest, flow.due)
        else:
            latest = max(latest, flow.due)
            ended += 1
    if ended:
        move_mesh(r, latest)
        leave_mesh(r)
    return next_mark(r, soonest)


def leave_mesh(r: Run) -> None:
    """Take flows that have passed all their marks out of the mesh."""
    s, kept = r.state, 0
    for place in range(s.mesh_flows + s.coming):
        f = r.mesh[place]
        connection = r.connections[r.flows[f].connection]
        if r.flows[f].step < connection.marked:
            r.mesh[kept] = f
            kept += 1
            continue
        s.mesh_flows -= 1
        for hop in range(f * s.most_hops, f * s.most_hops + connection.hops):
            link = r.links[r.crossed[hop]]
            link.crossing -= 1
            if link.crossing == 0:
                link.holder = 0
                s.mesh_links -= 1
                last = r.used[s.mesh_links]
                r.used[link.place], r.links[last].place = last, link.place
    s.changed = 1


def share_mesh(r: Run) -> int:
    """Let new flows in, set all rates anew; when the next mark is due (ns)."""
    s, mesh, soonest = r.state, r.hubs[MESH], inf
    s.changed = 0
    if s.coming:
        move_mesh(r, (s.now - mesh.epoch) / 1e9)
        for place in range(s.mesh_flows, s.mesh_flows + s.coming):
            flow = r.flows[r.mesh[place]]
            flow.target = mark(r, flow, flow.step)
        s.mesh_flows += s.coming
        s.coming = 0
    fill(r)
    for place in range(s.mesh_flows):
        flow = r.flows[r.mesh[place]]
        flow.due = mesh.time + (flow.target - flow.passed) / flow.rate
        soonest = min(soonest, flow.due)
    return next_mark(r, soonest)


def next_mark(r: Run, soonest: float) -> int:
    """When the next mark of a flow of the mesh is due (ns), `soonest` seconds after its epoch."""
    s = r.state
    if s.mesh_flows == 0:
        return NEVER
    s.patience -= s.mesh_flows
    return int(max(s.now, r.hubs[MESH].epoch + round(soonest * 1e9)))


def move_mesh(r: Run, time: float) -> None:
    """Let the time of the mesh pass, in seconds after its epoch."""
    mesh = r.hubs[MESH]
    gone = time - mesh.time
    if gone > 0:
        for place in range(r.state.mesh_flows):
            flow = r.flows[r.mesh[place]]
            flow.passed += flow.rate * gone
        mesh.time = time


def fill(r: Run) -> None:
    """Set the rates of all flows of the mesh, round by round (max_min_rates)."""
    s = r.state
    used, left = s.mesh_links, s.mesh_flows
    for place in range(used):
        r.open_links[place] = r.used[place]
        link = r.links[r.used[place]]
        link.users, link.left = link.crossing, link.bandwidth
    for place in range(left):
        r.open_flows[place] = r.mesh[place]
    while left:
        s.patience -= left
        for place in range(used):
            link = r.links[r.open_links[place]]
            link.promise, link.discontent, link.taken = link.left / link.users, 0, 0.0
        for place in range(left):
            f = r.open_flows[place]
            flow, first, lowest = r.flows[f], f * s.most_hops, inf
            after = first + r.connections[flow.connection].hops
            for hop in range(first, after):
                lowest = min(lowest, r.links[r.crossed[hop]].promise)
            flow.rate = lowest
            for hop in range(first, after):
                link = r.links[r.crossed[hop]]
                link.discontent |= link.promise > lowest
        left = settle_rates(r, left)
        before, used = used, 0
        for place in range(before):
            link = r.links[r.open_links[place]]
            if link.users > 0:
                link.left -= link.taken
                r.open_links[used] = r.open_links[place]
                used += 1


def settle_rates(r: Run, left: int) -> int:
    """Flows that all others of a link are content with keep their rates; how many are left.

    What is taken of a link is added up by the place that it has in a route, then by flow.
    """
    s, done, rest, longest = r.state, 0, 0, 0
    settled_from = s.mesh_flows
    for place in range(left):
        f = r.open_flows[place]
        first, hops = f * s.most_hops, r.connections[r.flows[f].connection].hops
        settled = False
        for hop in range(first, first + hops):
            if r.links[r.crossed[hop]].discontent == 0:
                settled = True
        if settled:
            r.open_flows[settled_from + done] = f
            done += 1
            longest = max(longest, hops)
        else:
            r.open_flows[rest] = f
            rest += 1
    if rest == 0:
        return rest
    for hop in range(longest):
        for place in range(settled_from, settled_from + done):
            f = r.open_flows[place]
            flow = r.flows[f]
            if hop < r.connections[flow.connection].hops:
                link = r.links[r.crossed[f * s.most_hops + hop]]
                link.taken += flow.rate
                link.users -= 1
    return rest
