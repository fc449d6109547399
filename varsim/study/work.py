"""How much work the runs of a result did: whether there is enough of it to say anything."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from varsim.study.measure import computed_per_worker
from varsim.study.rounds import micro_batches

if TYPE_CHECKING:
    from varsim.study.result import Result


# Runs whose examples are farther apart than this are not compared without a word.
DIFFERENT: Final = 1.5


# Gradients of each worker: with fewer a result is told to be short, or names no winner at all.
SHORT: Final = 10


TOO_SHORT: Final = 2


# Where replicas meet for a read after every so many steps, so many of these periods: between reads
# fast replicas are ahead with work that no read has seen, and rates count it.
PERIODS: Final = 6


class Work(NamedTuple):
    """What the runs of one strategy did on average: gradients computed per worker, examples."""

    gradients: float
    examples: float


class Done(NamedTuple):
    """How much some runs did: gradients computed per worker, of which `period` make a round.

    `time`: how long the longest took (s).
    """

    gradients: float = math.inf
    period: int = 1
    time: float = math.nan

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, float]], computed: str, period: int) -> "Done":
        """What runs did, by what was `measured` of each (see `varsim.study.sweep.case`)."""
        counts = [run.get(computed, math.inf) for run in runs]  # inf: kept by an earlier varsim
        time = max(run.get("simulated_time", math.nan) for run in runs)
        return cls(math.fsum(counts) / len(counts), period, time)

    @property
    def needed(self) -> int:
        """Of so many gradients per worker nothing is told."""
        return max(SHORT, self.least)

    @property
    def too_short(self) -> bool:
        """Whether no answer comes of them."""
        return self.gradients < self.least

    @property
    def least(self) -> int:
        """With fewer gradients per worker no answer comes of runs."""
        return PERIODS * self.period if self.period > 1 else TOO_SHORT


def work(result: "Result") -> dict[str, Work]:
    """The work of every strategy."""
    count = result.replications
    found = {}
    for index, strategy in enumerate(result.strategies):
        chosen = slice(index * count, (index + 1) * count)
        pairs = list(zip(result.traces[chosen], result.gradients[chosen], strict=True))
        since = result.measured_after
        number = micro_batches(result.scenario, strategy)
        computed = math.fsum(computed_per_worker(run, rows, since, number) for run, rows in pairs)
        applied = math.fsum(float(rows.weight.sum()) * run.batch_size for run, rows in pairs)
        found[strategy] = Work(computed / count, applied / count)
    return found


def short_ones(result: "Result") -> dict[str, Done]:
    """What the compared strategies did of which little can be told."""
    own = periods(result)
    done = {
        name: Done(one.gradients, own[name])
        for name, one in work(result).items()
        if name in result.compared
    }
    return {name: one for name, one in done.items() if one.gradients < one.needed}


def periods(result: "Result") -> dict[str, int]:
    """After so many steps of its own a replica of each strategy meets the others."""
    return {strategy.label: strategy.round.steps for strategy in result.scenario.strategies}
