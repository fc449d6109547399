"""Refuses what is too much to be meant: by its gradients, hosts, steps and failures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from varsim.cli.console import USAGE, complain

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.study.sweep.case import Case

MOST_HOSTS: Final = 100_000  # more, somebody has to want (--yes)
_FEW_STEPS: Final = 4  # in all the time that the clock counts


def refuse_absurd(scenario: "Scenario", sure: bool) -> None:
    """End the command where a step is too long, too much fails, or too much is to be computed."""
    from varsim.study.amount import MOST_GRADIENTS, gradients, hosts
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
    from varsim.study.amount import gradients_of, hopeless, hosts, spread

    scenarios = [case.scenario for case in cases]
    some = spread(scenarios)
    for one in some:
        if hopeless(one) is None:  # which fails by itself, and the others are run
            refuse_hopeless(one)
    _refuse_much(gradients_of(scenarios, replications), max(map(hosts, some), default=0), sure)


def _refuse_much(gradients: float, hosts: int, sure: bool) -> None:
    from varsim.study.amount import MOST_GRADIENTS
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
