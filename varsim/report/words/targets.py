"""Targets in words: what they ask, and who meets them."""

import math
from typing import TYPE_CHECKING, Final

from varsim.report.words import rates
from varsim.report.words.phrases import time
from varsim.scenario.targets import BOUNDS
from varsim.study.targets import Judgement
from varsim.units import format_count

if TYPE_CHECKING:
    from varsim.study.result import Result


_WORDS: Final = {
    "throughput": "throughput",
    "staleness_p99": "staleness p99",
    "wasted": "wasted compute",
    "step_time_p99": "step time p99",
    "time_to_loss": "time to loss {loss:g}",
}


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
        met = [_said(one, result) for one in of_this if one.met]
        missed = [_said(one, result) for one in of_this if not one.met]
        lines += [f"{head}: met by {', '.join(met)}."] if met else []
        lines += [f"{head}: missed by {', '.join(missed)}."] if missed else []
    return lines


def _said(one: Judgement, result: "Result") -> str:
    """A strategy with its number, and what is certain of it where that makes the difference."""
    own = one.target == "time_to_loss" and not rates.common(result)
    trained = f", {rates.rate(result.scenario, one.strategy)}" if own else ""
    if one.strategy in result.standstills:
        return f"{one.strategy} (stands still)"
    if math.isnan(one.mean):
        why = "not reached in every replication" if one.target == "time_to_loss" else "no number"
        return f"{one.strategy} ({why}{trained})"
    told = f"{one.strategy} ({amount(one.target, one.mean)}{trained}"
    at_least = BOUNDS[one.target].at_least
    reached = one.mean >= one.bound if at_least else one.mean <= one.bound
    if reached and not one.met:
        sign = "at least" if at_least else "at most"
        told += (
            f" on average, but with 95 % certainty only {sign} "
            f"{amount(one.target, one.surely)}: more replications may decide"
        )
    return told + ")"


def amount(target: str, value: float) -> str:
    """What a target is about, with its unit."""
    if target == "throughput":
        return f"{format_count(value)} examples/s"
    if target == "staleness_p99":
        return f"{value:.4g} updates"
    if target == "wasted":
        return f"{100 * value:.3g} %"
    return time(value)
