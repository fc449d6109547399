"""What more throughput costs: of anything that has both, what none beats in both."""

from collections.abc import Sequence


def front(pairs: Sequence[tuple[float, float]]) -> list[int]:
    """The indexes of those (cost, throughput) that none beats in both, the cheapest first.

    Of equal pairs the first counts.
    """
    order = sorted(range(len(pairs)), key=lambda index: (pairs[index][0], -pairs[index][1]))
    found: list[int] = []
    for index in order:
        if not found or pairs[index][1] > pairs[found[-1]][1]:
            found.append(index)
    return found
