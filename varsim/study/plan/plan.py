"""A plan: what came of a question, and the search that finds it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from varsim.scenario.fault import Fault, ScenarioError, Source
from varsim.scenario.plan import Question
from varsim.scenario.training import Scenario
from varsim.study.plan.cell import Cell, Places, all_cells, distinct, some_cells
from varsim.study.plan.findings import Binding, Guess, binding, guess
from varsim.study.plan.search import Found, Search
from varsim.study.plan.standing import Standing
from varsim.study.shown import Shown
from varsim.study.sweep.campaign import Runs
from varsim.study.sweep.case import Case, Finished

_LONGEST_NAME: Final = 64


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """What came of a plan; `runs` are those of the answer, `made` counts all.

    `too_large`: the cells that do not fit into memory, and were not run.
    """

    product: ClassVar = "plan"

    found: Found
    places: Places
    runs: list[Finished]
    made: int
    binding: Binding | None
    guess: Guess | None = None
    too_large: tuple[Cell, ...] = ()

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.found.question

    @property
    def scenario(self) -> Scenario | None:
        """The answer as a scenario that gives the same numbers; None where there is none."""
        best = self.found.answer
        return None if best is None else answer_scenario(self.question.name, best)

    @property
    def sha256(self) -> str:
        """The hash of what was simulated in each cell: the same on any number of processes."""
        simulated = [
            [
                [value.number for value in one.cell.point.values],
                *(one.cell.label, bool(one.failure), one.traces),
            ]
            for _, one in sorted(self.found.looked_at.items())
        ]
        return hashlib.sha256(json.dumps(simulated).encode()).hexdigest()


class Planning:
    """The making of a plan: every cell of its space, or those that are chosen from a large one."""

    def __init__(self, question: Question) -> None:
        self.question = question
        every = all_cells(question) if question.enumerated else []
        self.cells = [cell for cell in every if cell.fits]
        self.too_large = [cell for cell in every if not cell.fits]
        if every and not self.cells:
            raise ScenarioError([_none_fits(question, self.too_large)])
        self._known = {cell.number: cell for cell in self.cells}
        self._places = Places(question.quantities, self.cells)

    def cases(self, most: int) -> list[Case]:
        """What is to be run at most, once each; of too many cells as many as are tried.

        For those that are tried stand some, `most` at most, from all over the space in turn.
        """
        if self.question.enumerated:
            return [cell.case for cell in distinct(self.cells)]
        some = some_cells(self.question, min(most, self.question.trials))
        each = -(-self.question.trials // len(some))
        return [cell.case for cell in some for _ in range(each)]

    def where(self, number: int) -> str:
        """Where the cell of a number lies, in full."""
        return self._places.full(self._known[number])

    def run(self, runs: Runs, exhaustive: bool = False) -> Plan:
        """Search, by the runs that are there and those that it takes; `exhaustive`: all cells."""
        cells = self.cells
        if not self.question.enumerated:
            from varsim.study.plan.optimizer import chosen

            cells = chosen(self.question, runs, self._known, self.too_large)
        # Of chosen cells all have been run already.
        everything = exhaustive or not self.question.enumerated
        found = Search(self.question, cells, runs, exhaustive=everything).run()
        doubtful = guess(found, runs)
        best = found.answer
        own = [] if best is None else runs.of(best.cell.case, best.replications)
        bound = None if best is None else binding(found, best, own)
        places = Places(self.question.quantities, cells)
        too_large = tuple(self.too_large)
        return Plan(found, places, own, runs.status.done, bound, doubtful, too_large)


def _none_fits(question: Question, cells: Sequence[Cell]) -> Fault:
    """That there is nothing to choose from, and what the closest would need."""

    def excess(cell: Cell) -> float:
        found = cell.point.scenario.misfits(cell.strategy)
        return max(misfit.needs / misfit.has for misfit in found)

    closest = min(cells, key=excess)
    why = closest.point.scenario.refusal(closest.strategy)
    return Fault(
        Source(question.name), 0, 0, f"no configuration of the space fits into memory: {why}"
    )


def answer_scenario(name: str, best: Standing) -> Scenario:
    """The scenario of a cell, with as many replications as it was run, under a name of its own."""
    changes = {"name": f"{name[: _LONGEST_NAME - 5]}-plan", "replications": best.replications}
    return Scenario.model_validate({**dict(best.cell.scenario), **changes})
