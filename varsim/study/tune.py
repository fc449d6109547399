"""The search for the best learning rate of every strategy.

1. Each strategy is run at five rates, a factor of two apart, around the one that it has.
2. While its best is the lowest or the highest, two more are tried beyond that, up to a factor of
   2^10 from where it began; then the two rates halfway to the best one's neighbours.
3. Rates that are not told from the best are run twice as often, and again, up to MORE times as
   often as at first: the same replications of two rates meet the same draws.
4. The best is run again with fresh seeds: it was chosen for its numbers, which may be good by luck.

Rounds are the same in any number of processes: what follows is decided when all runs of one are
there.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

from varsim.cluster.description.cluster import Stop
from varsim.learning.optimizer import Optimizer
from varsim.scenario.fault import known
from varsim.scenario.space import Point, Value
from varsim.scenario.training import Scenario
from varsim.scenario.writing import Asked
from varsim.strategies import Strategy
from varsim.study.candidate import Candidate, CandidateOutcome
from varsim.study.case import Case, case_of
from varsim.study.cheapest import FRESH
from varsim.study.runs import Runs
from varsim.study.shown import OfRuns
from varsim.study.verdict import WORSE, Estimate, Ranking, interval, lead_of, ranked, verdict

_BETTER: Final = "better"
# Rungs are half a factor of two apart; the first, and how far from the middle they may lead.
_FIRST: Final = (-4, -2, 0, 2, 4)
_FARTHEST: Final = 20
MORE: Final = 4
_TRIED: Final = 10  # rates of a strategy, about
_LONGEST_NAME: Final = 64
_COLUMNS: Final = (
    *("strategy", "learning_rate", "seeds", "standing", "seed", "replications", "reached"),
    *("mean", "low", "high", "final_loss", "failure"),
)


class Goal(NamedTuple):
    """What a rate is judged by: the time to a loss, or without one the loss at a time (s)."""

    loss: float | None
    end: float

    @property
    def metric(self) -> str:
        """The metric of a run, of which less is better."""
        return "final_loss" if self.loss is None else "time_to_target"


@dataclass(frozen=True, eq=False)
class Trial(CandidateOutcome):
    """One rate of one strategy, and what came of its runs."""

    goal: Goal

    @property
    def rate(self) -> float:
        """The learning rate."""
        (rate,) = self.candidate.point.values
        assert isinstance(rate.number, float)
        return rate.number

    @property
    def seed(self) -> int:
        """That of its runs."""
        return self.scenario.seed

    @cached_property
    def reaches(self) -> tuple[float, ...]:
        """The goal's metric per replication, nan where the loss was not reached or not finite."""
        found = self.values(self.goal.metric)
        return tuple(value if math.isfinite(value) else math.nan for value in found)

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss at the end of each run."""
        return self.values("final_loss")

    @property
    def reached(self) -> int:
        """In how many replications the goal was reached."""
        return sum(map(math.isfinite, self.reaches))

    @property
    def sound(self) -> bool:
        """Whether the goal was reached in all of them."""
        return 0 < self.reached == len(self.runs)

    @property
    def found(self) -> Estimate:
        """The goal's metric over the replications."""
        return interval(self.reaches)

    @property
    def last(self) -> float:
        """The mean of the losses at the end."""
        return math.fsum(self.losses) / len(self.losses) if self.losses else math.nan

    @property
    def order(self) -> tuple[int, float, float]:
        """What is better comes first; where the goal is not always reached, by the loss at last."""
        if self.failure:
            return 2, 0.0, self.rate
        if self.sound:
            return 0, math.fsum(self.reaches) / self.replications, self.rate
        last = [loss if math.isfinite(loss) else math.inf for loss in self.losses]
        return 1, sum(last) / len(last), self.rate

    def ties_with(self, best: "Trial", equal_within: float) -> bool:
        """Whether it is not told from the best, both being sound."""
        if not (self.sound and best.sound):
            return False
        count = min(self.replications, best.replications)
        lead = lead_of(self.reaches[:count], best.reaches[:count])
        return verdict(lead, WORSE, _BETTER, equal_within) not in (WORSE, _BETTER)


class Tuned(NamedTuple):
    """The best rate of one strategy.

    `trials`: all that were tried, by rate; `ties`: those that are not told from the best. `edge`:
    "lower" or "upper" where the best is at an end of what was tried. `fresh`: the best with fresh
    seeds; None where its runs fail.
    """

    label: str
    before: float
    trials: tuple[Trial, ...]
    best: Trial
    ties: tuple[Trial, ...]
    edge: str
    fresh: Trial | None

    @property
    def tried(self) -> Iterator[tuple[Trial, str, str]]:
        """All trials, each with its set of seeds, and whether it is the best, as good or neither.

        Last the best again with fresh seeds.
        """
        for trial in self.trials:
            standing = "best" if trial is self.best else "as good" if trial in self.ties else ""
            yield trial, "search", standing
        if self.fresh is not None:
            yield self.fresh, "fresh", "best"


@dataclass(frozen=True, repr=False)
class Rates(OfRuns):
    """Result of tuning: the best learning rate of each strategy, and all that were tried.

    Examples
    --------
    >>> import varsim
    >>> few = varsim.load("slow_worker", {"stop.time": 2}, strategies=["single"])
    >>> rates = varsim.tune(few, rates=[0.03, 0.1])
    >>> [(one.label, one.best.rate) for one in rates.tuned]
    [('single', 0.1)]

    """

    offers = (*OfRuns.offers, "scenario", "goal", "tuned", "tuned_scenario")
    product: ClassVar = "tune"

    scenario: Scenario
    goal: Goal
    tuned: tuple[Tuned, ...]

    def ranking(self, metric: str = "") -> Ranking[str] | None:
        """Rank the strategies that reach the goal in every fresh run, each at its best rate.

        Parameters
        ----------
        metric : str, optional
            That of the goal, by which they are judged: no other.

        Returns
        -------
        Ranking or None
            None where no strategy reaches the goal.

        Raises
        ------
        ValueError
            If it is another metric.

        """
        known("metric", metric or self.goal.metric, (self.goal.metric,))
        return self._ranking

    @cached_property
    def _ranking(self) -> Ranking[str] | None:
        return ranked(
            {one.label: one.fresh.reaches for one in self.tuned if one.fresh is not None},
            equal_within=self.scenario.report.equal_within,
        )

    @property
    def run_columns(self) -> list[str]:
        """The columns of `runs`."""
        metrics = dict.fromkeys((self.goal.metric, "final_loss"))
        return ["strategy", "learning_rate", "seeds", "seed", "replication", *metrics]

    @property
    def run_rows(self) -> list[list[object]]:
        """The rows of `runs`."""
        lost = [] if self.goal.loss is None else ["final_loss"]
        return [
            [trial.strategy, trial.rate, seeds, trial.seed, number, value]
            + [trial.values(metric)[number] for metric in lost]
            for one in self.tuned
            for trial, seeds, _ in one.tried
            for number, value in enumerate(trial.reaches)
        ]

    def fresh(self, label: str) -> Trial:
        """The best of a strategy that was ranked, with fresh seeds."""
        (trial,) = (one.fresh for one in self.tuned if one.label == label)
        assert trial is not None, "what is ranked was run"
        return trial

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `cells`: `mean` is called by the goal."""
        metric = "loss" if self.goal.loss is None else self.goal.metric
        named = {"mean": metric, "low": f"{metric}_low", "high": f"{metric}_high"}
        return [named.get(name, name) for name in _COLUMNS]

    def cells(self) -> Iterator[list[object]]:
        """Every rate that was tried, and the best of each strategy again with fresh seeds."""
        for trial, seeds, standing in (each for one in self.tuned for each in one.tried):
            yield [
                *(trial.strategy, trial.rate, seeds, standing, trial.seed, trial.replications),
                *(trial.reached, trial.found.mean, trial.found.low, trial.found.high, trial.last),
                trial.failure.partition("\n")[0],
            ]

    @property
    def sha256(self) -> str:
        """SHA-256 of all that was simulated: the same on any number of processes, in any order."""
        simulated = [
            [trial.strategy, trial.rate, trial.seed, bool(trial.failure), trial.traces]
            for one in self.tuned
            for trial, _, _ in one.tried
        ]
        return hashlib.sha256(json.dumps(simulated).encode()).hexdigest()

    def tuned_scenario(self) -> Scenario:
        """Return the scenario with the best rate of each strategy.

        Returns
        -------
        Scenario
            Each strategy has an optimizer of its own.

        """
        changed = with_rates(self.scenario, {one.label: one.best.rate for one in self.tuned})
        return Scenario.model_validate(
            {
                **dict(changed),
                "name": f"{changed.name[: _LONGEST_NAME - 6]}-tuned",
                "workload": changed.workload.with_optimizer(None),
            }
        )


@dataclass
class Ladder:
    """The rates of one strategy, by their place; without `given` ones as many as it takes."""

    label: str
    before: float
    given: Sequence[float] = ()
    trials: dict[int, Trial] = field(default_factory=dict)

    def rate(self, place: int) -> float:
        """The rate at a place: two digits, so that it can be typed."""
        if self.given:
            return self.given[place]
        return self.before if place == 0 else float(f"{self.before * 2 ** (place / 2):.2g}")

    @property
    def best(self) -> int:
        """The place of the best rate so far."""
        return min(self.trials, key=lambda place: self.trials[place].order)

    @property
    def edge(self) -> str:
        """Whether the best is at an end of what was tried."""
        lowest, highest = min(self.trials), max(self.trials)
        return "lower" if self.best == lowest else "upper" if self.best == highest else ""

    def wanted(self) -> list[int]:
        """The places to try next; none where the best has its neighbours on both sides."""
        if not self.trials:
            return list(range(len(self.given))) if self.given else list(_FIRST)
        if self.given or self.trials[self.best].failure:
            return []
        best, step = self.best, {"lower": -2, "upper": 2}.get(self.edge, 0)
        beyond = [place for place in (best + step, best + 2 * step) if abs(place) <= _FARTHEST]
        beside = beyond if step and beyond else [best - 1, best + 1]
        return [place for place in beside if place not in self.trials and abs(place) <= _FARTHEST]

    def ties(self, equal_within: float) -> list[int]:
        """The other places whose rates are not told from the best."""
        best = self.trials[self.best]
        return [
            place
            for place, trial in sorted(self.trials.items())
            if trial is not best and trial.ties_with(best, equal_within)
        ]

    def closer(self, equal_within: float, most: int) -> dict[int, int]:
        """How often the best and its ties are to be run, where that is more than before."""
        ties = self.ties(equal_within)
        if not ties:
            return {}
        close = {place: self.trials[place].replications for place in (self.best, *ties)}
        least, longest = min(close.values()), max(close.values())
        count = longest if least < longest else min(2 * least, most)
        return {place: count for place, own in close.items() if own < count}

    def tuned(self, equal_within: float, fresh: Trial | None) -> Tuned:
        """What came of it."""
        trials = tuple(trial for _, trial in sorted(self.trials.items()))
        ties = tuple(self.trials[place] for place in self.ties(equal_within))
        best = self.trials[self.best]
        return Tuned(self.label, self.before, trials, best, ties, self.edge, fresh)


class BestRates:
    """The study of the best learning rates of a scenario; `given`: these rates, and no others.

    ValueError where nothing is learnt.
    """

    def __init__(self, scenario: Asked, given: Sequence[float] = ()) -> None:
        if not isinstance(scenario, Scenario) or not scenario.workload.has_values:
            why = "problem timing has" if isinstance(scenario, Scenario) else "variables have"
            raise ValueError(f"{why} no loss, and so no best learning rate")
        self.asked = self._scenario = scenario
        self._within = scenario.report.equal_within
        self._ladders = {
            strategy.label: Ladder(
                strategy.label,
                scenario.workload_of(strategy).update_rule().learning_rate,
                sorted(given),
            )
            for strategy in scenario.strategies
        }
        self._candidates: dict[tuple[str, float], Candidate] = {}
        self.known: list[Candidate] = []  # by number
        self.first = scenario.replications
        self._most = max(FRESH, MORE * self.first)
        self.goal = Goal(scenario.target_loss, 0.0)

    @cached_property
    def cases(self) -> list[Case]:
        """About what is to be run, once for each rate."""
        cases = [case_of(self.asked, strategy) for strategy in self.asked.strategies]
        return cases * (len(next(iter(self._ladders.values())).given) or _TRIED)

    def begin(self, runs: Runs) -> list[Case]:
        """Nothing is run in any case; about a case for each run."""
        return self.cases * self.first

    def run(self, runs: Runs) -> Rates:
        """Search until nothing is left to try, then measure what was found."""
        self._settle_the_end(runs)
        while wanted := self._wanted():
            runs.make((one.case, count) for one, count in wanted.values())
            for (label, place), (one, _) in wanted.items():
                trial = Trial(one, tuple(runs.of(one.case)), self.goal)
                self._ladders[label].trials[place] = trial
                if trial.sound and (runs.best is None or trial.order[1] < runs.best[1]):
                    runs.best = (str(one.number), trial.order[1])
        bests = {label: one.trials[one.best] for label, one in self._ladders.items()}
        again = {
            label: trial.candidate.fresh for label, trial in bests.items() if not trial.failure
        }
        runs.make((one.case, self._most) for one in again.values())
        fresh = {
            label: Trial(one, tuple(runs.of(one.case, self._most)), self.goal)
            for label, one in again.items()
        }
        ladders = self._ladders.items()
        tuned = tuple(one.tuned(self._within, fresh.get(label)) for label, one in ladders)
        return Rates(self.asked, self.goal, tuned)

    def _settle_the_end(self, runs: Runs) -> None:
        """Runs end at the target loss; without one all last as long as the shortest."""
        stop = self._scenario.stop
        if self.goal.loss is not None:
            self._end(stop.model_copy(update={"loss": self.goal.loss}))
            return
        if stop.global_steps is None and stop.examples is None:
            assert stop.time is not None
            self._end(stop)
            return
        some = [self._candidate(label, one.before) for label, one in self._ladders.items()]
        runs.make((one.case, self.first) for one in some)
        lasted = [
            run.measured["simulated_time"]
            for one in some
            for run in runs.of(one.case)
            if not run.failure
        ]
        self._candidates.clear()
        self._end(Stop(time=min(lasted)) if lasted else stop)

    def _end(self, stop: Stop) -> None:
        self._scenario = self._scenario.model_copy(update={"stop": stop})
        self.goal = self.goal._replace(end=stop.time or 0.0)

    def _wanted(self) -> dict[tuple[str, int], tuple[Candidate, int]]:
        """What is to be run next, and how often in all."""
        return {
            (label, place): (self._candidate(label, ladder.rate(place)), count)
            for label, ladder in self._ladders.items()
            for place, count in (
                dict.fromkeys(ladder.wanted(), self.first)
                or ladder.closer(self._within, self._most)
            ).items()
        }

    def _candidate(self, label: str, rate: float) -> Candidate:
        if (label, rate) not in self._candidates:
            scenario = with_rates(self._scenario, {label: rate})
            point = Point((Value(f"{rate:g}", float(rate)),), scenario)
            one = Candidate.of(len(self.known), point, label)
            self.known.append(one)
            self._candidates[label, rate] = one
        return self._candidates[label, rate]


def with_rates(scenario: Scenario, rates: Mapping[str, float]) -> Scenario:
    """The scenario with these learning rates of the strategies of these labels."""

    def changed(strategy: Strategy) -> Strategy:
        if strategy.label not in rates:
            return strategy
        rule: Optimizer = scenario.workload_of(strategy).update_rule()
        optimizer = rule.model_copy(update={"learning_rate": rates[strategy.label]})
        return strategy.model_copy(update={"optimizer": optimizer})

    return scenario.model_copy(update={"strategies": tuple(map(changed, scenario.strategies))})
