"""Spans of the log, put in order by worker: the last step of a run, or of a part of it."""

from varsim.cluster.clock import END_OF_TIME
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
    places: Ints,
    ends: Ints,
    codes: Ints,
    spans: Ints,
) -> tuple[int, int]:
    """Put spans that a log has until a time in order, by worker; how many, and what is left of it.

    What ends later is left in the log, as it may be taken back, or cut. `lasts`: until when each
    worker's spans are known, which is carried on; -1 of one whose time runs backwards. `spans`
    gets columns of Span (5, n), one after another; `places` (workers + 1, zeros), `ends` and
    `codes` are room for work.
    """
    workers, room = len(lasts), len(spans) // 5
    for place in range(1, used, 2):
        code = log[place]
        if code >= 0:
            places[(code >> RANK_BITS & _RANKS) + 1] += 1
    for rank in range(workers):
        places[rank + 1] += places[rank]
    for place in range(0, used, 2):
        code = log[place + 1]
        if code >= 0:
            rank = code >> RANK_BITS & _RANKS
            ends[places[rank]] = log[place]
            codes[places[rank]] = code
            places[rank] += 1
    found, left, first = 0, 0, 0
    for rank in range(workers):
        begun, last = lasts[rank], places[rank]
        least = until if cut else END_OF_TIME
        for place in range(last - 1, first - 1, -1):
            # What was to come ends when it was taken back, or took no time at all.
            if codes[place] >= TAKEN_BACK:
                least = min(least, ends[place])
            elif ends[place] > least:
                ends[place] = least
        for place in range(first, last):
            end, code = ends[place], codes[place]
            if code >= TAKEN_BACK:
                continue
            if end < begun:
                begun = -1
                break
            if end > until:
                log[left] = end
                log[left + 1] = code
                left += 2
                continue
            if end > begun:
                spans[found] = rank
                spans[room + found] = code & _PHASES
                spans[2 * room + found] = begun
                spans[3 * room + found] = end
                spans[4 * room + found] = ((code & _NUMBERS) >> PHASE_BITS) - 1
                found += 1
            begun = end
        lasts[rank] = begun
        first = last
    return found, left
