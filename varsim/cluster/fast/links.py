"""Links that serve first come, first served, and the pace of slow workers."""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.tables import NEVER, Row, Run


def hand_over(r: Run, w: int, number: int, starts: int) -> int:
    """Put a batch on its links, first come, first served; when all of it will be there (ns)."""
    now, batch, free, own = r.state.now, r.batches[number], r.free_at, 2 * w - 1
    if batch.pair:  # one link up and one down: the commonest batch takes a shorter way
        up, down = r.hops[batch.hop], r.hops[batch.hop + 1]
        first = up.link if up.link >= 0 else own - up.link
        second = down.link if down.link >= 0 else own - down.link
        start = max(now, free[first])
        later = max(start, free[second])
        free[first], free[second] = start + up.hold, later + down.hold
        r.starts[starts], r.starts[starts + 1] = start, later
        if batch.items == 1:
            return int(max(free[first], free[second]) + batch.latency)
    else:
        for place in range(batch.hops):
            hop, start = r.hops[batch.hop + place], now
            if hop.begins == 0:
                start = NEVER
                for after in range(hop.after, hop.after + 2 * hop.afters, 2):
                    before = r.starts[starts + r.numbers[after]] + r.numbers[after + 1]
                    start = min(start, before)
            link = hop.link if hop.link >= 0 else own - hop.link
            start = max(start, free[link])
            r.starts[starts + place] = start
            free[link] = start + hop.hold
    return arrivals(r, batch, starts)


def arrivals(r: Run, batch: Row, starts: int) -> int:
    """When each item of a batch is there; the last one (ns)."""
    due = now = r.state.now
    for item in range(batch.items):
        r.there[item] = now
    for place in range(batch.messages):
        message, end = r.messages[batch.message + place], now
        for one in range(message.passes, message.passes + 2 * message.passed, 2):
            end = max(end, r.starts[starts + r.numbers[one]] + r.numbers[one + 1])
        if message.passed:
            end += message.delay
        r.there[message.item] = max(r.there[message.item], end)
        due = max(due, end)
    return int(due)


def sort_items(r: Run, items: int) -> None:
    """Sort the items of a batch by when they are there; of those at one time lower ones first."""
    there = r.there
    for item in range(items):
        place = items + item
        while place > items and there[there[place - 1]] > there[item]:
            there[place] = there[place - 1]
            place -= 1
        there[place] = item


def keep_starts(r: Run, w: int, way: int, batch: int, starts: int) -> None:
    """A batch is sent again before it was through: what is counted of it at the end."""
    s = r.state
    r.again[s.again], r.again[s.again + 1] = w, way
    for hop in range(r.batches[batch].hops):
        r.again[s.again + 2 + hop] = r.starts[starts + hop]
    s.again += 2 + r.batches[batch].hops
    if s.again > s.most_again and s.halt == 0:
        s.halt = at.FULL


def end_of(r: Run, worker: Row, start: int, work: int) -> int:
    """When `work` ns of normal compute that start at `start` end, if it is slow at times, too."""
    index = worker.windows - 1
    while r.numbers[worker.bounds + index] > start:
        index -= 1
    left, time = float(work), start
    while index + 1 < worker.windows:
        until = r.numbers[worker.bounds + index + 1]
        possible = (until - time) / r.sizes[worker.factors + index]
        if possible >= left:
            break
        left -= possible
        time = until
        index += 1
    return int(time + round(left * r.sizes[worker.factors + index]))
