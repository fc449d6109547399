"""The search: cells in order of their price, few runs each, more where it is close.

1. Each strategy's cells come in the order of what is known of the objective before a run: the
   price of the machines, say. A batch of them is run a few times each.
2. Cells that may be better than the best feasible one by more than the tolerance, and are not
   decided, are run more often, twice as often each time; feasible ones of such a kind, too.
3. A strategy is done when what is left of it costs more than its best feasible cell for certain:
   that needs no simulation. Where nothing is known beforehand all cells are run.
4. The best cell of all is run again with fresh seeds: it was chosen for its numbers, which may be
   good by luck. If it does not meet the targets again it is no answer, and the search goes on.

Batches are of a fixed size, and what follows is decided when all runs of one are there: the
same runs are made in any number of processes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from varsim.scenario.plan import Question
from varsim.scenario.sweep.space import Point
from varsim.study.plan.cell import Cell, cell_of, distinct
from varsim.study.plan.standing import Standing, is_exact, may_be_lower, standing
from varsim.study.sweep.campaign import Runs
from varsim.study.verdict import Rival, beside

BATCH: Final = 16
# The fresh runs of an answer, at least; more where its own were more.
FRESH: Final = 12


@dataclass
class Found:
    """What came of a search.

    `looked_at`: the standing of every cell that was run, by its number; `distinct`: how many cells
    of the space differ, of `combinations`. `check`: the answer with fresh seeds. `rejected`: what
    met the targets at first, but not with fresh seeds, each with that.
    """

    question: Question
    combinations: int
    distinct: int
    looked_at: dict[int, Standing] = field(default_factory=dict)
    answer: Standing | None = None
    check: Standing | None = None
    rejected: list[tuple[Standing, Standing]] = field(default_factory=list)

    def ranking(self, label: str | None = None) -> list[Standing]:
        """The feasible cells, of a strategy or of all, best first; without what was rejected."""
        out = {one.cell.number for one, _ in self.rejected}
        fine = [
            one
            for number, one in self.looked_at.items()
            if one.feasible and number not in out and label in (None, one.cell.label)
        ]
        return sorted(fine, key=lambda one: one.order)

    @cached_property
    def compared(self) -> dict[int, Rival[int]]:
        """The cells that meet the targets, by number, each beside the answer (which is missing)."""
        fine = {one.cell.number: one for one in self.ranking()}
        best = self.answer
        if best is None:
            return {}
        return {
            rival.key: rival
            for rival in beside(
                best.cell.number,
                {number: one.values for number, one in fine.items()},
                equal_within=self.question.base.report.equal_within,
                exact=lambda number: fine[number].exact,
            )
        }

    @property
    def runner_up(self) -> Standing | None:
        """The best cell besides the answer."""
        others = [one for one in self.ranking() if one != self.answer]
        return others[0] if others else None


class Search:
    """The search over some cells; `exhaustive`: all of them are run, whatever their price."""

    def __init__(
        self, question: Question, cells: Sequence[Cell], runs: Runs, *, exhaustive: bool = False
    ) -> None:
        self._question, self._runs, self._exhaustive = question, runs, exhaustive
        own = distinct(cells)
        self._found = Found(question, len(cells), len(own))
        self._waiting: dict[str, list[Cell]] = {label: [] for label in question.strategies}
        for cell in sorted(own, key=lambda cell: (cell.floor(question.objective), cell.number)):
            self._waiting[cell.label].append(cell)
        # How many feasible cells of a strategy are looked for.
        self._wanted = dict.fromkeys(question.strategies, 1)
        self._checked: dict[int, Standing] = {}

    def run(self) -> Found:
        """Search until the answer stands, or there is none."""
        found = self._found
        while True:
            self._decide()
            while batch := self._next():
                self._screen(batch)
                self._decide()
            best = next(iter(found.ranking()), None)
            if best is None:
                return found
            if self._wanted[best.cell.label] == 1:
                self._wanted[best.cell.label] = 2  # of the answer's strategy the runner-up, too
                continue
            if best.exact:  # other seeds would give the same numbers
                found.answer = best
                return found
            check = self._check(best)
            if check.feasible:
                found.answer, found.check = best, check
                return found
            found.rejected.append((best, check))

    def _next(self) -> list[Cell]:
        """The next cells to be looked at, of the strategies in turn; none if that is all."""
        batch: list[Cell] = []
        open_ones = [label for label in self._waiting if self._worth(label)]
        while open_ones and len(batch) < BATCH:
            for label in list(open_ones):
                batch.append(self._waiting[label].pop(0))
                if not self._worth(label):
                    open_ones.remove(label)
        return batch

    def _worth(self, label: str) -> bool:
        """Whether the next cell of a strategy may be one that is looked for."""
        waiting = self._waiting[label]
        if not waiting:
            return False
        if self._exhaustive:
            return True
        floor = waiting[0].floor(self._question.objective)
        ranking = self._found.ranking(label)
        if len(ranking) >= self._wanted[label]:
            return floor <= ranking[self._wanted[label] - 1].objective.mean
        if self._wanted[label] == 2:  # nobody is the runner-up who is beaten by another strategy
            first, others = ranking[0] if ranking else None, self._found.ranking()
            rivals = [one for one in others if one is not first and one.cell.label != label]
            return not rivals or first is None or floor <= rivals[0].objective.mean
        return True

    def _screen(self, cells: Iterable[Cell]) -> None:
        cells = list(cells)
        count = self._question.first_replications
        self._runs.make(
            (cell.case, 1 if is_exact(self._question, cell) else count) for cell in cells
        )
        self._enter(cells)

    def _decide(self) -> None:
        """Run what is close more often, until it is not, or often enough."""
        most = self._question.most_replications
        while True:
            wanted: dict[int, tuple[Cell, int]] = {}
            for label in self._waiting:
                for one in self._close(label):
                    more = min(most, 2 * one.replications)
                    wanted[one.cell.number] = (one.cell, more)
            if not wanted:
                return
            self._runs.make((cell.case, count) for cell, count in wanted.values())
            self._enter([cell for cell, _ in wanted.values()])

    def _close(self, label: str) -> list[Standing]:
        """The cells of a strategy of which more runs are needed."""
        question = self._question
        ranking = self._found.ranking(label)
        wanted = self._wanted[label]
        best = ranking[wanted - 1] if len(ranking) >= wanted else None
        own = [one for one in self._found.looked_at.values() if one.cell.label == label]
        close = [one for one in own if one.verdict == "open" and self._may_beat(one, best)]
        if ranking and not ranking[0].cell.known(question.objective):
            first = ranking[0]
            rivals = [one for one in ranking[1:] if may_be_lower(one, first, question.tolerance)]
            close += [*rivals, first] if rivals else []
        most = question.most_replications
        return [one for one in close if one.replications < most and not one.exact]

    def _may_beat(self, one: Standing, best: Standing | None) -> bool:
        tolerance = self._question.tolerance
        if best is None:
            return True
        if one.cell.known(self._question.objective):
            as_much = one.objective.mean == best.objective.mean and one.free < best.free
            return as_much or one.objective.mean < (1 - tolerance) * best.objective.mean
        return may_be_lower(one, best, tolerance)

    def _enter(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            found = standing(self._question, cell, self._runs.of(cell.case))
            self._found.looked_at[cell.number] = found
        best = next(iter(self._found.ranking()), None)
        if best is not None:
            self._runs.best = (str(best.cell.number), best.objective.mean)

    def _check(self, best: Standing) -> Standing:
        """The same cell with fresh seeds."""
        question = self._question
        cell = fresh(best.cell)
        count = max(FRESH, best.replications)
        self._runs.make([(cell.case, count)])
        return standing(question, cell, self._runs.of(cell.case, count))


def fresh(cell: Cell) -> Cell:
    """The same cell, with draws that nobody has seen."""
    seed = (cell.point.scenario.seed + 1) % 2**63
    scenario = cell.point.scenario.model_copy(update={"seed": seed})
    return cell_of(cell.number, Point(cell.point.values, scenario), cell.label)
