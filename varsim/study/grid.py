"""The tidy table of a sweep: one row for every strategy of every point.

Both are ratios of mean throughputs. How sure they are follows from the paired ratio
(`verdict.lead_of`): replication by replication, in which both meet the same draws.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from varsim.scenario.fault import known
from varsim.scenario.space import Number, Sweep
from varsim.scenario.training import Scenario, is_random, steps_repeat, times_are_random
from varsim.scenario.use import replays_in_queues
from varsim.strategies import Strategy, families, meant
from varsim.study.case import Case, Finished, cases_of
from varsim.study.lives import INTERVAL, KEPT
from varsim.study.metrics import COMPUTED, COSTS, SENT, TABLE, metrics
from varsim.study.runs import STEERING, TARGET, Books, precise, steering
from varsim.study.shown import Shown
from varsim.study.store import Store
from varsim.study.verdict import (
    NOTHING,
    Done,
    Estimate,
    Ranking,
    interval,
    lead_of,
    paired,
    ranked,
)

if TYPE_CHECKING:
    from pandas import DataFrame


Cell: TypeAlias = Number
# The metrics that are columns; and of jobs that fail at random, too.
SHOWN: Final = (
    *(STEERING, "updates_per_s", "staleness_mean", "staleness_p99", "wasted_compute"),
    *("step_time_p99", TARGET, "final_loss"),
)
SHOWN_OF_LIVES: Final = (
    *("goodput", KEPT, "life_checkpoint", "life_lost", "availability", "interruptions"),
)
# Last words of paths that say nothing without the one before.
_OF_MANY: Final = ("kind", "mean", "shape", "value")
HALF_WIDTH: Final = "_half_width"
FITS: Final = "fits_memory"  # a column, where something does not


class Row(NamedTuple):
    """One strategy at one point: `estimates` by metric; `failure` says why there are none.

    `values` are those of every replication, by metric; equal replications of two rows are a pair.
    Rows of one `case` are of the same runs; `traces` are the hashes of what these simulated.
    `random`: whether its times, and whether anything of it, may differ between replications.
    `done`: how much its runs did.
    """

    point: int
    strategy: str
    case: str
    replications: int
    values: dict[str, tuple[float, ...]]
    random: tuple[bool, bool]
    precise: bool
    estimates: dict[str, Estimate]
    scaling: dict[str, Estimate]
    failure: str
    traces: tuple[str, ...] = ()
    done: Done = Done()

    def exact(self, metric: str) -> bool:
        """Whether nothing random has an effect on a metric."""
        return not self.random[TABLE[metric].of_values]

    def mean(self, metric: str) -> float:
        """The mean of a metric over replications; nan where it does not exist."""
        return self.estimates[metric].mean if metric in self.estimates else math.nan


@dataclass(frozen=True, repr=False)
class Table(Shown):
    """What came of a sweep; rows point by point, each by strategy."""

    product: ClassVar = "sweep"

    sweep: Sweep
    rows: tuple[Row, ...]

    @property
    def strategies(self) -> list[str]:
        """The labels of the strategies, in order."""
        return list(dict.fromkeys(row.strategy for row in self.rows))

    @property
    def families(self) -> Mapping[str, str]:
        """The family of each strategy."""
        points = self.sweep.points
        every = families(one for each in points for one in each.scenario.strategies)
        return {label: every[label] for label in self.strategies}

    def replays(self, row: Row) -> bool:
        """Whether recorded times meet in queues in a row: it repeats, but is no exact answer."""
        scenario = self.sweep.points[row.point].scenario
        strategy = scenario.strategy(row.strategy)
        return replays_in_queues(strategy, scenario.cluster_of(strategy))

    def strategy(self, label: str) -> Strategy:
        """The strategy of this label, as it is where it is first run."""
        point = next(row.point for row in self.rows if row.strategy == label)
        return self.sweep.points[point].scenario.strategy(label)

    def mattering(self, strategy: str) -> list[int]:
        """The indexes of the quantities that make a difference to the runs of a strategy."""
        return self._mattering[strategy]

    @cached_property
    def _mattering(self) -> dict[str, list[int]]:
        return mattering(self.sweep, [(row.point, row.strategy, row.case) for row in self.rows])

    def place(self, row: Row) -> dict[str, str]:
        """Where a row lies: what matters to its strategy, by the shortest names, and its values.

        Empty where nothing matters to it.
        """
        return self._named(row, self.mattering(row.strategy))

    def told(self, row: Row, without: Collection[int] = ()) -> str:
        """`place` in words: `workers = 8, batch_size = 32`; the whole point where it is empty.

        `without`: quantities that are not to be told of.
        """
        mattering = [index for index in self.mattering(row.strategy) if index not in without]
        place = self._named(row, mattering or range(len(self.sweep.quantities)))
        return ", ".join(f"{name} = {value}" for name, value in place.items())

    def told_for(self, row: Row, metric: str) -> str:
        """`place` in words, as far as it matters to a metric; empty where no point is better.

        A single point is told whole: it is where all of it was run.
        """
        if len(self.sweep.points) == 1:
            return self.told(row)
        idle = self.idle(row.strategy, metric)
        chosen = [index for index in self.mattering(row.strategy) if index not in idle]
        return ", ".join(f"{name} = {value}" for name, value in self._named(row, chosen).items())

    def _named(self, row: Row, chosen: Sequence[int]) -> dict[str, str]:
        names = short_names([self.sweep.quantities[index].path for index in chosen])
        values = self.sweep.points[row.point].values
        return {name: values[index].text for name, index in zip(names, chosen, strict=True)}

    def idle(self, strategy: str, metric: str) -> list[int]:
        """The quantities that matter to the runs of a strategy, but not to this metric of them.

        It is the same in every replication of any two rows that differ in their group alone.
        """
        own = [row for row in self.rows if row.strategy == strategy and metric in row.values]
        return [
            index
            for index in self.mattering(strategy)
            if self._leaves(self.sweep.quantities[index].group, own, metric)
        ]

    def _leaves(self, group: int, rows: Sequence[Row], metric: str) -> bool:
        seen: dict[tuple[str, ...], tuple[float, ...]] = {}
        compared = False
        for row in rows:
            pairs = zip(self.sweep.quantities, self.sweep.points[row.point].values, strict=True)
            others = tuple(value.text for one, value in pairs if one.group != group)
            values, first = row.values[metric], seen.get(others, row.values[metric])
            compared |= others in seen
            if any(a != b for a, b in zip(values, first, strict=False)):
                return False
            seen.setdefault(others, values)
        return compared

    @property
    def equal_within(self) -> float:
        """The share of a difference that does not matter."""
        return self.sweep.points[0].scenario.report.equal_within

    @property
    def failed(self) -> list[Row]:
        """The rows in which a run failed."""
        return [row for row in self.rows if row.failure]

    @property
    def currency(self) -> str:
        """That of the prices of the scenario; empty without prices."""
        prices = self.sweep.points[0].scenario.prices
        return "" if prices is None else prices.currency

    @property
    def shown(self) -> list[str]:
        """The metrics that are columns."""
        chosen = any(INTERVAL in row.values for row in self.rows)
        costs = COSTS if self.currency else ()
        return [*shown_of(self.sweep.points[0].scenario), *[INTERVAL][: int(chosen)], *costs]

    @property
    def columns(self) -> list[str]:
        """The names of the columns; metrics have the names that they have everywhere."""
        swept = [quantity.column for quantity in self.sweep.quantities]
        ratios = list(SPEEDS) if self.rows and self.rows[0].scaling else []
        estimated = [*self.shown, *ratios]
        shown = [name for column in estimated for name in (column, column + HALF_WIDTH)]
        fits = [FITS] if self.misfits else []
        return [*swept, "strategy", "replications", "precise", *fits, *shown, "failure"]

    @cached_property
    def misfits(self) -> set[tuple[int, str]]:
        """Point and strategy of what is known not to fit into memory."""
        return {
            (row.point, row.strategy)
            for row in self.rows
            for scenario in [self.sweep.points[row.point].scenario]
            if scenario.too_large(scenario.strategy(row.strategy))
        }

    def cells(self) -> Iterator[list[Cell]]:
        """The rows as plain values in the order of the columns; None where there is no number."""
        for row in self.rows:
            swept = [value.number for value in self.sweep.points[row.point].values]
            estimated = [row.estimates.get(metric) for metric in self.shown]
            shown = [
                _finite(part)
                for found in (*estimated, *row.scaling.values())
                for part in _mean_and_half_width(found)
            ]
            head: list[Cell] = [row.strategy, row.replications, row.precise]
            if self.misfits:
                head.append((row.point, row.strategy) not in self.misfits)
            yield [*swept, *head, *shown, row.failure]

    @property
    def sha256(self) -> str:
        """The hash of what was simulated at every point, by each strategy, in each replication.

        The same on any number of processes, in any order, with any version of the libraries that
        intervals are computed with.
        """
        points = (self.sweep.points[row.point].values for row in self.rows)
        simulated = [
            [[value.number for value in values], row.strategy, bool(row.failure), row.traces]
            for values, row in zip(points, self.rows, strict=True)
        ]
        swept = [quantity.path for quantity in self.sweep.quantities]
        return hashlib.sha256(json.dumps([swept, simulated]).encode()).hexdigest()

    def frame(self) -> "DataFrame":
        """The table as a DataFrame."""
        from pandas import DataFrame

        return DataFrame(list(self.cells()), columns=self.columns)

    @cached_property
    def runs(self) -> "DataFrame":
        """One row per strategy, point and replication: what is swept, then a column per metric."""
        from pandas import DataFrame

        swept = [quantity.column for quantity in self.sweep.quantities]
        return DataFrame(
            [
                dict(zip(swept, numbers, strict=True))
                | {"strategy": row.strategy, "replication": number}
                | {metric: values[number] for metric, values in row.values.items()}
                for row in self.rows
                for numbers in [[one.number for one in self.sweep.points[row.point].values]]
                for number in range(row.replications)
            ],
            columns=[*swept, "strategy", "replication", *self.shown],
        )

    def ranking(self, metric: str, *, highest: bool = False) -> Ranking[tuple[str, str]] | None:
        """All rows by one metric, each by its strategy and place; None where none has it."""
        known("metric", metric, self.shown)
        rows = {(row.strategy, self.told(row)): row for row in self.rows if metric in row.values}
        return ranked(
            {place: row.values[metric] for place, row in rows.items()},
            equal_within=self.equal_within,
            highest=highest,
            exact=lambda place: rows[place].exact(metric),
        )


class Grid:
    """What is run of a sweep; ValueError where it names a strategy that is not there."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        there = {s.label: s for point in sweep.points for s in point.scenario.strategies}
        for name in sweep.strategies:
            if not any(meant(list(there.values()), [name])):
                known = ", ".join(there)
                raise ValueError(f"no strategy {name!r} in this scenario; it has: {known}")

    @cached_property
    def cases(self) -> list[tuple[int, str, Case]]:
        """(point, label, case) of every row."""
        return cases_of(self.sweep, self.sweep.strategies)

    @property
    def distinct(self) -> list[Case]:
        """Every case once."""
        return list({case.key: case for _, _, case in self.cases}.values())

    def books(self, store: Store, cases: Sequence[Case] | None = None) -> Books:
        """What is known of some cases, by default of all, from the runs that are kept."""
        return Books(self.sweep, self.distinct if cases is None else cases, store.runs())

    def table(self, books: Books) -> Table:
        """The table, once all runs are there."""
        return table_of(self.sweep, self.cases, books)


def table_of(sweep: Sweep, cases: Sequence[tuple[int, str, Case]], books: Books) -> Table:
    """The table of a sweep whose runs have all been made; `cases` as `cases_of` gives them."""
    found = {case.key: books.runs(case.key) for _, _, case in cases}
    rows = [_row(sweep, point, label, case, found[case.key]) for point, label, case in cases]
    yardstick = Yardstick.of(sweep)
    if yardstick is None:
        return Table(sweep, tuple(rows))
    speeds = [
        Speed(
            row.point,
            row.strategy,
            case.scenario.strategies[0].kind,
            row.mean(STEERING),
            row.values.get(STEERING, ()),
            row.exact(STEERING),
        )
        for row, (_, _, case) in zip(rows, cases, strict=True)
    ]
    ratios = scaling(sweep, yardstick, speeds)
    return Table(
        sweep, tuple(row._replace(scaling=own) for row, own in zip(rows, ratios, strict=True))
    )


def mattering(sweep: Sweep, rows: Iterable[tuple[int, str, str]]) -> dict[str, list[int]]:
    """For each strategy, the indexes of the quantities that make a difference to its runs.

    `rows`: (point, strategy, case) of each row.
    """
    cases: dict[str, list[tuple[int, str]]] = {}
    for point, strategy, case in rows:
        cases.setdefault(strategy, []).append((point, case))
    scenario = sweep.points[0].scenario
    return {
        strategy: [
            index
            for index, quantity in enumerate(sweep.quantities)
            if len({case for _, case in own}) > 1
            and quantity.concerns(strategy, scenario)
            and _matters(sweep, index, own)
        ]
        for strategy, own in cases.items()
    }


def _matters(sweep: Sweep, index: int, cases: Iterable[tuple[int, str]]) -> bool:
    seen: dict[tuple[str, ...], str] = {}
    for point, case in cases:
        values = sweep.points[point].values
        others = tuple(value.text for i, value in enumerate(values) if i != index)
        if seen.setdefault(others, case) != case:
            return True
    group = sweep.quantities[index].group
    # What is zipped with others never changes alone.
    return sum(quantity.group == group for quantity in sweep.quantities) > 1


def shown_of(scenario: Scenario) -> tuple[str, ...]:
    """The metrics that are shown of the runs of a scenario."""
    return SHOWN if scenario.failures is None else SHOWN + SHOWN_OF_LIVES


def descriptions(table: Table) -> dict[str, str]:
    """What every column of the table means, with its unit."""
    said = {quantity.column: f"swept: {quantity.path}" for quantity in table.sweep.quantities}
    said |= {
        "strategy": "label of the strategy",
        "replications": "how often it was run",
        "precise": "whether the interval of examples_per_s, and of the time to the target loss if "
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


def short_names(paths: Sequence[str]) -> list[str]:
    """The end of each path: as many of its words as tell it from the others, none an index.

    Words that say nothing by themselves, such as `mean`, are told with the one before.
    """

    def ends(count: int) -> list[str]:
        return [".".join(path.split(".")[-count:]) for path in paths]

    found = []
    for index, path in enumerate(paths):
        words = path.split(".")
        counts = range(1 + (words[-1] in _OF_MANY and len(words) > 1), len(words) + 1)
        told = (names[index] for names in map(ends, counts) if names.count(names[index]) == 1)
        found.append(next((name for name in told if not name[0].isdigit()), path))
    return found


def _row(sweep: Sweep, point: int, label: str, case: Case, runs: Sequence[Finished]) -> Row:
    strategy = case.scenario.strategies[0]
    random = times_are_random(case.scenario, strategy), is_random(case.scenario, strategy)
    failures = [run.failure for run in runs if run.failure]
    made = len(runs) - len(failures)
    row = Row(point, label, case.key, made, {}, random, False, {}, {}, "".join(failures[:1]))
    row = row._replace(traces=tuple(run.trace for run in runs))
    if failures:
        return row
    shown = shown_of(case.scenario)
    values = {metric: tuple(run.measured[metric] for run in runs) for metric in shown}
    if all(INTERVAL in run.measured for run in runs):
        values[INTERVAL] = tuple(run.measured[INTERVAL] for run in runs)
    values |= _costs(sweep.points[point].scenario, label, runs)
    steered = [
        values[metric]
        for metric in steering(case.scenario)
        if metric in (STEERING, KEPT) or all(map(math.isfinite, values[metric]))
    ]
    done = Done.of([run.measured for run in runs], COMPUTED, strategy.round.steps)
    return row._replace(
        values=values,
        done=done._replace(gradients=math.inf) if steps_repeat(case.scenario, strategy) else done,
        precise=not random[1] or all(precise(own, sweep.precision) for own in steered),
        estimates={
            metric: interval(own, exact=row.exact(metric)) for metric, own in values.items()
        },
    )


def _costs(
    scenario: Scenario, label: str, runs: Sequence[Finished]
) -> dict[str, tuple[float, ...]]:
    """Each of COSTS in every run of a strategy; nothing without prices."""
    prices = scenario.prices
    if prices is None:
        return {}
    machines = scenario.hourly(scenario.strategy(label))
    each = [
        prices.costs(
            machines,
            run.measured[SENT],
            run.measured.get(KEPT, run.measured[STEERING]),
            run.measured["time_to_target"],
        )
        for run in runs
    ]
    return {name: tuple(one[name] for one in each) for name in COSTS}


def _mean_and_half_width(estimate: Estimate | None) -> tuple[float, float]:
    return (math.nan, math.nan) if estimate is None else (estimate.mean, estimate.half_width)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_WORKERS: Final = "cluster.workers"
# The columns of the table, and what they mean.
SPEEDS: Final = {
    "speedup": "examples/s, as a multiple of the yardstick's: `single` at the same point if it is "
    "swept along, else this strategy with the fewest workers, each of which counts as one",
    "efficiency": "speedup / workers",
}


class Speed(NamedTuple):
    """The throughput of one strategy at one point: its mean, and that of every replication.

    `exact`: nothing random has an effect on it.
    """

    point: int
    strategy: str
    kind: str
    mean: float
    examples_per_s: Sequence[float]
    exact: bool

    def over(self, other: "Speed", of: int = 1) -> Estimate:
        """How many times as fast it is as one of the `of` workers of another; nan without a speed.

        The interval lies evenly about the ratio of the means and holds that of the paired ratio,
        which is over the replications that both have.
        """
        if not other.mean > 0 or not self.examples_per_s:
            return NOTHING
        mean = self.mean / (other.mean / of)
        exact = self.exact, other.exact
        lead = lead_of(*paired(self.examples_per_s, other.examples_per_s, exact), exact=all(exact))
        half = 0.0 if lead.low == lead.high else max(mean - of * lead.low, of * lead.high - mean)
        return Estimate(mean, mean - half, mean + half, lead.replications)


class Yardstick(NamedTuple):
    """Where the number of workers stands among the quantities, and which of them go with it."""

    place: int
    group: int

    @classmethod
    def of(cls, sweep: Sweep) -> "Yardstick | None":
        """None where the number of workers is not swept, or nothing to compare with."""
        for index, quantity in enumerate(sweep.quantities):
            if quantity.path == _WORKERS:
                numbers = {point.values[index].number for point in sweep.points}
                kinds = {one.kind for one in sweep.points[0].scenario.strategies}
                if len(numbers) > 1 or "single" in kinds:
                    return cls(index, quantity.group)
        return None


def scaling(
    sweep: Sweep, yardstick: Yardstick, speeds: Sequence[Speed]
) -> list[dict[str, Estimate]]:
    """Speed-up and efficiency of each of `speeds`; nan where there is nothing to compare with.

    Compared are points that differ in the number of workers, and what is zipped with it, only.
    """
    alone = {one.point: one for one in speeds if one.kind == "single"}
    fewest: dict[tuple[object, ...], tuple[int, Speed]] = {}
    for one in speeds:
        workers = _workers(sweep, yardstick, one.point)
        key = (one.strategy, *_elsewhere(sweep, yardstick, one.point))
        if key not in fewest or workers < fewest[key][0]:
            fewest[key] = (workers, one)
    found = []
    for one in speeds:
        workers = _workers(sweep, yardstick, one.point)
        least, slowest = fewest[one.strategy, *_elsewhere(sweep, yardstick, one.point)]
        if one.point in alone:
            least, slowest = 1, alone[one.point]
        speedup = one.over(slowest, least)
        taking_part = 1 if one.kind == "single" else workers
        mean, low, high = (part / taking_part for part in speedup[:3])
        efficiency = speedup._replace(mean=mean, low=low, high=high)
        found.append({"speedup": speedup, "efficiency": efficiency})
    return found


def _workers(sweep: Sweep, yardstick: Yardstick, point: int) -> int:
    number = sweep.points[point].values[yardstick.place].number
    assert isinstance(number, int), "the scenario of the point was validated"
    return number


def _elsewhere(sweep: Sweep, yardstick: Yardstick, point: int) -> list[str]:
    """The values of all quantities that do not change with the number of workers."""
    pairs = zip(sweep.quantities, sweep.points[point].values, strict=True)
    return [value.text for quantity, value in pairs if quantity.group != yardstick.group]
