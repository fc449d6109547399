"""The candidates of a plan: all of its space, and how surely the runs of each meet the targets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, Literal, TypeAlias

from varsim.scenario.plan import OBJECTIVES, Machines, Question
from varsim.scenario.space import Point
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import is_random, times_are_random
from varsim.study.candidate import Candidate, CandidateOutcome
from varsim.study.lives import INTERVAL
from varsim.study.metrics import COSTS, bounded, throughput
from varsim.study.verdict import Estimate, Judgement, judged, one_sided, paired

Verdict: TypeAlias = Literal["feasible", "infeasible", "open", "short"]
# Of quantities of these dimensions less is less, whatever it costs.
RATES: Final = ("rate", "flops")


@dataclass(frozen=True, eq=False)
class Judged(CandidateOutcome):
    """A candidate with what its runs say of what is asked."""

    question: Question

    @cached_property
    def verdict(self) -> Verdict:
        """Whether it meets the targets.

        **feasible**: every target is met with 95 % certainty (one-sided Student t).
        **infeasible**: one is missed with as much certainty, or the number does not exist. **open**
        otherwise: more runs may decide; after the last that are allowed it is no candidate to rely
        on. **short**: its runs are too short to say anything, and more of them would not help.
        """
        if self.failure:
            return "infeasible"
        if self.done.too_short:
            return "short"
        if math.isnan(self.objective.mean) or any(one.missed for one in self.judgements):
            return "infeasible"
        return "feasible" if all(one.met for one in self.judgements) else "open"

    def exact(self, metric: str = "") -> bool:
        """Whether nothing random has an effect on what is asked: one run tells all."""
        return is_exact(self.question, self.candidate)

    @property
    def feasible(self) -> bool:
        """Whether it meets every target, with certainty."""
        return self.verdict == "feasible"

    @property
    def minimized(self) -> tuple[float, ...]:
        """The objective in every replication."""
        return self.values(self.question.objective)

    @property
    def objective(self) -> Estimate:
        """The objective."""
        return self.estimate(self.question.objective)

    @property
    def speeds(self) -> tuple[float, ...]:
        """Examples/s, of those that were kept where hosts fail, in every replication."""
        return self.values(throughput(self.candidate.case.scenario))

    @property
    def speed(self) -> Estimate:
        """Examples/s, of those that were kept where hosts fail."""
        return self.estimate(throughput(self.candidate.case.scenario))

    @cached_property
    def hourly(self) -> float:
        """What it costs in an hour, or without prices the number of its machines."""
        machines = self.candidate.machines
        if self.failure or machines.prices is not None:
            return self.mean("cost_per_hour")
        return float(machines.workers + machines.servers)

    @property
    def every(self) -> Estimate:
        """The interval between checkpoints (s), where it is chosen."""
        return self.estimate(INTERVAL)

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """How it stands to each target; nothing where a run failed."""
        if self.failure:
            return ()
        scenario, label = self.candidate.case.scenario, self.candidate.label
        return tuple(
            judged(name, bound, label, self.values(bounded(name, scenario)))
            for name, bound in self.question.targets.bounds.items()
        )

    @property
    def missed(self) -> list[Judgement]:
        """The targets that it does not surely meet."""
        return [one for one in self.judgements if not one.met]

    @cached_property
    def free(self) -> tuple[float, ...]:
        """What the objective takes no account of: machines, then rates, of which less is known."""
        question = self.question
        rates = [
            self.candidate.point.values[index].number
            for index in question.unpriced
            if question.quantities[index].dimension in RATES
        ]
        numbers = [float(rate) for rate in rates if isinstance(rate, (int, float))]
        return float(free(question.objective, self.candidate.machines)), *numbers

    @property
    def order(self) -> tuple[float, tuple[float, ...], float, int]:
        """What is better comes first: a lower objective, then less for nothing, then more speed."""
        return self.objective.mean, self.free, -self.speed.mean, self.candidate.number

    @property
    def shortfall(self) -> float:
        """By which share of its bound it misses the target it misses most; inf if by no number."""
        if self.failure or math.isnan(self.objective.mean):
            return math.inf
        gaps = [-margin(one) for one in self.missed]
        return max([math.inf if math.isnan(gap) else max(0.0, gap) for gap in gaps], default=0.0)


def is_exact(question: Question, one: Candidate) -> bool:
    """Whether nothing random has an effect on what is asked of a candidate."""
    scenario = one.case.scenario
    random = times_are_random if question.loss is None else is_random
    return not random(scenario, scenario.strategies[0])


def floor(objective: str, one: Candidate) -> float:
    """What an objective is at least, as far as is known without a run."""
    found = OBJECTIVES[objective].floor
    return -math.inf if found is None else found(one.machines)


def known(objective: str, one: Candidate) -> bool:
    """Whether an objective is known without simulating anything."""
    prices = one.machines.prices
    if objective == "cost_per_hour":
        return prices is not None and not prices.gigabyte
    return objective in ("workers", "parameter_servers")


def free(objective: str, machines: Machines) -> int:
    """How many of its machines an objective takes no account of."""
    prices = machines.prices if objective in COSTS else None
    priced = prices is not None and prices.device_hour, prices is not None and prices.server_hour
    workers = 0 if objective == "workers" or priced[0] else machines.workers
    return workers + (0 if objective == "parameter_servers" or priced[1] else machines.servers)


def margin(one: Judgement, *, mean: bool = False) -> float:
    """How much better than its target a strategy surely is (or on average), as a share of it.

    Below 0 where it misses it; nan where the number does not exist. Of a bound 0, the difference.
    """
    value = one.mean if mean else one.confidence_bound
    gap = value - one.bound if BOUNDS[one.target] else one.bound - value
    return gap / one.bound if one.bound else gap


def may_be_lower(one: Judged, best: Judged, tolerance: float) -> bool:
    """Whether its objective may yet turn out lower than another's by more than the tolerance.

    The same replications of both meet the same draws, so that their ratio is known better than
    either. A candidate beside its own or with one that is known exactly leaves nothing open.
    """
    ours, theirs = paired(one.minimized, best.minimized, (one.exact(), best.exact()))
    if min(*ours, *theirs) <= 0:
        return one_sided(ours, lower=True) < one_sided(theirs, lower=False)
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    return one_sided(logs, lower=True) < math.log1p(-tolerance)


def every_candidate(question: Question) -> list[Candidate]:
    """Every candidate of the space, in its order; those that do not differ, too."""
    places = product(*map(range, question.sizes))
    found = (
        candidate_at(question, place, turn)
        for place in places
        for turn in range(len(question.strategies))
    )
    return [one for one in found if one is not None]


def some_candidates(question: Question, count: int) -> list[Candidate]:
    """At most so many, two or more, from all over a space: its first and last among them.

    Those that the constraints leave out are missing; where they leave out all, the base is there.
    """
    last = question.combinations - 1
    found = (_numbered(question, last * index // (count - 1)) for index in range(count))
    there = [one for one in found if one is not None]
    return there or [Candidate.of(0, Point((), question.base), question.strategies[0])]


def candidate_at(question: Question, place: Sequence[int], turn: int) -> Candidate | None:
    """The candidate at an index of each axis and of the strategies; None where none is allowed."""
    point = question.at(place)
    if point is None:
        return None
    number = 0
    for index, size in zip(
        (*place, turn), (*question.sizes, len(question.strategies)), strict=True
    ):
        number = number * size + index
    return Candidate.of(number, point, question.strategies[turn])


def _numbered(question: Question, number: int) -> Candidate | None:
    """The candidate of this number; None where the constraints leave it out."""
    rest, turn = divmod(number, len(question.strategies))
    place: list[int] = []
    for size in reversed(question.sizes):
        rest, index = divmod(rest, size)
        place.insert(0, index)
    return candidate_at(question, place, turn)
