"""How modes compare by the time of a step: the one verdict, and by how much, in words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from varsim.report.words.phrases import times
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.study.statistics import Estimate, interval
from varsim.study.verdict import Ranking, Rival, lead_of, ranked, verdict

if TYPE_CHECKING:
    from varsim.study.variables import VariablesResult


def ranking_of(result: "VariablesResult") -> Ranking[str]:
    """The modes by their time per step.

    By differences, as crossovers are where they are 0: what both modes spend alike counts in
    neither.
    """
    found = ranked(
        {mode: result.values(mode, "time_per_step") for mode in result.modes},
        equal_within=EQUAL_WITHIN,
        exact=lambda mode: not result.scenario.times_are_random,
        additive=True,
    )
    assert found is not None, "every step takes a time"
    return found


def against_first(result: "VariablesResult", mode: str) -> tuple[Estimate, str]:
    """How many times as long as in the first mode a step takes, and the verdict on that."""
    lead = lead_of(
        *(result.values(one, "time_per_step") for one in (mode, result.modes[0])),
        comparisons=len(result.modes) - 1,
        exact=not result.scenario.times_are_random,
        additive=True,
    )
    return lead, verdict(lead, "longer", "shorter", EQUAL_WITHIN)


def longer(result: "VariablesResult", ranking: Ranking[str], rival: Rival[str]) -> str:
    """`takes 2.20 times as long`; where the best takes no time, how long it takes."""
    if rival.lead.note:
        return f"takes {step_time(result.values(rival.key, 'time_per_step'))}"
    return f"takes {times(rival.lead, ranking.comparisons)} as long"


def step_time(values: Sequence[float]) -> str:
    """The mean time of a step with its interval."""
    from varsim.report.words.phrases import time

    found = interval(values)
    return time(found) if found.mean else "no time"
