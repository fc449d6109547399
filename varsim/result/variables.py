"""The result of a scenario of variables: what each mode costs, and where they change places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

from varsim.cluster.execution import Sent
from varsim.cluster.program import ProgramTrace
from varsim.result.statistics import Estimate, interval
from varsim.variables import VariablesScenario


class ProgramMetric(NamedTuple):
    """One number of a run of a program."""

    unit: str
    description: str
    of: Callable[[ProgramTrace, int], float]  # the trace and its number of steps


METRICS: Final = {
    "time_per_step": ProgramMetric(
        "s",
        "from the moment the variables are there to the end, divided by the steps",
        lambda trace, steps: (trace.end - trace.began) / 1e9 / steps,
    ),
    "bytes_per_step": ProgramMetric(
        "B",
        "bytes sent over the network once the variables are there, divided by the steps",
        lambda trace, steps: sum(row.size for row in _working(trace)) / steps,
    ),
    "messages_per_step": ProgramMetric(
        "messages",
        "messages sent over the network once the variables are there, divided by the steps",
        lambda trace, steps: len(_working(trace)) / steps,
    ),
}


class Crossover(NamedTuple):
    """Where two modes take the same time per step."""

    first: str  # cheaper below
    second: str  # cheaper above
    reads_per_write: Estimate
    time_per_step: float  # s


@dataclass(frozen=True, repr=False, eq=False)
class VariablesResult:
    """What came of a scenario of variables.

    `traces`: first the program as it is written, mode by mode, each by replication; then the same
    for each entry of vary.reads_per_write.
    """

    scenario: VariablesScenario
    traces: list[ProgramTrace]
    saved_provenance: dict[str, str | int] = field(default_factory=dict)

    @property
    def modes(self) -> tuple[str, ...]:
        """What was compared, in the order of the scenario."""
        return self.scenario.labels

    @property
    def ratios(self) -> tuple[float, ...]:
        """The outside's reads per write that were tried."""
        return self.scenario.vary.reads_per_write if self.scenario.vary is not None else ()

    def trace(self, mode: str, replication: int = 0) -> ProgramTrace:
        """One run of the program as it is written."""
        return self._traces(mode, None)[replication]

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
        found = []
        for pair in combinations(self.modes, 2):
            curves = [
                [self.values(mode, "time_per_step", at) for at in self.ratios] for mode in pair
            ]
            means = [[sum(times) / len(times) for times in curve] for curve in curves]
            own = [
                crossings(self.ratios, *([times[number] for times in curve] for curve in curves))
                for number in range(self.scenario.replications)
            ]
            for index, (ratio, time, rises) in enumerate(crossings(self.ratios, *means)):
                same = all(len(one) == len(own[0]) > index for one in own)
                spread = interval([one[index][0] for one in own] if same else [ratio])
                cheaper, dearer = pair if rises else pair[::-1]
                found.append(Crossover(cheaper, dearer, spread._replace(mean=ratio), time))
        return found

    def _traces(self, mode: str, ratio: float | None) -> list[ProgramTrace]:
        point = 0 if ratio is None else 1 + self.ratios.index(ratio)
        count = self.scenario.replications
        start = (point * len(self.modes) + self.modes.index(mode)) * count
        return self.traces[start : start + count]


def crossings(
    places: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> list[tuple[float, float, bool]]:
    """Where two lines through points cross: place, height, and is `first` the lower one before?"""
    found = []
    last: tuple[float, float, float] | None = None  # the last point where they differed
    touching: tuple[float, float] | None = None  # a point since then where they did not
    for place, one, other in zip(places, first, second, strict=True):
        gap = one - other
        if gap == 0:
            touching = touching or (place, one)
            continue
        if last is not None and last[2] * gap < 0:
            share = last[2] / (last[2] - gap)
            between = (last[0] + share * (place - last[0]), last[1] + share * (one - last[1]))
            found.append((*(touching or between), last[2] < 0))
        last, touching = (place, one, gap), None
    return found


def _working(trace: ProgramTrace) -> list[Sent]:
    """What was sent once the variables were there."""
    return [row for row in trace.sent if row.start >= trace.began]
