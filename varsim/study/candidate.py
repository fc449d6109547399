"""Candidates: one strategy at one point of a space, what came of its runs, and where it lies."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias, TypeVar

from varsim.scenario.plan import OBJECTIVES, Machines
from varsim.scenario.space import Point, Quantity
from varsim.scenario.training import (
    AnyScenario,
    Scenario,
    is_random,
    steps_repeat,
    times_are_random,
)
from varsim.strategies import Strategy
from varsim.study.case import Case, Finished, case_of
from varsim.study.lives import KEPT
from varsim.study.metrics import COMPUTED, COSTS, SENT, TABLE
from varsim.study.verdict import NOTHING, Done, Estimate, front, interval, surely_more

# Last words of paths that say nothing without the one before.
_OF_MANY: Final = ("kind", "mean", "shape", "value")

# What makes a difference to a candidate: its name, what is simulated, its machines, whether it
# fits into memory.
Identity: TypeAlias = tuple[str, str, Machines, bool]


@dataclass(frozen=True)
class Candidate:
    """One strategy at one point; `number` is its place in the order of the space.

    `at`: the index of its point, where all points are listed.
    """

    number: int
    label: str
    point: Point
    case: Case
    at: int = 0

    @classmethod
    def of(cls, number: int, point: Point, label: str, at: int = 0) -> "Candidate":
        """The strategy of this label at a point."""
        case = case_of(point.scenario, point.scenario.strategy(label))
        return cls(number, label, point, case, at)

    @property
    def strategy(self) -> Strategy:
        """The strategy as the scenario of the point has it."""
        return self.point.scenario.strategy(self.label)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the point with this strategy alone; of training."""
        assert isinstance(self.point.scenario, Scenario), "programs are not planned"
        return self.point.scenario.with_only((self.strategy,))

    @cached_property
    def machines(self) -> Machines:
        """What it runs on, with its prices."""
        return Machines.of(self.point.scenario, self.strategy)

    @cached_property
    def too_large(self) -> bool:
        """Whether it is known to need more memory than there is."""
        return bool(self.point.scenario.too_large(self.strategy))

    @property
    def fits(self) -> bool:
        """Whether it may be an answer: what is too large may, where that is only marked."""
        scenario = self.point.scenario
        marked = isinstance(scenario, Scenario) and scenario.memory.exceeded == "mark"
        return marked or not self.too_large

    @property
    def identity(self) -> Identity:
        """Equal for candidates between which there is no difference."""
        return self.label, self.case.key, self.machines, self.fits

    @property
    def fresh(self) -> "Candidate":
        """The same with another seed: draws by which it was not chosen."""
        seed = (self.point.scenario.seed + 1) % 2**63
        scenario = self.point.scenario.model_copy(update={"seed": seed})
        return Candidate.of(self.number, Point(self.point.values, scenario), self.label, self.at)


def distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first of each that differ."""
    found: dict[Identity, Candidate] = {}
    for one in candidates:
        found.setdefault(one.identity, one)
    return list(found.values())


def value(name: str, machines: Machines, measured: Mapping[str, float]) -> float:
    """A metric, a cost or an objective in one run; nan where it does not exist."""
    if name in COSTS:
        return costs(machines, measured).get(name, math.nan)
    objective = OBJECTIVES.get(name)
    if objective is not None and objective.floor is not None:
        return objective.floor(machines)
    return measured[name]


def costs(machines: Machines, measured: Mapping[str, float]) -> dict[str, float]:
    """What one run costs, by the names in COSTS; nothing without prices."""
    if machines.prices is None:
        return {}
    speed = measured.get(KEPT, measured["examples_per_s"])
    return machines.prices.costs(machines.hourly, measured[SENT], speed, measured["time_to_target"])


One = TypeVar("One", bound="CandidateOutcome")


@dataclass(frozen=True, eq=False)
class CandidateOutcome:
    """A candidate and what came of its runs, replications 0, 1, ...

    Equal replications of two outcomes are a pair. There are no values where a run failed.
    """

    candidate: Candidate
    runs: tuple[Finished, ...]

    @property
    def strategy(self) -> str:
        """The label of its strategy."""
        return self.candidate.label

    @property
    def scenario(self) -> AnyScenario:
        """The scenario of its point, with all strategies."""
        return self.candidate.point.scenario

    @cached_property
    def failure(self) -> str:
        """Why a run failed; empty if none did."""
        return next((run.failure for run in self.runs if run.failure), "")

    @cached_property
    def replications(self) -> int:
        """How many runs did not fail."""
        return sum(not run.failure for run in self.runs)

    @property
    def traces(self) -> tuple[str, ...]:
        """The hashes of what its runs simulated."""
        return tuple(run.trace for run in self.runs)

    @cached_property
    def random(self) -> tuple[bool, bool]:
        """Whether its times, and whether anything of it, may differ between replications."""
        scenario = self.candidate.case.scenario
        (strategy,) = scenario.strategies
        return times_are_random(scenario, strategy), is_random(scenario, strategy)

    def exact(self, metric: str) -> bool:
        """Whether nothing random has an effect on a metric: one run tells all."""
        return not self.random[TABLE[metric].of_values]

    def has(self, metric: str) -> bool:
        """Whether its runs have a metric."""
        if self.failure or not self.runs:
            return False
        if metric in COSTS:
            return self.candidate.machines.prices is not None
        known = metric in OBJECTIVES and OBJECTIVES[metric].floor is not None
        return known or all(metric in run.measured for run in self.runs)

    def values(self, metric: str) -> tuple[float, ...]:
        """A metric, a cost or an objective in every replication; nothing where there is none."""
        if metric not in self._values:
            machines = self.candidate.machines
            self._values[metric] = tuple(
                value(metric, machines, run.measured)
                for run in (self.runs if self.has(metric) else ())
            )
        return self._values[metric]

    def each(self, metric: str) -> tuple[float, ...]:
        """A metric in every replication; nan where there is none."""
        return self.values(metric) or (math.nan,) * self.replications

    def estimate(self, metric: str) -> Estimate:
        """The mean of a metric with its interval; nan where there is none."""
        if metric not in self._estimates:
            values = self.values(metric)
            found = interval(values, exact=self.exact(metric)) if values else NOTHING
            self._estimates[metric] = found
        return self._estimates[metric]

    def mean(self, metric: str) -> float:
        """The mean of a metric over replications; nan where it does not exist."""
        return self.estimate(metric).mean

    @cached_property
    def done(self) -> Done:
        """How much its runs did."""
        if self.failure or not self.runs:
            return Done()
        scenario = self.candidate.case.scenario
        (strategy,) = scenario.strategies
        found = Done.of([run.measured for run in self.runs], COMPUTED, strategy.round.steps)
        return found._replace(gradients=math.inf) if steps_repeat(scenario, strategy) else found

    @cached_property
    def _values(self) -> dict[str, tuple[float, ...]]:
        return {}

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {}


def front_of(
    some: Sequence[One], cost: Callable[[One], float], metric: str, equal_within: float
) -> tuple[list[One], list[One]]:
    """The front of cost and a metric: who surely has more of it than all that cost less.

    And who has more by its mean alone.
    """

    def more(index: int, than: int) -> bool:
        one, other = some[index], some[than]
        return surely_more(
            (one.values(metric), one.exact(metric)),
            (other.values(metric), other.exact(metric)),
            comparisons=len(some) - 1,
            equal_within=equal_within,
        )

    pairs = [(cost(one), one.mean(metric)) for one in some]
    sure, by_means = front(pairs, more), front(pairs)
    return [some[index] for index in sure], [some[index] for index in by_means]


class Places:
    """Says where candidates lie, in as few words as it takes.

    `priced`: prices and machines make a difference, too, not only what is simulated; and what has
    one value alone is told of.
    """

    def __init__(
        self,
        quantities: Sequence[Quantity],
        candidates: Iterable[Candidate],
        *,
        priced: bool = True,
    ) -> None:
        self.quantities, self._priced = quantities, priced
        own: dict[str, list[Candidate]] = {}
        for one in candidates:
            own.setdefault(one.label, []).append(one)
        self._matters = {label: self._mattering(found) for label, found in own.items()}

    def matters(self, label: str) -> list[int]:
        """The indexes of the quantities that make a difference to a strategy."""
        return self._matters[label]

    def names(self, chosen: Sequence[int]) -> list[str]:
        """The shortest names of some quantities."""
        return short_names([_own_path(self.quantities[index]) for index in chosen])

    def values(self, one: Candidate, chosen: Sequence[int] | None = None) -> dict[str, str]:
        """What makes a difference to its strategy, or these quantities: names and values."""
        if chosen is None:
            chosen = self._matters.get(one.label) or self._mattering([one])
        texts = (one.point.values[index].text for index in chosen)
        return dict(zip(self.names(chosen), texts, strict=True))

    def told(self, one: Candidate, chosen: Sequence[int] | None = None) -> str:
        """`workers = 8, bandwidth = 25 Gbit/s`."""
        return ", ".join(f"{name} = {text}" for name, text in self.values(one, chosen).items())

    def full(self, one: Candidate) -> str:
        """The strategy, and where."""
        where = self.told(one)
        return f"{one.strategy.mention} with {where}" if where else one.strategy.mention

    def _mattering(self, own: Sequence[Candidate]) -> list[int]:
        """What matters to the candidates of one strategy."""
        label, scenario = own[0].label, own[0].point.scenario
        chosen = [
            index
            for index, quantity in enumerate(self.quantities)
            if quantity.concerns(label, scenario) and self._makes_a_difference(index, own)
        ]
        # A price that goes with something else follows from that.
        prices = [i for i in chosen if self.quantities[i].place[0] == "prices"]
        groups = {self.quantities[i].group for i in chosen if i not in prices}
        return [i for i in chosen if i not in prices or self.quantities[i].group not in groups]

    def _makes_a_difference(self, index: int, own: Sequence[Candidate]) -> bool:
        """Whether two candidates differ that lie apart in this only; or no two lie so."""
        group = self.quantities[index].group
        seen: dict[tuple[str, ...], object] = {}
        compared = not self._priced and len({one.point.values[index].text for one in own}) == 1
        for one in own:
            values = zip(self.quantities, one.point.values, strict=True)
            others = tuple(found.text for each, found in values if each.group != group)
            compared |= others in seen
            identity: object = one.identity if self._priced else one.case.key
            if seen.setdefault(others, identity) != identity:
                return True
        return not compared


def short_names(paths: Sequence[str]) -> list[str]:
    """The end of each path: as many of its words as tell it from the others, none an index.

    Words that say nothing by themselves, such as `mean`, are told with the one before.
    """

    def ends(count: int) -> list[str]:
        return [".".join(path.split(".")[-count:]) for path in paths]

    found = []
    for index, path in enumerate(paths):
        words = path.split(".")
        counts = range(1 + (words[-1] in _OF_MANY and len(words) > 1), len(words) + 1)
        told = (names[index] for names in map(ends, counts) if names.count(names[index]) == 1)
        found.append(next((name for name in told if not name[0].isdigit()), path))
    return found


def _own_path(quantity: Quantity) -> str:
    """A path, without the name of its strategy."""
    if quantity.place[0] != "strategies" or len(quantity.place) < 3:
        return quantity.path
    return ".".join(quantity.place[2:])
