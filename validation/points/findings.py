"""Points of closed forms as lines of a validation: each simulated, and judged."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pydantic import ValidationError

from validation.finding import ENOUGH, Finding, NotRunError, Section, Verdict
from validation.points.estimate import FAMILIES, WIDEST, Estimate, Measured
from validation.points.parameters import long_enough
from validation.points.point import Point
from validation.points.scenario import SEED, seed_of
from varsim.cluster.workers.job import DeadlockError, TooLongError

ALL: Final = "all families"
_NORMAL: Final = 2.5758293  # standard errors of a 99 % interval
_EXACT: Final = 1e-9
_QUADRATURE: Final = 1e-6
_LONGEST: Final = 300  # letters of a reason
_NO_RUN: Final = (
    *(ValueError, LookupError, MemoryError, RuntimeError, DeadlockError, TooLongError),
)

SECTION: Final = Section(
    "closed_forms",
    "Closed forms",
    "Formulas of queueing theory, order statistics, collectives, overlap and linear recursions, "
    "with test points. Each describes a system; that system is put together as a scenario, "
    "simulated by the code that varsim run uses, and measured. No formula is evaluated.",
    "Where nothing is random, within 1e-9 of the number (1e-6 where the reference itself comes "
    "from quadrature or iteration). Where there is chance, the expected value lies inside the 99 % "
    "interval of the simulated one, which reaches to 0.5 % of it at most: of many such points one "
    "in a hundred misses by chance, and 98 % must not.",
)
# Of further numbers of a point, for which the amount of work was not chosen.
_ALSO: Final = "inside its 99 % interval"
_INSIDE: Final = f"{_ALSO}, half-width at most 0.5 %"
_UNITS: Final[Mapping[str, str]] = {"mean_response": "s", "variance": "updates^2"}

# Families that are known, and of which no point is run, as they are out of scope: why.
_OPEN: Final = (
    "an open queue, fed by a Poisson stream: the workers of varsim are a closed system, in which "
    "who waits sends nothing meanwhile; the closed queues are the families ps-"
)
_CHECKPOINT: Final = (
    "an approximation for checkpoints that cost little: `every: optimal` takes the interval that "
    "is exact (ckpt-optimum)"
)
OUT_OF_SCOPE: Final = {
    "ssp-regret-bound": (
        "a bound, which no run attains: nothing to compare a simulated number with"
    ),
    "ps-insensitive": (
        "one shared link is all that is queued for there; a worker of varsim also reads, over the "
        "link's other way, which is a second queue in series (that network of two is compared with "
        "mean value analysis in the tests)"
    ),
    "ps-sharded-random": (
        "each request goes to one shard at random there; a gradient of varsim has a part on every "
        "shard that holds a variable, always the same ones"
    ),
    "open-mg1-wait": _OPEN,
    "open-mmc-wait": _OPEN,
    "nccl-busbw": (
        "a unit of measurement: bytes over a measured time, times a factor; nothing to simulate"
    ),
    "nccl-latency": (
        "constants of NCCL's tuner added up; varsim takes latencies as given, or from measurements"
    ),
    "critical-batch": (
        "an assumption on how many steps a batch size needs; varsim trains real values instead"
    ),
    "ckpt-young": _CHECKPOINT,
    "ckpt-daly": _CHECKPOINT,
}
_UNKNOWN: Final = "a family that is not known"


class Ran(NamedTuple):
    """What came of a point: estimates by name, or why there are none."""

    measured: Measured
    verdict: Verdict = Verdict.PASS
    why: str = ""


def findings(points: Sequence[Point]) -> list[Finding]:
    """The lines of all points, simulated one after the other.

    A point whose parameters make no scenario is not run, and says why.
    """
    return told(points, [run_point(point) for point in points if point.family in FAMILIES])


def told(points: Sequence[Point], ran: Sequence[Ran]) -> list[Finding]:
    """The lines of all points, given what came of those of families that are simulated."""
    known = [point.id for point in points if point.family in FAMILIES]
    found = dict(zip(known, ran, strict=True))
    lines = [line for point in points for line in _lines(point, found.get(point.id))]
    return [*lines, *_in_sum(lines)]


def run_point(point: Point) -> Ran:
    """Simulate one point, if its formula holds for it; the seed is that of the point alone."""
    token = SEED.set(seed_of(point.id))
    try:
        long_enough(point.parameters)
        answer = FAMILIES[point.family](**point.parameters)
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
    finally:
        SEED.reset(token)
    measured = answer if isinstance(answer, dict) else {"": answer}
    return Ran({name: _settled(one) for name, one in measured.items()})


def _impossible(problem: str) -> Ran:
    return Ran({}, Verdict.NOT_RUN, f"cannot be simulated: {problem}"[:_LONGEST])


def _settled(found: float | Estimate) -> Estimate:
    """A number that came out the same every time is one in which nothing is random."""
    if not isinstance(found, Estimate):
        return Estimate(found)
    if found.half_width is None or found.half_width > _EXACT * abs(found.value):
        return found
    return found._replace(half_width=None)


def _lines(point: Point, ran: Ran | None) -> Iterator[Finding]:
    """The findings of one point, one for each of its numbers."""
    if ran is None:
        ran = Ran({}, Verdict.NOT_RUN, _UNKNOWN)
        if why := OUT_OF_SCOPE.get(point.family):
            ran = Ran({}, Verdict.OUT_OF_SCOPE, why)
    also = point.also if ran.measured else {}
    for inside, numbers in ((_INSIDE, point.expected), (_ALSO, also)):
        for name, expected in numbers.items():
            line = Finding(
                point.family,
                f"{point.id} {name}".rstrip(),
                name or point.quantity,
                _unit_of(point, name) if name else point.unit,
                expected,
                verdict=ran.verdict,
                source=point.source,
                why=ran.why,
            )
            if name in ran.measured:
                line = _judged(line, point, ran.measured[name], inside)
            elif ran.measured:
                known = ", ".join(filter(None, ran.measured))
                why = f"not what is measured of this family: {known or 'one number'}"
                line = replace(line, verdict=Verdict.NOT_RUN, why=why)
            yield line


def _judged(line: Finding, point: Point, got: Estimate, inside: str) -> Finding:
    """A line with what was measured, its bound, and what there is to say if it misses."""
    line = replace(line, got=got.value, half_width=got.half_width)
    off = abs(got.value - line.expected)
    if got.half_width is None:
        most = _EXACT if point.kind in ("det", "sim") else _QUADRATURE
        bound = got.bound or f"within {most:g} of it"
        return line.held(off <= most * abs(line.expected), bound, "nothing is random here")
    bound = inside
    if inside == _INSIDE and got.scale is not None:
        bound = f"{_INSIDE} of {got.scale:g}"
    line = replace(line, may_miss=not got.bound and bool(got.half_width))
    if off > got.half_width:
        errors = off / got.half_width * _NORMAL
        why = f"{errors:.2f} standard errors off; one point in 100 is off by 2.58"
    else:
        why = (
            f"the expected value is inside the interval, but that reaches to {100 * got.share:.2f} "
            "% of it: so rare an event would need more minutes of simulation than a point gets"
        )
    wide = inside == _INSIDE and got.share > WIDEST
    return line.held(off <= got.half_width and not wide, got.bound or bound, why)


def _unit_of(point: Point, name: str) -> str:
    """The unit of one of several numbers: `[1, byte]` goes with `[a, b]`."""
    units = [unit.strip() for unit in point.unit.strip("[] ").split(",")]
    names = list(point.expected)
    if name in names and len(units) == len(names):
        return units[names.index(name)]
    return _UNITS.get(name, "1")


def _in_sum(lines: Sequence[Finding]) -> list[Finding]:
    """Of all random lines: the share inside their intervals, and the family that leans most."""
    random = [one for one in lines if one.may_miss]
    if not random:
        return []
    inside = sum(one.verdict is Verdict.PASS for one in random) / len(random)
    name, what = f"{len(random)} random lines", "share that passes"
    found = [
        Finding(ALL, name, what, "", 1.0, inside).held(inside >= ENOUGH, f"at least {ENOUGH:.0%}")
    ]
    # Further numbers of a point come from the same runs: they would count twice.
    leaning = _leaning([one for one in random if one.bound != _ALSO])
    if leaning:
        family = max(leaning, key=lambda name: abs(leaning[name]))
        name, most = f"{len(leaning)} families of random lines", _largest_z(len(leaning))
        what = f"largest mean error in standard errors ({family})"
        bound = f"at most {most:.2f} either way: by chance more in 1 of 100 reports"
        line = Finding(ALL, name, what, "", 0.0, leaning[family])
        found.append(line.held(abs(leaning[family]) <= most, bound))
    return found


def _largest_z(families: int) -> float:
    """What the largest of so many standard normals exceeds, either way, once in a hundred times."""
    from scipy.special import ndtri

    return float(-ndtri((1 - 0.99 ** (1 / families)) / 2))


def _leaning(random: Sequence[Finding]) -> dict[str, float]:
    """Per family the z of the mean error of its random lines.

    The error of each in standard errors; their sum over the root of their number is standard normal
    where nothing is systematic.
    """
    errors: dict[str, list[float]] = {}
    for one in random:
        assert one.got is not None
        assert one.half_width
        error = (one.got - one.expected) / (one.half_width / _NORMAL)
        errors.setdefault(one.group, []).append(error)
    return {name: math.fsum(own) / math.sqrt(len(own)) for name, own in errors.items()}
