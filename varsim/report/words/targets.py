"""Targets in words: what they ask, and who meets them."""

from typing import TYPE_CHECKING, Final

from varsim.report.words.phrases import time
from varsim.scenario.targets import BOUNDS
from varsim.units import format_count

if TYPE_CHECKING:
    pass


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
