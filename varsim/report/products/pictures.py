"""The charts of a run that are drawn as files."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from varsim.report.charts.timeline import chart as timeline
from varsim.report.told import Chart, Column, Number, Shares, Table
from varsim.report.wording import shown

if TYPE_CHECKING:
    from varsim.study.result import Result

_MOST_BINS: Final = 60  # of a distribution


def pictures(
    result: "Result",
    named: Mapping[str, str],
    table: Table,
    played: Callable[[], Mapping[str, Any]],
    curves: Sequence[Chart],
) -> tuple[Chart, ...]:
    """Throughput and where the time went, as the table has them; timeline, staleness, `curves`.

    `played`: makes the data of the timeline.
    """
    found = [*bars(table, "throughput"), *cut_bars(table, "time_split")]
    return (*found, timeline(result, played(), named), *staleness(result, named), *curves)


def bars(table: Table, name: str) -> Iterator[Chart]:
    """The column of a table that is drawn as bars."""
    (column, *_) = [one for one in table.columns if one.bar] or [Column("", "", ())]
    rows = [
        {"who": who, "mean": cell.mean, "half": cell.half, "best": best}
        for who, cell, best in _rows(table, column)
        if isinstance(cell, Number) and math.isfinite(cell.mean)
    ]
    if rows:
        yield Chart.of(name, "bars", rows, column.head, "", by="who")


def cut_bars(table: Table, name: str) -> Iterator[Chart]:
    """The column of a table whose cells are parts of a whole."""
    found = [one for one in table.columns if isinstance(one.cells[0], Shares)]
    (column, *_) = found or [Column("", "", ())]
    rows = [
        {"who": who, "part": part, "mean": share, "best": best}
        for who, cell, best in _rows(table, column)
        if isinstance(cell, Shares)
        for part, share in cell.parts
    ]
    if rows:
        yield Chart.of(name, "cut bars", rows, f"{column.head} (share)", "", by="who")


def _rows(table: Table, column: Column) -> Iterator[tuple[str, object, bool]]:
    """What a row is called, its cell, and whether it wins."""
    for at, (name, cell) in enumerate(zip(table.rows, column.cells, strict=False)):
        yield name, cell, at < table.best


def staleness(result: "Result", named: Mapping[str, str]) -> Iterator[Chart]:
    """How the staleness of applied gradients is distributed, over all replications."""
    runs: dict[str, list[NDArray[np.int32]]] = {label: [] for label in result.strategies}
    for trace, rows, window in zip(result.traces, result.gradients, result.windows, strict=True):
        runs[trace.strategy].append(rows.staleness_in(window))
    values = {label: np.concatenate(each) for label, each in runs.items()}
    behind = {one: result.estimate(one, "copy_staleness_mean").mean for one in values}
    if not any(one.any() for one in values.values()) and not any(
        one > 0 for one in behind.values()
    ):
        return
    limit = _limit(list(values.values()))
    width = limit // _MOST_BINS + 1
    lowest = np.arange(0, limit + 1, width)
    found: list[dict[str, Any]] = []
    remarks = {}
    for label, stale in values.items():
        counts = np.bincount(np.minimum(stale, limit) // width, minlength=len(lowest))
        shares = counts / max(len(stale), 1)
        found += [
            {"who": named[label], "x": x, "mean": share}
            for x, share in zip((lowest + (width - 1) / 2).tolist(), shares.tolist(), strict=True)
        ]
        mean = Number(result.estimate(label, "staleness_mean").mean)
        most = int(stale.max()) if len(stale) else math.nan
        said = f"mean {shown(mean)}, at most {most:,}" if len(stale) else "no gradient was applied"
        if behind[label] > 0:
            said += f"; copies missed {shown(Number(behind[label]))}"
        remarks[named[label]] = said
    beyond = [f"the last bar: {lowest[-1]:,} or more"] if _largest(values.values()) > limit else []
    more = [f"{width} values to a bar"] * (width > 1) + beyond
    x = "; ".join(["staleness of applied gradients, in updates", *more])
    yield Chart.of("staleness", "bars", found, x, "", by="who", panel="who", remarks=remarks)


def _largest(values: Iterable[NDArray[np.int32]]) -> int:
    return max((int(stale.max()) for stale in values if len(stale)), default=0)


def _limit(values: Sequence[NDArray[np.int32]]) -> int:
    """The largest staleness with a place of its own: rare values far out share the last one."""
    largest = _largest(values)
    usual = max((int(np.percentile(stale, 99)) for stale in values if len(stale)), default=0)
    return largest if largest <= 2 * usual + 10 else usual + usual // 4 + 2
