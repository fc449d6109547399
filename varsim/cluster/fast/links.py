"""What is sent: over links that serve first come, first served, or that are shared max-min fairly.

Fair links are `network.fair` and `network.maxmin` over tables, but for one choice: either all flows
of a way meet in one link and are equal (two hubs, in which who comes first passes first), or all
are in the mesh, whose rates are set anew at every change.
"""

from math import inf

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.tables import NEVER, READ, WRITE, FastRun, Row


def put(r: FastRun, time: int, kind: int, who: int = 0, priority: int = at.NORMAL) -> int:
    """Put an event on the heap; its order."""
    s = r.state[0]
    order: int = priority + s.number
    s.number += 1
    s.events += 1
    if s.events >= s.most_events and s.halt == 0:
        s.halt = at.FULL
    rise(r, s.events - 1, time, order, who << at.KIND_BITS | kind)
    return order


def rise(r: FastRun, place: int, time: int, order: int, what: int) -> None:
    """Put an event in at a place of the heap, and from there where it belongs, above."""
    heap = r.heap
    while place > 0:
        above = (place - 1) >> 1
        before = heap[3 * above]
        if before < time or (before == time and heap[3 * above + 1] < order):
            break
        heap[3 * place], heap[3 * place + 1] = before, heap[3 * above + 1]
        heap[3 * place + 2] = heap[3 * above + 2]
        place = above
    heap[3 * place], heap[3 * place + 1], heap[3 * place + 2] = time, order, what


def take_off(r: FastRun, place: int) -> None:
    """Take the event at a place off the heap: the last one is put in there."""
    s, heap = r.state[0], r.heap
    s.events -= 1
    last = s.events
    time, order, what = heap[3 * last], heap[3 * last + 1], heap[3 * last + 2]
    child = 2 * place + 1
    while child < last:
        one, other = 3 * child, 3 * child + 3
        if child + 1 < last and (
            heap[other] < heap[one]
            or (heap[other] == heap[one] and heap[other + 1] < heap[one + 1])
        ):
            child, one = child + 1, other
        if time < heap[one] or (time == heap[one] and order < heap[one + 1]):
            break
        heap[3 * place], heap[3 * place + 1] = heap[one], heap[one + 1]
        heap[3 * place + 2] = heap[one + 2]
        place, child = child, 2 * child + 1
    rise(r, place, time, order, what)


def send(r: FastRun, w: int, way: int) -> int:
    """A worker reads or pushes; when that will be there on first-come links (ns), or NEVER."""
    s, worker = r.state[0], r.workers[w]
    if s.fair and s.stopped_by:
        return NEVER
    worker.pulls += way == READ
    worker.pushes += way == WRITE
    batch = r.batches[worker.pull if way == READ else worker.push]
    if s.fair == 0:
        return hand_over(r, w, way, batch)
    worker.turn += 1
    worker.way, worker.missing, worker.awaited = way, batch.connections, -1
    who = w | worker.turn << at.RANK_BITS
    for c in range(batch.connection, batch.connection + batch.connections):
        if r.connections[c].hops:
            start(r, who, way, c)
        else:
            put(r, s.now, at.PART_ARRIVES, who)
    return NEVER


def hand_over(r: FastRun, w: int, way: int, batch: Row) -> int:
    """Put a batch on its links, first come, first served; when all of it will be there (ns)."""
    s, sends, own = r.state[0], r.sends, 2 * w - 1
    now = due = s.now
    first = s.sends * s.width
    starts = first + 3
    for place in range(batch.hops):
        hop, begin = r.hops[batch.hop + place], now
        if hop.begins == 0:
            begin = NEVER
            for after in range(hop.after, hop.after + 2 * hop.afters, 2):
                begin = min(begin, sends[starts + r.numbers[after]] + r.numbers[after + 1])
        link = r.links[hop.link if hop.link >= 0 else own - hop.link]
        begin = max(begin, link.free_at)
        sends[starts + place] = begin
        link.free_at = begin + hop.hold
    for place in range(batch.message, batch.message + batch.messages):
        message, end = r.messages[place], now
        for one in range(message.passes, message.passes + 2 * message.passed, 2):
            end = max(end, sends[starts + r.numbers[one]] + r.numbers[one + 1])
        due = max(due, end + message.delay)
    sends[first], sends[first + 1], sends[first + 2] = w, way, due
    s.sends += 1
    if s.sends >= s.most_sends and s.halt == 0:
        s.halt = at.FULL
    return int(due)


# ---- flows over fair links


def start(r: FastRun, who: int, way: int, c: int) -> None:
    """Start a flow over all links of its route at once."""
    s, connection = r.state[0], r.connections[c]
    pass_due(r)
    s.started += 1
    if s.meet:
        join(r, who, way, c)
        return
    f = s.flows
    flow = r.flows[f]
    flow.number, flow.who, flow.connection = s.started, who, c
    flow.target, flow.passed, flow.rate, flow.due = connection.load, 0.0, 0.0, inf
    flow.first, flow.hops = connection.links, connection.binding
    flow.own = 2 * (who & at.MOST_WORKERS - 1) - 1
    if s.flows == 0:
        r.hubs[at.MESH].epoch, r.hubs[at.MESH].time = s.now, 0.0
    s.flows += 1
    s.coming += 1
    s.changed = 1
    wake(r, s.now)
    if s.flows >= s.most_flows and s.halt == 0:
        s.halt = at.FULL


def wake(r: FastRun, time: int) -> None:
    """See to the flows then, if that is not to be done earlier anyway."""
    if time < r.state[0].wake_at:
        r.state[0].wake_at = time
        put(r, time, at.FLOWS_PASS)


def pass_due(r: FastRun) -> None:
    """Collect all flows that have passed by now; what stays expected is later."""
    s = r.state[0]
    for way in range(2):
        if r.hubs[way].due <= s.now:
            r.hubs[way].due = pass_hub(r, way)
    if r.hubs[at.MESH].due <= s.now:
        r.hubs[at.MESH].due = pass_mesh(r)
    if s.told < s.passed:
        wake(r, r.passed[3 * s.told])


def passes(r: FastRun, flow: Row, due: int) -> None:
    """A flow has passed, which is told a latency later: in that order, then that of starts."""
    s, passed = r.state[0], r.passed
    time, place = due + r.connections[flow.connection].lag, 3 * s.passed
    while place > 3 * s.told and (
        passed[place - 3] > time or (passed[place - 3] == time and passed[place - 2] > flow.number)
    ):
        for field in range(place, place + 3):
            passed[field] = passed[field - 3]
        place -= 3
    passed[place], passed[place + 1], passed[place + 2] = time, flow.number, flow.who
    s.passed += 1
    if s.passed - s.told >= s.most_flows and s.halt == 0:
        s.halt = at.FULL


def is_told(r: FastRun) -> bool:
    """Whether a flow is to be told now, of those that had started when flows were seen to."""
    s, first = r.state[0], 3 * r.state[0].told
    told: bool = s.told < s.passed and r.passed[first] <= s.now and r.passed[first + 1] < s.telling
    return told


def next_told(r: FastRun) -> int:
    """Whose flow is told now."""
    s, passed = r.state[0], r.passed
    who: int = passed[3 * s.told + 2]
    s.told += 1
    if 2 * s.told > s.passed:
        for place in range(3 * s.told, 3 * s.passed):
            passed[place - 3 * s.told] = passed[place]
        s.passed -= s.told
        s.told = 0
    return who


def see_on(r: FastRun) -> None:
    """See to the mesh, and say when to see to flows again."""
    s = r.state[0]
    s.telling = 0
    if s.changed:
        r.hubs[at.MESH].due = share(r)
    s.wake_at = NEVER
    if s.told < s.passed:
        wake(r, r.passed[3 * s.told])
    wake(r, min(r.hubs[READ].due, r.hubs[WRITE].due, r.hubs[at.MESH].due) + s.later)


def join(r: FastRun, who: int, way: int, c: int) -> None:
    """Let a flow into a hub, in virtual time; the flows before it only become slower."""
    s, hub = r.state[0], r.hubs[way]
    if hub.count == 0:
        hub.epoch, hub.time, hub.virtual, hub.due = s.now, 0.0, 0.0, NEVER
    time = (s.now - hub.epoch) / 1e9
    if time > hub.time:
        hub.virtual += hub.rate * (time - hub.time)
        hub.time = time
    flow = r.flows[way * s.workers + (hub.first + hub.count) % s.workers]
    flow.number, flow.who, flow.connection = s.started, who, c
    flow.passed = hub.virtual  # when it began
    flow.target = hub.virtual + r.connections[c].load
    hub.count += 1
    hub.rate = min(hub.bandwidth / hub.count, hub.ceiling)
    if hub.count == 1:
        hub.due = hub.epoch + round((hub.time + (flow.target - hub.virtual) / hub.rate) * 1e9)
        wake(r, hub.due + s.later)


def pass_hub(r: FastRun, way: int) -> int:
    """Pass all flows of a hub that are due; when the next one is (ns)."""
    s, hub = r.state[0], r.hubs[way]
    base = way * s.workers
    while hub.count:
        target = r.flows[base + hub.first].target
        time = hub.time + (target - hub.virtual) / hub.rate
        due = int(hub.epoch + round(time * 1e9))
        if due > s.now:
            return due
        hub.virtual, hub.time = target, max(time, hub.time)
        while hub.count and r.flows[base + hub.first].target == target:
            passes(r, r.flows[base + hub.first], due)
            hub.first = (hub.first + 1) % s.workers
            hub.count -= 1
        if hub.count:
            hub.rate = min(hub.bandwidth / hub.count, hub.ceiling)
    return NEVER


def pass_mesh(r: FastRun) -> int:
    """Pass the flows of the mesh that are due; when the next one is (ns)."""
    s, mesh = r.state[0], r.hubs[at.MESH]
    elapsed, latest, soonest, kept = s.now - mesh.epoch, -1.0, inf, 0
    for f in range(s.flows):
        due = r.flows[f].due
        if due * 1e9 > elapsed + 1 or round(due * 1e9) > elapsed:
            soonest = min(soonest, due)
        else:
            latest = max(latest, due)
    if latest < 0:
        return next_due(r, soonest)
    move(r, latest)
    for f in range(s.flows):
        due = r.flows[f].due
        if due <= latest and round(due * 1e9) <= elapsed:
            passes(r, r.flows[f], s.now)
            continue
        if kept < f:
            into, flow = r.flows[kept], r.flows[f]
            into.number, into.who, into.connection = flow.number, flow.who, flow.connection
            into.target, into.passed = flow.target, flow.passed
            into.rate, into.due = flow.rate, flow.due
            into.first, into.hops, into.own = flow.first, flow.hops, flow.own
        kept += 1
    s.flows, s.changed = kept, 1
    return next_due(r, soonest)


def move(r: FastRun, time: float) -> None:
    """Let the time of the mesh pass, in seconds after its epoch."""
    mesh = r.hubs[at.MESH]
    if time > mesh.time:
        for f in range(r.state[0].flows - r.state[0].coming):
            r.flows[f].passed += r.flows[f].rate * (time - mesh.time)
        mesh.time = time


def next_due(r: FastRun, soonest: float) -> int:
    """When the next flow of the mesh passes (ns), `soonest` seconds after its epoch."""
    s = r.state[0]
    s.patience -= s.flows
    if soonest == inf:
        return NEVER
    return int(max(s.now, r.hubs[at.MESH].epoch + round(soonest * 1e9)))


def share(r: FastRun) -> int:
    """Let those in that have come, set all rates anew; when the next flow passes (ns)."""
    s, mesh, soonest = r.state[0], r.hubs[at.MESH], inf
    if s.coming:
        move(r, (s.now - mesh.epoch) / 1e9)
    s.changed = s.coming = 0
    fill(r)
    for f in range(s.flows):
        flow = r.flows[f]
        flow.due = mesh.time + (flow.target - flow.passed) / flow.rate
        soonest = min(soonest, flow.due)
    return next_due(r, soonest)


def fill(r: FastRun) -> None:
    """Set the rates of all flows of the mesh, by progressive filling (max_min_rates).

    A flow has its rate when all others of a link of its own are content with theirs. What is taken
    of a link in a round is added up by the place that it has in a route, then by flow.
    """
    s, used, left = r.state[0], 0, r.state[0].flows
    for f in range(left):
        flow = r.flows[f]
        flow.settled = 0
        for hop in range(flow.hops):
            number = crossed(r, flow, hop)
            link = r.links[number]
            if link.users == 0:
                link.left = link.bandwidth
                r.open[used] = number
                used += 1
            link.users += 1
    while left:
        s.patience -= s.flows
        before, used = used, 0
        for place in range(before):
            link = r.links[r.open[place]]
            if link.users:
                link.promise, link.discontent, link.taken = link.left / link.users, 0, 0.0
                r.open[used] = r.open[place]
                used += 1
        for f in range(s.flows):
            flow = r.flows[f]
            if flow.settled == 0:
                flow.rate = inf
                for hop in range(flow.hops):
                    flow.rate = min(flow.rate, r.links[crossed(r, flow, hop)].promise)
                for hop in range(flow.hops):
                    link = r.links[crossed(r, flow, hop)]
                    link.discontent |= link.promise > flow.rate
        for f in range(s.flows):
            flow = r.flows[f]
            if flow.settled == 0:
                for hop in range(flow.hops):
                    if r.links[crossed(r, flow, hop)].discontent == 0:
                        flow.settled = 2
                left -= flow.settled == 2
        for hop in range(s.hops):
            for f in range(s.flows):
                flow = r.flows[f]
                if flow.settled == 2 and hop < flow.hops:
                    link = r.links[crossed(r, flow, hop)]
                    link.taken += flow.rate
                    link.users -= 1
        for f in range(s.flows):
            r.flows[f].settled = min(r.flows[f].settled, 1)
        for place in range(used):
            link = r.links[r.open[place]]
            link.left -= link.taken


def crossed(r: FastRun, flow: Row, hop: int) -> int:
    """The number of a link of a flow, which may be one of its worker's own."""
    number: int = r.numbers[flow.first + hop]
    return number if number >= 0 else flow.own - number
