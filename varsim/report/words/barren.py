"""Lives in which nothing is kept, or nothing is saved, in words: that it is so, and why."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from varsim.cluster.recovery import Recovery
from varsim.report.words.phrases import capital, digits, joined, long
from varsim.scenario.training import Scenario
from varsim.study.goodput import PARTS
from varsim.study.lives import round_of
from varsim.units import format_seconds

if TYPE_CHECKING:
    from varsim.cluster.trace import Trace
    from varsim.strategies import Strategy
    from varsim.study.result import Result

_HOPELESS: Final = 0.01  # goodput below which it is told why


def in_vain(result: "Result") -> Iterator[str]:
    """What keeps these lives from their work, or what they work from being kept."""
    failures = result.scenario.failures
    assert failures is not None
    horizon = failures.horizon or math.inf
    for one in result.scenario.strategies:
        what, lasts = _whole(result.scenario, one, result.trace(one.label))
        if horizon < lasts:
            yield (
                f"The horizon of {long(horizon)} is shorter than a {what} of {one.mention} "
                f"({format_seconds(lasts)}): no {what} ends within it, so its goodput means "
                "nothing."
            )
        elif result.estimate(one.label, "goodput").mean < _HOPELESS:
            yield from _hopeless(result, one)
    yield from _never_saved(result)


def _whole(scenario: Scenario, strategy: "Strategy", trace: "Trace") -> tuple[str, float]:
    """The least that can be kept, and how long it takes (s)."""
    if lasts := round_of(scenario, trace):
        return "round", lasts
    if not len(trace.steps):
        return "step", 0.0
    return "step", float(trace.steps[-1]) / 1e9 / len(trace.steps)


def _hopeless(result: "Result", strategy: "Strategy") -> Iterator[str]:
    """Why hardly anything is kept: how often something fails against what must fit in between."""
    scenario = result.scenario
    failures, recovery = scenario.failures, scenario.recovery or Recovery()
    assert failures is not None
    cluster, saved = scenario.cluster_of(strategy), scenario.checkpoint_of(strategy)
    workers = strategy.workers(cluster)
    rate = failures.rate(cluster, workers)
    often = f"something of it fails every {long(1 / rate)} on average, while " if rate else ""
    down = failures.detection + recovery.restart + (saved.restore if saved is not None else 0.0)
    needs = f"it takes {long(down)} to notice that and restart"
    if saved is None:
        help_ = "Checkpoints, or"
    else:
        due = "the optimal interval" if saved.every == "optimal" else long(saved.every)
        needs += f", and {due} of work until a checkpoint is due"
        help_ = "A faster restart, checkpoints more often (checkpoint.every), or"
    parts = {name: result.estimate(strategy.label, name).mean for name in PARTS}
    if parts["life_repair"] > 1 / 2:
        needs += f"; and {digits(100 * parts['life_repair'])} % of the time it waits for repairs"
        help_ = "More spares, shorter repairs, or"
    yield (
        f"{capital(strategy.mention)} keeps hardly anything: {often}{needs}. {help_} fewer "
        "failures would help."
    )


def _never_saved(result: "Result") -> Iterator[str]:
    """That no checkpoint was completed in any life."""
    names = [
        one.mention
        for one in result.scenario.strategies
        if (saved := result.scenario.checkpoint_of(one)) is not None
        and saved.stops > 0
        and not any(result.values(one.label, "life_checkpoint"))
    ]
    if names and (saved := result.scenario.checkpoint) is not None:
        due = "the optimal interval" if saved.every == "optimal" else long(saved.every)
        yield (
            f"No checkpoint of {joined(names)} was completed in any of these lives: one is due "
            f"after {due} of work."
        )
