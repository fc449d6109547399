"""Refuses what is too much to be meant: by its gradients, hosts, steps and failures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from varsim.cli.console import USAGE, complain

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.study.sweep.case import Case

# More gradients or hosts than these, somebody has to want (--yes).
MOST_GRADIENTS: Final = 1e8
MOST_HOSTS: Final = 100_000
MOST_COUNTED: Final = 60  # cases of a sweep of which gradients are counted
_FEW_STEPS: Final = 4  # in all the time that the clock counts


def refuse_absurd(scenario: "Scenario", sure: bool) -> None:
    """End the command where a step is too long, too much fails, or too much is to be computed."""
    from varsim.study.amount import gradients, hosts
    from varsim.study.beginning import begin, rates

    refuse_hopeless(scenario)
    number = gradients(scenario)
    if not sure and number > MOST_GRADIENTS and scenario.stop.time is not None:
        number = gradients(scenario, rates(begin(scenario)))
    _refuse_much(number, hosts(scenario), sure)


def refuse_hopeless(scenario: "Scenario") -> None:
    """End the command where a step is too long for the clock, or more fails than is followed."""
    from varsim.cluster.clock import END_OF_TIME
    from varsim.study.amount import hopeless, longest_step
    from varsim.units import format_seconds

    longest = longest_step(scenario)
    if longest.seconds > END_OF_TIME / 1e9 / _FEW_STEPS:
        complain(
            f"varsim: one step of {longest.strategy} takes about "
            f"{format_seconds(longest.seconds)} ({longest.why}), but the clock ends at "
            f"1,281,000 h: is the unit of {longest.field} right?"
        )
        raise typer.Exit(USAGE)
    if (found := hopeless(scenario)) is not None:
        complain(f"varsim: {found.strategy}: {found.reason}")
        raise typer.Exit(USAGE)


def refuse_absurd_cases(cases: "Sequence[Case]", replications: int, sure: bool) -> None:
    """`refuse_absurd`, of the cases of a sweep, each run so often at least."""
    from varsim.study.amount import hopeless, hosts

    some = [case.scenario for case in spread(cases, MOST_COUNTED)]
    for one in some:
        if hopeless(one) is None:  # which fails by itself, and the others are run
            refuse_hopeless(one)
    _refuse_much(gradients_of(cases, replications), max(map(hosts, some), default=0), sure)


def gradients_of(cases: "Sequence[Case]", replications: int) -> float:
    """About how many gradients cases of a sweep compute; those that fail at once, none."""
    from varsim.study.amount import gradients, hopeless

    some = [case.scenario for case in spread(cases, MOST_COUNTED)]
    number = sum(gradients(one) for one in some if hopeless(one) is None)
    return replications * number * len(cases) / max(1, len(some))


def spread(cases: "Sequence[Case]", most: int) -> "list[Case]":
    """So many of them at most, from the first to the last."""
    if len(cases) <= most:
        return list(cases)
    return [cases[round(index * (len(cases) - 1) / (most - 1))] for index in range(most)]


def told(gradients: float, command: str, about: str = "about") -> str:
    """What `check` says of them, and whether the command asks first."""
    from varsim.units import format_count

    asks = f" varsim {command} asks for --yes." if gradients > MOST_GRADIENTS else ""
    return f"Running it computes {about} {format_count(gradients)} gradients.{asks}"


def _refuse_much(gradients: float, hosts: int, sure: bool) -> None:
    from varsim.units import format_count

    if sure or (gradients <= MOST_GRADIENTS and hosts <= MOST_HOSTS):
        return
    if gradients > MOST_GRADIENTS:
        said = f"about {format_count(gradients)} gradients to compute"
        instead = "stop the runs earlier, lower replications or cluster.workers"
    else:
        said, instead = f"{hosts:,} workers and servers", "lower cluster.workers"
    complain(f"varsim: {said}, which may take hours and all memory: {instead}, or give --yes")
    raise typer.Exit(USAGE)
