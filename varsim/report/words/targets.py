"""Targets in words: what they ask, and who meets them."""

import math
from typing import TYPE_CHECKING, Final

from varsim.report.words import rates
from varsim.report.words.memory import called
from varsim.report.words.phrases import time
from varsim.scenario.targets import BOUNDS
from varsim.study.measure import NANOSECONDS
from varsim.study.targets import Judgement
from varsim.units import format_count

if TYPE_CHECKING:
    from varsim.study.result import Result


_WORDS: Final = {
    "throughput": "throughput",
    "staleness_p99": "staleness p99",
    "wasted": "wasted compute",
    "goodput": "goodput",
    "step_time_p99": "step time p99",
    "time_to_loss": "time to loss {loss:g}",
}


SHARES: Final = ("goodput", "wasted")  # apart by points, not by a share of a share


def said(name: str, bound: float, loss: float | None) -> str:
    """A target in words: `throughput at least 4,000 examples/s`."""
    sign = "at least" if BOUNDS[name].at_least else "at most"
    what = _WORDS[name].format(loss=loss)
    return f"{what} {sign} {amount(name, bound)}"


def sentences(result: "Result") -> list[str]:
    """One line per target and verdict."""
    lines = []
    judged = result.judgements
    for name, bound in result.scenario.targets.bounds.items():
        head = f"Target {said(name, bound, result.target_loss)}"
        head += rates.common(result) if name == "time_to_loss" else ""
        of_this = [one for one in judged if one.target == name]
        verdicts = {
            "met": [one for one in of_this if one.met],
            "missed": [one for one in of_this if one.missed],
        }
        for verdict, those in verdicts.items():
            if those:
                lines.append(f"{head}: {verdict} by {', '.join(_said(o, result) for o in those)}.")
        if undecided := [_said(one, result) for one in of_this if one.doubt]:
            lines.append(f"{head}: undecided for {', '.join(undecided)}.")
    return lines


def _said(one: Judgement, result: "Result") -> str:
    """A strategy with its number, and why that decides nothing where it does not."""
    who = called(result.scenario, one.strategy)
    own = one.target == "time_to_loss" and not rates.common(result)
    trained = f", {rates.rate(result.scenario, one.strategy)}" if own else ""
    if one.strategy in result.standstills:
        return f"{who} (deadlocked)"
    if one.doubt == "ended":
        ends = [run.end for run in result.traces if run.strategy == one.strategy]
        ended = time(max(ends) / NANOSECONDS)
        return f"{who} (not reached{trained}, but the runs end after {ended})"
    if math.isnan(one.mean):
        why = "not reached in every replication" if one.target == "time_to_loss" else "no number"
        return f"{who} ({why}{trained})"
    told = f"{who} ({_beside(one, one.mean)}{trained}"
    if one.doubt == "once":
        told += " in one replication: --set replications=5 may decide"
    elif one.doubt == "short":
        told += ", from runs that are too short to tell"
    elif one.doubt:
        sign = "at least" if BOUNDS[one.target].at_least else "at most"
        told += (
            f" on average, but with 95 % certainty only {sign} {_beside(one, one.surely)}: more "
            "replications may decide"
        )
    return told + ")"


def _beside(one: Judgement, value: float) -> str:
    """A value with as many digits as tell it from its bound."""
    said = amount(one.target, value)
    if said != amount(one.target, one.bound) or math.isclose(value, one.bound, rel_tol=1e-9):
        return said
    sign = "below" if value < one.bound else "above"
    share = abs(value - one.bound) / abs(one.bound)
    return f"{said}, {100 * share:.1g} % {sign} it"


def amount(target: str, value: float) -> str:
    """What a target is about, with its unit."""
    if target == "throughput":
        return f"{format_count(value)} examples/s"
    if target == "staleness_p99":
        return f"{value:.4g} updates"
    if target == "goodput":
        return f"{100 * value:.4g} %"
    if target == "wasted":
        return f"{100 * value:.3g} %"
    return time(value)
