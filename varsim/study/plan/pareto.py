"""What more throughput costs: the cells that nothing cheaper beats."""

from typing import Final, NamedTuple

from varsim.study.plan.search import Found
from varsim.study.plan.standing import Standing
from varsim.study.sweep.front import front
from varsim.study.verdict import surely_more

MOST_ROWS: Final = 12


class Trade(NamedTuple):
    """Cells by cost and throughput: `front` are those surely faster than the cheaper ones of it.

    On the front are only cells that meet the targets but for throughput itself, which is traded.
    `unsure`: those that are faster than all that cost less by their means alone.
    """

    every: list[Standing]
    front: list[Standing]
    unsure: list[Standing]


def trade(found: Found) -> Trade:
    """All cells that were run, cheapest first, and the front of them."""
    every = [one for one in found.looked_at.values() if one.hourly == one.hourly]
    every.sort(key=lambda one: (one.hourly, -one.speed.mean, one.cell.number))
    fine = [
        one
        for one in every
        if one.speed.mean > 0
        and one.verdict != "short"
        and all(miss.target == "throughput" for miss in one.missed)
    ]

    def faster(index: int, than: int) -> bool:
        one, other = fine[index], fine[than]
        return surely_more(
            (one.speeds, one.exact),
            (other.speeds, other.exact),
            comparisons=len(fine) - 1,
            equal_within=found.question.base.report.equal_within,
        )

    pairs = [(one.hourly, one.speed.mean) for one in fine]
    best = front(pairs, faster)
    unsure = [index for index in front(pairs) if index not in best]
    return Trade(every, [fine[index] for index in best], [fine[index] for index in unsure])


def shown(front: list[Standing], answer: Standing | None) -> list[Standing]:
    """At most MOST_ROWS of a front, those around the answer first of all."""
    if len(front) <= MOST_ROWS:
        return front
    place = 0
    if answer is not None:
        place = sum(one.hourly <= answer.hourly for one in front)
    start = max(0, min(place - MOST_ROWS // 2, len(front) - MOST_ROWS))
    return front[start : start + MOST_ROWS]
