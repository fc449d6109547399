"""A number that was measured in simulated runs, and how sure it is: 99 % intervals."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

CONFIDENCE: Final = 0.99
# Half of an interval, as a share of the number, which an estimate is to reach; and what is aimed
# at, so that it does.
WIDEST: Final = 0.005
_AIM: Final = 0.0048
_NORMAL: Final = 2.5758293  # standard errors of such an interval, with very many numbers
_PILOT: Final = 20  # replications from which the work that is needed is worked out


class Estimate(NamedTuple):
    """A number; `half_width`: of its 99 % interval, None where nothing was random.

    `scale`: what the half-width is a share of, where that is not the number itself; `bound`: what
    is to hold instead of the ordinary bound, in words.
    """

    value: float
    half_width: float | None = None
    scale: float | None = None
    bound: str = ""

    @property
    def share(self) -> float:
        """The half-width as a share of the number, or of its scale; 0 where nothing is random."""
        if self.half_width is None:
            return 0.0
        whole = self.value if self.scale is None else self.scale
        return self.half_width / (abs(whole) or 1.0)


# What was measured of one point, by name; "" is the point's own quantity.
Measured: TypeAlias = dict[str, Estimate]
# What a measure tells: a number in which nothing is random, an estimate, or several.
Answer: TypeAlias = float | Estimate | Measured
# Called with the parameters of a point, by name.
Measure: TypeAlias = Callable[..., Answer]

# The families of closed forms that are simulated, by name: how each is measured.
FAMILIES: Final[dict[str, Measure]] = {}

Row = TypeVar("Row")  # what is kept of a replication
M = TypeVar("M", bound=Measure)


def family(name: str) -> Callable[[M], M]:
    """The family of which a function is the measure; its signature says the parameters."""

    def entered(measure: M) -> M:
        FAMILIES[name] = measure
        return measure

    return entered


def student_t(degrees: int) -> float:
    """How many standard errors a two-sided interval of CONFIDENCE reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def mean(values: Sequence[float], scale: float | None = None) -> Estimate:
    """The mean of independent numbers, with its Student t interval."""
    count = len(values)
    middle = math.fsum(values) / count
    variance = math.fsum((value - middle) ** 2 for value in values) / (count - 1)
    return Estimate(middle, student_t(count - 1) * math.sqrt(variance / count), scale)


def controlled(
    values: Sequence[float], controls: Sequence[Sequence[float]], expectations: Sequence[float]
) -> Estimate:
    """The mean of numbers, each with others of known means from the same replication.

    What the controls are off by, by chance, is taken off (linear control variates; Lavenberg and
    Welch, 1981). Each costs a degree of freedom and, where it is related to the number, saves many
    replications. `controls`: a row for each number; `expectations`: of its columns.
    """
    import numpy as np

    count, kinds = len(values), len(expectations)
    offs = np.array(controls) - np.array(expectations)
    design = np.column_stack([np.ones(count), offs])
    inverted = np.linalg.pinv(design.T @ design)
    fitted = inverted @ design.T @ np.array(values)
    left = np.array(values) - design @ fitted
    degrees = count - 1 - kinds
    error = math.sqrt(float(left @ left) / degrees * float(inverted[0, 0]))
    return Estimate(float(fitted[0]), student_t(degrees) * error)


def inverse(estimate: Estimate) -> Estimate:
    """Of a mean time between events, their rate (its relative error is small: first order)."""
    assert estimate.half_width is not None
    return Estimate(1 / estimate.value, estimate.half_width / estimate.value**2)


def times(factor: float, estimate: Estimate) -> Estimate:
    """So many times a number."""
    half_width = None if estimate.half_width is None else factor * estimate.half_width
    return Estimate(factor * estimate.value, half_width)


def until_sure(
    replication: Callable[[int], Row],
    reduce: Callable[[Sequence[Row]], Measured],
    most: int = 100_000,
    name: str = "",
) -> Measured:
    """Replicate until the half-width of a number is at most WIDEST of it, or `most` times.

    `replication(i)` is what the i-th one measures; `reduce` makes estimates of those of all; `name`
    is the one that counts. How many are needed is worked out from a pilot (Stein, 1945), and again
    with most of them, or a sixth of `most`: where that tells that it takes far too many, a few are
    as good as many.
    """
    rows = [replication(number) for number in range(min(_PILOT, most))]
    while True:
        found = reduce(rows)
        share = found[name].share
        if share <= WIDEST or len(rows) >= most:
            return found
        many = share * _NORMAL / student_t(len(rows) - 1)
        wanted = max(math.ceil(len(rows) * (many / _AIM) ** 2), len(rows) + 1)
        if len(rows) == _PILOT:
            # A pilot is not sure of it: most of them first, then look again.
            wanted = max(min(round(0.7 * wanted), most // 6), len(rows) + 1)
        elif wanted > 1.5 * most:
            return found
        rows += map(replication, range(len(rows), min(wanted, most)))


def average(replication: Callable[[int], float]) -> Estimate:
    """The mean of one number of replications."""
    return until_sure(lambda number: [replication(number)], columns(""))[""]


def columns(*names: str) -> Callable[[Sequence[Sequence[float]]], Measured]:
    """Means of what replications measured, one number of each for every name."""

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        return {name: mean([row[index] for row in rows]) for index, name in enumerate(names)}

    return reduced
