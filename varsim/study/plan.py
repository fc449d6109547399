"""A plan: the answer to a question, and what is found of it besides.

Which target keeps it from being cheaper, and what it is busy with; what becomes of it where its
step time is a guess, and wrong; what decides it and costs nothing, as nobody said what it costs.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

from varsim.scenario.fault import known
from varsim.scenario.plan import Question
from varsim.scenario.space import Quantity
from varsim.scenario.training import Scenario
from varsim.study.candidate import Candidate, Places, front_of
from varsim.study.judged import RATES, Judged
from varsim.study.metrics import ACTIVITIES, COSTS, throughput
from varsim.study.shown import OfRuns
from varsim.study.simulation import Run, run_one
from varsim.study.verdict import Ranking, Rival, beside, ranked
from varsim.study.why.levers import alone
from varsim.study.why.resources import ResourceUse, uses

MOST_ROWS: Final = 12
_LONGEST_NAME: Final = 64
_WRITE: Final = ("checkpoint", "write")  # the longer, the less is bought


@dataclass(repr=False, eq=False)
class Plan(OfRuns):
    """Result of a plan: the cheapest configuration that meets the targets, and all that were run.

    `candidates`: all that fit into memory, and were looked at or need not be; `too_large`: those
    that do not, and were not run. `outcomes`: what was run, by number. `best`: the answer; `check`:
    the same with fresh seeds. `rejected`: what met the targets at first, but not with fresh seeds,
    each with that. `guess`: where the step time is one, the answer at multiples of that speed.
    `made`: how many runs were.

    Examples
    --------
    `varsim.plan` has one; `plan.best.hourly` is what the answer costs per hour, `plan.scenario` the
    answer as a scenario.

    """

    offers = (
        *OfRuns.offers,
        *("question", "best", "check", "runner_up", "feasible", "closest", "rejected", "scenario"),
    )
    product: ClassVar = "plan"

    question: Question
    candidates: tuple[Candidate, ...]
    distinct: int
    too_large: tuple[Candidate, ...] = ()
    outcomes: dict[int, Judged] = field(default_factory=dict)
    best: Judged | None = None
    check: Judged | None = None
    rejected: list[tuple[Judged, Judged]] = field(default_factory=list)
    guess: dict[float, Judged] | None = None
    made: int = 0

    @cached_property
    def places(self) -> Places:
        """Where candidates lie."""
        return Places(self.question.quantities, self.candidates)

    def feasible(self, label: str | None = None) -> list[Judged]:
        """Return the configurations that meet the targets, best first.

        Parameters
        ----------
        label : str, optional
            Of this strategy alone.

        Returns
        -------
        list of Judged
            Without those that failed with fresh seeds.

        """
        out = {one.candidate.number for one, _ in self.rejected}
        fine = [
            one
            for number, one in self.outcomes.items()
            if one.feasible and number not in out and label in (None, one.strategy)
        ]
        return sorted(fine, key=lambda one: one.order)

    def closest(self, label: str | None = None) -> Judged | None:
        """Return the configuration that comes closest of those that miss a target.

        Parameters
        ----------
        label : str, optional
            Of this strategy alone.

        Returns
        -------
        Judged or None
            None where all that were run meet the targets.

        """
        return _closest([one for one in self._missing if label in (None, one.strategy)])

    @property
    def _missing(self) -> list[Judged]:
        return [one for one in self.outcomes.values() if one.verdict in ("infeasible", "open")]

    @property
    def runner_up(self) -> Judged | None:
        """The best besides the answer; None where there is no other."""
        return next((one for one in self.feasible() if one is not self.best), None)

    @cached_property
    def compared(self) -> dict[int, Rival[int]]:
        """Who meets the targets, by number, each beside the answer (which is missing)."""
        fine = {one.candidate.number: one for one in self.feasible()}
        if self.best is None:
            return {}
        rivals = beside(
            self.best.candidate.number,
            {number: one.minimized for number, one in fine.items()},
            equal_within=self.question.base.report.equal_within,
            exact=lambda number: fine[number].exact(),
        )
        return {rival.key: rival for rival in rivals}

    @property
    def nearest(self) -> Judged | None:
        """Of the answer's strategy the cheaper candidate that comes closest to the targets."""
        best = self.best
        if best is None:
            return None
        own = [one for one in self._missing if one.strategy == best.strategy and not one.failure]
        return _closest([one for one in own if one.objective.mean < best.objective.mean])

    @cached_property
    def busy(self) -> list[ResourceUse]:
        """What the answer uses most in all its runs, busiest first."""
        return [] if self.best is None else busy(self.best.candidate, self.best.replications)

    @cached_property
    def shares(self) -> list[tuple[str, float]]:
        """Of the time of the answer's workers, by activity, largest first."""
        if self.best is None:
            return []
        shares = [(name, self.best.mean(f"share_{name}")) for name in ACTIVITIES]
        return sorted(((n, s) for n, s in shares if s > 0), key=lambda pair: -pair[1])

    @property
    def run_columns(self) -> list[str]:
        """The columns of `runs`: what is minimized, and the throughput."""
        swept = [quantity.column for quantity in self.question.quantities]
        head = ["configuration", "strategy", *swept, "replication"]
        return [*head, self.question.objective, throughput(self.question.base)]

    @property
    def run_rows(self) -> list[list[object]]:
        """The rows of `runs`."""
        return [
            [number, one.strategy, *(v.number for v in one.candidate.point.values), *each]
            for number, one in sorted(self.outcomes.items())
            for each in zip(range(one.replications), one.minimized, one.speeds, strict=False)
        ]

    def ranking(self, metric: str = "") -> Ranking[int] | None:
        """Rank the configurations that meet all targets.

        Parameters
        ----------
        metric : str, optional
            The throughput (`"examples_per_s"`); what is minimized by default.

        Returns
        -------
        Ranking or None
            By their numbers; None where none meets the targets.

        Raises
        ------
        ValueError
            If it is neither of the two.

        """
        minimized, speed = self.question.objective, throughput(self.question.base)
        known("metric", metric or minimized, (minimized, speed))
        fine = {one.candidate.number: one for one in self.feasible()}
        return ranked(
            {n: one.speeds if metric == speed else one.minimized for n, one in fine.items()},
            equal_within=self.question.base.report.equal_within,
            highest=metric == speed,
            exact=lambda number: fine[number].exact(),
        )

    @property
    def scenario(self) -> Scenario | None:
        """The answer as a scenario that gives the same numbers; None where there is none."""
        best = self.best
        return None if best is None else answer_scenario(self.question.name, best)

    @property
    def sha256(self) -> str:
        """SHA-256 of all that was simulated: the same on any number of processes, in any order."""
        simulated = [
            [
                [value.number for value in one.candidate.point.values],
                *(one.strategy, bool(one.failure), one.traces),
            ]
            for _, one in sorted(self.outcomes.items())
        ]
        return hashlib.sha256(json.dumps(simulated).encode()).hexdigest()


def answer_scenario(name: str, best: Judged) -> Scenario:
    """The scenario of a candidate, with as many replications as were run, named for the plan."""
    changes = {"name": f"{name[: _LONGEST_NAME - 5]}-plan", "replications": best.replications}
    return Scenario.model_validate({**dict(best.candidate.scenario), **changes})


def busy(one: Candidate, replications: int) -> list[ResourceUse]:
    """What was used most in so many runs of a candidate, busiest first."""
    scenario = alone(one.scenario, 0)
    traces = [run_one(Run(scenario, 0, number)) for number in range(replications)]
    return uses(scenario, traces)


def _closest(some: Sequence[Judged]) -> Judged | None:
    return min(some, key=lambda one: (one.shortfall, one.order), default=None)


class Free(NamedTuple):
    """Something without a price: what it is called, what the answer has of it, how to price it."""

    name: str
    has: str
    remedy: str


def unpriced(plan: Plan) -> list[Free]:
    """What a plan for the least cost could choose, and took for nothing."""
    best, question = plan.best, plan.question
    prices = question.base.prices
    if best is None or prices is None or question.objective not in COSTS:
        return []
    mine, own = best.candidate, best.candidate.machines
    others = [one.candidate for n, one in plan.outcomes.items() if n != mine.number]
    free = []
    if not prices.device_hour and any(one.machines.workers < own.workers for one in others):
        free.append(Free("workers", f"{own.workers}", "give prices.device_hour"))
    if not prices.server_hour and any(one.machines.servers < own.servers for one in others):
        free.append(Free("parameter servers", f"{own.servers}", "give prices.server_hour"))
    for index in question.unpriced:
        quantity = question.quantities[index]
        own_number, of_others = _number(mine, index), [_number(one, index) for one in others]
        if quantity.dimension in RATES and own_number <= min(of_others, default=own_number):
            continue
        if quantity.place == _WRITE and own_number >= max(of_others, default=own_number):
            continue
        if any(_apart_in(quantity, one, mine, question.quantities) for one in others):
            price = "server_hour" if quantity.place[1] == "server_update" else "device_hour"
            has = mine.point.values[index].text
            free.append(Free(quantity.path, has, f"zip it with prices.{price}"))
    return free


def _number(one: Candidate, index: int) -> float:
    """A quantity with a unit, at a candidate."""
    number = one.point.values[index].number
    return float(number) if isinstance(number, (int, float)) else 0.0


def _apart_in(
    quantity: Quantity, one: Candidate, other: Candidate, every: Sequence[Quantity]
) -> bool:
    """Whether two of a strategy differ in a quantity, and in nothing of another group."""
    pairs = zip(every, one.point.values, other.point.values, strict=True)
    groups = {own.group for own, mine, theirs in pairs if mine.text != theirs.text}
    return one.label == other.label and groups == {quantity.group}


class Trade(NamedTuple):
    """What was run, by cost and throughput: `front` is surely faster than the cheaper of it.

    On the front is only what meets the targets but for throughput itself, which is traded.
    `by_means`: those of them whose mean is higher than that of all that cost less.
    """

    every: list[Judged]
    front: list[Judged]
    by_means: list[Judged]

    @property
    def unsure(self) -> list[Judged]:
        """Those that are faster than all that cost less by their means alone."""
        return [one for one in self.by_means if one not in self.front]

    def shown(self, answer: Judged | None) -> list[Judged]:
        """At most MOST_ROWS of the front, those around the answer first of all."""
        if len(self.front) <= MOST_ROWS:
            return self.front
        place = 0 if answer is None else sum(one.hourly <= answer.hourly for one in self.front)
        start = max(0, min(place - MOST_ROWS // 2, len(self.front) - MOST_ROWS))
        return self.front[start : start + MOST_ROWS]


def trade(plan: Plan) -> Trade:
    """All that was run, cheapest first, and the front of it."""
    every = [one for one in plan.outcomes.values() if one.hourly == one.hourly]
    every.sort(key=lambda one: (one.hourly, -one.speed.mean, one.candidate.number))
    fine = [
        one
        for one in every
        if one.speed.mean > 0
        and one.verdict != "short"
        and all(miss.target == "throughput" for miss in one.missed)
    ]

    metric, within = throughput(plan.question.base), plan.question.base.report.equal_within
    return Trade(every, *front_of(fine, lambda one: one.hourly, metric, within))
