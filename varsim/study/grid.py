"""A sweep: every strategy at every point, and the tidy table of what came of it.

Speed-up and efficiency are ratios of mean throughputs. How sure they are follows from the paired
ratio (`verdict.lead_of`): replication by replication, in which both meet the same draws.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import ClassVar, Final, NamedTuple, TypeAlias

from varsim.scenario.fault import known
from varsim.scenario.space import Number, Sweep
from varsim.scenario.training import Scenario
from varsim.scenario.use import replays_in_queues
from varsim.strategies import Strategy, chosen, families, meant
from varsim.study.candidate import Candidate, CandidateOutcome, Places
from varsim.study.case import Case
from varsim.study.lives import INTERVAL, KEPT
from varsim.study.metrics import COSTS, OF_PROGRAMS, TABLE, metrics
from varsim.study.runs import STEERING, TARGET, Runs, precise, speed_of, steering, until_precise
from varsim.study.shown import OfRuns
from varsim.study.verdict import NOTHING, Estimate, Ranking, interval, lead_of, paired, ranked

Cell: TypeAlias = Number
# The metrics that are columns; and of jobs that fail at random, too.
SHOWN: Final = (
    *(STEERING, "updates_per_s", "staleness_mean", "staleness_p99", "wasted_compute"),
    *("step_time_p99", TARGET, "final_loss"),
)
SHOWN_OF_LIVES: Final = (
    *("goodput", KEPT, "life_checkpoint", "life_lost", "availability", "interruptions"),
)
# Of programs all that they have, but for these.
_UNSHOWN: Final = ("simulated_time", "updates", "link_bytes", "busiest_link")
HALF_WIDTH: Final = "_half_width"
FITS: Final = "fits_memory"  # a column, where something does not
# The columns of how a strategy scales, and what they mean.
SPEEDS: Final = {
    "speedup": "examples/s, as a multiple of the yardstick's: `single` at the same point if it is "
    "swept along, else this strategy with the fewest workers, each of which counts as one",
    "efficiency": "speedup / workers",
}


class Grid:
    """The study of a sweep: each case is run until it is known well enough.

    `part`: only every n-th case from the m-th on (m, n). ValueError where the sweep names a
    strategy that is not there.
    """

    def __init__(self, sweep: Sweep, part: tuple[int, int] = (1, 1)) -> None:
        self.sweep, self._part = sweep, part
        self.first = sweep.first_replications
        there = [one for point in sweep.points for one in point.scenario.strategies]
        chosen(there, sweep.strategies)  # refuses what is not there

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Every strategy of every point, in this order."""
        rows = [
            (at, point, strategy.label)
            for at, point in enumerate(self.sweep.points)
            for strategy in compress(
                point.scenario.strategies, meant(point.scenario.strategies, self.sweep.strategies)
            )
        ]
        return [Candidate.of(n, point, label, at) for n, (at, point, label) in enumerate(rows)]

    @cached_property
    def distinct(self) -> list[Case]:
        """Every case once, of all parts."""
        return list({one.case.key: one.case for one in self.candidates}.values())

    @property
    def cases(self) -> list[Case]:
        """Every case of this part once."""
        number, of = self._part
        return self.distinct[number - 1 :: of]

    def begin(self, runs: Runs) -> list[Case]:
        """Ask for all cases; a case for each run that is missing at first."""
        asked = self.sweep
        rule = until_precise(self.first, asked.most_replications, asked.precision)
        runs.ask((case, rule) for case in self.cases)
        return [runs.cases[key] for key, _ in runs.todo]

    def run(self, runs: Runs) -> "SweepTable":
        """Make all runs of a sweep that has begun; its table."""
        runs.make()
        return self.table(runs)

    def table(self, runs: Runs) -> "SweepTable":
        """The table, once all runs are there."""
        rows = [
            GridRow(one, tuple(runs.of(one.case)), self.sweep.precision) for one in self.candidates
        ]
        yardstick = Yardstick.of(self.sweep)
        ratios = [{}] * len(rows) if yardstick is None else scaling(yardstick, rows)
        return SweepTable(
            self.sweep,
            tuple(replace(row, scaling=own) for row, own in zip(rows, ratios, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class GridRow(CandidateOutcome):
    """One strategy at one point; `scaling`: its speed-up and efficiency, where it has them."""

    precision: float = 0.0
    scaling: Mapping[str, Estimate] = field(default_factory=dict)

    @cached_property
    def precise(self) -> bool:
        """Whether it is known as precisely as was asked for."""
        if self.failure:
            return False
        steered = [
            own
            for metric in steering(self.candidate.case.scenario)
            if metric != TARGET or all(map(math.isfinite, self.values(metric)))
            for own in [self.values(metric)]
        ]
        return not self.random[1] or all(precise(own, self.precision) for own in steered)

    @property
    def counts(self) -> bool:
        """Whether it can be an answer: it is long enough, and fits into memory."""
        return not self.done.too_short and not self.candidate.too_large

    @property
    def replays(self) -> bool:
        """Whether recorded times meet in queues: it repeats, but is no exact answer."""
        scenario, strategy = self.scenario, self.candidate.strategy
        if not isinstance(scenario, Scenario):
            return False
        return replays_in_queues(strategy, scenario.cluster_of(strategy))


@dataclass(frozen=True, repr=False)
class SweepTable(OfRuns):
    """Result of a sweep: a row for each strategy at each point.

    Examples
    --------
    >>> import varsim
    >>> axis = {"cluster.slow_workers.0.factor": [1, 2], "stop.time": 2}
    >>> table = varsim.sweep("slow_worker", axis, strategies=["on_write"])
    >>> table.ranking("examples_per_s", highest=True).best
    ('on_write', 'factor = 1')

    """

    offers = (*OfRuns.offers, "sweep", "strategies", "rows")
    product: ClassVar = "sweep"

    sweep: Sweep
    rows: tuple[GridRow, ...]

    @property
    def strategies(self) -> list[str]:
        """Labels of the strategies, in order."""
        return list(dict.fromkeys(row.strategy for row in self.rows))

    @property
    def families(self) -> Mapping[str, str]:
        """The family of each strategy."""
        points = self.sweep.points
        every = families(one for each in points for one in each.scenario.strategies)
        return {label: every[label] for label in self.strategies}

    def strategy(self, label: str) -> Strategy:
        """The strategy of this label, as it is where it is first run."""
        return next(row.candidate.strategy for row in self.rows if row.strategy == label)

    @cached_property
    def places(self) -> Places:
        """Where its rows lie: by what makes a difference to runs."""
        return Places(self.sweep.quantities, (row.candidate for row in self.rows), priced=False)

    def mattering(self, strategy: str, metric: str = "") -> list[int]:
        """The indexes of the quantities that make a difference to the runs of a strategy.

        With a metric: to that of them. It is the same where it is equal in every replication of any
        two rows that differ in a group alone.
        """
        found = self.places.matters(strategy)
        if not metric:
            return found
        own = [row for row in self.rows if row.strategy == strategy and row.has(metric)]
        return [i for i in found if not self._idle(self.sweep.quantities[i].group, own, metric)]

    def _idle(self, group: int, rows: Sequence[GridRow], metric: str) -> bool:
        seen: dict[tuple[str, ...], tuple[float, ...]] = {}
        compared = False
        for row in rows:
            pairs = zip(self.sweep.quantities, row.candidate.point.values, strict=True)
            others = tuple(value.text for one, value in pairs if one.group != group)
            values, first = row.values(metric), seen.get(others, row.values(metric))
            compared |= others in seen
            if any(a != b for a, b in zip(values, first, strict=False)):
                return False
            seen.setdefault(others, values)
        return compared

    def place(self, row: GridRow) -> dict[str, str]:
        """Where a row lies: what matters to its strategy, by the shortest names, and its values.

        Empty where nothing matters to it.
        """
        return self.places.values(row.candidate, self.mattering(row.strategy))

    def told(self, row: GridRow, without: Collection[int] = ()) -> str:
        """`place` in words: `workers = 8, batch_size = 32`; the whole point where it is empty.

        `without`: quantities that are not to be told of.
        """
        chosen = [index for index in self.mattering(row.strategy) if index not in without]
        return self.places.told(row.candidate, chosen or range(len(self.sweep.quantities)))

    def told_for(self, row: GridRow, metric: str) -> str:
        """`place` in words, as far as it matters to a metric; empty where no point is better.

        A single point is told whole: it is where all of it was run.
        """
        if len(self.sweep.points) == 1:
            return self.told(row)
        return self.places.told(row.candidate, self.mattering(row.strategy, metric))

    @property
    def equal_within(self) -> float:
        """The share of a difference that does not matter."""
        return self.sweep.points[0].scenario.report.equal_within

    @property
    def failed(self) -> list[GridRow]:
        """The rows in which a run failed."""
        return [row for row in self.rows if row.failure]

    @cached_property
    def too_large(self) -> list[GridRow]:
        """The rows that are known not to fit into memory."""
        return [row for row in self.rows if row.candidate.too_large]

    @property
    def currency(self) -> str:
        """That of the prices of the scenario; empty without prices."""
        prices = self.sweep.points[0].scenario.prices
        return "" if prices is None else prices.currency

    @cached_property
    def shown(self) -> list[str]:
        """The metrics that are columns."""
        if not isinstance(self.sweep.points[0].scenario, Scenario):
            return [name for name in OF_PROGRAMS if name not in _UNSHOWN]
        lives = SHOWN_OF_LIVES if self.sweep.points[0].scenario.failures is not None else ()
        chosen = [INTERVAL] if any(row.has(INTERVAL) for row in self.rows) else []
        return [*SHOWN, *lives, *chosen, *(COSTS if self.currency else ())]

    @property
    def columns(self) -> list[str]:
        """The names of the columns; metrics have the names that they have everywhere."""
        swept = [quantity.column for quantity in self.sweep.quantities]
        ratios = list(SPEEDS) if self.rows and self.rows[0].scaling else []
        shown = [
            name for column in (*self.shown, *ratios) for name in (column, column + HALF_WIDTH)
        ]
        fits = [FITS] if self.too_large else []
        return [*swept, "strategy", "replications", "precise", *fits, *shown, "failure"]

    def cells(self) -> Iterator[list[Cell]]:
        """The rows as plain values in the order of the columns; None where there is no number."""
        for row in self.rows:
            head: list[Cell] = [row.strategy, row.replications, row.precise]
            head += [not row.candidate.too_large] if self.too_large else []
            found = [*map(row.estimate, self.shown), *row.scaling.values()]
            parts = (part for each in found for part in (each.mean, each.half_width))
            shown = (part if math.isfinite(part) else None for part in parts)
            yield [*_numbers(row), *head, *shown, row.failure]

    @property
    def sha256(self) -> str:
        """SHA-256 of all that was simulated: the same on any number of processes, in any order."""
        swept = [quantity.path for quantity in self.sweep.quantities]
        simulated = [
            [_numbers(row), row.strategy, bool(row.failure), row.traces] for row in self.rows
        ]
        return hashlib.sha256(json.dumps([swept, simulated]).encode()).hexdigest()

    @property
    def run_columns(self) -> list[str]:
        """The columns of `runs`."""
        swept = [quantity.column for quantity in self.sweep.quantities]
        return [*swept, "strategy", "replication", *self.shown]

    @property
    def run_rows(self) -> list[list[object]]:
        """The rows of `runs`; nan where a row has no such metric."""
        return [
            [*_numbers(row), row.strategy, number, *values]
            for row in self.rows
            if not row.failure
            for number, values in enumerate(zip(*map(row.each, self.shown), strict=True))
        ]

    def ranking(self, metric: str, *, highest: bool = False) -> Ranking[tuple[str, str]] | None:
        """Rank all rows by one metric.

        Parameters
        ----------
        metric : str
            A column of `frame()`, such as `"examples_per_s"`.
        highest : bool, default False
            Whether the highest is the best.

        Returns
        -------
        Ranking or None
            Each row is named by its strategy and place; None where none has the metric.

        Raises
        ------
        ValueError
            With the nearest name, if there is no such metric.

        """
        known("metric", metric, self.shown)
        rows = {(row.strategy, self.told(row)): row for row in self.rows if row.has(metric)}
        return ranked(
            {place: row.values(metric) for place, row in rows.items()},
            equal_within=self.equal_within,
            highest=highest,
            exact=lambda place: rows[place].exact(metric),
        )


def descriptions(table: SweepTable) -> dict[str, str]:
    """What every column of the table means, with its unit."""
    said = {quantity.column: f"swept: {quantity.path}" for quantity in table.sweep.quantities}
    said |= {
        "strategy": "label of the strategy",
        "replications": "how often it was run",
        "precise": "whether the interval of the throughput, and of the time to the target loss if "
        "there is one, is as narrow as was asked for",
        FITS: "false where it needs more memory than there is; times are those with enough",
        "failure": "why a run failed; empty if none did",
    }
    about = TABLE | metrics(table.sweep.points[0].scenario)
    for metric in table.shown:
        unit = table.currency + about[metric].unit if metric in COSTS else about[metric].unit
        said[metric] = f"{about[metric].description} [{unit or '1'}]: mean over replications"
    for column in (*table.shown, *SPEEDS):
        said[column + HALF_WIDTH] = (
            "half-width of its 95 % confidence interval (Student t); 0 where nothing random has an "
            "effect"
        )
    return {name: {**said, **SPEEDS}[name] for name in table.columns}


def _numbers(row: GridRow) -> list[Number]:
    return [value.number for value in row.candidate.point.values]


_WORKERS: Final = "cluster.workers"


class Yardstick(NamedTuple):
    """Where the number of workers stands among the quantities, and which of them go with it.

    `others`: the indexes of all that do not change with it.
    """

    place: int
    others: tuple[int, ...]

    @classmethod
    def of(cls, sweep: Sweep) -> "Yardstick | None":
        """None where the number of workers is not swept, or nothing to compare with."""
        for index, quantity in enumerate(sweep.quantities):
            if quantity.path == _WORKERS:
                numbers = {point.values[index].number for point in sweep.points}
                kinds = {one.kind for one in sweep.points[0].scenario.strategies}
                if len(numbers) > 1 or "single" in kinds:
                    every = enumerate(sweep.quantities)
                    return cls(index, tuple(i for i, q in every if q.group != quantity.group))
        return None

    def workers(self, row: CandidateOutcome) -> int:
        """How many workers there are at a row."""
        number = row.candidate.point.values[self.place].number
        assert isinstance(number, int), "the scenario of the point was validated"
        return number

    def line(self, row: CandidateOutcome) -> tuple[str, ...]:
        """Equal for rows of one strategy that differ in the number of workers alone."""
        values = row.candidate.point.values
        return row.strategy, *(values[index].text for index in self.others)


def scaling(yardstick: Yardstick, rows: Sequence[GridRow]) -> list[dict[str, Estimate]]:
    """Speed-up and efficiency of each row; nan where there is nothing to compare with.

    Compared are points that differ in the number of workers, and what is zipped with it, only.
    """
    kinds = {id(row): row.candidate.strategy.kind for row in rows}
    alone = {row.candidate.at: row for row in rows if kinds[id(row)] == "single"}
    fewest: dict[tuple[str, ...], GridRow] = {}
    for row in rows:
        slowest = fewest.setdefault(yardstick.line(row), row)
        if yardstick.workers(row) < yardstick.workers(slowest):
            fewest[yardstick.line(row)] = row
    found = []
    for row in rows:
        slowest, workers = fewest[yardstick.line(row)], yardstick.workers(row)
        least = yardstick.workers(slowest)
        if row.candidate.at in alone:
            least, slowest = 1, alone[row.candidate.at]
        speed = speed_of(row.scenario)
        exact = row.exact(speed), slowest.exact(speed)
        speedup = times_as_fast(row.values(speed), slowest.values(speed), exact, of=least)
        taking_part = 1 if kinds[id(row)] == "single" else workers
        mean, low, high = (part / taking_part for part in speedup[:3])
        efficiency = speedup._replace(mean=mean, low=low, high=high)
        found.append({"speedup": speedup, "efficiency": efficiency})
    return found


def times_as_fast(
    one: Sequence[float],
    other: Sequence[float],
    exact: tuple[bool, bool] = (False, False),
    of: int = 1,
) -> Estimate:
    """How many times as fast it is as one of the `of` workers of another; nan without a speed.

    The interval lies evenly about the ratio of the means and holds that of the paired ratio, which
    is over the replications that both have.
    """
    slow = interval(other).mean
    if not slow > 0 or not one:
        return NOTHING
    mean = interval(one).mean / (slow / of)
    lead = lead_of(*paired(one, other, exact), exact=all(exact))
    half = 0.0 if lead.low == lead.high else max(mean - of * lead.low, of * lead.high - mean)
    return Estimate(mean, mean - half, mean + half, lead.replications)
