"""A plan: the answer to a question, and what is found of it besides.

Which target keeps it from being cheaper, and what it is busy with; what becomes of it where its
step time is a guess, and wrong; what decides it and costs nothing, as nobody said what it costs.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from varsim.scenario.fault import Fault, ScenarioError, Source, known
from varsim.scenario.plan import Question
from varsim.scenario.space import Point, Quantity
from varsim.scenario.training import Scenario
from varsim.study.case import Case, Finished
from varsim.study.cells import (
    RATES,
    Cell,
    Places,
    Standing,
    all_cells,
    cell_of,
    distinct,
    some_cells,
    standing,
)
from varsim.study.metrics import ACTIVITIES, COSTS, throughput
from varsim.study.runs import Runs
from varsim.study.search import Found, Search
from varsim.study.shown import Shown
from varsim.study.simulation import Run, run_one
from varsim.study.verdict import Ranking, front, interval, ranked, surely_more
from varsim.study.why.levers import alone
from varsim.study.why.resources import Use, uses

if TYPE_CHECKING:
    from pandas import DataFrame


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
    return Binding(_nearest(found, answer), busy(answer.cell, len(runs)), _shares(runs))


def closest(found: Found, label: str | None = None) -> Standing | None:
    """Of the cells that miss a target, of a strategy or of all, the one that comes closest."""
    own = [
        one
        for one in found.looked_at.values()
        if one.verdict in ("infeasible", "open") and label in (None, one.cell.label)
    ]
    return min(own, key=lambda one: (one.shortfall, one.order), default=None)


def busy(cell: Cell, replications: int) -> list[Use]:
    """What was used most in so many runs of a cell, busiest first."""
    scenario = alone(cell.scenario, 0)
    traces = [run_one(Run(scenario, 0, number)) for number in range(replications)]
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


# A plan whose step time is a guess is made at these multiples of its speed, too.
SPEEDS: Final = (0.5, 1.5)


class Guess(NamedTuple):
    """`scenario`: whose step time is one; `answers`: the answer at SPEEDS (none without one)."""

    scenario: Scenario
    answers: dict[float, Standing]


def guess(found: Found, runs: Runs) -> Guess | None:
    """What is guessed of the answer, or of what came closest; None where nothing is."""
    best = found.answer or closest(found)
    if best is None:
        return None
    scenario = best.cell.scenario
    if not scenario.cluster.doubt(scenario.workload):
        return None
    cells = {speed: _at(best.cell, speed) for speed in SPEEDS} if found.answer else {}
    runs.make((cell.case, best.replications) for cell in cells.values())
    answers = {
        speed: standing(found.question, cell, runs.of(cell.case, best.replications))
        for speed, cell in cells.items()
    }
    return Guess(scenario, answers)


def _at(cell: Cell, speed: float) -> Cell:
    point = cell.point
    return cell_of(
        cell.number, Point(point.values, point.scenario.with_distribution_alone(speed)), cell.label
    )


_WRITE: Final = ("checkpoint", "write")  # the longer, the less is bought


class Free(NamedTuple):
    """Something without a price: what it is called, what the answer has of it, how to price it."""

    name: str
    has: str
    remedy: str


def unpriced(found: Found) -> list[Free]:
    """What a plan for the least cost could choose, and took for nothing."""
    best, question = found.answer, found.question
    prices = question.base.prices
    if best is None or prices is None or question.objective not in COSTS:
        return []
    own = best.cell.machines
    others = [one.cell for one in found.looked_at.values() if one.cell.number != best.cell.number]
    free = []
    if not prices.device_hour and any(one.machines.workers < own.workers for one in others):
        free.append(Free("workers", f"{own.workers}", "give prices.device_hour"))
    if not prices.server_hour and any(one.machines.servers < own.servers for one in others):
        free.append(Free("parameter servers", f"{own.servers}", "give prices.server_hour"))
    for index in question.unpriced:
        quantity = question.quantities[index]
        own_number, of_others = _number(best.cell, index), [_number(one, index) for one in others]
        if quantity.dimension in RATES and own_number <= min(of_others, default=own_number):
            continue
        if quantity.place == _WRITE and own_number >= max(of_others, default=own_number):
            continue
        if any(_apart_in(quantity, one, best.cell, question.quantities) for one in others):
            price = "server_hour" if quantity.place[1] == "server_update" else "device_hour"
            has = best.cell.point.values[index].text
            free.append(Free(quantity.path, has, f"zip it with prices.{price}"))
    return free


def _number(cell: Cell, index: int) -> float:
    """A quantity with a unit, at a cell."""
    number = cell.point.values[index].number
    return float(number) if isinstance(number, (int, float)) else 0.0


def _apart_in(quantity: Quantity, one: Cell, other: Cell, every: Sequence[Quantity]) -> bool:
    """Whether two cells of a strategy differ in a quantity, and in nothing of another group."""
    pairs = zip(every, one.point.values, other.point.values, strict=True)
    groups = {own.group for own, mine, theirs in pairs if mine.text != theirs.text}
    return one.label == other.label and groups == {quantity.group}


MOST_ROWS: Final = 12


class Trade(NamedTuple):
    """Cells by cost and throughput: `front` are those surely faster than the cheaper ones of it.

    On the front are only cells that meet the targets but for throughput itself, which is traded.
    `by_means`: those of them whose mean is higher than that of all that cost less.
    """

    every: list[Standing]
    front: list[Standing]
    by_means: list[Standing]

    @property
    def unsure(self) -> list[Standing]:
        """Those that are faster than all that cost less by their means alone."""
        return [one for one in self.by_means if one not in self.front]


def trade(found: Found) -> Trade:
    """All cells that were run, cheapest first, and the front of them."""
    every = [one for one in found.looked_at.values() if one.hourly == one.hourly]
    every.sort(key=lambda one: (one.hourly, -one.speed.mean, one.cell.number))
    fine = [
        one
        for one in every
        if one.speed.mean > 0
        and one.verdict != "short"
        and all(miss.target == "throughput" for miss in one.missed)
    ]

    def faster(index: int, than: int) -> bool:
        one, other = fine[index], fine[than]
        return surely_more(
            (one.speeds, one.exact),
            (other.speeds, other.exact),
            comparisons=len(fine) - 1,
            equal_within=found.question.base.report.equal_within,
        )

    pairs = [(one.hourly, one.speed.mean) for one in fine]
    sure, by_means = front(pairs, faster), front(pairs)
    return Trade(every, [fine[index] for index in sure], [fine[index] for index in by_means])


def shown(front: list[Standing], answer: Standing | None) -> list[Standing]:
    """At most MOST_ROWS of a front, those around the answer first of all."""
    if len(front) <= MOST_ROWS:
        return front
    place = 0
    if answer is not None:
        place = sum(one.hourly <= answer.hourly for one in front)
    start = max(0, min(place - MOST_ROWS // 2, len(front) - MOST_ROWS))
    return front[start : start + MOST_ROWS]


_LONGEST_NAME: Final = 64


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """What came of a plan; `made`: how many runs were.

    `too_large`: the cells that do not fit into memory, and were not run.
    """

    product: ClassVar = "plan"

    found: Found
    places: Places
    made: int
    binding: Binding | None
    guess: Guess | None = None
    too_large: tuple[Cell, ...] = ()

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.found.question

    @cached_property
    def runs(self) -> "DataFrame":
        """One row per cell that was run and replication: what is minimized, and the throughput."""
        from pandas import DataFrame

        asked = self.question
        swept = [quantity.column for quantity in asked.quantities]
        return DataFrame(
            [
                (number, one.cell.label, *(value.number for value in one.cell.point.values), *each)
                for number, one in sorted(self.found.looked_at.items())
                for each in zip(range(one.replications), one.values, one.speeds, strict=True)
            ],
            columns=[
                *("cell", "strategy", *swept, "replication"),
                *(asked.objective, throughput(asked.base)),
            ],
        )

    def ranking(self, metric: str) -> Ranking[int] | None:
        """The cells that meet all targets, by their numbers; None where none does.

        `metric`: what is minimized, or the throughput (`examples_per_s`, or those that are kept).
        """
        minimized, speed = self.question.objective, throughput(self.question.base)
        known("metric", metric, (minimized, speed))
        fine = {one.cell.number: one for one in self.found.ranking()}
        return ranked(
            {n: one.speeds if metric == speed else one.values for n, one in fine.items()},
            equal_within=self.question.base.report.equal_within,
            highest=metric == speed,
            exact=lambda number: fine[number].exact,
        )

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
            from varsim.study.search import chosen

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
        return Plan(found, places, runs.status.done, bound, doubtful, too_large)


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
