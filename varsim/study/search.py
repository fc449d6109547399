"""The search for the best cell, and for cells of a space that is too large to look at all of it.

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

A tree-structured Parzen estimator (Bergstra et al., 2011, in optuna) proposes a batch of points;
all of them are run before it is told, so that it proposes the same whatever runs them. Targets
are its constraints. Then the neighbours of the best cell of every strategy are looked at, one step
along each axis, as long as that helps.
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.scenario.plan import Question
from varsim.scenario.space import Number, Point
from varsim.study.cells import (
    Cell,
    Standing,
    cell_of,
    distinct,
    is_exact,
    margin,
    may_be_lower,
    standing,
)
from varsim.study.runs import Runs
from varsim.study.verdict import Rival, beside

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial


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


PROPOSED: Final = 16
_STARTUP: Final = 64  # points at random before anything is concluded
_MOST_CLIMBS: Final = 50
# Of asking for points that the constraints of the space leave out, so often as for others.
_PATIENCE: Final = 5
# The index of a value on each axis, and the strategy's.
Place: TypeAlias = tuple[int, ...]


def chosen(
    question: Question, runs: Runs, known: dict[int, Cell], too_large: list[Cell]
) -> list[Cell]:
    """About `question.trials` cells, all of them run a few times; `known` is told of each.

    `too_large` is told of those that were proposed, but do not fit into memory: they are not run.
    Raises OSError where optuna is not installed.
    """
    explorer = _Explorer(question, runs, known, too_large)
    explorer.propose()
    explorer.climb()
    return [known[number] for number in sorted(known)]


class _Explorer:
    """What was tried so far, and what to try next."""

    def __init__(
        self, question: Question, runs: Runs, known: dict[int, Cell], too_large: list[Cell]
    ) -> None:
        self._question, self._runs, self._known = question, runs, known
        self._too_large = too_large
        self._tried: dict[Place, Standing | None] = {}  # None: the constraints leave it out
        self._ordered = _ordered(question)

    def propose(self) -> None:
        """Try what TPE proposes, batch by batch."""
        study = self._study()
        asked, most = 0, self._question.trials
        while self._count() < most and asked < _PATIENCE * most:
            trials = [self._ask(study) for _ in range(PROPOSED)]
            asked += len(trials)
            self._try(place for _, place in trials)
            for trial, place in trials:
                self._tell(study, trial, self._tried[place])

    def climb(self) -> None:
        """Try the neighbours of every strategy's best cell, until none is better."""
        seen: set[Place] = set()
        for _ in range(_MOST_CLIMBS):
            tops = {place for place in self._tops() if place not in seen}
            if not tops:
                return
            seen |= tops
            self._try(near for top in sorted(tops) for near in self._neighbours(top))

    def _count(self) -> int:
        return sum(one is not None for one in self._tried.values())

    def _try(self, places: Iterable[Place]) -> None:
        """Run the cells of these places that were not tried before."""
        fresh = [place for place in dict.fromkeys(places) if place not in self._tried]
        cells: list[tuple[Place, Cell]] = []
        for place in fresh:
            cell = self._cell(place)
            self._tried[place] = None
            if cell is not None:
                self._known[cell.number] = cell
                cells.append((place, cell))
        count = self._question.first_replications
        self._runs.make((cell.case, count) for _, cell in cells)
        for place, cell in cells:
            self._tried[place] = standing(self._question, cell, self._runs.of(cell.case))
        top = min((one for one in self._tried.values() if one), key=_order, default=None)
        if top is not None and top.feasible:
            self._runs.best = (str(top.cell.number), top.objective.mean)

    def _cell(self, place: Place) -> Cell | None:
        *indexes, turn = place
        point = self._question.at(indexes)
        if point is None:
            return None
        number = 0
        for index, size in zip(indexes, self._question.sizes, strict=True):
            number = number * size + index
        count = len(self._question.strategies)
        cell = cell_of(number * count + turn, point, self._question.strategies[turn])
        if not cell.fits:
            self._too_large.append(cell)
            return None
        return cell

    def _tops(self) -> list[Place]:
        """The place of the best cell of each strategy; where none is feasible, the closest."""
        tops: dict[int, tuple[tuple[float, ...], Place]] = {}
        for place, one in self._tried.items():
            if one is None:
                continue
            rank = (*_order(one), *map(float, place))
            if place[-1] not in tops or rank < tops[place[-1]][0]:
                tops[place[-1]] = (rank, place)
        return [place for _, place in tops.values()]

    def _neighbours(self, place: Place) -> list[Place]:
        """A step to either side on an axis of numbers; all other values of any other axis."""
        found = []
        for axis, size in enumerate(self._question.sizes):
            here = place[axis]
            steps = (here - 1, here + 1) if self._ordered[axis] else range(size)
            found += [
                (*place[:axis], index, *place[axis + 1 :])
                for index in steps
                if 0 <= index < size and index != here
            ]
        return found

    def _study(self) -> "Study":
        try:
            import optuna
        except ImportError:
            raise OSError(
                f"{self._question.combinations:,} combinations are too many to look at all of "
                "them; install optuna, which chooses some: pip install 'varsim[plan]'"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            seed=self._question.base.seed % 2**32,
            n_startup_trials=min(_STARTUP, self._question.trials // 4),
            multivariate=True,
        )
        return optuna.create_study(sampler=sampler)

    def _ask(self, study: "Study") -> "tuple[Trial, Place]":
        from optuna.distributions import (
            BaseDistribution,
            CategoricalDistribution,
            IntDistribution,
        )

        fixed: dict[str, BaseDistribution] = {}
        for axis, size in enumerate(self._question.sizes):
            fixed[str(axis)] = (
                IntDistribution(0, size - 1)
                if self._ordered[axis]
                else CategoricalDistribution(tuple(range(size)))
            )
        fixed["strategy"] = CategoricalDistribution(tuple(range(len(self._question.strategies))))
        with _silently():
            trial = study.ask(fixed)
        return trial, tuple(int(trial.params[name]) for name in fixed)

    def _tell(self, study: "Study", trial: "Trial", one: Standing | None) -> None:
        """What came of a trial: how far it is from every target, and the objective."""
        lost = one is None or bool(one.failure) or math.isnan(one.objective.mean)
        with _silently():
            trial.set_constraint("space", 1.0 if lost else 0.0)
            for judgement in () if one is None else one.judgements:
                gap = -margin(judgement)
                trial.set_constraint(judgement.target, 1.0 if math.isnan(gap) else gap)
            study.tell(trial, 0.0 if one is None or lost else one.objective.mean)


def _order(one: Standing) -> tuple[float, float, float]:
    """The best first: feasible by objective, then the others by how far they are off."""
    if one.feasible:
        return 0.0, one.objective.mean, -one.speed.mean
    return 1.0, one.shortfall, math.inf if one.failure else one.objective.mean


def _ordered(question: Question) -> list[bool]:
    """Of each axis, whether its values are numbers that rise or fall."""
    found = []
    for group in range(len(question.sizes)):
        index = next(i for i, one in enumerate(question.quantities) if one.group == group)
        found.append(_monotone(question.numbers[index]))
    return found


def _monotone(values: Sequence[Number]) -> bool:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) == len(values) and numbers in (sorted(numbers), sorted(numbers)[::-1])


@contextmanager
def _silently() -> Iterator[None]:
    """What optuna says of its own features is nothing to a planner."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
