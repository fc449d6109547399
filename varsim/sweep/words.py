"""What a sweep says, in sentences: the best point of each strategy, and of all."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from varsim.reporting import EQUAL_WITHIN
from varsim.result.caution import guessed, marching
from varsim.result.formatting import digits, plus_minus, time
from varsim.result.statistics import CLOSE, EQUAL, SAME, Estimate, ratio, verdict
from varsim.sweep.campaign import STEERING
from varsim.sweep.table import Row, Table

if TYPE_CHECKING:
    from pandas import DataFrame

LONGEST_TABLE: Final = 40  # rows that are printed; of more, only the best of each strategy
TIED: Final = (CLOSE, EQUAL, SAME)
_MOST_TIES: Final = 4  # points that are told of besides the best


def answer(table: Table) -> list[str]:
    """Where each strategy is at its best, and which of them is; plain sentences."""
    bests = [row for label in table.strategies if (row := best(table, label)) is not None]
    if not bests:
        return ["No strategy applied a gradient at any point."]
    if len(table.strategies) == 1:
        lines = [_at_its_best(table, row, "Throughput is highest at") for row in bests]
    else:
        lines = [_of_all(table, bests)] if len(bests) > 1 else []
        lines += [_at_its_best(table, row, f"'{row.strategy}' is fastest at") for row in bests]
    return [*lines, *_soonest(table), *_cheapest(table)]


def notes(table: Table) -> list[str]:
    """What a reader of the table must know besides."""
    found = []
    wide = [row for row in table.rows if not row.failure and not row.precise]
    if wide:
        share = f"{100 * table.sweep.precision:g} %"
        found.append(
            f"In {len(wide)} of {len(table.rows)} rows the interval of the throughput is wider "
            f"than ± {share} after {table.sweep.most_replications} replications."
        )
    for row in table.failed[:3]:
        where = table.told(row)
        found.append(f"'{row.strategy}' failed at {where}: {row.failure.splitlines()[0]}")
    if len(table.failed) > 3:
        found.append(f"{len(table.failed) - 3} more rows failed; see the column 'failure'.")
    points = table.sweep.points
    for caution in (marching, guessed):
        said = [text for point in points if (text := caution(point.scenario))]
        if said:
            often = "" if len(points) == 1 else f" (So at {len(said)} of {len(points)} points.)"
            found.append(said[0] + often)
    return found


def left_out(table: Table) -> list[str]:
    """What a reader of `shown` must know: that it has not all rows."""
    if len(table.rows) <= LONGEST_TABLE:
        return []
    return [f"Each strategy at its best point; all {len(table.rows):,} rows are in results.csv."]


def best(table: Table, strategy: str) -> Row | None:
    """The row of a strategy with the highest throughput; None where it applied no gradient."""
    rows = [row for row in table.rows if row.strategy == strategy and row.mean(STEERING) > 0]
    return max(rows, key=lambda row: row.mean(STEERING), default=None)


def ties(table: Table, first: Row) -> list[Row]:
    """The other rows of its strategy that may be as fast: the interval of the ratio contains 1.

    In one replication, that has no interval, those that are as fast.

    Replications are paired: at all points they meet the same draws. Of rows that are of the same
    runs there is one.
    """
    others = {row.case: row for row in table.rows if row.strategy == first.strategy}
    del others[first.case]
    return [row for row in others.values() if row.speeds and _verdict(first, row) in TIED]


def shown(table: Table) -> "DataFrame":
    """The table as text: all rows, or the best of each strategy where there are too many."""
    from pandas import DataFrame

    rows = list(table.rows)
    if len(rows) > LONGEST_TABLE:
        rows = [row for label in table.strategies if (row := best(table, label)) is not None]
    index = [row.strategy for row in rows]
    return DataFrame(cells(table, rows), index=index).rename_axis("strategy")


def cells(table: Table, rows: Sequence[Row]) -> list[dict[str, str]]:
    """Rows as text, by column: where each lies, as far as that matters to it, and its numbers.

    What has the same short name in several strategies, as `replicas_to_aggregate`, is one column.
    """
    wants_target = any(row.mean("time_to_target") > 0 for row in table.rows)
    places = [table.place(row) for row in rows]
    numbers = [_numbers(table, row, wants_target) for row in rows]
    heads = dict.fromkeys(name for found in places for name in found)
    heads |= dict.fromkeys(name for found in numbers for name in found)
    return [
        dict.fromkeys(heads, "") | place | own for place, own in zip(places, numbers, strict=True)
    ]


def _numbers(table: Table, row: Row, wants_target: bool) -> dict[str, str]:
    of = row.estimates
    if not of:
        return {"examples/s": "failed"}
    found = {
        "examples/s": plus_minus(of[STEERING]),
        "staleness mean": plus_minus(of["staleness_mean"]),
        "p99": plus_minus(of["staleness_p99"]),
        "wasted": _percent(of["wasted_compute"]),
    }
    if wants_target:
        found["to target"] = time(of["time_to_target"])
    if table.currency:
        found[f"{table.currency}/h"] = plus_minus(of["cost_per_hour"])
        million = f"{table.currency} per million examples"
        found[million] = plus_minus(of["cost_per_million_examples"])
    if row.scaling:
        found["efficiency"] = f"{100 * row.scaling['efficiency_fraction']:.0f} %"
    found["replications"] = str(row.replications)
    return found


def _of_all(table: Table, bests: Sequence[Row]) -> str:
    ranking = sorted(bests, key=lambda row: row.mean(STEERING), reverse=True)
    first, second = ranking[:2]
    where = table.told(first)
    lead, said = _paired(first, second), _verdict(first, second)
    if said == SAME:
        *names, last = (f"'{row.strategy}'" for row in ranking if _verdict(first, row) == SAME)
        equal = f"{', '.join(names)} and {last}"
        return f"{equal}, each at its best point, are equally fast: {_rate(first)}."
    if said in (CLOSE, EQUAL):
        return (
            f"Which strategy is the fastest, each at its best point, is {CLOSE}: "
            f"'{first.strategy}' does {_rate(first)}, '{second.strategy}' {_rate(second)}."
        )
    return (
        f"The fastest is '{first.strategy}' at {where}: {_rate(first)}, {digits(lead.mean)} times "
        f"what '{second.strategy}' does at its best point, the next fastest."
    )


def _at_its_best(table: Table, row: Row, opening: str) -> str:
    if len(table.sweep.points) == 1:
        return f"'{row.strategy}' does {_rate(row)} at {table.told(row)}."
    if not table.mattering(row.strategy):
        return f"'{row.strategy}' does {_rate(row)}, whatever is swept here."
    sentence = f"{opening} {table.told(row)}: {_rate(row)}"
    equal = ties(table, row)
    same = [one for one in equal if _verdict(row, one) == SAME]
    close = [one for one in equal if _verdict(row, one) in (CLOSE, EQUAL)]
    if same:
        sentence += f", the same at {_several(table, same)}"
    if not close:
        return f"{sentence}; every other point is slower."
    return f"{sentence}; {CLOSE} between that and {_several(table, close)}."


def _several(table: Table, rows: Sequence[Row]) -> str:
    """Where some rows lie, in words; of many the first few."""
    told = [table.told(one) for one in rows[:_MOST_TIES]]
    more = f" and {len(rows) - _MOST_TIES} more" if len(rows) > _MOST_TIES else ""
    return "; ".join(told) + more


def _soonest(table: Table) -> list[str]:
    """At which point the target loss is reached first."""
    rows = [row for row in table.rows if math.isfinite(row.mean("time_to_target"))]
    if not rows:
        return []
    first = min(rows, key=lambda row: row.mean("time_to_target"))
    where = table.told(first)
    after = time(first.estimates["time_to_target"])
    return [f"The target loss is reached soonest by '{first.strategy}' at {where}: after {after}."]


def _cheapest(table: Table) -> list[str]:
    """Where a million examples cost least."""
    metric = "cost_per_million_examples"
    rows = [row for row in table.rows if math.isfinite(row.mean(metric))]
    if not rows:
        return []
    first = min(rows, key=lambda row: row.mean(metric))
    price = plus_minus(first.estimates[metric], unit=table.currency)
    return [
        f"A million examples cost least with '{first.strategy}' at {table.told(first)}: {price}."
    ]


def _paired(one: Row, other: Row) -> Estimate:
    count = min(one.replications, other.replications)
    return ratio(one.speeds[:count], other.speeds[:count])


def _verdict(first: Row, other: Row) -> str:
    return verdict(_paired(first, other), "faster", "slower", EQUAL_WITHIN)


def _rate(row: Row) -> str:
    return plus_minus(row.estimates[STEERING], unit="examples/s")


def _percent(found: Estimate) -> str:
    return "-" if math.isnan(found.mean) else f"{100 * found.mean:.1f} %"
