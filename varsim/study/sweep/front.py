"""Pareto front of cost against throughput: what more throughput costs."""

from collections.abc import Callable, Sequence


def front(
    pairs: Sequence[tuple[float, float]], faster: Callable[[int, int], bool] | None = None
) -> list[int]:
    """The indexes of those (cost, throughput) that none beats in both, the cheapest first.

    Of equal pairs the first counts. `faster`: whether one, by its index, is surely faster than
    another; by default more is faster. What costs more and is not surely faster is left out.
    """
    order = sorted(range(len(pairs)), key=lambda index: (pairs[index][0], -pairs[index][1]))
    found: list[int] = []
    for index in order:
        more = not found or pairs[index][1] > pairs[found[-1]][1]
        if more and (not found or faster is None or faster(index, found[-1])):
            found.append(index)
    return found
