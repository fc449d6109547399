"""The result of a scenario of variables: what each mode costs, and where they change places."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from varsim.cluster.programs import ProgramTrace
from varsim.distribute.program_run import VariableView
from varsim.scenario.fault import check_replication
from varsim.scenario.provenance import provenance
from varsim.scenario.variables import VariablesScenario
from varsim.strategies import family
from varsim.study.measure import Carried, carried
from varsim.study.program import tables
from varsim.study.program.tables import METRICS
from varsim.study.shown import Shown
from varsim.study.statistics import Estimate, interval

if TYPE_CHECKING:
    from pandas import DataFrame


class Crossover(NamedTuple):
    """Where two modes take the same time per step."""

    first: str  # cheaper below
    second: str  # cheaper above
    reads_per_write: Estimate
    time_per_step: float  # s


class Crossing(NamedTuple):
    """Where two lines through points cross."""

    place: float
    height: float
    rises: bool  # whether the first line is the lower one before, the higher one after


def crossings(
    places: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> list[Crossing]:
    """All crossings, on the straight lines between points; `places` rise.

    Lines that touch and part again do not cross; those that lie on one another for a while, and
    cross by that, do so where they meet first.
    """
    found = []
    last: tuple[float, float, float] | None = None  # the last point where they differed
    touching: tuple[float, float] | None = None  # the first point since then where they did not
    for place, one, other in zip(places, first, second, strict=True):
        gap = one - other
        if gap == 0:
            touching = touching or (place, one)
            continue
        if last is not None and last[2] * gap < 0:
            share = last[2] / (last[2] - gap)
            between = (last[0] + share * (place - last[0]), last[1] + share * (one - last[1]))
            found.append(Crossing(*(touching or between), rises=last[2] < 0))
        last, touching = (place, one, gap), None
    return found


@dataclass(frozen=True, repr=False, eq=False)
class VariablesResult(Shown):
    """Result of a scenario of variables; see `program.tables.COLUMNS` for the tables.

    `traces`: first the program as it is written, mode by mode, each by replication; then the same
    for each entry of vary.reads_per_write, of which only the totals are kept.
    """

    product: ClassVar = "variables"

    scenario: VariablesScenario
    traces: list[ProgramTrace]

    def __post_init__(self) -> None:
        assert [(trace.mode, trace.replication) for trace in self.traces] == [
            (mode, number)
            for _ in (None, *self.ratios)
            for mode in self.scenario.all_modes
            for number in range(self.replications)
        ], "traces go point by point, mode by mode, each by replication from 0"

    @property
    def modes(self) -> tuple[str, ...]:
        """What was compared, in the order of the scenario."""
        return self.scenario.labels

    @property
    def families(self) -> Mapping[str, str]:
        """Of each mode the family of the strategy that is called so."""
        pairs = zip(self.modes, self.scenario.all_modes, strict=True)
        return {label: family(mode) for label, mode in pairs}

    @property
    def ratios(self) -> tuple[float, ...]:
        """The outside reads per write that were tried."""
        return self.scenario.vary.reads_per_write if self.scenario.vary is not None else ()

    @property
    def replications(self) -> int:
        """How often each mode was run."""
        return self.scenario.replications

    @cached_property
    def provenance(self) -> dict[str, str | int]:
        """Enough to know whether two results may be compared."""
        return provenance(self.scenario)

    @property
    def written(self) -> list[tuple[str, ProgramTrace]]:
        """The runs of the program as it is written, each with the label of its mode."""
        labels = [mode for mode in self.modes for _ in range(self.replications)]
        return list(zip(labels, self.traces, strict=False))

    def trace(self, mode: str, replication: int = 0) -> ProgramTrace:
        """One run of the program as it is written."""
        check_replication(replication, self.replications)
        return self._traces(mode, None)[replication]

    def view(self, mode: str, variable: str) -> VariableView:
        """What could be seen of a variable at the end of replication 0."""
        return next(view for view in self.trace(mode).views if view.variable == variable)

    def estimate(self, mode: str, metric: str, ratio: float | None = None) -> Estimate:
        """One metric of one mode over the replications; at a ratio, or as written."""
        return interval(self.values(mode, metric, ratio))

    def values(self, mode: str, metric: str, ratio: float | None = None) -> list[float]:
        """One metric of one mode, a value per replication."""
        steps = self.scenario.program.steps
        return [METRICS[metric].of(trace, steps) for trace in self._traces(mode, ratio)]

    def crossovers(self) -> list[Crossover]:
        """Every ratio where two modes change places, each on the straight line between two points.

        Between two points the times are taken as straight lines, which they are where the outside
        reads one after the other. With several replications: of the mean times, with the interval
        of the replications' own crossovers if each has as many.
        """
        pairs = combinations(self.modes, 2)
        return [found for pair in pairs for found in self.crossovers_of(*pair)]

    def crossovers_of(self, mode: str, other: str) -> list[Crossover]:
        """Every ratio where these two modes change places."""
        first, second = (
            [self.values(one, "time_per_step", at) for at in self.ratios] for one in (mode, other)
        )
        means = crossings(
            self.ratios, *([_mean(times) for times in one] for one in (first, second))
        )
        own = [
            crossings(self.ratios, *([times[number] for times in one] for one in (first, second)))
            for number in range(self.replications)
        ]
        found = []
        for index, (ratio, time, rises) in enumerate(means):
            alike = [one[index].place for one in own if len(one) == len(means)]
            if len(alike) == len(own):
                spread = interval(alike)._replace(mean=ratio)
            else:
                note = f"in {len(alike)} of {len(own)} replications"
                spread = Estimate(ratio, math.nan, math.nan, len(alike), note)
            cheaper, dearer = (mode, other) if rises else (other, mode)
            found.append(Crossover(cheaper, dearer, spread, time))
        return found

    @cached_property
    def summary(self) -> "DataFrame":
        """One row per mode, number of reads per write and metric."""
        return tables.summary(self.modes, self.ratios, self.estimate)

    @cached_property
    def runs(self) -> "DataFrame":
        """One row per run, one column per metric."""
        points = [(ratio, mode) for ratio in (None, *self.ratios) for mode in self.modes]
        labels = [point for point in points for _ in range(self.replications)]
        rows = [
            (mode, ratio, trace) for (ratio, mode), trace in zip(labels, self.traces, strict=True)
        ]
        return tables.runs(rows, self.scenario.program.steps)

    @cached_property
    def acts(self) -> "DataFrame":
        """One row per act in the runs of the program as it is written."""
        return tables.acts(self.written)

    @cached_property
    def sent(self) -> "DataFrame":
        """One row per message in the runs of the program as it is written."""
        return tables.sent(self.written)

    @cached_property
    def links(self) -> "DataFrame":
        """One row per link in the runs of the program as it is written."""
        return tables.links(self.written)

    @cached_property
    def carried(self) -> dict[str, dict[str, Carried]]:
        """By link, what it carried under every mode."""
        return carried((mode, trace.end, trace.links) for mode, trace in self.written)

    def _traces(self, mode: str, ratio: float | None) -> list[ProgramTrace]:
        point = 0 if ratio is None else 1 + self.ratios.index(ratio)
        start = (point * len(self.modes) + self.modes.index(mode)) * self.replications
        return self.traces[start : start + self.replications]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
