"""What binds: which target keeps the answer from being cheaper, and what it is busy with."""

from typing import NamedTuple

from varsim.study.measure import ACTIVITIES
from varsim.study.plan.cell import Cell
from varsim.study.plan.search import Found
from varsim.study.plan.standing import Standing
from varsim.study.simulation import Run, run_one
from varsim.study.statistics import interval
from varsim.study.sweep.case import Finished
from varsim.study.why.levers import alone
from varsim.study.why.resources import Use, uses

# Runs of which the links are looked at.
_LOOKED_AT = 2


class Binding(NamedTuple):
    """What stands in the way of less.

    `nearest`: of the cells of the answer's strategy that would be cheaper, the one that comes
    closest to the targets; None where nothing cheaper is in the space. `busy`: what the answer
    uses most, busiest first. `shares`: of the workers' time, by activity, largest first.
    """

    nearest: Standing | None
    busy: list[Use]
    shares: list[tuple[str, float]]


def binding(found: Found, answer: Standing, runs: list[Finished]) -> Binding:
    """What binds an answer; `runs` are its own."""
    return Binding(_nearest(found, answer), busy(answer.cell), _shares(runs))


def closest(found: Found, label: str | None = None) -> Standing | None:
    """Of the cells that miss a target, of a strategy or of all, the one that comes closest."""
    own = [
        one
        for one in found.looked_at.values()
        if one.verdict in ("infeasible", "open") and label in (None, one.cell.label)
    ]
    return min(own, key=lambda one: (one.shortfall, one.order), default=None)


def busy(cell: Cell) -> list[Use]:
    """What was used most in the runs of a cell, busiest first."""
    scenario = alone(cell.scenario, 0)
    traces = [run_one(Run(scenario, 0, number)) for number in range(_LOOKED_AT)]
    return uses(scenario, traces)


def _nearest(found: Found, answer: Standing) -> Standing | None:
    cheaper = [
        one
        for one in found.looked_at.values()
        if one.cell.label == answer.cell.label
        and one.verdict in ("infeasible", "open")
        and not one.failure
        and one.objective.mean < answer.objective.mean
    ]
    return min(cheaper, key=lambda one: (one.shortfall, one.order), default=None)


def _shares(runs: list[Finished]) -> list[tuple[str, float]]:
    shares = [
        (name, interval([run.measured[f"share_{name}"] for run in runs]).mean)
        for name in ACTIVITIES
    ]
    return sorted(((n, s) for n, s in shares if s > 0), key=lambda pair: -pair[1])
