"""Spans of the log, put in order by worker: the last step of a run, or of a part of it."""

from varsim.cluster.flat.layout import Ints
from varsim.cluster.trace import GOES_ON, PHASE_BITS, RANK_BITS, TAKEN_BACK

_RANKS = (GOES_ON >> RANK_BITS) - 1
_NUMBERS = (1 << RANK_BITS) - 1
_PHASES = (1 << PHASE_BITS) - 1


def by_worker(log: Ints, pairs: int, ordered: Ints, workers: int, places: Ints) -> None:
    """Put pairs of a log in order: marks, steps, then those of each worker, as they were written.

    `places`, workers + 4 zeros, gets where each of these begins, and the last one ends.
    """
    for pair in range(pairs):
        places[_group(log[2 * pair + 1]) + 2] += 1
    for group in range(workers + 2):
        places[group + 2] += places[group + 1]
    for pair in range(pairs):
        end, code = log[2 * pair], log[2 * pair + 1]
        group = _group(code)
        place = places[group + 1]
        ordered[2 * place] = end
        ordered[2 * place + 1] = code
        places[group + 1] = place + 1


def _group(code: int) -> int:
    """Where a pair belongs: 0 marks, 1 steps, 2 those of worker 0, and so on."""
    return (code >> RANK_BITS & _RANKS) + 2 if code >= 0 else max(code + 2, 0)


def decode(
    log: Ints,
    until: int,
    cut: bool,
    places: Ints,
    left: int,
    first: int,
    workers: int,
    lasts: Ints,
    spans: Ints,
    room: int,
) -> tuple[int, int, int]:
    """Decode spans until a time: those of workers from the first on that there is room for.

    How many they are, who comes next, and how many pairs are left: of what ends later, as it may be
    taken back, unless it is cut there; these are put first. `log`, `places`: see `by_worker`.
    `lasts`: until when each worker's spans are known, which is carried on;
    -1 of one whose time runs backwards. `spans` gets columns of Span (5, room), one after another.
    """
    found = 0
    for rank in range(first, workers):
        begin, after = places[rank + 2], places[rank + 3]
        if found + after - begin > room:
            return found, rank, left
        start, last = found, lasts[rank]
        for pair in range(begin, after):
            end, code = log[2 * pair], log[2 * pair + 1]
            if code >= TAKEN_BACK:
                # What was to come ends now, or did not happen.
                while found > start and spans[2 * room + found - 1] >= end:
                    found -= 1
                if found > start:
                    spans[3 * room + found - 1] = min(end, spans[3 * room + found - 1])
                last = min(end, last)
            elif end < last:
                lasts[rank] = -1
                return 0, workers, left
            elif end > last:
                number = code & _NUMBERS
                spans[found] = pair
                spans[room + found] = number & _PHASES
                spans[2 * room + found] = last
                spans[3 * room + found] = end
                spans[4 * room + found] = (number >> PHASE_BITS) - 1
                found += 1
                last = end
        late = found
        while late > start and spans[3 * room + late - 1] > until:
            late -= 1
        if late < found:
            last = until if cut else spans[2 * room + late]
            if cut and spans[2 * room + late] < until:
                spans[3 * room + late] = until
                late += 1
            elif not cut:
                for place in range(late, found):
                    log[2 * left] = spans[3 * room + place]
                    log[2 * left + 1] = log[2 * spans[place] + 1]
                    left += 1
            found = late
        for place in range(start, found):
            spans[place] = rank
        lasts[rank] = last
    return found, workers, left
