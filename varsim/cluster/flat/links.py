"""Links and servers, first come, first served, and the pace of slow workers."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import note
from varsim.cluster.flat.layout import Floats, Ints


def hand_over(m: Ints, w: int, batch: int, starts: int, now: int) -> int:
    """Put a batch on its links, first come, first served; when all of it will be there (ns)."""
    hop, own, there = m[batch + at.HOPS], m[w + at.OWN], m[at.THERE]
    message, messages = m[batch + at.MESSAGES], m[batch + at.MESSAGE_COUNT]
    if m[batch + at.PAIR]:  # one link up and one down: the commonest batch takes a shorter way
        first, second = m[hop], m[hop + at.HOP]
        if first < 0:
            first = own - 1 - first
        if second < 0:
            second = own - 1 - second
        start = max(now, m[first])
        later = max(start, m[second])
        m[first], m[second] = start + m[hop + at.HOLD], later + m[hop + at.HOP + at.HOLD]
        m[starts], m[starts + 1] = start, later
        latency = m[batch + at.LATENCY]
        if m[batch + at.ITEMS] > 1:
            for item in range(messages):
                passes = m[message + item * at.MESSAGE + at.PASSES]
                m[there + item] = max(start + m[passes + 1], later + m[passes + 3]) + latency
        return max(m[first], m[second]) + latency
    for place in range(m[batch + at.HOP_COUNT]):
        start = now
        if m[hop + at.BEGINS] == 0:
            after = m[hop + at.AFTER]
            start = m[starts + m[after]] + m[after + 1]
            for _ in range(1, m[hop + at.AFTER_COUNT]):
                after += 2
                start = min(start, m[starts + m[after]] + m[after + 1])
        link = m[hop]
        if link < 0:
            link = own - 1 - link
        start = max(start, m[link])
        m[starts + place] = start
        m[link] = start + m[hop + at.HOLD]
        hop += at.HOP
    for item in range(m[batch + at.ITEMS]):
        m[there + item] = now
    due = now
    for _ in range(messages):
        end, passes = now, m[message + at.PASSES]
        if m[message + at.PASS_COUNT]:
            end = m[starts + m[passes]] + m[passes + 1]
            for _ in range(1, m[message + at.PASS_COUNT]):
                passes += 2
                end = max(end, m[starts + m[passes]] + m[passes + 1])
            end += m[message + at.DELAY]
        item = there + m[message]
        m[item] = max(m[item], end)
        due = max(due, end)
        message += at.MESSAGE
    return due


def sort_items(m: Ints, items: int, sorted_already: int) -> None:
    """Sort the items of a batch by when they are there; of those at one time lower ones first."""
    order, there = m[at.ORDER], m[at.THERE]
    for item in range(items):
        place = item
        while (
            not sorted_already and place > 0 and m[there + m[order + place - 1]] > m[there + item]
        ):
            m[order + place] = m[order + place - 1]
            place -= 1
        m[order + place] = item


def keep_starts(m: Ints, log: Ints, w: int, batch: int, starts: int) -> None:
    """A batch is handed over again before it was through: what is counted of it at the end."""
    note(m, log, m[w + at.RANK], at.AGAIN + (batch == at.PUSH))
    for hop in range(m[m[w + batch] + at.HOP_COUNT]):
        note(m, log, m[m[w + starts] + hop], at.STARTED)


def enqueue(m: Ints, queue: int, hold: int) -> int:
    """A server handles a request, first come, first served; when it is done (ns)."""
    free = m[at.QUEUES_AT] + queue
    m[free] = max(m[free], m[at.NOW]) + hold
    return m[free]


def update(m: Ints, reals: Floats, queue: int, item: int, come: int, handling: int) -> int:
    """A server applies a part of a gradient that comes to it then; when it is done (ns).

    `handling`: where it is noted how long that gradient takes alone; -1: nowhere.
    """
    taken = reals[m[at.FIXED] + item * m[at.QUEUES] + queue]
    if m[at.DRAWS_AT]:
        draws = m[at.DRAWS_AT] + queue
        taken = reals[m[at.DRAWN_AT] + queue * m[at.MOST_DRAWN] + m[draws]] + taken
        m[draws] += 1
        if m[draws] > m[at.MOST_DRAWN] - m[at.VARIABLES] and m[at.HALT] == 0:
            m[at.HALT] = at.DRY
    hold = round(taken * 1e9)
    if handling >= 0:
        busy, threads = handling + at.BUSY + queue * m[at.BUSY_THREADS], m[at.BUSY_THREADS]
        alone = handling + at.HANDLED_ALONE
        m[alone] = max(m[alone], thread(m, busy, threads, 0, hold))
    return thread(m, m[at.LINES_AT] + queue * m[at.THREADS], m[at.THREADS], come, hold)


def thread(free: Ints, first: int, threads: int, come: int, hold: int) -> int:
    """The first thread that is free takes something on; when it is done (ns)."""
    soonest = first
    for thread in range(first + 1, first + threads):
        if free[thread] < free[soonest]:
            soonest = thread
    free[soonest] = max(free[soonest], come) + hold
    return free[soonest]


def end_of(m: Ints, reals: Floats, w: int, start: int, work: int) -> int:
    """When `work` ns of normal compute that start at `start` end, if it is slow at times, too."""
    bounds, factors, count = m[w + at.BOUNDS], m[w + at.FACTORS], m[w + at.WINDOWS]
    if count == 0:
        return start + work
    index = count - 1
    while m[bounds + index] > start:
        index -= 1
    left, time = float(work), start
    while index + 1 < count:
        possible = (m[bounds + index + 1] - time) / reals[factors + index]
        if possible >= left:
            break
        left -= possible
        time = m[bounds + index + 1]
        index += 1
    return int(time + round(left * reals[factors + index]))
