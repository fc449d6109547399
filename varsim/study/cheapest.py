"""The study of a plan: the search for the least that meets the targets.

1. Each strategy's candidates come in the order of what is known of the objective before a run: the
   price of the machines, say. A batch of them is run a few times each.
2. Candidates that may be better than the best feasible one by more than the tolerance, and are not
   decided, are run more often, twice as often each time; feasible ones of such a kind, too.
3. A strategy is done when what is left of it costs more than its best feasible candidate for
   certain: that needs no simulation. Where nothing is known beforehand all are run.
4. The best of all is run again with fresh seeds: it was chosen for its numbers, which may be good
   by luck. If it does not meet the targets again it is no answer, and the search goes on.

Batches are of a fixed size, and what follows is decided when all runs of one are there: the
same runs are made in any number of processes.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from varsim.scenario.fault import Fault, ScenarioError, Source
from varsim.scenario.plan import Question
from varsim.scenario.space import Point
from varsim.scenario.training import Scenario
from varsim.study.beginning import MOST_COUNTED
from varsim.study.candidate import Candidate, distinct
from varsim.study.case import Case
from varsim.study.judged import (
    Judged,
    every_candidate,
    floor,
    is_exact,
    known,
    may_be_lower,
    some_candidates,
)
from varsim.study.plan import Plan
from varsim.study.runs import Runs

BATCH: Final = 16
# The fresh runs of an answer, at least; more where its own were more.
FRESH: Final = 12
# A plan whose step time is a guess is made at these multiples of its speed, too.
SPEEDS: Final = (0.5, 1.5)


class Cheapest:
    """The study of a plan: every candidate of its space, or those chosen from a large one.

    `exhaustive`: all are run, whatever their price. ScenarioError where nothing fits into memory.
    """

    def __init__(self, question: Question, exhaustive: bool = False) -> None:
        self.question, self._exhaustive = question, exhaustive
        self.first = question.first_replications
        every = every_candidate(question) if question.enumerated else []
        self.candidates = [one for one in every if one.fits]
        self.too_large = [one for one in every if not one.fits]
        if every and not self.candidates:
            raise ScenarioError([_none_fits(question, self.too_large)])
        # All that was looked at, by number: what a large space is searched by tells of each.
        self.known = {one.number: one for one in self.candidates}

    @cached_property
    def cases(self) -> list[Case]:
        """What is to be run at most, once each; of a large space as many as are tried.

        For those that are tried stand some from all over the space in turn.
        """
        if self.question.enumerated:
            return [one.case for one in distinct(self.candidates)]
        some = some_candidates(self.question, min(MOST_COUNTED, self.question.trials))
        each = -(-self.question.trials // len(some))
        return [one.case for one in some for _ in range(each)]

    def begin(self, runs: Runs) -> list[Case]:
        """Nothing is run in any case; a case for each run that it may begin with."""
        return self.cases * self.first

    def run(self, runs: Runs) -> Plan:
        """Search, by the runs that are there and those that it takes."""
        exhaustive = self._exhaustive
        if not self.question.enumerated:
            from varsim.study.explore import explore

            self.candidates = explore(self.question, runs, self.known, self.too_large)
            exhaustive = True  # all that were chosen have been run already
        own = distinct(self.candidates)
        every, large = tuple(self.candidates), tuple(self.too_large)
        plan = Plan(self.question, every, len(own), large)
        _Search(plan, own, runs, exhaustive=exhaustive).run()
        plan.guess = _guess(plan, runs)
        plan.made = runs.status.done
        return plan


class _Search:
    """The search for the answer of a plan over some candidates, which differ."""

    def __init__(
        self, plan: Plan, own: Iterable[Candidate], runs: Runs, *, exhaustive: bool
    ) -> None:
        self._plan, self._question, self._runs = plan, plan.question, runs
        self._exhaustive = exhaustive
        objective, labels = self._question.objective, self._question.strategies
        self._waiting: dict[str, list[Candidate]] = {label: [] for label in labels}
        for one in sorted(own, key=lambda one: (floor(objective, one), one.number)):
            self._waiting[one.label].append(one)
        # How many feasible candidates of a strategy are looked for.
        self._wanted = dict.fromkeys(labels, 1)

    def run(self) -> None:
        """Search until the answer stands, or there is none."""
        plan = self._plan
        while True:
            self._decide()
            while batch := self._next():
                self._screen(batch)
                self._decide()
            best = next(iter(plan.feasible()), None)
            if best is None:
                return
            if self._wanted[best.strategy] == 1:
                self._wanted[best.strategy] = 2  # of the answer's strategy the runner-up, too
                continue
            if best.exact():  # other seeds would give the same numbers
                plan.best = best
                return
            check = self._check(best)
            if check.feasible:
                plan.best, plan.check = best, check
                return
            plan.rejected.append((best, check))

    def _next(self) -> list[Candidate]:
        """The next to be looked at, of the strategies in turn; none if that is all."""
        batch: list[Candidate] = []
        open_ones = [label for label in self._waiting if self._worth(label)]
        while open_ones and len(batch) < BATCH:
            for label in list(open_ones):
                batch.append(self._waiting[label].pop(0))
                if not self._worth(label):
                    open_ones.remove(label)
        return batch

    def _worth(self, label: str) -> bool:
        """Whether the next candidate of a strategy may be one that is looked for."""
        waiting = self._waiting[label]
        if not waiting:
            return False
        if self._exhaustive:
            return True
        least = floor(self._question.objective, waiting[0])
        ranking = self._plan.feasible(label)
        if len(ranking) >= self._wanted[label]:
            return least <= ranking[self._wanted[label] - 1].objective.mean
        if self._wanted[label] == 2:  # nobody is the runner-up who is beaten by another strategy
            first, others = ranking[0] if ranking else None, self._plan.feasible()
            rivals = [one for one in others if one is not first and one.strategy != label]
            return not rivals or first is None or least <= rivals[0].objective.mean
        return True

    def _screen(self, some: Sequence[Candidate]) -> None:
        """Run each a few times."""
        count = self._question.first_replications
        self._runs.make((one.case, 1 if is_exact(self._question, one) else count) for one in some)
        self._enter(some)

    def _decide(self) -> None:
        """Run what is close more often, until it is not, or often enough."""
        most = self._question.most_replications
        while close := {
            one.candidate.number: one for label in self._waiting for one in self._close(label)
        }:
            self._runs.make(
                (one.candidate.case, min(most, 2 * one.replications)) for one in close.values()
            )
            self._enter([one.candidate for one in close.values()])

    def _close(self, label: str) -> list[Judged]:
        """The candidates of a strategy of which more runs are needed."""
        question = self._question
        ranking = self._plan.feasible(label)
        wanted = self._wanted[label]
        best = ranking[wanted - 1] if len(ranking) >= wanted else None
        own = [one for one in self._plan.outcomes.values() if one.strategy == label]
        close = [one for one in own if one.verdict == "open" and self._may_beat(one, best)]
        if ranking and not known(question.objective, ranking[0].candidate):
            first = ranking[0]
            rivals = [one for one in ranking[1:] if may_be_lower(one, first, question.tolerance)]
            close += [*rivals, first] if rivals else []
        most = question.most_replications
        return [one for one in close if one.replications < most and not one.exact()]

    def _may_beat(self, one: Judged, best: Judged | None) -> bool:
        tolerance = self._question.tolerance
        if best is None:
            return True
        if known(self._question.objective, one.candidate):
            as_much = one.objective.mean == best.objective.mean and one.free < best.free
            return as_much or one.objective.mean < (1 - tolerance) * best.objective.mean
        return may_be_lower(one, best, tolerance)

    def _enter(self, some: Iterable[Candidate]) -> None:
        """Judge these by all their runs."""
        for one in some:
            found = Judged(one, tuple(self._runs.of(one.case)), self._question)
            self._plan.outcomes[one.number] = found
        best = next(iter(self._plan.feasible()), None)
        if best is not None:
            self._runs.best = (str(best.candidate.number), best.objective.mean)

    def _check(self, best: Judged) -> Judged:
        """The same candidate with fresh seeds."""
        fresh, count = best.candidate.fresh, max(FRESH, best.replications)
        self._runs.make([(fresh.case, count)])
        return Judged(fresh, tuple(self._runs.of(fresh.case, count)), self._question)


def _guess(plan: Plan, runs: Runs) -> dict[float, Judged] | None:
    """Where the step time is a guess, the answer at SPEEDS (none without one); else None."""
    best = plan.best or plan.closest()
    if best is None:
        return None
    scenario = best.candidate.scenario
    if not scenario.cluster.doubt(scenario.workload):
        return None
    own, count = best.candidate, best.replications
    some = {speed: _at(own, speed) for speed in SPEEDS} if plan.best else {}
    runs.make((one.case, count) for one in some.values())
    return {
        speed: Judged(one, tuple(runs.of(one.case, count)), plan.question)
        for speed, one in some.items()
    }


def _at(one: Candidate, speed: float) -> Candidate:
    """A candidate at so many times the speed."""
    scenario = one.point.scenario
    assert isinstance(scenario, Scenario), "programs are not planned"
    scenario = scenario.with_distribution_alone(speed)
    return Candidate.of(one.number, Point(one.point.values, scenario), one.label)


def _none_fits(question: Question, too_large: Sequence[Candidate]) -> Fault:
    """That there is nothing to choose from, and what the closest would need."""

    def excess(one: Candidate) -> float:
        found = one.scenario.misfits(one.strategy)
        return max(misfit.needs / misfit.has for misfit in found)

    closest = min(too_large, key=excess)
    why = closest.scenario.refusal(closest.strategy)
    message = f"no configuration of the space fits into memory: {why}"
    return Fault(Source(question.name), 0, 0, message)
