"""The points of a sweep: where each lies, which are as good, its numbers, and them drawn."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from varsim.report.products import candidates
from varsim.report.told import Cell, Chart, Column, Number, Table
from varsim.report.wording import names
from varsim.study.candidate import front_of, short_names
from varsim.study.grid import GridRow, SweepTable, Yardstick
from varsim.study.lives import INTERVAL, KEPT
from varsim.study.metrics import STEPS, throughput
from varsim.study.runs import STEERING, TARGET
from varsim.study.verdict import NOTHING, Estimate, Ranking, ranked

MILLION: Final = "cost_per_million_examples"
MOST_ROWS: Final = 2000  # of all points; results.csv has more
EFFICIENCY: Final = "efficiency"
DETAILS: Final = ("staleness_p99", "cost_per_hour", EFFICIENCY)
SPEEDS: Final = {STEERING: "examples/s", KEPT: "examples/s kept", STEPS: "steps/s"}


def speed(row: GridRow) -> str:
    """The metric by which rows are compared: of what is kept, where hosts fail; steps/s."""
    return throughput(row.scenario)


def ranking(
    table: SweepTable, rows: Sequence[GridRow], metric: str, *, highest: bool = True, of: int = 0
) -> Ranking[int] | None:
    """Some rows, by their place among them; `of`: from how many they were chosen."""
    return ranked(
        {index: row.values(metric) for index, row in enumerate(rows)},
        equal_within=table.equal_within,
        highest=highest,
        exact=lambda index: rows[index].exact(metric),
        chosen_from=of,
    )


def points(
    table: SweepTable,
    rows: Sequence[GridRow] = (),
    places: Sequence[Mapping[str, str]] = (),
    corner: str = "all points",
    best: int = 0,
) -> Table:
    """A row for each of these rows, by default of all: where it lies, and its numbers."""
    rows = rows or table.rows[:MOST_ROWS]
    columns = []
    if not all(row.counts for row in rows):
        columns.append(Column("verdict", "ranked", tuple(map(_ranked, rows))))
    for metric, head, unit in metrics(table):
        cells = tuple(cell_of(row, metric, unit) for row in rows)
        detail = metric in DETAILS
        columns.append(Column(metric, head, cells, bar=metric in (STEERING, STEPS), detail=detail))
    runs = tuple(str(row.replications) for row in rows)
    columns.append(Column("replications", "replications", runs, detail=True))
    named = {label: name_of(table, label) for label in table.strategies}
    names = (named[row.strategy] for row in rows)
    places = places or [table.place(row) for row in rows]
    return candidates.table(names, places, columns, corner, best=best)


def _ranked(row: GridRow) -> str:
    """Whether a row can be an answer, and why not."""
    if row.counts or row.failure:
        return "yes" if row.counts else "failed"
    return "too large" if row.candidate.too_large else "too short"


def best_for_cost(table: SweepTable) -> list[GridRow]:
    """The front of cost and throughput: rows that are surely faster than all that cost less."""
    metric, cost = speed(table.rows[0]), "cost_per_hour"
    there = [row for row in table.rows if math.isfinite(row.mean(cost) + row.mean(metric))]
    sure, _ = front_of(there, lambda row: row.mean(cost), metric, table.equal_within)
    return sure


def metrics(table: SweepTable) -> list[tuple[str, str, str]]:
    """Metric, heading and unit of the columns, the throughput first."""
    if speed(table.rows[0]) == STEPS:
        return [
            (STEPS, "steps/s", ""),
            ("step_time_mean", "a step", "s"),
            ("bytes_per_step", "sent a step", "B"),
            ("messages_per_step", "messages a step", ""),
        ]
    kept = any(row.has(KEPT) for row in table.rows)
    found = [(STEERING, "examples/s", "")]
    if kept:
        found = [(KEPT, "examples/s kept", ""), ("goodput", "goodput", "share"), *found]
        found.append(("interruptions", "interruptions", ""))
    if INTERVAL in table.shown:
        found.append((INTERVAL, "optimal interval", "days"))
    found += [("wasted_compute", "wasted", "share"), ("staleness_mean", "stale", "")]
    if any(row.mean(TARGET) > 0 for row in table.rows):
        found.append((TARGET, "to target", "s"))
    if table.currency:
        found.append((MILLION, f"{table.currency} per million examples", ""))
        found.append(("cost_per_hour", f"{table.currency}/h", ""))
    found.append(("staleness_p99", "stale p99", ""))
    if any(row.scaling for row in table.rows):
        found.append((EFFICIENCY, "efficiency", "share"))
    return found


def cell_of(row: GridRow | None, metric: str, unit: str) -> Cell:
    """A metric of a row; "-" where it has none."""
    if row is None:
        return "-"
    if row.failure:
        return "failed" if metric in SPEEDS else "-"
    if metric in row.scaling:
        return Number.of(row.scaling[metric], unit)
    return Number.of(row.estimate(metric), unit) if row.has(metric) else "-"


def unit_of(metric: str) -> str:
    """What a throughput is counted in."""
    return SPEEDS[metric]


def name_of(table: SweepTable, label: str) -> str:
    """A strategy as people call it: of its settings, those that are swept are not told."""
    every = {names(row.scenario)[label] for row in table.rows if row.strategy == label}
    if len(every) == 1:
        return every.pop()
    one = table.strategy(label)
    return one.title if one.name is not None else one.called or one.kind


def spans(table: SweepTable, rows: Sequence[GridRow], best: GridRow, metric: str) -> dict[int, str]:
    """The values that rows of one strategy have of each quantity that matters to a metric.

    By the index of the quantity, `4 to 32` where there are several. Where the rows are not all that
    lie between those: the values of the row with the fewest machines, if that are fewer than those
    of the best. Empty where there is nothing better to say than the best.
    """
    if len(rows) < 2:
        return {}
    points, quantities = table.sweep.points, table.sweep.quantities
    chosen = table.mattering(best.strategy, metric)
    told, count = dict[int, str](), 1
    for group in dict.fromkeys(quantities[index].group for index in chosen):
        own = [index for index in chosen if quantities[index].group == group]
        every = [tuple(point.values[index].text for index in own) for point in points]
        order = list(dict.fromkeys(every))
        there = sorted({order.index(every[row.candidate.at]) for row in rows})
        several = len(there) > 1
        count *= len(there) if there[-1] - there[0] < len(there) else 0
        count *= not several or all(_rises(table, index) for index in own)
        ends = zip(own, order[there[0]], order[there[-1]], strict=True)
        told |= {index: f"{low} to {high}" if several else low for index, low, high in ends}
    if count == len(rows):
        return told
    least = min(rows, key=lambda row: (_machines(row), row.candidate.at))
    if _machines(least) >= _machines(best):
        return {}
    return {index: least.candidate.point.values[index].text for index in chosen}


def in_words(table: SweepTable, found: Mapping[int, str]) -> str:
    """Such values in words: `servers = 4 to 32, bandwidth = 100 Gbit/s`."""
    names = short_names([table.sweep.quantities[index].path for index in found])
    return ", ".join(f"{name} = {text}" for name, text in zip(names, found.values(), strict=True))


def place(table: SweepTable, row: GridRow, found: Mapping[int, str]) -> dict[str, str]:
    """`Table.place` of a row, with such values where there are some."""
    indexes = table.mattering(row.strategy)
    return dict(zip(table.place(row), (_text(table, row, found, i) for i in indexes), strict=True))


def _text(table: SweepTable, row: GridRow, found: Mapping[int, str], index: int) -> str:
    return found.get(index, row.candidate.point.values[index].text)


def _rises(table: SweepTable, index: int) -> bool:
    """Whether a quantity has numbers that only rise, or only fall."""
    values = list(dict.fromkeys(point.values[index].number for point in table.sweep.points))
    numbers = [one for one in values if isinstance(one, int | float)]
    return len(numbers) == len(values) and sorted(numbers) in (numbers, numbers[::-1])


def _machines(row: GridRow) -> int:
    """The workers and dedicated servers of a row."""
    return row.candidate.machines.workers + row.candidate.machines.servers


_MOST_PANELS: Final = 6
_MOST_PAIRS: Final = 3  # of panels of speed-up and efficiency
_WIDE: Final = 16  # times the smallest value is the largest where an axis is logarithmic
_KIND: Final = re.compile(r"\{kind: (\w+)[,}]")
_IDEAL: Final = "ideal"  # speed-up


class ShownAxis(NamedTuple):
    """A quantity along an axis: where its values stand, by their text."""

    place: int  # among the quantities of the sweep
    label: str
    places: dict[str, float]
    log: bool
    numeric: bool

    def x(self, table: SweepTable, row: GridRow) -> float:
        """Where a row stands."""
        return self.places[row.candidate.point.values[self.place].text]

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """What is written at its values: all of it, or the kind where that tells them apart."""
        kinds = [found[1] for text in self.places if (found := _KIND.match(text))]
        texts = kinds if len(set(kinds)) == len(self.places) else list(self.places)
        return tuple(zip(self.places.values(), texts, strict=True))


def pictures(
    table: SweepTable, named: Mapping[str, str], bests: Sequence[GridRow], charts: Sequence[Chart]
) -> tuple[Chart, ...]:
    """All of them; `bests`: the best row of each strategy that counts; `charts`: of the page."""
    best, (axis, *others) = {id(row) for row in bests}, axes(table)
    metric, target = speed(table.rows[0]), table.sweep.points[0].scenario.target_loss
    found = [*_along(table, named, axis, "throughput", metric, unit_of(metric), best)]
    for name, of, y in (
        ("staleness", "staleness_mean", "staleness of gradients, in updates"),
        ("wasted", "wasted_compute", "wasted compute time (share)"),
        ("time_to_target", TARGET, f"time to loss {target:g} (s)" if target is not None else ""),
    ):
        if any(row.mean(of) > 0 for row in table.rows):
            found += _along(table, named, axis, name, of, y)
    if len(others) == 1:
        found += _heat(table, named, (axis, others[0]), metric, best)
    return (*found, *_scaling(table, named), *_price(table, charts))


def axes(table: SweepTable) -> list[ShownAxis]:
    """One for each quantity that is swept by itself: numbers first, then that of most values."""
    found = [_axis(table, index) for index in table.sweep.groups]
    return sorted(found, key=lambda one: (one.numeric, len(one.places)), reverse=True)


def _axis(table: SweepTable, index: int) -> ShownAxis:
    """The axis of a quantity; values that are no numbers stand in their order."""
    values = {point.values[index].text: point.values[index].number for point in table.sweep.points}
    numbers = {
        text: float(one)
        for text, one in values.items()
        if isinstance(one, int | float) and not isinstance(one, bool)
    }
    # Of the same thing of several strategies, what that is.
    quantity = table.sweep.quantities[index]
    together = [one.path for one in table.sweep.quantities if one.group == quantity.group]
    last = {path.rpartition(".")[2] for path in together}
    label = last.pop() if len(together) > 1 and len(last) == 1 else quantity.path
    if len(numbers) < len(values):
        places = {text: float(place) for place, text in enumerate(values)}
        return ShownAxis(index, label, places, log=False, numeric=False)
    low, high = min(numbers.values()), max(numbers.values())
    return ShownAxis(
        index, label, numbers, 0 < _WIDE * low <= high and len(numbers) > 2, numeric=True
    )


def beside(table: SweepTable, axis: ShownAxis, most: int) -> dict[str, list[GridRow]]:
    """The rows by what else is swept, in the order of the axis; at most so many, evenly chosen."""
    group = table.sweep.quantities[axis.place].group
    others = [one for one in table.sweep.groups if table.sweep.quantities[one].group != group]
    found: dict[str, list[GridRow]] = {}
    for row in sorted(table.rows, key=lambda row: axis.x(table, row)):
        values = row.candidate.point.values
        where = (f"{table.sweep.quantities[one].path} = {values[one].text}" for one in others)
        found.setdefault(", ".join(where), []).append(row)
    names = list(found)
    if len(names) > most:
        names = [names[round(at * (len(names) - 1) / (most - 1))] for at in range(most)]
    return {name: found[name] for name in names}


def _along(
    table: SweepTable,
    named: Mapping[str, str],
    axis: ShownAxis,
    name: str,
    metric: str,
    y: str,
    best: Collection[int] = (),
) -> Iterator[Chart]:
    """A metric of every strategy along an axis, a panel for each value of what else is swept."""
    found: list[dict[str, Any]] = []
    for heading, rows in beside(table, axis, _MOST_PANELS).items():
        for label in table.strategies:
            own = [row for row in rows if row.strategy == label and not row.failure]
            flat = len({row.candidate.case.key for row in own}) == 1 < len(own)
            found += [
                {
                    **_place(named[label], heading, axis.x(table, row), row.estimate(metric)),
                    "flat": flat,
                    "ring": id(row) in best and len(own) > 1 and not flat,
                }
                for row in own
                if math.isfinite(row.mean(metric))
            ]
    if found:
        yield _lines(name, found, axis, y)._replace(ring="its highest mean")


def _place(who: str, panel: str, x: float, found: Estimate) -> dict[str, Any]:
    half = found.half_width if 0 < found.half_width <= abs(found.mean) else 0.0
    low, high = found.mean - half, found.mean + half
    return {"who": who, "panel": panel, "x": x, "mean": found.mean, "low": low, "high": high}


def _lines(name: str, rows: list[dict[str, Any]], axis: ShownAxis, y: str) -> Chart:
    log = "x" if axis.log else ""
    words = {"by": "who", "panel": "panel", "log": log, "ticks": axis.ticks()}
    return Chart.of(name, "lines", rows, axis.label, y, **words)


def _heat(
    table: SweepTable,
    named: Mapping[str, str],
    sides: tuple[ShownAxis, ShownAxis],
    metric: str,
    best: Collection[int],
) -> Iterator[Chart]:
    """The throughput over two quantities, a map for each strategy to which both matter."""
    across, up = sides
    every = table.sweep.quantities
    both = {every[one.place].group for one in sides}
    rows: list[dict[str, Any]] = []
    for row in table.rows:
        if {every[index].group for index in table.mattering(row.strategy)} == both:
            values = row.candidate.point.values
            at = {"x": values[across.place].text, "row": values[up.place].text}
            own = {"who": named[row.strategy], "mean": row.mean(metric), "best": id(row) in best}
            rows.append(at | own)
    if any(math.isfinite(row["mean"]) for row in rows):
        y = up.label.rpartition(".")[2]
        yield Chart.of("heat", "heat", rows, across.label, y, by=unit_of(metric), panel="who")


def _scaling(table: SweepTable, named: Mapping[str, str]) -> Iterator[Chart]:
    """Speed-up and efficiency against the number of workers, where that is swept."""
    yardstick = Yardstick.of(table.sweep)
    if yardstick is None:
        return
    axis = _axis(table, yardstick.place)
    alone = {
        strategy.label
        for point in table.sweep.points
        for strategy in point.scenario.strategies
        if strategy.kind == "single"
    }
    for metric, y in (("speedup", "speed-up"), (EFFICIENCY, "efficiency (share)")):
        found: list[dict[str, Any]] = []
        for heading, rows in beside(table, axis, _MOST_PAIRS).items():
            found += [
                _place(named[row.strategy], heading, axis.x(table, row), row.scaling[metric])
                for row in rows
                if row.strategy not in alone
                and math.isfinite(row.scaling.get(metric, NOTHING).mean)
            ]
            for x in sorted(axis.places.values()):
                exact = x if metric == "speedup" else 1.0
                found.append(_place(_IDEAL, heading, x, Estimate(exact, exact, exact, 1)))
        chart = _lines("scaling", found, axis, y)
        yield chart._replace(log="xy") if axis.log and metric == "speedup" else chart


def _price(table: SweepTable, charts: Sequence[Chart]) -> Iterator[Chart]:
    """Throughput against price, where scenarios state prices; values beside those on the front."""
    for chart in charts:
        if chart.mark == "points" and any(chart.data["front"]):
            rows = zip(table.rows, chart.data["front"], strict=False)
            text = [_values(table, row) if front else "" for row, front in rows]
            yield chart._replace(name="pareto", data={**chart.data, "text": text})


def _values(table: SweepTable, row: GridRow) -> str:
    """The values of what matters to a row."""
    values = row.candidate.point.values
    return ", ".join(values[index].text for index in table.mattering(row.strategy))
