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
_MOST_WEIGHED: Final = 60  # cases of a sweep


def weigh(scenario: "Scenario") -> None:
    """Warn of a scenario that takes very long; refuse one of which no end is to be seen."""
    from varsim.estimate import expected_gradients

    _weigh_one(expected_gradients(scenario), scenario, "", scenario.replications)


def weigh_cases(cases: "Sequence[Case]", replications: int) -> None:
    """`weigh`, of the cases of a sweep, each run so often at least."""
    from varsim.estimate import expected_gradients
    from varsim.units import format_count

    if not cases:
        return
    every = -(-len(cases) // _MOST_WEIGHED)
    some = [*cases[::every], cases[-1]]
    counts = [expected_gradients(case.scenario) for case in some]
    most = max(counts)
    scenario = some[counts.index(most)].scenario
    _weigh_one(most, scenario, f" in one run of '{scenario.strategies[0].kind}'", 1)
    total = sum(counts) * replications * len(cases) / len(counts)
    if total > _MANY_IN_ALL:
        complain(
            f"varsim: about {format_count(total)} gradients to compute in all runs, which takes "
            "hours; to avoid it lower replications, or sweep fewer points"
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
