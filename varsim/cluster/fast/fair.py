"""Links shared max-min fairly over whole routes: `cluster.fair` over tables, float by float."""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.events import put, rise, sink
from varsim.cluster.fast.hub import dissolve, join, joins, pass_hub
from varsim.cluster.fast.mesh import MESH, join_mesh, mark, pass_mesh, passes, share_mesh
from varsim.cluster.fast.tables import NEVER, Run


def transfer(r: Run, w: int, batch: int, g: int) -> None:
    """A worker reads (g -1) or sends a batch: a flow starts for each connection."""
    s, sent = r.state, r.batches[batch]
    t = s.free_transfer
    one = r.transfers[t]
    if one.next == 0:  # whatever else there is room for is so for so many
        s.halt = at.CROWDED
        return
    s.free_transfer = one.next
    r.workers[w].transfer = t
    one.worker, one.gradient, one.missing = w, g, sent.items
    for item in range(sent.items):
        r.missing[t * s.items + item] = r.numbers[sent.parts + item]
    for c in range(sent.connection, sent.connection + sent.connections):
        connection = r.connections[c]
        if connection.hops:
            start(r, t, c)
        else:
            for mark in range(connection.marked):
                item = r.numbers[connection.items + mark]
                put(r, s.now, at.PART_PASSES, t * s.items + item)


def reached(r: Run, t: int, item: int, lag: int) -> None:
    """A part of an item has passed its links; it is there a latency later."""
    put(r, r.state.now + lag, at.PART_ARRIVES, t * r.state.items + item)


def start(r: Run, t: int, c: int) -> None:
    """Start a flow over all links of its route at once (FairShare.start)."""
    s, connection = r.state, r.connections[c]
    f = s.free_flow
    flow = r.flows[f]
    s.free_flow = flow.next
    s.flows += 1
    flow.transfer, flow.connection, flow.number, flow.step = t, c, s.flows, 0
    own = 2 * r.transfers[t].worker - 1
    for hop in range(connection.hops):
        link = r.numbers[connection.links + hop]
        r.crossed[f * s.most_hops + hop] = link if link >= 0 else own - link
    if mark(r, flow, connection.marked - 1) <= 0:
        for index in range(connection.marked):
            passes(r, f, index)
        wake(r, s.now)
        return
    if s.dues and r.agenda[0] <= s.now:
        pass_marks(r)
    used = found = 0
    for place in range(f * s.most_hops, f * s.most_hops + connection.hops):
        if r.links[r.crossed[place]].holder:
            used += 1
            found = r.crossed[place]
    h = r.links[found].holder if used == 1 else MESH
    if used == 0:
        h = s.free_hub
        hub = r.hubs[h]
        s.free_hub = hub.next
        hub.link, hub.epoch, hub.time, hub.due = r.crossed[f * s.most_hops], s.now, 0.0, NEVER
        hub.flows = hub.group = hub.groups = 0
        expect(r, h, join(r, h, f, hub.link))
    elif h != MESH and joins(r, h, f, found):
        due = join(r, h, f, found)
        if due < r.hubs[h].due:
            expect(r, h, due)
    else:
        for place in range(f * s.most_hops, f * s.most_hops + connection.hops):
            h = r.links[r.crossed[place]].holder
            if h > MESH:
                dissolve(r, h)
        join_mesh(r, f, 0.0, s.mesh_flows + s.coming)
        wake(r, s.now)


def pass_marks(r: Run) -> None:
    """Collect all marks due by now; what stays expected is later."""
    s, agenda = r.state, r.agenda
    while s.dues and agenda[0] <= s.now:
        time, h = agenda[0], agenda[2]
        s.dues -= 1
        last = 3 * s.dues
        sink(agenda, s.dues, agenda[last], agenda[last + 1], agenda[last + 2])
        if time != r.hubs[h].due:
            continue
        if h == MESH:
            expect(r, h, pass_mesh(r))
        else:
            expect(r, h, pass_hub(r, h))
            if r.hubs[h].flows == 0:
                r.hubs[h].next = s.free_hub
                s.free_hub = h
    if s.passed:
        wake(r, s.now)


def expect(r: Run, h: int, time: int) -> None:
    """A hub or the mesh is due then; what was expected before is out of date."""
    s = r.state
    r.hubs[h].due = time
    if time < NEVER:
        s.entries += 1
        s.dues += 1
        rise(r.agenda, s.dues - 1, time, s.entries, h)
        if s.dues == s.most_dues:
            s.halt = at.CROWDED
        wake(r, time)


def wake(r: Run, time: int) -> None:
    """See to the flows then, if that is not to be done earlier anyway."""
    if time < r.state.wake_at:
        r.state.wake_at = time
        put(r, time, at.FLOWS_PASS)


def pass_flows(r: Run) -> None:
    """Tell what has passed, in the order in which flows were started, then see to the mesh."""
    s = r.state
    if s.now != s.wake_at:
        return
    pass_marks(r)
    for place in range(0, 2 * s.passed, 2):
        flow, index = r.flows[r.passed[place]], r.passed[place + 1]
        connection = r.connections[flow.connection]
        reached(r, flow.transfer, r.numbers[connection.items + index], connection.lag)
        if index + 1 == connection.marked:
            flow.next = s.free_flow
            s.free_flow = r.passed[place]
    s.passed = 0
    if s.changed:
        expect(r, MESH, share_mesh(r))
    s.wake_at = NEVER
    if s.dues:
        wake(r, r.agenda[0])
