"""Points of closed forms as lines of a validation: each simulated, and judged."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import ValidationError

from validation.finding import Finding, NotRunError, Verdict, matches
from validation.points.estimate import WIDEST, Estimate, Measured
from validation.points.families import FAMILIES, OUT_OF_SCOPE, UNKNOWN
from validation.points.parameters import long_enough
from validation.points.point import Point
from validation.points.scenario import SEED, seed_of
from varsim.cluster.workers.job import DeadlockError, TooLongError

ALL: Final = "all families"
ENOUGH: Final = 0.98
_NORMAL: Final = 2.5758293  # standard errors of a 99 % interval
_EXACT: Final = 1e-9
_QUADRATURE: Final = 1e-6

ABOUT: Final = (
    "Formulas of queueing theory, order statistics, collectives, overlap and linear recursions, "
    "with test points. Each describes a system; that system is put together as a scenario, "
    "simulated by the code that varsim run uses, and measured. No formula is evaluated."
)
# What is held against each line, before anything is run.
BOUND: Final = (
    "Where nothing is random, within 1e-9 of the number (1e-6 where the reference itself comes "
    "from quadrature or iteration). Where there is chance, the expected value lies inside the 99 % "
    "interval of the simulated one, which reaches to 0.5 % of it at most: of many such points one "
    "in a hundred misses by chance, and 98 % must not."
)
_INSIDE: Final = "inside its 99 % interval, half-width at most 0.5 %"
_INSIDE_SCALE: Final = "inside its 99 % interval, half-width at most 0.5 % of {scale:g}"
# Of further numbers of a point, for which the amount of work was not chosen.
_ALSO: Final = "inside its 99 % interval"


class Ran(NamedTuple):
    """What came of a point: estimates by name, or why there are none."""

    measured: Measured
    verdict: Verdict = Verdict.PASS
    why: str = ""


def _impossible(problem: str) -> Ran:
    return Ran({}, Verdict.NOT_RUN, f"cannot be simulated: {problem}"[:_LONGEST])


def findings(points: Sequence[Point]) -> list[Finding]:
    """The lines of all points, simulated one after the other.

    A point whose parameters make no scenario is not run, and says why.
    """
    known = to_run(points)
    return told(points, known, list(map(run_point, known)))


def chosen(points: Sequence[Point], only: str | None) -> list[Point]:
    """Those whose family or id fits a pattern."""
    return [point for point in points if matches(only, point.family, point.id)]


def to_run(points: Sequence[Point]) -> list[Point]:
    """Those of families that are simulated."""
    return [point for point in points if point.family in FAMILIES]


def said_now_and_then(said: Callable[[str], None], done: int, total: int) -> None:
    """After every twenty points, and after the last."""
    if done % 20 == 0 or done == total:
        said(f"closed forms: {done} of {total} points simulated")


def told(wanted: Sequence[Point], known: Sequence[Point], ran: Sequence[Ran]) -> list[Finding]:
    """The lines of all points that were wanted, given what came of those that were run."""
    found = {point.id: one for point, one in zip(known, ran, strict=True)}
    lines = [line for point in wanted for line in _lines(point, found.get(point.id))]
    return [*lines, *in_sum(lines)]


def run_point(point: Point) -> Ran:
    """Simulate one point, if its formula holds for it."""
    SEED.set(seed_of(point.id))
    try:
        long_enough(point.parameters)
        measured = FAMILIES[point.family](**point.parameters)
    except NotRunError as error:
        return Ran({}, error.verdict, error.why)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        return _impossible(f"{where}{first['msg'].removeprefix('Value error, ')}")
    except ArithmeticError as error:
        return _impossible(f"its numbers are too large or too small ({error})")
    except _NO_RUN as error:
        return _impossible(" ".join(str(error).split()) or type(error).__name__)
    return Ran({name: _settled(estimate) for name, estimate in measured.items()})


_NO_RUN: Final = (
    ValueError,
    LookupError,
    MemoryError,
    RuntimeError,
    DeadlockError,
    TooLongError,
)
_LONGEST: Final = 300  # letters of a reason


def _settled(estimate: Estimate) -> Estimate:
    """A number that came out the same every time is one in which nothing is random."""
    if estimate.half_width is None or estimate.half_width > _EXACT * abs(estimate.value):
        return estimate
    return estimate._replace(half_width=None)


def _lines(point: Point, ran: Ran | None) -> Iterator[Finding]:
    """The findings of one point, one for each of its numbers."""
    if ran is None:
        ran = Ran({}, Verdict.NOT_RUN, UNKNOWN)
        if why := OUT_OF_SCOPE.get(point.family):
            ran = Ran({}, Verdict.OUT_OF_SCOPE, why)
    for name, expected in point.expected.items():
        yield _finding(point, name, expected, ran.measured.get(name), ran, _INSIDE)
    if ran.measured:
        for name, expected in point.also.items():
            yield _finding(point, name, expected, ran.measured.get(name), ran, _ALSO)


def _finding(
    point: Point, name: str, expected: float, got: Estimate | None, ran: Ran, inside: str
) -> Finding:
    quantity, unit = point.quantity, point.unit
    if name:
        quantity, unit = name, _unit_of(point, name)
    if got is None and ran.measured:
        known = ", ".join(filter(None, ran.measured))
        verdict, bound = Verdict.NOT_RUN, ""
        why = f"not what is measured of this family: {known or 'one number'}"
    elif got is None:
        verdict, bound, why = ran.verdict, "", ran.why
    else:
        bound = _bound(point, got, inside)
        verdict, why = _verdict(point, expected, got, inside)
    return Finding(
        point.family,
        f"{point.id} {name}".rstrip(),
        quantity,
        unit,
        expected,
        None if got is None else got.value,
        half_width=None if got is None else got.half_width,
        bound=bound,
        verdict=verdict,
        source=point.source,
        why=why,
    )


def _bound(point: Point, got: Estimate, inside: str) -> str:
    if got.bound:
        return got.bound
    if got.half_width is None:
        return f"within {_tolerance(point):g} of it"
    if inside == _INSIDE and got.scale is not None:
        return _INSIDE_SCALE.format(scale=got.scale)
    return inside


def _verdict(point: Point, expected: float, got: Estimate, inside: str) -> tuple[Verdict, str]:
    """Whether a number passes, and what there is to say if not."""
    off = abs(got.value - expected)
    if got.half_width is None:
        passed = off <= _tolerance(point) * abs(expected)
        return (Verdict.PASS, "") if passed else (Verdict.MISS, "nothing is random here")
    if off > got.half_width:
        errors = off / got.half_width * _NORMAL
        return Verdict.MISS, f"{errors:.2f} standard errors off; one point in 100 is off by 2.58"
    if inside == _INSIDE and got.share > WIDEST:
        return Verdict.MISS, (
            f"the expected value is inside the interval, but that reaches to {100 * got.share:.2f} "
            "% of it: so rare an event would need more minutes of simulation than a point gets"
        )
    return Verdict.PASS, ""


def _tolerance(point: Point) -> float:
    return _EXACT if point.kind in ("det", "sim") else _QUADRATURE


def _unit_of(point: Point, name: str) -> str:
    """The unit of one of several numbers: `[1, byte]` goes with `[a, b]`."""
    units = [unit.strip() for unit in point.unit.strip("[] ").split(",")]
    names = list(point.expected)
    if name in names and len(units) == len(names):
        return units[names.index(name)]
    return _UNITS.get(name, "1")


_UNITS: Final[Mapping[str, str]] = {"mean_response": "s", "variance": "updates^2"}


def is_random(one: Finding) -> bool:
    """Whether a line may miss by chance, once in a hundred times."""
    return one.group != ALL and bool(one.half_width) and one.bound.startswith(_ALSO)


def in_sum(lines: Sequence[Finding]) -> list[Finding]:
    """Of all random lines: the share inside their intervals, and the family that leans most."""
    random = [one for one in lines if is_random(one)]
    if not random:
        return []
    # Further numbers of a point come from the same runs: they would count twice.
    leaning = signs([one for one in random if one.bound != _ALSO])
    if not leaning:
        return [_enough(random)]
    family = max(leaning, key=lambda name: abs(leaning[name][1]))
    most = _largest_z(len(leaning))
    return [
        _enough(random),
        _sum(
            f"{len(leaning)} families of random lines",
            f"largest mean error in standard errors ({family})",
            0.0,
            leaning[family][1],
            f"at most {most:.2f} either way: by chance more in 1 of 100 reports",
            abs(leaning[family][1]) <= most,
        ),
    ]


def _enough(random: Sequence[Finding]) -> Finding:
    inside = sum(one.verdict is Verdict.PASS for one in random) / len(random)
    return _sum(
        f"{len(random)} random lines",
        "share that passes",
        1.0,
        inside,
        f"at least {ENOUGH:.0%}",
        inside >= ENOUGH,
    )


def _sum(
    name: str, quantity: str, expected: float, got: float, bound: str, passed: bool
) -> Finding:
    verdict = Verdict.PASS if passed else Verdict.MISS
    return Finding(ALL, name, quantity, "", expected, got, bound=bound, verdict=verdict)


def _largest_z(families: int) -> float:
    """What the largest of so many standard normals exceeds, either way, once in a hundred times."""
    from scipy.special import ndtri

    return float(-ndtri((1 - 0.99 ** (1 / families)) / 2))


def signs(random: Sequence[Finding]) -> dict[str, tuple[int, float]]:
    """Per family the number of its random lines, and the z of their mean error.

    The error of each in standard errors; their sum over the root of their number is standard normal
    where nothing is systematic.
    """
    sums: dict[str, list[float]] = {}
    for one in random:
        assert one.got is not None
        assert one.half_width
        error = (one.got - one.expected) / (one.half_width / _NORMAL)
        sums.setdefault(one.group, []).append(error)
    return {
        family: (len(errors), math.fsum(errors) / math.sqrt(len(errors)))
        for family, errors in sums.items()
    }
