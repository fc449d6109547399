"""A trial is one learning rate of one strategy, and what its runs say."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from varsim.study.plan.cell import Cell
from varsim.study.statistics import Estimate, interval
from varsim.study.sweep.case import Finished
from varsim.study.verdict import CLOSE, lead_of, verdict

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
