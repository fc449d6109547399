"""How sure numbers are, and which of several alternatives is the best: one verdict for all.

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

A time whose probability to exceed t falls like t^-a has moments of orders below a alone; with a at
2 or less the means of runs are no longer normal, and Student's intervals too narrow (Embrechts et
al., Modelling Extremal Events, 1997, section 2.2). The largest of independent times is as heavy,
the k-th smallest of n has index a (n - k + 1).

Steps that come in spells count as fewer: n steps whose correlation time is c as n / c. In a
model of two-state workers (c = 20; 1, 4 or 8 workers; 500 or 1,000 runs in intervals of 5 or 10)
runs of 5 c held the truth in 8 to 95 of 100 intervals, of 20 c in 62 to 97, of 50 c in 87 to 100.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from numbers import Real
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsim.core.distributions import Distribution
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy

CONFIDENCE = 0.95
_LARGEST = 700.0  # logarithm of an end of an interval; of a larger one there is no number
_SQUARED = 2.0**500  # a float holds the square of this: larger losses are those that diverge


class Estimate(NamedTuple):
    """Mean over replications with its 95 % confidence interval (Student t), or nan.

    `low` and `high` are the ends of the interval, `replications` in how many the number exists.
    """

    mean: float
    low: float
    high: float
    replications: int  # in how many the number exists
    note: str = ""

    @property
    def half_width(self) -> float:
        """Half the length of the interval; nan where there is none."""
        return (self.high - self.low) / 2


NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


class Spread(NamedTuple):
    """How values are distributed; every field nan where there are no values."""

    mean: float
    p50: float
    p95: float
    p99: float
    maximum: float


def interval(values: Sequence[float], *, comparisons: int = 1, exact: bool = False) -> Estimate:
    """The mean of one value per replication, with its Student t interval.

    One replication has no interval, unless it is `exact`: every other one would be the same. Equal
    values have one of zero width. Where the number is missing (not finite) in some replications
    there is no mean: the rest would not be a fair sample. `comparisons`: of how many intervals,
    all of which are to hold with CONFIDENCE, this is one (Bonferroni).
    """
    finite = [value for value in values if math.isfinite(value)]
    count = len(values)
    if not finite:
        return NOTHING
    if len(finite) < count:
        note = f"in {len(finite)} of {count} replications"
        return Estimate(math.nan, math.nan, math.nan, len(finite), note)
    if count == 1 and not exact:
        return Estimate(finite[0], math.nan, math.nan, 1)
    if min(finite) == max(finite):
        return Estimate(finite[0], finite[0], finite[0], count)
    if max(map(abs, finite)) > _SQUARED:
        small = interval([value / _SQUARED for value in finite], comparisons=comparisons)
        mean, low, high = (part * _SQUARED for part in small[:3])
        return Estimate(mean, low, high, count)
    mean = math.fsum(finite) / count
    variance = math.fsum((value - mean) ** 2 for value in finite) / (count - 1)
    half = student_t(count - 1, comparisons) * math.sqrt(variance / count)
    return Estimate(mean, mean - half, mean + half, count)


def student_t(degrees: int, comparisons: int = 1) -> float:
    """Standard errors from the middle to either end of a two-sided interval of CONFIDENCE.

    `comparisons`: of that many intervals together (Bonferroni).
    """
    if (degrees, comparisons) in (known := _quantiles()):
        return known[degrees, comparisons]
    from scipy.special import stdtrit  # takes longer to import than a small run

    return float(stdtrit(degrees, 1 - (1 - (1 + CONFIDENCE) / 2) / comparisons))


def one_sided(values: Sequence[float], *, lower: bool) -> float:
    """What the mean is above (`lower`) or below with CONFIDENCE, by Student t; else nan.

    One value is taken as it is.
    """
    found = interval(values)
    if not math.isfinite(found.mean) or found.replications == 1 or found.low == found.high:
        return found.mean
    from scipy.special import stdtrit

    error = found.half_width / student_t(found.replications - 1)
    reach = error * float(stdtrit(found.replications - 1, CONFIDENCE))
    return found.mean - reach if lower else found.mean + reach


def of_numbers(values: Sequence[object]) -> Estimate:
    """The interval of what a metric of somebody's own gives; TypeError where that is no number."""
    numbers = []
    for value in values:
        if not isinstance(value, Real):
            raise TypeError(f"a metric gives a number for each trace, not {value!r}")
        numbers.append(float(value))
    return interval(numbers)


def ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    comparisons: int = 1,
    exact: bool = False,
) -> Estimate:
    """The paired ratio: geometric mean and t interval of the logarithms, one pair a replication.

    Both must be above 0 where they exist; a pair with a missing number or a 0 has no ratio.
    `comparisons` and `exact` as in `interval`.
    """
    assert len(numerators) == len(denominators), "pairs come from the same replications"
    ratios = [
        above / below if 0 < above < math.inf and 0 < below < math.inf else math.nan
        for above, below in zip(numerators, denominators, strict=True)
    ]
    logs = interval([math.log(value) for value in ratios], comparisons=comparisons, exact=exact)
    if not math.isfinite(logs.mean) or min(ratios) == max(ratios):
        return interval(ratios, exact=exact)
    low, mean, high = (math.exp(min(end, _LARGEST)) for end in (logs.low, logs.mean, logs.high))
    return logs._replace(mean=mean, low=low, high=high)


def difference(
    left: Sequence[float],
    right: Sequence[float],
    *,
    comparisons: int = 1,
    exact: bool = False,
) -> Estimate:
    """The paired difference left - right with its t interval, one pair a replication.

    `comparisons` and `exact` as in `interval`.
    """
    gaps = [a - b for a, b in zip(left, right, strict=True)]
    return interval(gaps, comparisons=comparisons, exact=exact)


def spread(values: NDArray[np.number[Any]], *, overwrite: bool = False) -> Spread:
    """Mean, percentiles (linear between ranks) and maximum of values of any unit, shape (n,).

    `overwrite`: they may be put in another order, which saves a copy of them.
    """
    if values.size == 0:
        return Spread(math.nan, math.nan, math.nan, math.nan, math.nan)
    mean, most = float(values.mean()), float(values.max())  # a sum depends on the order
    p50, p95, p99 = np.percentile(values, [50, 95, 99], overwrite_input=overwrite).tolist()
    return Spread(mean, p50, p95, p99, most)


def latest(
    moments: NDArray[np.int64], values: NDArray[np.float64], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The last value at or before each point of `grid`; nan before the first moment.

    `moments` are ascending, shape (n,) like `values`; of equal ones the last counts.
    """
    index = np.searchsorted(moments, grid, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)] if len(values) else np.nan, np.nan)


@cache
def _quantiles() -> dict[tuple[int, int], float]:
    """Those of Student's t that are looked for most, by degrees of freedom and comparisons."""
    text = files("varsim").joinpath("data", "student_t.csv").read_text(encoding="utf-8")
    head, *rows = (line.split(",") for line in text.splitlines())
    return {
        (int(degrees), int(comparisons)): float(value)
        for degrees, *values in rows
        for comparisons, value in zip(head[1:], values, strict=True)
    }


def evaluated_grid(
    moments: Sequence[NDArray[np.int64]], points: int, even: bool
) -> NDArray[np.float64]:
    """Points that every replication covers: evenly spaced, or some of the recorded ones."""
    start, end = max(m[0] for m in moments), min(m[-1] for m in moments)
    if even:
        return np.linspace(start, end, points if end > start else 1)
    every = np.unique(np.concatenate(list(moments)))
    every = every[(every >= start) & (every <= end)]
    kept = np.unique(np.linspace(0, len(every) - 1, min(points, len(every))).round().astype(int))
    chosen: NDArray[np.float64] = every[kept].astype(np.float64)
    return chosen


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


# Runs whose examples are farther apart than this are not compared without a word.
DIFFERENT: Final = 1.5
# Gradients of each worker: with fewer a result is told to be short, or names no winner at all.
SHORT: Final = 10
TOO_SHORT: Final = 2
# Where replicas meet for a read after every so many steps, so many of these periods: between reads
# fast replicas are ahead with work that no read has seen, and rates count it.
PERIODS: Final = 6


class Done(NamedTuple):
    """How much some runs did: gradients computed per worker, of which `period` make a round.

    `time`: how long the longest took (s). `examples`: how many they applied, on average.
    """

    gradients: float = math.inf
    period: int = 1
    time: float = math.nan
    examples: float = math.nan

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, float]], computed: str, period: int) -> "Done":
        """What runs did, by what was `measured` of each (see `varsim.study.case`)."""
        counts = [run.get(computed, math.inf) for run in runs]  # inf: kept by an earlier varsim
        time = max(run.get("simulated_time", math.nan) for run in runs)
        return cls(math.fsum(counts) / len(counts), period, time)

    @property
    def needed(self) -> int:
        """Of so many gradients per worker nothing is told."""
        return max(SHORT, self.least)

    @property
    def too_short(self) -> bool:
        """Whether no answer comes of them."""
        return self.gradients < self.least

    @property
    def least(self) -> int:
        """With fewer gradients per worker no answer comes of runs."""
        return PERIODS * self.period if self.period > 1 else TOO_SHORT


FINITE: Final = 2.0  # above this index variances are finite
CORRELATION_TIMES: Final = 50  # a run should last
SPELLS: Final = 2.0  # a correlation time above this (steps) is one of spells


def tail_of_step(scenario: Scenario, strategy: Strategy) -> float:
    """Tail index of what ends a strategy's step, at the least; infinite for light tails.

    Workers that are not waited for, and do not give up, may be in a long step from before: what is
    left of it has an index that is less by 1.
    """
    cluster, tail = scenario.cluster_of(strategy), law_of(scenario, strategy).tail()
    workers, needed = strategy.workers(cluster), strategy.gradients_per_update(cluster)
    if strategy.round.of != "step" or math.isinf(tail):
        return tail
    if strategy.gives_up and strategy.iterations_per_update(cluster) != workers:
        return tail * workers  # one that goes on gives all gradients
    spare = max(0, workers - needed)
    return tail * (spare + 1) if strategy.gives_up else tail + spare * (tail - 1)


def law_of(scenario: Scenario, strategy: Strategy) -> Distribution:
    """The distribution of the compute times of a strategy's workers."""
    return scenario.cluster_of(strategy).compute_distribution(scenario.workload_of(strategy))


def heavy(scenario: Scenario) -> list[Strategy]:
    """The strategies whose steps have no finite variance."""
    return [one for one in scenario.strategies if tail_of_step(scenario, one) <= FINITE]


def correlation_time(scenario: Scenario, strategy: Strategy) -> float:
    """Steps of a worker that say as much as one independent step."""
    return law_of(scenario, strategy).correlation_time()


def in_few_spells(scenario: Scenario, gradients: Mapping[str, float]) -> dict[str, float]:
    """By how many correlation times the runs of strategies lasted, of those too short for theirs.

    `gradients`: that each worker computed, by label.
    """
    found = {}
    for label, number in gradients.items():
        steps = correlation_time(scenario, scenario.strategy(label))
        if steps > SPELLS and number < CORRELATION_TIMES * steps:
            found[label] = number / steps
    return found


# Why nothing is decided: the interval holds the bound; one replication of something random; runs
# too short to measure it; runs that ended before the time until which the loss may be reached.
Doubt: TypeAlias = Literal["", "interval", "once", "short", "ended"]
# What is as near to its bound as this share of it reaches it: the rest is rounding of floats.
_REACHED: Final = 1e-9


class Judgement(NamedTuple):
    """One target and one strategy: `met`, `missed`, or, with a `doubt`, neither.

    `mean`: of the replications; nan where the number does not exist in all of them.
    `confidence_bound`: the end of the one-sided 95 % interval that the target is compared with;
    with one replication the value itself.
    """

    target: str
    strategy: str
    bound: float
    mean: float
    confidence_bound: float
    met: bool
    missed: bool = False
    doubt: Doubt = ""


def judged(
    name: str, bound: float, strategy: str, values: Sequence[float], doubt: Doubt = ""
) -> Judgement:
    """One target and a strategy that never stood still; `values`: one per replication.

    A `doubt` leaves it undecided, whatever they are.
    """
    at_least = BOUNDS[name]
    mean = interval(values).mean
    surely, at_best = (one_sided(values, lower=lower) for lower in (at_least, not at_least))

    def reaches(value: float) -> bool:
        beyond = value >= bound if at_least else value <= bound
        return beyond or math.isclose(value, bound, rel_tol=_REACHED)

    met, missed = reaches(surely), not reaches(at_best)
    if not doubt and not met and not missed:
        doubt = "interval"
    decided = not doubt
    return Judgement(
        name, strategy, bound, mean, surely, met and decided, missed and decided, doubt
    )
