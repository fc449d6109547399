"""Every number and every list of names as text: digits and units for all media, in one place."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final

from varsim.core.units import span
from varsim.report.told import Cell, Note, Number, Shares, Value
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import AnyScenario, Scenario
from varsim.strategies.backup_workers import BackupWorkers
from varsim.strategies.sync_replicas import SyncReplicas
from varsim.study.verdict import CLOSE, UNTOLD, K, Ranking

if TYPE_CHECKING:
    from varsim.study.why.resources import ResourceUse

_WAYS: Final = {"up": "sending", "down": "receiving"}  # where hosts fail, down: not dead
_PORTS: Final = ("server's port", "servers' ports")
_HARD: Final = "\N{NO-BREAK SPACE}"
_SCALES: Final = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "days": ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")),
    "B": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "share": ((0.01, "%"),),
    "part": ((0.01, "%"),),
}
SHARES: Final = {
    "compute": "computing",
    "vain": "wasted",
    "wait": "waiting",
    "network": "network",
    "down": "down",
}
# Units of an axis of times, each from so many of it on.
_TIMES: Final = (
    (3600.0, 3, "h"),
    (60.0, 5, "min"),
    (1.0, 1, "s"),
    (1e-3, 1, "ms"),
    (1e-6, 0, "us"),
)
_SMALL_PART: Final = 9.5  # percent of a part of something; less has a decimal
MARKED: Final = {"best": f"{_HARD}*", "equal": f"{_HARD}="}  # the best of a column, and its ties
SMALL: Final = 0.01  # a narrower interval, as a share of its mean, is left out
_LONG: Final = 1e15  # numbers have an exponent from here on,
_DECIMALS: Final = 9  # or with more decimals than these
_MOST_NAMES: Final = 4  # that are all told, however long they are,
_LONG_LIST: Final = 80  # or, without what stands between them, not longer than this together
_FEW: Final = 2  # replications that are too few to tell a small lead
_APART: Final = 1.01
_WHOLE: Final = 9.95  # percent that have no decimals
_MONEY: Final = re.compile(r"[A-Z]{3}(/h)?")  # is told in cents
_CENTS: Final = 2


def shown(number: Cell, digits: int = 3) -> str:
    """A number with its unit, `3.0 ± 0.3 s`: so many digits, or as many as its interval allows."""
    if isinstance(number, str):
        return number
    if isinstance(number, Shares):
        return most_time({SHARES.get(name, name): share for name, share in number.parts})
    if math.isnan(number.mean):
        return number.missing or "-"
    if number.verdict == "baseline":
        return "1"
    if number.verdict == "tie":
        return "tie"
    scale, unit = _scale(number)
    mean, half = number.mean / scale, abs(number.half / scale)
    decimals = _decimals(mean, digits)
    if number.unit == "part":
        decimals = int(0 < abs(mean) < _SMALL_PART)
    if _MONEY.fullmatch(unit) and abs(mean) >= 1:
        decimals = _CENTS
    text = _written(mean, decimals)
    if half > abs(mean):
        text += f"{_HARD}±{_HARD}?"
    elif half > SMALL * abs(mean):
        decimals = max(0, -_magnitude(half))
        text = f"{_written(mean, decimals)}{_HARD}±{_HARD}{_written(half, decimals)}"
    return text + (_HARD + unit) * bool(unit) + _spare(number) + MARKED.get(number.verdict, "")


def given(number: Number) -> str:
    """A number that somebody wrote, with all its digits: 99.99 % is not 100 %."""
    value = number.mean / _scale(number)[0]
    enough = (
        digits
        for digits in range(3, 16)
        if math.isclose(float(f"{value:.{digits - 1}e}"), value, rel_tol=1e-12)
    )
    return shown(number, next(enough, 3))


def _spare(number: Number) -> str:
    """By how much a target is met, ` (+2.8 %)`, or missed."""
    if math.isnan(number.margin):
        return ""
    size = 100 * number.margin
    digits = f"{size:+.0f}" if abs(size) >= _WHOLE or not size else f"{size:+.1f}"
    unit = "points" if number.unit == "share" else "%"
    return f"{_HARD}({digits}{_HARD}{unit})"


def unheld(text: str) -> str:
    """Text whose quantities may break: as it is printed and copied."""
    return text.replace(_HARD, " ")


def _scale(number: Number) -> tuple[float, str]:
    """What one of its unit is, and what that is called."""
    known = _SCALES.get(number.unit, ((1.0, number.unit),))
    if number.mean == 0 and number.unit != "share":
        return known[-1][0], number.unit if number.unit in ("s", "B") else known[-1][1]
    return next((one for one in known if abs(number.mean) >= one[0]), known[-1])


def _decimals(value: float, digits: int) -> int:
    """Of that many digits, how many stand behind the point; whole numbers have none."""
    if value == int(value) if abs(value) < _LONG else True:
        return 0
    rounded = float(f"{value:.{digits - 1}e}")
    return max(0, digits - 1 - _magnitude(rounded))


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value else 0


def _written(value: float, decimals: int) -> str:
    if abs(value) >= _LONG or decimals > _DECIMALS:
        return f"{value:.2e}"
    return f"{value:,.{decimals}f}"


def listed(names: Sequence[str], word: str = "and") -> str:
    """`a, b and c`; of many that are long the first, and how many more."""
    if len(names) > _MOST_NAMES and sum(map(len, names)) > _LONG_LIST:
        names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} more"]
    comma = "; " if any("," in name for name in names) else ", "
    return names[0] if len(names) == 1 else f"{comma.join(names[:-1])} {word} {names[-1]}"


def written(value: Value) -> str:
    """What stands in a sentence."""
    if isinstance(value, Number | str):
        return shown(value)
    return shown(Number(float(value))) if isinstance(value, int | float) else listed(value)


def axis(label: str, longest: float) -> tuple[float, str]:
    """What the values along an axis are divided by, and its label, in a unit that reads well.

    `label`: with "(s)" or "(share)" at its end it is in another unit.
    """
    what, _, unit = label.rpartition(" (")
    if unit == "share)":
        return 0.01, f"{what} (%)"
    if unit != "s)":
        return 1.0, label
    scale, _, name = next(one for one in _TIMES if longest >= one[0] * one[1])
    return scale, f"{what} ({name})"


def percent(share: float) -> str:
    """A share as a whole number of percent."""
    return f"{100 * share:.0f}{_HARD}%"


def most_time(shares: Mapping[str, float]) -> str:
    """The three largest shares of a worker's time, and the rest: `compute 63 %, read 37 %`."""
    rows = sorted(((share, name) for name, share in shares.items()), reverse=True)
    first, left = rows[:3], sum(share for share, _ in rows[3:])
    return ", ".join(
        f"{name} {100 * share:.0f} %" for share, name in (*first, (left, "rest")) if share >= 0.005
    )


def names(scenario: AnyScenario) -> dict[str, str]:
    """What people call each strategy, by label: its own name, or the field's: `async PS`.

    Two of one name are told apart by their labels.
    """
    found = {}
    for one in scenario.strategies:
        found[one.label] = one.title
        if one.name is None and isinstance(one, BackupWorkers | SyncReplicas):
            spare = scenario.cluster_of(one).workers - one.replicas_to_aggregate
            if spare > 0 or isinstance(one, BackupWorkers):
                found[one.label] = f"sync PS + {spare} backup{'s' * (spare != 1)}"
    twice = [name for name, many in Counter(found.values()).items() if many > 1]
    return {one: f"{name} ({one})" if name in twice else name for one, name in found.items()}


def too_large(scenario: Scenario, label: str) -> str:
    """What follows the name of a strategy that is known not to fit; empty of any other."""
    found = [one.where for one in scenario.misfits(scenario.strategy(label))]
    return f" (too large for its {found[0]})" if found else ""


_TARGETS: Final = {
    "throughput": ("throughput", "examples/s"),
    "staleness_p99": ("staleness p99", "updates"),
    "wasted_compute": ("wasted compute", "share"),
    "goodput": ("goodput", "share"),
    "step_time_p99": ("step time p99", "s"),
    "time_to_target": ("time to loss {loss:g}", "s"),
}


def target(name: str, bound: float, loss: float | None) -> str:
    """A target: `throughput at least 4,000 examples/s`."""
    sign = "at least" if BOUNDS[name] else "at most"
    what, unit = _TARGETS[name]
    unit = unit.removesuffix("s") if unit == "updates" and bound == 1 else unit
    return f"{what.format(loss=loss)} {sign} {unheld(given(Number(bound, unit=unit)))}"


def headline(
    ranking: Ranking[K] | None,
    named: Mapping[K, str],
    values: Mapping[K, Number],
    replications: int,
) -> Note:
    """Which is the best by some number: best | tie | untold; `values`: of each alternative."""
    if ranking is None:
        return Note("nothing")
    best, tied = ranking.best, ranking.tied
    rate = values[best]._replace(half=math.nan)
    rest = [rival for rival in ranking.rivals if rival.key not in tied]
    if not ranking.rivals:
        return Note("alone", {"best": named[best], "rate": rate})
    lead: dict[str, Value] = {}
    if rest and not rest[0].lead.note:
        lead = {"times": Number(rest[0].lead.mean), "next": named[rest[0].key]}
    if len(tied) == 1:
        return Note("fastest", {"best": named[best], "rate": rate, **lead})
    unsure = ranking.of(CLOSE, UNTOLD)
    who = tuple(named[key] for key in tied)
    if unsure:
        low, *_, high = sorted((values[key] for key in tied), key=lambda one: one.mean)
        spread = {"low": low._replace(half=math.nan), "high": high._replace(half=math.nan)}
        found: dict[str, Value] = {"tied": who, **spread, **lead}
        if untold(ranking, replications):
            found |= {"count": replications, "more": "--set replications=5"}
            return Note("too-few", found)
        return Note("close", found)
    return Note("tie", {"tied": who, "rate": rate, **lead})


def untold(ranking: Ranking[K], replications: int) -> bool:
    """Whether there are too few replications to say which is the best."""
    few = replications <= _FEW
    leads = (rival.lead.mean for rival in ranking.of(CLOSE, UNTOLD))
    return bool(ranking.of(UNTOLD)) or (few and any(lead > _APART for lead in leads))


def resource(use: "ResourceUse") -> str:
    """`the server's port (ps 0, receiving)`, `worker 3's link, sending`, `worker 3 computing`."""
    many = len(use.numbers) > 1
    which = " ".join(filter(None, (use.owner, ranks(use.numbers))))
    rest, _, last = f" {use.does}".rpartition(" ")
    way = _WAYS.get(last, "")
    if use.kind == "port":
        return f"the {_PORTS[many]} ({which}, {way})"
    if use.kind == "link" and not many:
        return f"{which}'s link, {way}"
    if use.kind == "handling":
        return f"{which}, {use.does}"
    if many:
        which = which.replace(use.owner, f"{use.owner}s", 1)
    if way:
        return f"the link{'s' * many} of {which}{rest}, {way}"
    return f"{which} {use.does}".strip()


def busy(use: "ResourceUse") -> str:
    """How much of it was used."""
    share = shown(Number(use.share, unit="part"))
    carries = use.kind in ("port", "link", "shared")
    return f"{share} of the {'bandwidth used' if carries else 'time'}"


def ranks(numbers: Sequence[int]) -> str:
    """`0 to 3 and 5`, of numbers in order."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])  # alike in a run
    found = [[number for _, number in run] for _, run in runs]
    several = ([span(run[0], run[-1])] if len(run) > 2 else map(str, run) for run in found)
    *some, last = list(chain(*several)) or [""]
    return f"{', '.join(some)} and {last}" if some else last
