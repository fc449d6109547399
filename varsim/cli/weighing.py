"""How much work a command is asked for: a lot of it is told of, what has no end is refused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from varsim.cli.console import USAGE, complain

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.study.effort import Effort
    from varsim.study.sweep.case import Case
    from varsim.study.timing import Foreseen

# A run computes some hundred thousand gradients a second, and remembers each of them.
MANY_GRADIENTS, TOO_MANY_GRADIENTS = 20e6, 1e9
# Cases of a sweep of which sizes are looked at, and of which the beginning is run.
MOST_WEIGHED: Final = 60
MOST_BEGUN: Final = 8
# Seconds of one core and bytes that are worth a word, and those that somebody has to want.
LONG, TOO_LONG = 120.0, 3600.0
LARGE, TOO_LARGE = 2e9, 4e9
_LARGE_BATCH: Final = 10_000
_MANY_TOKENS: Final = 1_000_000
_FEW_STEPS: Final = 4  # in all the time that the clock counts


def weigh(scenario: "Scenario", sure: bool = False) -> None:
    """Foresee time and memory of a scenario: tell of much, and refuse too much.

    By short runs where it might be much.

    What takes more than an hour or 4 GB wants somebody who is `sure` (--yes); what this machine
    has no memory for is refused even so.
    """
    from varsim.study.timing import timed_effort

    weigh_step(scenario)
    weigh_failures(scenario)
    _judge(scenario, timed_effort(scenario, _is_little), sure)


def weigh_checked(scenario: "Scenario", found: "Effort", timed: "Foreseen") -> None:
    """`weigh`, of what was found already, and what it takes by short runs."""
    from varsim.report.words.phrases import joined
    from varsim.units import format_seconds

    least, most, unseen = timed
    if _is_little(found):
        fewest, until = format_seconds(least), ""
        if fewest != format_seconds(most):
            until = f"{fewest} (if the target loss is reached at once) to "
        about, vain = "about", ""
        if unseen:
            few = joined([scenario.strategy(label).mention for label in unseen])
            about, vain = "at least", f", in which {few} made no update"
        complain(
            f"varsim: on this machine all runs together take {about} {until}{format_seconds(most)} "
            f"of one core, judging by short runs{vain}"
        )
    _judge(scenario, found, sure=True)


def weigh_explaining(scenario: "Scenario", sure: bool) -> None:
    """`weigh`, of the runs by which `explain` tells why a scenario is as slow as it is."""
    from varsim.study.why.work import foreseen as foreseen_reruns

    weigh_step(scenario)
    weigh_failures(scenario)
    fewer = "lower cluster.workers, or explain one strategy alone (--strategy)"
    _decide(foreseen_reruns(scenario, _is_little), "explaining it takes", fewer, sure)


def _judge(scenario: "Scenario", found: "Effort", sure: bool) -> None:
    from varsim.scenario.training import runs_made

    often = max(runs_made(scenario, strategy) for strategy in scenario.strategies)
    if found.gradients > TOO_MANY_GRADIENTS:
        _weigh_one(found.gradients, scenario, "", often)
    _decide(found, "all runs take", _knobs(scenario, often), sure)


def _is_little(found: "Effort") -> bool:
    """Whether nothing is said of it."""
    return found.seconds < LONG and found.memory < LARGE and found.gradients <= MANY_GRADIENTS


def _decide(found: "Effort", what: str, instead: str, sure: bool) -> None:
    """Say nothing, tell, or end the command; `instead`: what to do to have it sooner."""
    from varsim.study.effort import memory_there

    if found.seconds < LONG and found.memory < LARGE:
        return
    said = f"varsim: {what} {foreseen(found)}"
    if found.memory > memory_there():
        complain(f"{said}, more memory than there is here: {instead}")
        raise typer.Exit(USAGE)
    if not sure and asks_first(found):
        complain(f"{said}: {instead}, or give --yes")
        raise typer.Exit(USAGE)
    complain(f"{said}; to have it sooner {instead}")


def asks_first(found: "Effort") -> bool:
    """Whether somebody has to be sure; for what there is no memory that would not help."""
    from varsim.study.effort import memory_there

    much = found.seconds > TOO_LONG or found.memory > TOO_LARGE
    return much and found.memory <= memory_there()


def foreseen(found: "Effort") -> str:
    """An effort in words: `about 12 min of one core and 340 MB of memory (12,000 gradients)`."""
    return f"{_time(found)} and {foreseen_memory(found)}"


def foreseen_memory(found: "Effort") -> str:
    """`340 MB of memory (12,000 gradients)`."""
    from varsim.units import format_bytes, format_count

    return f"{format_bytes(found.memory)} of memory ({format_count(found.gradients)} gradients)"


def _time(found: "Effort") -> str:
    from varsim.units import format_seconds

    return f"about {format_seconds(found.seconds)} of one core"


def weigh_step(scenario: "Scenario") -> None:
    """Refuse a scenario of which one step is longer than the clock can make many of."""
    from varsim.cluster.clock import END_OF_TIME
    from varsim.study.effort import longest_step
    from varsim.units import format_seconds

    longest = longest_step(scenario)
    if longest.seconds <= END_OF_TIME / 1e9 / _FEW_STEPS:
        return
    complain(
        f"varsim: one step of {longest.strategy} takes about "
        f"{format_seconds(longest.seconds)} ({longest.why}), but the clock ends at 1,281,000 h: is "
        f"the unit of {longest.field} right?"
    )
    raise typer.Exit(USAGE)


def weigh_failures(scenario: "Scenario") -> None:
    """Refuse a scenario whose runs would be given up after minutes, for all that fails in them."""
    from varsim.study.effort import hopeless

    if (found := hopeless(scenario)) is not None:
        complain(f"varsim: {found.strategy}: {found.reason}")
        raise typer.Exit(USAGE)


def weigh_cases(
    cases: "Sequence[Case]",
    replications: int,
    runs: str = "all runs",
    fewer: str = "sweep fewer points",
    sure: bool = True,
    closer: bool = False,
) -> "Effort | None":
    """`weigh`, of the cases of a sweep, each run so often at least; None where there are none.

    `runs` and `fewer`: what runs these are, and how to have fewer, in words. `closer`: at the
    rates of their beginnings in any case, not only where they are not little.
    """
    from varsim.study.effort import Effort, effort, hopeless
    from varsim.study.timing import longest, times_as_long
    from varsim.units import format_seconds

    if not cases:
        return None
    some = _some(cases, MOST_WEIGHED)
    for case in some:
        weigh_step(case.scenario)
    share = len(cases) / len(some)
    some = [case for case in some if hopeless(case.scenario) is None]  # which is not run
    if not some:
        return None
    often = replications * share
    found = [effort(case.scenario) for case in some]
    whole = Effort.one_by_one((each, often) for each in found)
    timed = any(case.scenario.stop.time is not None for case in some)
    if timed and (closer or not _is_little(whole)):
        often *= len(some) / len(some := _some(some, MOST_BEGUN))
        found = _begun([case.scenario for case in some])
        whole = Effort.one_by_one((each, often) for each in found)
    most = max(each.gradients for each in found)
    scenario = next(
        case.scenario for case, each in zip(some, found, strict=True) if each.gradients == most
    )
    _weigh_one(most, scenario, f" in one run of {scenario.strategies[0].mention}", 1)
    instead = f"lower replications, or {fewer}" if whole.memory < LARGE else _knobs(scenario, 1)
    slowest = max(
        each.gradients * longest(case.scenario) for case, each in zip(some, found, strict=True)
    )
    if closer or not _is_little(whole._replace(seconds=slowest * often * len(some))):
        few = [case.scenario for case in _some(some, MOST_BEGUN)]
        whole = whole._replace(seconds=whole.seconds * times_as_long(few))
    if closer and _is_little(whole):
        complain(
            f"varsim: on this machine {runs} take about {format_seconds(whole.seconds)} of one "
            "core, judging by short runs"
        )
    _decide(whole, f"{runs} take", instead, sure)
    return whole


def _some(cases: "Sequence[Case]", most: int) -> "list[Case]":
    """So many of them at most, from the first to the last."""
    if len(cases) <= most:
        return list(cases)
    return [cases[round(index * (len(cases) - 1) / (most - 1))] for index in range(most)]


def _begun(scenarios: "Sequence[Scenario]") -> "list[Effort]":
    """What their runs take at the rates of their beginnings, which share the events of one."""
    from varsim.study.beginning import EVENTS, begin, rates
    from varsim.study.effort import effort

    events = EVENTS // len(scenarios)
    return [effort(one, rates(begin(one, events))) for one in scenarios]


def _weigh_one(count: float, scenario: "Scenario", where: str, replications: int) -> None:
    from varsim.units import format_count

    if count <= MANY_GRADIENTS:
        return
    advice = _knobs(scenario, replications)
    said = f"varsim: about {format_count(count)} gradients to compute{where}"
    if count > TOO_MANY_GRADIENTS:
        complain(f"{said}, {format_count(TOO_MANY_GRADIENTS)} at most: {advice}")
        raise typer.Exit(USAGE)
    complain(f"{said}, which takes long and much memory; to avoid it {advice}")


def _knobs(scenario: "Scenario", replications: int) -> str:
    """What to lower, so that there is less to do."""
    limits = ("time", "global_steps", "examples")
    knobs = [f"stop.{name}" for name in limits if getattr(scenario.stop, name) is not None]
    given = scenario.workload.batch_size > _LARGE_BATCH
    more = ["replications"] * (replications > 1) + ["workload.batch_size"] * given
    more += [
        f"strategies.{index}.initial_tokens"
        for index, strategy in enumerate(scenario.strategies)
        if (getattr(strategy, "initial_tokens", None) or 0) > _MANY_TOKENS
    ]
    return f"lower {', '.join([*knobs, *more])} or cluster.workers"
