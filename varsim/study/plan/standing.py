"""What is known of a cell after some runs: its objective, and how surely it meets each target."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.scenario.plan import Question
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import is_random, steps_repeat, times_are_random
from varsim.study.goodput import INTERVAL, throughput
from varsim.study.plan.cell import Cell, free
from varsim.study.statistics import NOTHING, Estimate, interval, one_sided
from varsim.study.sweep.case import COMPUTED, Finished
from varsim.study.targets import Judgement, bounded, judged
from varsim.study.verdict import paired
from varsim.study.work import Done

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
