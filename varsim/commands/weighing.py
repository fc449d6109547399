"""How much work a command is asked for: a lot of it is told of, what has no end is refused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from varsim.commands.console import USAGE, complain

if TYPE_CHECKING:
    from varsim.scenario import Scenario
    from varsim.sweep.case import Case

# A run computes some hundred thousand gradients a second, and remembers each of them.
MANY_GRADIENTS, TOO_MANY_GRADIENTS = 20e6, 1e9
# A sweep forgets a run's gradients when that has ended: of so many in all it takes hours.
_MANY_IN_ALL: Final = 1e9
MOST_WEIGHED: Final = 60  # cases of a sweep
_FEW_STEPS: Final = 4  # in all the time that the clock counts


def weigh(scenario: "Scenario") -> None:
    """Warn of a scenario that takes very long; refuse one of which no end is to be seen."""
    from varsim.estimate import expected_gradients

    weigh_step(scenario)
    _weigh_one(expected_gradients(scenario), scenario, "", scenario.replications)


def weigh_step(scenario: "Scenario") -> None:
    """Refuse a scenario of which one step is longer than the clock can make many of."""
    from varsim.cluster.clock import END_OF_TIME
    from varsim.estimate import longest_step
    from varsim.units import format_seconds

    longest, mean = longest_step(scenario), scenario.cluster.law(scenario.workload).expectation()
    if longest.step_time <= END_OF_TIME / 1e9 / _FEW_STEPS:
        return
    what = "cluster.compute" if mean > longest.step_time / 2 else "cluster.network.bandwidth"
    complain(
        f"varsim: one step of '{longest.label}' takes about {format_seconds(longest.step_time)} "
        f"({longest.why}), but the clock counts 1,281,000 h: is the unit of {what} right?"
    )
    raise typer.Exit(USAGE)


def weigh_cases(
    cases: "Sequence[Case]",
    replications: int,
    runs: str = "all runs",
    fewer: str = "sweep fewer points",
) -> None:
    """`weigh`, of the cases of a sweep, each run so often at least.

    `runs` and `fewer`: what runs these are, and how to have fewer, in words.
    """
    from varsim.estimate import expected_gradients
    from varsim.units import format_count

    if not cases:
        return
    every = -(-len(cases) // MOST_WEIGHED)
    some = [*cases[::every], cases[-1]]
    for case in some:
        weigh_step(case.scenario)
    counts = [expected_gradients(case.scenario) for case in some]
    most = max(counts)
    scenario = some[counts.index(most)].scenario
    _weigh_one(most, scenario, f" in one run of '{scenario.strategies[0].kind}'", 1)
    total = sum(counts) * replications * len(cases) / len(counts)
    if total > _MANY_IN_ALL:
        complain(
            f"varsim: about {format_count(total)} gradients to compute in {runs}, which takes "
            f"hours; to avoid it lower replications, or {fewer}"
        )


def _weigh_one(count: float, scenario: "Scenario", where: str, replications: int) -> None:
    from varsim.units import format_count

    if count <= MANY_GRADIENTS:
        return
    limits = ("time", "global_steps", "examples")
    knobs = [f"stop.{name}" for name in limits if getattr(scenario.stop, name) is not None]
    advice = ", ".join([*knobs, *["replications"] * (replications > 1)])
    advice = f"lower {advice} or cluster.workers"
    said = f"varsim: about {format_count(count)} gradients to compute{where}"
    if count > TOO_MANY_GRADIENTS:
        complain(f"{said}, {format_count(TOO_MANY_GRADIENTS)} at most: {advice}")
        raise typer.Exit(USAGE)
    complain(f"{said}, which takes long and much memory; to avoid it {advice}")
