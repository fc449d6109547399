"""Cells: one strategy at one point of a space, and how surely its runs meet the targets."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.scenario.plan import OBJECTIVES, Machines, Question
from varsim.scenario.space import Point, Quantity
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario, is_random, steps_repeat, times_are_random
from varsim.strategies import Strategy
from varsim.study.case import Case, Finished, case_of
from varsim.study.grid import short_names
from varsim.study.lives import INTERVAL, KEPT
from varsim.study.metrics import COMPUTED, COSTS, SENT, bounded, throughput
from varsim.study.verdict import (
    NOTHING,
    Done,
    Estimate,
    Judgement,
    interval,
    judged,
    one_sided,
    paired,
)


def known(name: str, machines: Machines) -> bool:
    """Whether an objective is known without simulating anything."""
    if name == "cost_per_hour":
        return machines.prices is not None and not machines.prices.gigabyte
    return name in ("workers", "parameter_servers")


def free(name: str, machines: Machines) -> int:
    """How many of its machines an objective takes no account of."""
    prices = machines.prices if name in COSTS else None
    priced = prices is not None and prices.device_hour, prices is not None and prices.server_hour
    workers = 0 if name == "workers" or priced[0] else machines.workers
    return workers + (0 if name == "parameter_servers" or priced[1] else machines.servers)


def value(name: str, machines: Machines, measured: Mapping[str, float]) -> float:
    """An objective in one run; nan where it does not exist."""
    objective = OBJECTIVES[name]
    if name in COSTS:
        return costs(machines, measured)[name]
    return measured[name] if objective.floor is None else objective.floor(machines)


def costs(machines: Machines, measured: Mapping[str, float]) -> dict[str, float]:
    """What one run costs, by the names in COSTS; nothing without prices."""
    if machines.prices is None:
        return {}
    speed = measured.get(KEPT, measured["examples_per_s"])
    return machines.prices.costs(machines.hourly, measured[SENT], speed, measured["time_to_target"])


# What makes a difference to a cell: its name, what is simulated, what it costs, whether it fits.
Identity: TypeAlias = tuple[str, str, Machines, bool]


class Cell(NamedTuple):
    """One strategy at one point; `number` is its place in the order of the space.

    `fits`: whether it may be the answer, as it is not known to exceed the memory there is.
    """

    number: int
    label: str
    point: Point
    case: Case
    machines: Machines
    fits: bool = True

    @property
    def identity(self) -> Identity:
        """Equal for cells between which there is no difference."""
        return self.label, self.case.key, self.machines, self.fits

    @property
    def strategy(self) -> Strategy:
        """The strategy as the scenario of the point has it."""
        return self.point.scenario.strategy(self.label)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the point with this strategy alone."""
        return self.point.scenario.with_only((self.strategy,))

    def floor(self, objective: str) -> float:
        """What the objective is at least, as far as is known without a run."""
        found = OBJECTIVES[objective].floor
        return float("-inf") if found is None else found(self.machines)

    def known(self, objective: str) -> bool:
        """Whether the objective is known without a run."""
        return known(objective, self.machines)

    def values(self, objective: str, runs: Sequence[Finished]) -> list[float]:
        """The objective in every run."""
        return [value(objective, self.machines, run.measured) for run in runs]

    def hourly(self, runs: Sequence[Finished]) -> float:
        """What it costs in an hour, or without prices the number of its machines."""
        if self.machines.prices is None:
            return float(self.machines.workers + self.machines.servers)
        return interval([costs(self.machines, run.measured)["cost_per_hour"] for run in runs]).mean


def cell_of(number: int, point: Point, label: str) -> Cell:
    """The cell of a strategy at a point."""
    scenario = point.scenario
    strategy = scenario.strategy(label)
    machines = Machines.of(scenario, strategy)
    fits = scenario.memory.exceeded == "mark" or not scenario.too_large(strategy)
    return Cell(number, label, point, case_of(scenario, strategy), machines, fits)


def all_cells(question: Question) -> list[Cell]:
    """Every cell of the space, in its order; those that do not differ, too."""
    found: list[Cell] = []
    for index, place in enumerate(product(*map(range, question.sizes))):
        point = question.at(place)
        if point is not None:
            count = len(question.strategies)
            found += [
                cell_of(index * count + turn, point, label)
                for turn, label in enumerate(question.strategies)
            ]
    return found


def some_cells(question: Question, count: int) -> list[Cell]:
    """At most so many cells, two or more, from all over a space: its first and last among them.

    Those that the constraints leave out are missing; where they leave out all, the base is there.
    """
    last = question.combinations - 1
    found = (_cell_at(question, last * index // (count - 1)) for index in range(count))
    there = [cell for cell in found if cell is not None]
    return there or [cell_of(0, Point((), question.base), question.strategies[0])]


def _cell_at(question: Question, number: int) -> Cell | None:
    """The cell of this number; None where the constraints leave it out."""
    rest, turn = divmod(number, len(question.strategies))
    place: list[int] = []
    for size in reversed(question.sizes):
        rest, index = divmod(rest, size)
        place.insert(0, index)
    point = question.at(place)
    return None if point is None else cell_of(number, point, question.strategies[turn])


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """The first of each that differ."""
    found: dict[Identity, Cell] = {}
    for cell in cells:
        found.setdefault(cell.identity, cell)
    return list(found.values())


class Places:
    """Says where cells lie, in as few words as it takes."""

    def __init__(self, quantities: Sequence[Quantity], cells: Sequence[Cell]) -> None:
        self._quantities = quantities
        labels = dict.fromkeys(cell.label for cell in cells)
        self._shown = {
            label: self._named([cell for cell in cells if cell.label == label]) for label in labels
        }

    def told(self, cell: Cell) -> str:
        """`workers = 8, bandwidth = 25 Gbit/s`: what makes a difference to its strategy."""
        return ", ".join(f"{name} = {text}" for name, text in self.values(cell).items())

    def values(self, cell: Cell) -> dict[str, str]:
        """The same, value by value."""
        shown = self._shown.get(cell.label) or self._named([cell])
        return {name: cell.point.values[index].text for name, index in shown.items()}

    def full(self, cell: Cell) -> str:
        """The strategy, and where."""
        where = self.told(cell)
        return f"{cell.strategy.mention} with {where}" if where else cell.strategy.mention

    def _named(self, cells: Sequence[Cell]) -> dict[str, int]:
        """What to tell of a strategy's cells: its name, and which quantity it is."""
        label, scenario = cells[0].label, cells[0].point.scenario
        chosen = [
            index
            for index, quantity in enumerate(self._quantities)
            if quantity.concerns(label, scenario) and self._matters(index, cells)
        ]
        # A price that goes with something else follows from that.
        groups = {self._quantities[i].group for i in chosen if not _is_price(self._quantities[i])}
        chosen = [
            index
            for index in chosen
            if not (_is_price(self._quantities[index]) and self._quantities[index].group in groups)
        ]
        return dict(
            zip(short_names([_own_path(self._quantities[i]) for i in chosen]), chosen, strict=True)
        )

    def _matters(self, index: int, cells: Sequence[Cell]) -> bool:
        """Whether two cells differ that lie apart in this only; or no two lie so."""
        group = self._quantities[index].group
        seen: dict[tuple[str, ...], Identity] = {}
        compared = False
        for cell in cells:
            values = zip(self._quantities, cell.point.values, strict=True)
            others = tuple(value.text for one, value in values if one.group != group)
            compared |= others in seen
            if seen.setdefault(others, cell.identity) != cell.identity:
                return True
        return not compared


def _is_price(quantity: Quantity) -> bool:
    return quantity.place[0] == "prices"


def _own_path(quantity: Quantity) -> str:
    """A path, without the name of its strategy."""
    if quantity.place[0] != "strategies" or len(quantity.place) < 3:
        return quantity.path
    return ".".join(quantity.place[2:])


Verdict: TypeAlias = Literal["feasible", "infeasible", "open", "short"]
# Of quantities of these dimensions less is less, whatever it costs.
RATES: Final = ("rate", "flops")


class Standing(NamedTuple):
    """A cell and what its runs say; `failure`: why one of them came to nothing.

    **feasible**: every target is met with 95 % certainty (one-sided Student t). **infeasible**: one
    is missed with as much certainty, or the number does not exist. **open** otherwise: more runs
    may decide; after the last that are allowed it is no cell to rely on. **short**: its runs are
    too short to say anything, and more of them would not help.
    """

    cell: Cell
    verdict: Verdict
    objective: Estimate
    values: tuple[float, ...]  # of the objective, a value per replication
    speed: Estimate  # examples/s, of those that were kept where hosts fail
    hourly: float
    judgements: tuple[Judgement, ...]
    failure: str = ""
    traces: tuple[str, ...] = ()  # the hashes of what its runs simulated
    speeds: tuple[float, ...] = ()  # examples/s, a value per replication
    exact: bool = False  # nothing random has an effect on what is asked: one run tells all
    free: tuple[float, ...] = ()  # what the objective takes no account of: machines, then rates
    done: Done = Done()
    every: Estimate = NOTHING  # the interval between checkpoints (s), where it is chosen

    @property
    def replications(self) -> int:
        """How often it was run."""
        return len(self.values)

    @property
    def feasible(self) -> bool:
        """Whether it meets every target, with certainty."""
        return self.verdict == "feasible"

    @property
    def order(self) -> tuple[float, tuple[float, ...], float, int]:
        """What is better comes first: a lower objective, then less for nothing, then more speed."""
        return self.objective.mean, self.free, -self.speed.mean, self.cell.number

    @property
    def missed(self) -> list[Judgement]:
        """The targets that it does not surely meet."""
        return [one for one in self.judgements if not one.met]

    @property
    def shortfall(self) -> float:
        """By which share of its bound it misses the target it misses most; inf if by no number."""
        if self.failure or math.isnan(self.objective.mean):
            return math.inf
        gaps = [-margin(one) for one in self.missed]
        return max([math.inf if math.isnan(gap) else max(0.0, gap) for gap in gaps], default=0.0)


def standing(question: Question, cell: Cell, runs: Sequence[Finished]) -> Standing:
    """What these runs of a cell, replications 0, 1, ..., say."""
    failures = [run.failure for run in runs if run.failure]
    traces = tuple(run.trace for run in runs)
    if failures:
        nothing = interval([])
        return Standing(cell, "infeasible", nothing, (), nothing, math.nan, (), failures[0], traces)
    exact, scenario = is_exact(question, cell), cell.case.scenario
    values = tuple(cell.values(question.objective, runs))
    judgements = tuple(
        judged(name, bound, cell.label, [run.measured[bounded(name, scenario)] for run in runs])
        for name, bound in question.targets.bounds.items()
    )
    speeds = tuple(run.measured[throughput(scenario)] for run in runs)
    objective = interval(values, exact=exact)
    surely_not = math.isnan(objective.mean) or any(one.missed for one in judgements)
    met = all(one.met for one in judgements)
    verdict: Verdict = "infeasible" if surely_not else "feasible" if met else "open"
    done = Done.of([run.measured for run in runs], COMPUTED, scenario.strategies[0].round.steps)
    if steps_repeat(scenario, scenario.strategies[0]):
        done = done._replace(gradients=math.inf)
    if done.too_short:
        verdict = "short"
    return Standing(
        cell,
        verdict,
        objective,
        values,
        interval(speeds, exact=exact),
        cell.hourly(runs),
        judgements,
        traces=traces,
        speeds=speeds,
        exact=exact,
        free=_free(question, cell),
        done=done,
        every=interval([run.measured.get(INTERVAL, math.nan) for run in runs], exact=exact),
    )


def is_exact(question: Question, cell: Cell) -> bool:
    """Whether nothing random has an effect on what is asked of a cell."""
    scenario = cell.case.scenario
    random = times_are_random if question.loss is None else is_random
    return not random(scenario, scenario.strategies[0])


def margin(one: Judgement, *, mean: bool = False) -> float:
    """How much better than its target a strategy surely is (or on average), as a share of it.

    Below 0 where it misses it; nan where the number does not exist. Of a bound 0, the difference.
    """
    value = one.mean if mean else one.surely
    gap = value - one.bound if BOUNDS[one.target] else one.bound - value
    return gap / one.bound if one.bound else gap


def may_be_lower(one: Standing, best: Standing, tolerance: float) -> bool:
    """Whether its objective may yet turn out lower than another's by more than the tolerance.

    The same replications of both meet the same draws, so that their ratio is known better than
    either. A cell beside its own or with one that is known exactly leaves nothing open.
    """
    ours, theirs = paired(one.values, best.values, (one.exact, best.exact))
    if min(*ours, *theirs) <= 0:
        return one_sided(ours, lower=True) < one_sided(theirs, lower=False)
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    return one_sided(logs, lower=True) < math.log1p(-tolerance)


def _free(question: Question, cell: Cell) -> tuple[float, ...]:
    """What a cell has that the objective takes no account of, as far as less of it is known."""
    rates = [
        cell.point.values[index].number
        for index in question.unpriced
        if question.quantities[index].dimension in RATES
    ]
    numbers = [float(rate) for rate in rates if isinstance(rate, (int, float))]
    return float(free(question.objective, cell.machines)), *numbers
