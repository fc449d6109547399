"""A plan whose step time is a guess: what becomes of its answer where the guess is wrong."""

from typing import NamedTuple

from varsim.scenario.sweep.space import Point
from varsim.scenario.training import Scenario
from varsim.study.plan.binding import closest
from varsim.study.plan.cell import Cell, cell_of
from varsim.study.plan.runs import Runs
from varsim.study.plan.search import Found
from varsim.study.plan.standing import Standing, standing
from varsim.study.speeds import SPEEDS, is_guess


class Guess(NamedTuple):
    """`scenario`: whose step time is one; `answers`: the answer at SPEEDS (none without one)."""

    scenario: Scenario
    answers: dict[float, Standing]


def guess(found: Found, runs: Runs) -> Guess | None:
    """What is guessed of the answer, or of what came closest; None where nothing is."""
    best = found.answer or closest(found)
    if best is None or not is_guess(best.cell.scenario):
        return None
    cells = {speed: _at(best.cell, speed) for speed in SPEEDS} if found.answer else {}
    runs.make([(cell, best.replications) for cell in cells.values()])
    answers = {
        speed: standing(found.question, cell, runs.of(cell, best.replications))
        for speed, cell in cells.items()
    }
    return Guess(best.cell.scenario, answers)


def _at(cell: Cell, speed: float) -> Cell:
    point = cell.point
    return cell_of(
        cell.number, Point(point.values, point.scenario.with_distribution_alone(speed)), cell.label
    )
