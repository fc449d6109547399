"""The points of a sweep as a table: where each lies, and its numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from varsim.report.told import Cell, Column, Number
from varsim.report.told import Table as Told
from varsim.report.wording import names, shown
from varsim.study.goodput import INTERVAL, KEPT
from varsim.study.sweep.campaign import STEERING, TARGET
from varsim.study.sweep.table import Row, Table
from varsim.study.verdict import Ranking, front, ranked, surely_more

MILLION: Final = "cost_per_million_examples"
MOST_ROWS: Final = 2000  # of all points; results.csv has more
DETAILS: Final = ("staleness_p99", "cost_per_hour", "efficiency_fraction")
_SPEEDS: Final = (STEERING, KEPT)


def speed(row: Row) -> str:
    """The metric by which rows are compared: of what is kept, where hosts fail at random."""
    return KEPT if KEPT in row.values else STEERING


def ranking(
    table: Table, rows: Sequence[Row], metric: str, *, highest: bool = True, of: int = 0
) -> Ranking[int] | None:
    """Some rows, by their place among them; `of`: from how many they were chosen."""
    return ranked(
        {index: row.values[metric] for index, row in enumerate(rows)},
        equal_within=table.equal_within,
        highest=highest,
        exact=lambda index: rows[index].exact(metric),
        chosen_from=of,
    )


def points(
    table: Table, rows: Sequence[Row] = (), places: Sequence[Mapping[str, str]] = ()
) -> Told:
    """A row for each of these rows, by default of all: where it lies, and its numbers."""
    rows = rows or table.rows[:MOST_ROWS]
    places = places or [table.place(row) for row in rows]
    columns = [
        Column(name, name, tuple(place.get(name, "") for place in places))
        for name in dict.fromkeys(name for place in places for name in place)
    ]
    for metric, head, unit in metrics(table):
        cells = tuple(cell_of(row, metric, unit) for row in rows)
        detail = metric in DETAILS
        columns.append(Column(metric, head, cells, bar=metric == STEERING, detail=detail))
    runs = tuple(str(row.replications) for row in rows)
    columns.append(Column("replications", "replications", runs, detail=True))
    there = [one for one in columns if any(there_is(cell) for cell in one.cells)]
    titles = {label: name_of(table, label) for label in table.strategies}
    return Told(tuple(titles[row.strategy] for row in rows), tuple(there), corner="all points")


def best_for_cost(table: Table) -> list[Row]:
    """The front of cost and throughput: rows that are surely faster than all that cost less."""
    metric = speed(table.rows[0])
    rows = [
        row
        for row in table.rows
        if math.isfinite(row.mean("cost_per_hour")) and math.isfinite(row.mean(metric))
    ]

    def faster(index: int, than: int) -> bool:
        one, other = rows[index], rows[than]
        return surely_more(
            (one.values[metric], one.exact(metric)),
            (other.values[metric], other.exact(metric)),
            comparisons=len(rows) - 1,
            equal_within=table.equal_within,
        )

    return [
        rows[index]
        for index in front([(row.mean("cost_per_hour"), row.mean(metric)) for row in rows], faster)
    ]


def metrics(table: Table) -> list[tuple[str, str, str]]:
    """Metric, heading and unit of the columns, the throughput first."""
    kept = any(KEPT in row.values for row in table.rows)
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
        found.append(("efficiency_fraction", "efficiency", "share"))
    return found


def cell_of(row: Row | None, metric: str, unit: str) -> Cell:
    """A metric of a row; "-" where it has none."""
    if row is None:
        return "-"
    if row.failure:
        return "failed" if metric in _SPEEDS else "-"
    known = row.estimates | row.scaling
    return Number.of(known[metric], unit) if metric in known else "-"


def there_is(cell: Cell) -> bool:
    """Whether a cell says something."""
    return shown(cell) not in ("-", "")


def unit_of(metric: str) -> str:
    """What a throughput is counted in."""
    return "examples/s kept" if metric == KEPT else "examples/s"


def name_of(table: Table, label: str) -> str:
    """A strategy as people call it, without the number of backups, which may be swept."""
    point = next(row.point for row in table.rows if row.strategy == label)
    scenario = table.sweep.points[point].scenario
    swept = any(one.place[0] == "strategies" for one in table.sweep.quantities)
    return table.strategy(label).title if swept else names(scenario)[label]
