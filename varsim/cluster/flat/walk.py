"""Collectives message by message: `collectives.walk` over flat memory."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import put
from varsim.cluster.flat.hub import give_up, taken
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.sharing import begin_flow


def begin_walk(m: Ints, plan: int) -> int:
    """Nobody has entered it; a rank receives all of the walk before first. Its first member."""
    before, ranks = m[at.WALK_BEFORE], m[at.WORKER_COUNT]
    first = m[at.WALKS] + ranks * at.MEMBER * (before == m[at.WALKS])
    for rank in range(ranks):
        k, sends = first + rank * at.MEMBER, m[plan] + rank * at.OF_RANK
        m[k] = m[at.WORKERS] + rank * at.WORKER_SIZE
        m[k + at.FIRST_MEMBER] = first
        m[k + at.NEXT_SEND], m[k + at.END_OF_SENDS] = m[sends], m[sends + at.AFTER_SENDS]
        m[k + at.RECEIPTS] = m[sends + at.RECEIPTS_OF]
        m[k + at.SENT_SO_FAR] = m[k + at.HERE] = m[k + at.RECEIVED] = 0
        m[k + at.OCCUPIED], m[k + at.ENTERED_WALK] = 1, 0
        m[k + at.FIRST_WAITER] = m[k + at.FIRST_UNADDED] = m[k + at.LATER] = 0
        m[k + at.WAITS_FOR_TURN] = -1
        if before:
            earlier = before + rank * at.MEMBER
            m[k + at.RECEIVED] = m[earlier + at.RECEIVED] - m[earlier + at.RECEIPTS]
            m[earlier + at.LATER] = k
    return first


def enter_walk(m: Ints, reals: Floats, heap: Ints, k: int) -> None:
    """A rank takes part from now on."""
    m[k + at.ENTERED_WALK], m[k + at.OCCUPIED] = 1, 0
    add(m, reals, heap, k)
    go_on(m, reals, heap, k)


def go_on(m: Ints, reals: Floats, heap: Ints, k: int) -> None:
    """A rank sends what it can send now, or is done."""
    if m[k + at.OCCUPIED]:
        return
    send, time = m[k + at.NEXT_SEND], m[k + at.SENT_SO_FAR]
    if send == m[k + at.END_OF_SENDS]:
        if m[k + at.HERE] == m[k + at.RECEIPTS]:
            put(m, heap, m[at.NOW], m[k] << at.BITS | at.REDUCED)
        return
    if m[k + at.HERE] < m[send + at.NEEDS] + time * m[send + at.NEEDS_MORE]:
        return
    turn = m[send + at.TURN] + time
    if m[send + at.PLAIN] == 0:
        target = m[k + at.FIRST_MEMBER] + m[send + at.TARGET_RANK] * at.MEMBER
        if m[target + at.RECEIVED] != turn:
            if m[k + at.WAITS_FOR_TURN] < 0:
                m[k + at.WAITS_FOR_TURN] = turn
                m[k + at.NEXT_WAITER] = m[target + at.FIRST_WAITER]
                m[target + at.FIRST_WAITER] = k
            return
    m[k + at.OCCUPIED] = 1
    m[k + at.SENT_SO_FAR] = time + 1
    if time + 1 == m[send]:
        m[k + at.NEXT_SEND] += m[at.SEND_SIZE]
        m[k + at.SENT_SO_FAR] = 0
    pass_on(m, reals, heap, k, send, turn)


def pass_on(m: Ints, reals: Floats, heap: Ints, k: int, send: int, turn: int) -> None:
    """A message goes onto its links (Network.pass_on)."""
    if m[m[at.FREE_MESSAGE]] == 0:
        m[at.HALT] = at.CROWDED
        return
    message = taken(m, at.FREE_MESSAGE)
    m[at.MESSAGES_SENT] += 1
    m[message + at.SENT_BY], m[message + at.SENT_AS], m[message + at.TURN_OF] = k, send, turn
    m[message + at.SET_OFF], m[message + at.SLOW_UNTIL] = m[at.NOW], m[at.COMPUTED_BY]
    m[message + at.NTH_MESSAGE] = m[at.MESSAGES_SENT]
    if m[at.FAIR]:
        if m[send + at.CROSSED]:
            begin_flow(m, reals, heap, message, m[send + at.SEND])
        else:
            put(m, heap, m[at.NOW], message << at.BITS | at.MESSAGE_PASSES)
        return
    start = end = m[at.NOW]
    for hop in range(m[send + at.CROSSED]):
        link = m[send + at.SEND + 2 * hop]
        start = max(start, m[link])
        m[link] = start + m[send + at.SEND + 2 * hop + 1]
        end = max(end, m[link])
        if hop == 0:
            start += m[send + at.AHEAD]
        m[message + at.PASSING + hop] = start
    put(m, heap, end, message << at.BITS | at.MESSAGE_PASSES)
    put(m, heap, end + m[send + at.SEND_LATENCY], message << at.BITS | at.MESSAGE_ARRIVES)


def count_passed(m: Ints, reals: Floats, message: int) -> None:
    """A message has passed its links (Bookings.passed)."""
    m[message + at.NTH_MESSAGE] = 0
    send = m[message + at.SENT_AS]
    size = reals[m[send + at.SEND_REALS]]
    for hop in range(m[send + at.CROSSED]):
        link = m[send + at.SEND + 2 * hop]
        m[link + at.PASSED_BY] += 1
        reals[m[link + at.PASSED_REALS]] += size
        if m[send + at.RELAYED_ON] >> hop & 1:
            reals[m[link + at.PASSED_REALS] + 1] += size


def leave_at_its_pace(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """A message has passed its links, but for the pace it has."""
    end = at_its_pace(m, reals, message)
    if end > m[at.NOW]:
        put(m, heap, end, message << at.BITS | at.MESSAGE_LEAVES)
    else:
        message_leaves(m, reals, heap, message)


def message_leaves(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """Who sends a message is done with it, and its target free to receive the next one."""
    k, send = m[message + at.SENT_BY], m[message + at.SENT_AS]
    if m[send + at.PLAIN] == 0:
        receive(m, reals, heap, m[k + at.FIRST_MEMBER] + m[send + at.TARGET_RANK] * at.MEMBER)
    m[k + at.OCCUPIED] = 0
    go_on(m, reals, heap, k)


def receive(m: Ints, reals: Floats, heap: Ints, k: int) -> None:
    """A rank is free to receive the next message, of this walk and the one after it."""
    while k:
        m[k + at.RECEIVED] += 1
        before, member = 0, m[k + at.FIRST_WAITER]
        while member and m[member + at.WAITS_FOR_TURN] != m[k + at.RECEIVED]:
            before, member = member, m[member + at.NEXT_WAITER]
        if member:
            if before:
                m[before + at.NEXT_WAITER] = m[member + at.NEXT_WAITER]
            else:
                m[k + at.FIRST_WAITER] = m[member + at.NEXT_WAITER]
            m[member + at.WAITS_FOR_TURN] = -1
            go_on(m, reals, heap, member)
        k = m[k + at.LATER]


def message_arrives(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """A message has arrived, but for the pace it has."""
    end = at_its_pace(m, reals, message)
    if end > m[at.NOW]:
        put(m, heap, end, message << at.BITS | at.MESSAGE_COMES)
    else:
        message_comes(m, reals, heap, message)


def message_comes(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """A message is there, to be added."""
    send = m[message + at.SENT_AS]
    k = m[m[message + at.SENT_BY] + at.FIRST_MEMBER] + m[send + at.TARGET_RANK] * at.MEMBER
    if m[send + at.PLAIN]:
        give_up(m, at.FREE_MESSAGE, message)
        m[k + at.HERE] += 1
    else:
        keep_in_line(m, k, message)
        add(m, reals, heap, k)
    go_on(m, reals, heap, k)


def keep_in_line(m: Ints, k: int, message: int) -> None:
    """Put a message among those of a rank that are not added, by its turn."""
    turn, last = m[message + at.TURN_OF], m[k + at.LAST_UNADDED]
    m[message] = 0
    if m[k + at.FIRST_UNADDED] == 0:
        m[k + at.FIRST_UNADDED] = m[k + at.LAST_UNADDED] = message
        return
    if m[last + at.TURN_OF] < turn:
        m[last] = m[k + at.LAST_UNADDED] = message
        return
    place = k + at.FIRST_UNADDED
    while m[m[place] + at.TURN_OF] < turn:
        place = m[place]
    m[message], m[place] = m[place], message


def add(m: Ints, reals: Floats, heap: Ints, k: int) -> None:
    """Add what has arrived to the rank's own, in order, one at a time."""
    while m[k + at.ENTERED_WALK] and m[k + at.FIRST_UNADDED]:
        message = m[k + at.FIRST_UNADDED]
        if m[message + at.TURN_OF] != m[k + at.HERE]:
            return
        adding = m[m[message + at.SENT_AS] + at.ADDING]
        m[k + at.FIRST_UNADDED] = m[message]
        give_up(m, at.FREE_MESSAGE, message)
        if adding:
            put(m, heap, m[at.NOW] + adding, k << at.BITS | at.MESSAGE_ADDED)
            return
        m[k + at.HERE] += 1


def message_added(m: Ints, reals: Floats, heap: Ints, k: int) -> None:
    """A rank has added a message."""
    m[k + at.HERE] += 1
    add(m, reals, heap, k)
    go_on(m, reals, heap, k)


def at_its_pace(m: Ints, reals: Floats, message: int) -> int:
    """When a message is done by now's links at the pace that it has (Slowed.done_at)."""
    now = m[at.NOW]
    if m[at.PACE] == 0:
        return now
    share, until, begun = reals[m[at.PACE]], m[message + at.SLOW_UNTIL], m[message + at.SET_OFF]
    work = float(begun)
    if begun < until:
        work = until - (until - begun) * share
    work += now - begun
    if work < until:
        work = until - (until - work) / share
    return round(work)
