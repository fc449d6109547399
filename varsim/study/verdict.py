"""Which of several alternatives is the best, and how surely: one verdict for every product.

Alternatives are compared pair by pair over the replications, in which all meet the same draws. A
pair is judged by the interval of its ratio (Wellek, Testing Statistical Hypotheses of Equivalence
and Noninferiority, 2nd ed., 2010, chapter 3: equivalent where the whole interval lies within the
margins):

    ratio and interval                                    verdict
    every replication the same                            the same
    interval wholly within the margins 1/(1 + e), 1 + e   practically equal, surely different or not
    interval without 1, ratio outside the margins         surely better
    anything else                                         too close to call
    one replication, unless nothing is random             not to be told

So a lead that is called one is surely there, and large enough to matter on average: that it is
surely so large is not said. Of k alternatives the one that
came out best had k - 1 chances to be lucky. Each interval of the best and another is therefore of
the level 1 - 0.05 / (k - 1) (Bonferroni): with 95 % certainty none that is called worse than the
best is the true best, as in selection of subsets with the best (Hsu, Multiple Comparisons, 1996,
chapters 3 and 4), but without its tables, for any covariance.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from varsim.study.statistics import Estimate, difference, ratio

K = TypeVar("K")

CLOSE: Final = "too close to call"
EQUAL: Final = "practically equal"
SAME: Final = "the same"
WORSE: Final = "worse"
NO_RATIO: Final = "no ratio"
UNTOLD: Final = "one replication: no interval"
# Ratios nearer to 1 than this differ by rounding only.
_ROUNDING: Final = 1e-9


def verdict(paired: Estimate, above: str, below: str, equal_within: float) -> str:
    """What a paired ratio says: `above` where it is surely over 1, `below` under 1.

    Else CLOSE, EQUAL, SAME or UNTOLD; the note of a ratio that does not exist.
    """
    if math.isnan(paired.mean):
        return paired.note
    if math.isnan(paired.low):
        return SAME if abs(paired.mean - 1) <= _ROUNDING else UNTOLD
    if max(abs(paired.low - 1), abs(paired.high - 1)) <= _ROUNDING:
        return SAME
    least, most = 1 / (1 + equal_within) - _ROUNDING, 1 + equal_within + _ROUNDING
    if least <= paired.low and paired.high <= most:
        return EQUAL
    includes_one = paired.low <= 1 + _ROUNDING and paired.high >= 1 - _ROUNDING
    if includes_one or least <= paired.mean <= most:
        return CLOSE
    return above if paired.mean > 1 else below


class Rival(NamedTuple, Generic[K]):
    """An alternative beside the best. `lead`: how many times as good as this the best is."""

    key: K
    lead: Estimate
    said: str  # WORSE, CLOSE, EQUAL, SAME or UNTOLD


@dataclass(frozen=True)
class Ranking(Generic[K]):
    """Alternatives by their means, the best first; the others each with its verdict."""

    best: K
    rivals: tuple[Rival[K], ...]
    equal_within: float
    comparisons: int  # that hold together

    def of(self, *said: str) -> list[Rival[K]]:
        """The rivals with these verdicts."""
        return [rival for rival in self.rivals if rival.said in said]

    @property
    def tied(self) -> list[K]:
        """The best, and all that may be as good or are."""
        return [self.best, *(rival.key for rival in self.of(SAME, EQUAL, CLOSE, UNTOLD))]

    @property
    def same(self) -> list[K]:
        """The best, and all that are the same in every replication."""
        return [self.best, *(rival.key for rival in self.of(SAME))]

    @property
    def next(self) -> Rival[K] | None:
        """The best that is not the same; None where there is none."""
        return next((rival for rival in self.rivals if rival.said != SAME), None)


def ranked(
    values: Mapping[K, Sequence[float]],
    *,
    equal_within: float,
    highest: bool = False,
    exact: Callable[[K], bool] = lambda key: False,
    additive: bool = False,
    chosen_from: int = 0,
) -> Ranking[K] | None:
    """The ranking of those whose number exists in every replication; None where there is none.

    `values`: one per replication; of two that were run differently often, those of both count.
    `highest`: more is better. `exact`: whether one replication of it tells all. `additive`: pairs
    are compared by their difference, as a share of the smaller mean, instead of by their ratio.
    `chosen_from`: of how many alternatives these are the best, if others were left out before.
    """
    known = {key: own for key, own in values.items() if own and all(map(math.isfinite, own))}
    if not known:
        return None
    by_ratio = not additive and min(map(min, known.values())) > 0
    sizes = {key: _size(own, by_ratio=by_ratio) for key, own in known.items()}
    first, *others = sorted(known, key=sizes.__getitem__, reverse=highest)
    comparisons = max(len(others), chosen_from - 1, 1)
    rivals = beside(
        first,
        {first: known[first], **{key: known[key] for key in others}},
        equal_within=equal_within,
        highest=highest,
        exact=exact,
        additive=additive,
        comparisons=comparisons,
    )
    return Ranking(first, tuple(rivals), equal_within, comparisons)


def beside(
    best: K,
    values: Mapping[K, Sequence[float]],
    *,
    equal_within: float,
    highest: bool = False,
    exact: Callable[[K], bool] = lambda key: False,
    additive: bool = False,
    comparisons: int = 0,
) -> list[Rival[K]]:
    """All but the best, each with its verdict beside that; by default as many comparisons."""
    rivals = []
    for key in values:
        if key == best:
            continue
        own, other = paired(values[best], values[key], (exact(best), exact(key)))
        lead = lead_of(
            *((own, other) if highest else (other, own)),
            comparisons=comparisons or max(len(values) - 1, 1),
            exact=exact(best) and exact(key),
            additive=additive,
        )
        # By fewer replications than it was ranked by, one may look better than the best.
        rivals.append(Rival(key, lead, verdict(lead, WORSE, CLOSE, equal_within)))
    return rivals


def surely_more(
    one: tuple[Sequence[float], bool],
    other: tuple[Sequence[float], bool],
    *,
    comparisons: int,
    equal_within: float,
) -> bool:
    """Whether the one is surely larger; each: its values, and whether they are exact."""
    (ours, exact), (theirs, also) = one, other
    pair = paired(ours, theirs, (exact, also))
    lead = lead_of(*pair, comparisons=comparisons, exact=exact and also)
    return verdict(lead, WORSE, CLOSE, equal_within) == WORSE


def paired(
    one: Sequence[float], other: Sequence[float], exact: tuple[bool, bool] = (False, False)
) -> tuple[Sequence[float], Sequence[float]]:
    """The replications that both have; what is exact has the one it was run in every other, too."""
    longest = max(len(one), len(other))
    one, other = (
        [*own, *[own[0]] * (longest - len(own))] if same else own
        for own, same in zip((one, other), exact, strict=True)
    )
    count = min(len(one), len(other))
    return one[:count], other[:count]


def lead_of(
    above: Sequence[float],
    below: Sequence[float],
    *,
    comparisons: int = 1,
    exact: bool = False,
    additive: bool = False,
) -> Estimate:
    """How many times as large the one is, paired: by ratios, or `additive` by differences.

    By differences, too, where some number is not above 0. Where the mean of those that are smaller
    is not, the estimate has a note: it is good for a verdict alone.
    """
    if not additive and min(*above, *below) > 0:
        return ratio(above, below, comparisons=comparisons, exact=exact)
    gap = difference(above, below, comparisons=comparisons, exact=exact)
    mean, largest = math.fsum(below) / len(below), max(map(abs, (*above, *below)))
    unit = abs(mean) or largest or 1.0
    middle, low, high = (1 + end / unit for end in (gap.mean, gap.low, gap.high))
    return Estimate(middle, low, high, gap.replications, "" if mean > 0 else NO_RATIO)


def _size(values: Sequence[float], *, by_ratio: bool) -> float:
    """By what alternatives are ranked: where ratios are compared, by the geometric mean."""
    return math.fsum(map(math.log, values) if by_ratio else values) / len(values)


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
