"""Spans of the log, put in order by worker: the last step of a run, or of a part of it."""

from varsim.cluster.flat.layout import Ints
from varsim.cluster.trace import GOES_ON, PHASE_BITS, RANK_BITS, TAKEN_BACK

_RANKS = (GOES_ON >> RANK_BITS) - 1
_NUMBERS = (1 << RANK_BITS) - 1
_PHASES = (1 << PHASE_BITS) - 1


def decode(
    log: Ints,
    used: int,
    until: int,
    cut: bool,
    lasts: Ints,
    workers: int,
    places: Ints,
    spans: Ints,
    room: int,
) -> tuple[int, int]:
    """Put spans that a log has until a time in order, by worker; how many, and what is left of it.

    `used`: integers in it. What ends later is left in the log, as it may be taken back, or cut
    there. `lasts`: until when each worker's spans are known, which is carried on; -1 of one whose
    time runs backwards. `spans` gets columns of Span (5, room), one after another; `places` is room
    for work: 2 workers + 1 zeros.
    """
    starts = workers + 1  # in `places`: where a worker's spans begin, after where they end
    for place in range(1, used, 2):
        code = log[place]
        if code >= 0:
            places[(code >> RANK_BITS & _RANKS) + 1] += 1
    for rank in range(workers):
        places[rank + 1] += places[rank]
    for rank in range(workers):
        places[starts + rank] = places[rank]
    for entry in range(0, used, 2):
        end, code = log[entry], log[entry + 1]
        if code < 0:
            continue
        rank = code >> RANK_BITS & _RANKS
        place = places[rank]
        if code >= TAKEN_BACK:
            # What was to come ends now, or did not happen.
            while place > places[starts + rank] and spans[2 * room + place - 1] >= end:
                place -= 1
            if place > places[starts + rank]:
                spans[3 * room + place - 1] = min(end, spans[3 * room + place - 1])
            places[rank] = place
            lasts[rank] = min(end, lasts[rank])
        elif end < lasts[rank]:
            lasts[rank] = -1
            return 0, 0
        elif end > lasts[rank]:
            spans[room + place] = code & _NUMBERS
            spans[2 * room + place] = lasts[rank]
            spans[3 * room + place] = end
            places[rank] = place + 1
            lasts[rank] = end
    found, left = 0, 0
    for rank in range(workers):
        for place in range(places[starts + rank], places[rank]):
            number, begin = spans[room + place], spans[2 * room + place]
            end = spans[3 * room + place]
            if end > until and not cut:
                log[left] = end
                log[left + 1] = (rank << RANK_BITS) + number
                left += 2
                lasts[rank] = min(lasts[rank], begin)
                continue
            if begin >= until:
                continue
            spans[found] = rank
            spans[room + found] = number & _PHASES
            spans[2 * room + found] = begin
            spans[3 * room + found] = min(end, until)
            spans[4 * room + found] = (number >> PHASE_BITS) - 1
            found += 1
        if cut:
            lasts[rank] = min(lasts[rank], until)
    return found, left
