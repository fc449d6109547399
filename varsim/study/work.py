"""How much work the runs of a result did: whether there is enough of it to say anything."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

# Runs whose examples are farther apart than this are not compared without a word.
DIFFERENT: Final = 1.5
# Gradients of each worker: with fewer a result is told to be short, or names no winner at all.
SHORT: Final = 10
TOO_SHORT: Final = 2
# Where replicas meet for a read after every so many steps, so many of these periods: between reads
# fast replicas are ahead with work that no read has seen, and rates count it.
PERIODS: Final = 6


class Done(NamedTuple):
    """How much some runs did: gradients computed per worker, of which `period` make a round.

    `time`: how long the longest took (s). `examples`: how many they applied, on average.
    """

    gradients: float = math.inf
    period: int = 1
    time: float = math.nan
    examples: float = math.nan

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
