"""A plan whose step time is a guess: what becomes of its answer where the guess is wrong."""

from typing import NamedTuple

from varsim.plan.binding import closest
from varsim.plan.cell import Cell, cell_of
from varsim.plan.runs import Runs
from varsim.plan.search import Found
from varsim.plan.standing import Standing, standing
from varsim.scenario import Scenario
from varsim.sweep.space import Point
from varsim.words.caution import SPEEDS, guessed, two_points


class Guess(NamedTuple):
    """`said`: that it is one, and why; `answers`: the answer at other speeds (none without one).

    `again`: what to type to have the plan made at the least of them.
    """

    said: str
    answers: dict[float, Standing]
    again: str


def guess(found: Found, runs: Runs) -> Guess | None:
    """What is guessed of the answer, or of what came closest; None where nothing is."""
    best = found.answer or closest(found)
    said = "" if best is None else guessed(best.cell.scenario)
    if best is None or not said:
        return None
    cells = {speed: _at(best.cell, speed) for speed in SPEEDS} if found.answer else {}
    runs.make([(cell, best.replications) for cell in cells.values()])
    answers = {
        speed: standing(found.question, cell, runs.of(cell, best.replications))
        for speed, cell in cells.items()
    }
    if answers:
        said += f" {two_points(best.cell.scenario)}"
    return Guess(said, answers, _again(best.cell.scenario, min(SPEEDS)))


def _at(cell: Cell, speed: float) -> Cell:
    point = cell.point
    return cell_of(
        cell.number, Point(point.values, point.scenario.with_law_alone(speed)), cell.label
    )


def _again(scenario: Scenario, speed: float) -> str:
    """The device at another speed, as an option of the command line."""
    device, workload = scenario.cluster.device, scenario.workload
    assert device is not None
    flops = workload.flops_per_example() * workload.batch_size
    share = speed * device.share * flops / device.rate / device.step_time(workload).seconds
    described = device.model_copy(update={"efficiency": float(f"{share:.3g}")})
    keys = described.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    told = ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}"
        for key, value in keys.items()
    )
    return f"--set 'cluster.device={{{told}}}'"
