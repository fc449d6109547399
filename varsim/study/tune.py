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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from varsim.cluster.description.cluster import Stop
from varsim.learning.optimizer import Optimizer
from varsim.scenario.fault import known
from varsim.scenario.space import Point, Value
from varsim.scenario.training import Scenario
from varsim.scenario.writing import Asked
from varsim.strategies import Strategy
from varsim.study.case import Case, Finished, case_of
from varsim.study.cells import Cell, cell_of
from varsim.study.runs import Runs
from varsim.study.search import FRESH, fresh
from varsim.study.shown import Shown
from varsim.study.verdict import CLOSE, Estimate, Ranking, interval, lead_of, ranked, verdict

if TYPE_CHECKING:
    from pandas import DataFrame

BETTER, WORSE = "better", "worse"


class Goal(NamedTuple):
    """What a rate is judged by: the time to a loss, or without one the loss at a time (s)."""

    loss: float | None
    end: float

    @property
    def metric(self) -> str:
        """The metric of a run, of which less is better."""
        return "final_loss" if self.loss is None else "time_to_target"


class Trial(NamedTuple):
    """One rate of one strategy; equal replications of two trials are a pair.

    `values`: the goal's metric in every replication, nan where the loss was not reached or is not
    finite. `losses`: at the end of each run. `traces`: hashes of what was simulated. `failure`:
    why a run came to nothing.
    """

    label: str
    rate: float
    seed: int
    values: tuple[float, ...]
    losses: tuple[float, ...]
    traces: tuple[str, ...]
    failure: str = ""

    @classmethod
    def of(cls, goal: Goal, cell: Cell, rate: float, runs: Sequence[Finished]) -> "Trial":
        """The trial of these runs of a cell, replications 0, 1, ..."""
        seed, traces = cell.point.scenario.seed, tuple(run.trace for run in runs)
        failures = [run.failure for run in runs if run.failure]
        if failures:
            return cls(cell.label, rate, seed, (), (), traces, failures[0])
        values = [run.measured[goal.metric] for run in runs]
        return cls(
            cell.label,
            rate,
            seed,
            tuple(value if math.isfinite(value) else math.nan for value in values),
            tuple(run.measured["final_loss"] for run in runs),
            traces,
        )

    @property
    def replications(self) -> int:
        """How often it was run."""
        return len(self.values)

    @property
    def reached(self) -> int:
        """In how many replications the goal was reached."""
        return sum(map(math.isfinite, self.values))

    @property
    def sound(self) -> bool:
        """Whether the goal was reached in all of them."""
        return 0 < self.reached == self.replications

    @property
    def found(self) -> Estimate:
        """The goal's metric over the replications."""
        return interval(self.values)

    @property
    def order(self) -> tuple[int, float, float]:
        """What is better comes first; where the goal is not always reached, by the loss at last."""
        if self.failure:
            return 2, 0.0, self.rate
        if self.sound:
            return 0, math.fsum(self.values) / self.replications, self.rate
        last = [loss if math.isfinite(loss) else math.inf for loss in self.losses]
        return 1, sum(last) / len(last), self.rate


def compared(one: Trial, other: Trial, equal_within: float) -> str:
    """Whether one is WORSE or BETTER than another, or the verdict where that is not sure."""
    if not (one.sound and other.sound):
        return CLOSE if one.sound == other.sound else BETTER if one.sound else WORSE
    count = min(one.replications, other.replications)
    lead = lead_of(one.values[:count], other.values[:count])
    return verdict(lead, WORSE, BETTER, equal_within)


def tied(said: str) -> bool:
    """Whether a comparison does not tell two trials apart."""
    return said not in (BETTER, WORSE)


# Rungs are half a factor of two apart; the first, and how far from the middle they may lead.
_FIRST: Final = (-4, -2, 0, 2, 4)
_FARTHEST: Final = 20
MORE: Final = 4
_TRIED: Final = 10  # rates of a strategy, about
_LONGEST_NAME: Final = 64


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


class Row(NamedTuple):
    """One rate of one strategy on one set of seeds; `standing`: best, as good, or neither."""

    strategy: str
    learning_rate: float
    seeds: str
    standing: str
    seed: int
    replications: int
    reached: int
    mean: float
    low: float
    high: float
    final_loss: float
    failure: str


@dataclass(frozen=True, repr=False)
class Rates(Shown):
    """The best rate of each strategy of a scenario, and all that were tried."""

    product: ClassVar = "tune"

    scenario: Scenario
    goal: Goal
    tuned: tuple[Tuned, ...]

    def ranking(self, metric: str = "") -> Ranking[str] | None:
        """The strategies that reach the goal in every fresh run; None where none does.

        `metric`: that of the goal, by which they are judged.
        """
        known("metric", metric or self.goal.metric, (self.goal.metric,))
        return self._ranking

    @cached_property
    def runs(self) -> "DataFrame":
        """One row per strategy, rate, set of seeds and replication: the goal's metric, the loss."""
        from pandas import DataFrame

        trials = [
            (trial, seeds)
            for one in self.tuned
            for seeds, own in (("search", one.trials), ("fresh", one.fresh and (one.fresh,)))
            for trial in own or ()
        ]
        return DataFrame(
            {
                **{"strategy": trial.label, "learning_rate": trial.rate, "seeds": seeds},
                **{"seed": trial.seed, "replication": number, self.goal.metric: value},
                "final_loss": trial.losses[number],
            }
            for trial, seeds in trials
            for number, value in enumerate(trial.values)
        )

    @cached_property
    def _ranking(self) -> Ranking[str] | None:
        return ranked(
            {one.label: one.fresh.values for one in self.tuned if one.fresh is not None},
            equal_within=self.scenario.report.equal_within,
        )

    def fresh(self, label: str) -> Trial:
        """The best of a strategy that was ranked, with fresh seeds."""
        (trial,) = (one.fresh for one in self.tuned if one.label == label)
        assert trial is not None, "what is ranked was run"
        return trial

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `rows`: `mean` is called by the goal."""
        metric = "loss" if self.goal.loss is None else self.goal.metric
        named = {"mean": metric, "low": f"{metric}_low", "high": f"{metric}_high"}
        return [named.get(name, name) for name in Row._fields]

    def rows(self) -> Iterator[Row]:
        """Every rate that was tried, and the best of each strategy again with fresh seeds."""
        for one in self.tuned:
            for trial in one.trials:
                standing = "best" if trial == one.best else "as good" if trial in one.ties else ""
                yield _row(trial, "search", standing)
            if one.fresh is not None:
                yield _row(one.fresh, "fresh", "best")

    @property
    def sha256(self) -> str:
        """The hash of what was simulated at every rate: the same on any number of processes."""
        simulated = [
            [trial.label, trial.rate, trial.seed, bool(trial.failure), trial.traces]
            for one in self.tuned
            for trial in (*one.trials, *([one.fresh] if one.fresh is not None else []))
        ]
        return hashlib.sha256(json.dumps(simulated).encode()).hexdigest()

    def tuned_scenario(self) -> Scenario:
        """The scenario with the best rate of each strategy in an optimizer of its own."""
        rates = {one.label: one.best.rate for one in self.tuned}
        changed = with_rates(self.scenario, rates)
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
            if place != self.best
            and best.sound
            and trial.sound
            and tied(compared(trial, best, equal_within))
        ]


class Tuning:
    """The search over the strategies of a scenario; `given`: these rates, and no others."""

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
        self._cells: dict[tuple[str, float], Cell] = {}
        self._known: dict[int, tuple[str, float]] = {}
        self.first = scenario.replications
        self.most = max(FRESH, MORE * self.first)
        self.goal = Goal(scenario.target_loss, 0.0)

    @property
    def cases(self) -> list[Case]:
        """About what is to be run, once for each rate."""
        cases = [case_of(self.asked, strategy) for strategy in self.asked.strategies]
        return cases * (len(next(iter(self._ladders.values())).given) or _TRIED)

    def at(self, number: int) -> tuple[str, float]:
        """Which strategy a cell is of, and its learning rate."""
        return self._known[number]

    def run(self, runs: Runs) -> Rates:
        """Search until nothing is left to try, then measure what was found."""
        self._settle_the_end(runs)
        while wanted := self._wanted():
            runs.make((cell.case, count) for cell, count in wanted.values())
            for (label, place), (cell, _) in wanted.items():
                ladder = self._ladders[label]
                trial = Trial.of(self.goal, cell, ladder.rate(place), runs.of(cell.case))
                ladder.trials[place] = trial
                if trial.sound and (runs.best is None or trial.order[1] < runs.best[1]):
                    runs.best = (str(cell.number), trial.order[1])
        cells = {
            label: fresh(self._cell(label, ladder.rate(ladder.best)))
            for label, ladder in self._ladders.items()
            if not ladder.trials[ladder.best].failure
        }
        runs.make((cell.case, self.most) for cell in cells.values())
        ladders = self._ladders.items()
        tuned = tuple(self._tuned(ladder, cells.get(label), runs) for label, ladder in ladders)
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
        cells = [self._cell(label, one.before) for label, one in self._ladders.items()]
        runs.make((cell.case, self.first) for cell in cells)
        lasted = [
            run.measured["simulated_time"]
            for cell in cells
            for run in runs.of(cell.case)
            if not run.failure
        ]
        self._cells.clear()
        self._end(Stop(time=min(lasted)) if lasted else stop)

    def _end(self, stop: Stop) -> None:
        self._scenario = self._scenario.model_copy(update={"stop": stop})
        self.goal = self.goal._replace(end=stop.time or 0.0)

    def _wanted(self) -> dict[tuple[str, int], tuple[Cell, int]]:
        """What is to be run next, and how often in all."""
        found: dict[tuple[str, int], tuple[Cell, int]] = {}
        for label, ladder in self._ladders.items():
            counts = dict.fromkeys(ladder.wanted(), self.first) or self._closer(ladder)
            for place, count in counts.items():
                found[label, place] = (self._cell(label, ladder.rate(place)), count)
        return found

    def _closer(self, ladder: Ladder) -> dict[int, int]:
        """How often the best and its ties are to be run, where that is more than before."""
        ties = ladder.ties(self._within)
        if not ties:
            return {}
        close = {place: ladder.trials[place].replications for place in (ladder.best, *ties)}
        least, longest = min(close.values()), max(close.values())
        count = longest if least < longest else min(2 * least, self.most)
        return {place: count for place, own in close.items() if own < count}

    def _tuned(self, ladder: Ladder, cell: Cell | None, runs: Runs) -> Tuned:
        best = ladder.trials[ladder.best]
        again = None
        if cell is not None:
            again = Trial.of(self.goal, cell, best.rate, runs.of(cell.case, self.most))
        return Tuned(
            ladder.label,
            ladder.before,
            tuple(trial for _, trial in sorted(ladder.trials.items())),
            best,
            tuple(ladder.trials[place] for place in ladder.ties(self._within)),
            ladder.edge,
            again,
        )

    def _cell(self, label: str, rate: float) -> Cell:
        if (label, rate) not in self._cells:
            scenario = with_rates(self._scenario, {label: rate})
            number = len(self._known)
            self._known[number] = (label, rate)
            point = Point((Value(f"{rate:g}", rate),), scenario)
            self._cells[label, rate] = cell_of(number, point, label)
        return self._cells[label, rate]


def with_rates(scenario: Scenario, rates: dict[str, float]) -> Scenario:
    """The scenario with these learning rates of the strategies of these labels."""

    def changed(strategy: Strategy) -> Strategy:
        if strategy.label not in rates:
            return strategy
        rule: Optimizer = scenario.workload_of(strategy).update_rule()
        optimizer = rule.model_copy(update={"learning_rate": rates[strategy.label]})
        return strategy.model_copy(update={"optimizer": optimizer})

    return scenario.model_copy(update={"strategies": tuple(map(changed, scenario.strategies))})


def _row(trial: Trial, seeds: str, standing: str) -> Row:
    found = trial.found
    last = math.fsum(trial.losses) / len(trial.losses) if trial.losses else math.nan
    return Row(
        trial.label,
        trial.rate,
        seeds,
        standing,
        trial.seed,
        trial.replications,
        trial.reached,
        found.mean,
        found.low,
        found.high,
        last,
        trial.failure.splitlines()[0] if trial.failure else "",
    )
