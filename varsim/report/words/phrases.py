"""How things are said: numbers with intervals, times, ratios, lists, and which one is the best."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from varsim.study.statistics import Estimate
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE, Ranking, Rival
from varsim.units import format_seconds

K = TypeVar("K")

DOT: Final = " · "  # between facts that are no sentence
_MOST_LISTED: Final = 4
_MOST_IN_A_LINE: Final = 2
_FEW: Final = 2  # replications or pairs of which an interval is hardly one
_ABSURD: Final = 1e6  # times the number, an interval of any of them says nothing
_NOTHING: Final = " ± ?"  # instead of an interval that says nothing
_APART: Final = math.log(1.5)  # of means that nobody would call close
_TOO_FEW: Final = {1: "One replication is", 2: "Two replications are"}
# Numbers have an exponent from here on, as a loss that diverges, or with more decimals than that.
_LONG: Final = 1e15
_DECIMALS: Final = 9
_UNITS_OF_TIME: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def margin(count: int, runs: str = "replications") -> str:
    """What `±` says, over so many runs; without the full stop."""
    said = f"± is the half-width of a 95 % confidence interval over {count} {runs}"
    if count != _FEW:
        return said
    return f"{said} (± ?: it exceeds the number); over five it would be about 7 times as narrow"


def says_nothing(found: Estimate) -> bool:
    """Whether an interval is wider than its number is large, as those of two replications are."""
    size = abs(found.mean) if found.replications == _FEW else _ABSURD * abs(found.mean)
    return found.half_width > size


def plus_minus(found: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """A mean and the half-width of its interval, `1.23 ± 0.04 unit`, both multiplied by `scale`."""
    if math.isnan(found.mean):
        return found.note or "-"
    mean, half = found.mean * scale, found.half_width * scale
    if says_nothing(found):
        return f"{_written(mean, _decimals(mean, math.nan))}{_NOTHING}{unit and ' '}{unit}"
    decimals = _decimals(mean, half)
    shown = "" if math.isnan(half) else _written(half, decimals)
    width = f" ± {shown}" if shown.strip("0.") else ""
    if half > abs(mean):  # two digits of what would look like 0
        decimals = max(decimals, 1 - _magnitude(mean))
    return f"{_written(mean, decimals)}{width}{unit and ' '}{unit}"


def time(found: Estimate | float) -> str:
    """Seconds in the unit that suits them, `12.3 ± 0.4 ms`."""
    estimate = Estimate(found, math.nan, math.nan, 1) if isinstance(found, float) else found
    size = abs(estimate.mean)
    scale, unit = next((pair for pair in _UNITS_OF_TIME if size >= pair[0]), _UNITS_OF_TIME[-1])
    return plus_minus(estimate, 1 / scale, unit) if size else "0 s"


def lasting(found: Estimate) -> str:
    """Minutes or hours as they are said, `90.3 min`, and how sure they are."""
    half = found.half_width
    return format_seconds(found.mean) + (f" ± {format_seconds(half)}" if half > 0 else "")


def long(seconds: float) -> str:
    """A time that may be days."""
    days = seconds / 86_400
    return f"{days:,.4g} days" if days >= 2 else format_seconds(seconds)


def digits(value: float) -> str:
    """Three digits, or all of them before the point."""
    return _written(value, max(0, 2 - _magnitude(value)))


def factor(value: float) -> str:
    """A ratio in three digits; in more where it would look like 1 and is not."""
    text = digits(value)
    beyond = abs(value - 1)
    if text not in ("1.00", "1.000") or not 1e-6 < beyond < math.inf:
        return text
    return f"{value:.{1 - _magnitude(beyond)}f}"


def ratio_cell(found: Estimate) -> str:
    """A ratio, `1.45x (1.40 to 1.50)`."""
    if math.isnan(found.mean):
        return found.note or "-"
    return f"{factor(found.mean)}x{_between(found)}"


def times(lead: Estimate, comparisons: int = 1, word: str = " times") -> str:
    """`1.30 times (95 % interval 1.20 to 1.40)`: of several that hold together, it says so."""
    low, high = factor(lead.low), factor(lead.high)
    together = "simultaneous " if comparisons > 1 else ""
    exact = not lead.low < lead.high or low == high
    between = "" if exact or says_nothing(lead) else f" ({together}95 % interval {low} to {high})"
    return f"{factor(lead.mean)}{word}{between}"


def joined(parts: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def quoted(name: object) -> str:
    """The name of an alternative in a sentence."""
    return f"'{name}'"


def capital(text: str) -> str:
    """Text that begins with a capital letter."""
    return text[0].upper() + text[1:]


class Wording(NamedTuple):
    """How the best by some number is told of.

    `best`: with `{name}` and `{value}`; `which`: the same as a question; `noun`: of the number;
    `next`: of the next best, with its `{name}` and `{value}`; `by`: with `{name}`, `{times}` and
    `{that}`, how many times as good the best is; `headline`: instead of both over a figure.
    `equal`: what those are that have the same number; `more`: how to get replications enough to
    tell.
    """

    best: str
    which: str
    noun: str
    next: str = "; next is {name}: {value}"
    by: str = ", {times} as much"
    headline: str = ""
    equal: str = "have the same {noun}"
    more: str = "--set replications=5"

    def alike(self, names: Sequence[str], of: int, often: str = "") -> str:
        """That these are the same; `of` so many alternatives in all."""
        best = f", the best of {of}" if of > len(names) else ""
        return f"{joined(names)} {self.equal.format(noun=self.noun)}{often}{best}"


def told(
    ranking: Ranking[K],
    wording: Wording,
    name: Callable[[K], str],
    value: Callable[[K], str],
    *,
    why_same: str = "",
    beside: str = "",
) -> str:
    """A sentence, without its full stop. `beside`: what else there is to say of the best's value.

    `why_same`: why those that are the same are, if that is known.
    """

    def listed(keys: Sequence[K]) -> str:
        return joined(_some([f"{name(key)} ({value(key)})" for key in keys], _MOST_LISTED))

    if ranking.of(UNTOLD):
        return f"{_too_few(1, wording.which)}: {listed(ranking.tied)}"
    if close := ranking.of(CLOSE):
        few = any(map(_looks_apart, close))
        text = _too_few(2, wording.which) if few else f"{wording.which} is {CLOSE}"
        text += f": {listed(ranking.tied)}"
        if len(ranking.tied) == 2 and not close[0].lead.note:
            text += f"; apart by a factor of {times(close[0].lead, ranking.comparisons, '')}"
        ahead = ranking.rivals[: ranking.rivals.index(close[-1])]
        if between := [rival.key for rival in ahead if rival.said == WORSE]:
            are = "is" if len(between) == 1 else "are"
            text += f"; {listed(between)}, in between, {are} surely behind the first"
        return f"{text}; {wording.more} tells more" if few else text
    if ranking.of(EQUAL):
        within = f"{100 * ranking.equal_within:.2g} %"
        text = f"{listed(ranking.tied)} are {EQUAL}: their {wording.noun} surely differs by less "
        text += f"than {within}"
    elif len(ranking.same) > 1:
        same = [name(key) for key in ranking.same]
        text = wording.alike(same, 1 + len(ranking.rivals), _often(ranking))
        text += f": {value(ranking.best)}"
        text += beside + (why_same and f" ({why_same})")
    else:
        text = wording.best.format(name=name(ranking.best), value=value(ranking.best)) + beside
    rest = [rival for rival in ranking.rivals if rival.said not in (SAME, EQUAL)]
    if rest:
        second = rest[0]
        text += wording.next.format(name=name(second.key), value=value(second.key))
        if not second.lead.note:
            lead = times(second.lead, ranking.comparisons)
            # Of several that are practically equal "that" would be none of them.
            that = "the first" if ranking.of(EQUAL) else "that"
            text += wording.by.format(name=name(second.key), times=lead, that=that)
    return text


def headline(
    ranking: Ranking[K], wording: Wording, name: Callable[[K], str], value: Callable[[K], str]
) -> str:
    """The same in a line that stands over a figure."""
    tied = [name(key) for key in ranking.tied]
    several = joined(_some(tied, _MOST_IN_A_LINE), "or")
    who, size = name(ranking.best), value(ranking.best)
    if ranking.of(UNTOLD):
        who += " in one replication"
    elif ranking.of(CLOSE):
        few = any(map(_looks_apart, ranking.of(CLOSE)))
        who = f"{several}, {'too few replications to tell' if few else CLOSE}"
    elif ranking.of(EQUAL):
        who = f"{several}, {EQUAL}"
    elif len(ranking.same) > 1:
        return f"{wording.alike(tied, 1 + len(ranking.rivals))}: {size}"
    elif ranking.rivals:
        second = ranking.rivals[0]
        if second.lead.note:
            size += f", {value(second.key)} with {name(second.key)}"
        else:
            lead = f"{factor(second.lead.mean)} times"
            size += wording.headline.format(name=name(second.key), times=lead)
    return wording.best.format(name=who, value=size)


def _too_few(replications: int, question: str) -> str:
    """That so many replications do not answer a question such as `Which strategy is fastest`."""
    asked = question[0].lower() + question[1:].rstrip(",")
    return f"{_TOO_FEW[replications]} not enough to tell {asked}"


def _some(parts: Sequence[str], most: int) -> list[str]:
    """The first `most` of them, and how many more there are; one more is told like the others."""
    more = len(parts) - most
    return [*parts[:most], f"{more} more"] if more > 1 else list(parts)


def _looks_apart(rival: Rival[K]) -> bool:
    """Whether a rival that is not told from the best looks worse: only replications are missing."""
    lead = rival.lead
    apart = abs(math.log(max(lead.mean, 1e-9))) > _APART or says_nothing(lead)
    return lead.replications == _FEW and apart


def _often(ranking: Ranking[K]) -> str:
    """In which replications the best and those that are the same are."""
    lead = ranking.of(SAME)[0].lead
    if lead.replications > 1:
        return " in every replication"
    return " in the one replication" if math.isnan(lead.low) else ""


def _between(found: Estimate) -> str:
    if says_nothing(found):
        return _NOTHING
    low, high = factor(found.low), factor(found.high)
    return "" if math.isnan(found.low) or low == high else f" ({low} to {high})"


def _decimals(mean: float, half: float) -> int:
    """So many that half the interval shows two digits, the mean at most five."""
    if half > 0:
        return max(0, min(1 - _magnitude(half), 4 - _magnitude(mean)))
    exact = mean == round(mean) and abs(mean) < 1e6
    return 0 if exact else max(0, 3 - _magnitude(mean))


def _written(value: float, decimals: int) -> str:
    tiny = decimals > _DECIMALS and value != 0
    exponent = tiny or _LONG <= abs(value) < math.inf
    return f"{value:.2e}" if exponent else f"{value:,.{decimals}f}"


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
