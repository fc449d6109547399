"""What stands beside a table: charts of tables, those of a run, all its numbers, its links."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from varsim.core import units
from varsim.report.charts.timeline import chart as timeline
from varsim.report.told import Cell, Chart, Column, Number, Shares, Table
from varsim.report.wording import shown
from varsim.study.gradients import NANOSECONDS
from varsim.study.verdict import interval

if TYPE_CHECKING:
    from varsim.study.metrics import Carried
    from varsim.study.result import Result


# What a run leaves beside its page.
FILES: Final = {
    "summary.csv": "every measure of every strategy, with its interval",
    "summary.json": "the same, with seed and versions",
    "updates.csv": "one row per gradient: when it was read, computed and applied, how stale it was",
    "spans.csv": "one row per stretch of time that a worker spent on one activity",
    "steps.csv": "one row per update of the model",
    "links.csv": "one row per link: what it carried, and as what share of what it could",
    "evaluations.csv": "loss and accuracy, each time they were measured",
    "scenario.yaml": "the scenario, defaults written out",
    "trace.json.gz": "all workers' time, to look at in ui.perfetto.dev",
}

OF_FAILURES: Final = {"attempts.csv": "one row per attempt of a job, from a start to the next"}
OF_SENDS: Final = {"sends.csv": "what workers sent while they computed, in the first replication"}
# As what metrics of these units are shown.
UNITS: Final = {"fraction": "share", "bytes": "B", "s": "s"}
MOST_LINKS: Final = 20  # of the table
POINTS: Final = 200  # of a curve, at most
_CURVE: Final = ("who", "x", "mean", "low", "high")
_MOST_BINS: Final = 60  # of a distribution


def charts(result: "Result[Any]", named: Mapping[str, str]) -> Iterator[Chart]:
    """Loss against time and against updates, of what every replication evaluated."""
    for by, x in (("time", "time (s)"), ("global_step", "updates")):
        rows = [
            dict(zip(_CURVE, (named[label], *row), strict=True))
            for label in result.strategies
            for row in _curve(result, label, even=by == "time")
        ]
        if rows:
            yield Chart.of("loss", "lines", rows, x, "loss", by="who", target=result.target_loss)


def _curve(result: "Result[Any]", strategy: str, even: bool) -> list[tuple[float, ...]]:
    """Points of a curve with the interval over the replications, where the mean is finite.

    Against time evenly spaced ones, else those that were recorded; between two evaluations the loss
    is read off the straight line that joins them.
    """
    runs = [result.trace(strategy, number) for number in range(result.replications)]
    # Against updates, what was undone has no place.
    every = [run.evaluations if even else run.kept_evaluations for run in runs]
    if not all(run.evaluations for run in runs):
        return []
    moments = [np.array([row.time if even else row.global_step for row in rows]) for rows in every]
    grid = _grid(moments, even)
    losses = [
        np.interp(grid, x, [row.loss for row in rows])
        for x, rows in zip(moments, every, strict=True)
    ]
    exact = result.exact(strategy, "final_loss")
    found = [interval(column, exact=exact)[:3] for column in np.array(losses).T.tolist()]
    worth = NANOSECONDS if even else 1
    pairs = zip((grid / worth).tolist(), found, strict=True)
    return [(x, *one) for x, one in pairs if math.isfinite(one[0])]


def _grid(moments: Sequence[NDArray[np.int64]], even: bool) -> NDArray[np.float64]:
    """At most POINTS points that every replication covers."""
    start, end = max(m[0] for m in moments), min(m[-1] for m in moments)
    if start >= end:
        return np.array([float(end)])
    if even:
        return np.linspace(start, end, POINTS)
    recorded: NDArray[np.float64] = np.unique(np.concatenate(list(moments))).astype(np.float64)
    recorded = recorded[(recorded >= start) & (recorded <= end)]
    if len(recorded) > POINTS:
        recorded = recorded[np.linspace(0, len(recorded) - 1, POINTS).round().astype(int)]
    return recorded


def details(result: "Result[Any]", named: dict[str, str]) -> Iterator[Table]:
    """Every metric that exists in some strategy; what the busiest links carried."""
    there = {
        metric: about
        for metric, about in result.metrics.items()
        if any(result.estimate(name, metric).replications for name in result.strategies)
    }
    yield Table(
        tuple(there),
        tuple(
            Column(
                name,
                named[name],
                tuple(
                    Number.of(result.estimate(name, metric), UNITS.get(about.unit, ""))
                    for metric, about in there.items()
                ),
            )
            for name in result.strategies
        ),
        tuple(about.description for about in there.values()),
        f"All numbers: {len(there)} measures of every strategy",
    )
    if result.carried:
        yield links(result.carried, named)


def links(carried: "Mapping[str, Mapping[str, Carried]]", named: Mapping[str, str]) -> Table:
    """What the busiest links carried, as a share of what they could; `named`: whom, and as what."""
    order = _by_use(carried)
    servers = [link for link in order if link.startswith("ps ")][: MOST_LINKS // 2]
    chosen = sorted(dict.fromkeys([*servers, *order][:MOST_LINKS]), key=order.index)
    return Table(
        tuple(chosen),
        tuple(
            Column(name, said, tuple(_use(carried[link].get(name)) for link in chosen))
            for name, said in named.items()
        ),
        corner=f"Links: share of what each could carry, {len(chosen)} of {len(order)}",
    )


def _use(found: "Carried | None") -> Cell:
    return Number(found.utilization, unit="share") if found and found.utilization >= 0 else "-"


def _by_use(carried: "Mapping[str, Mapping[str, Carried]]") -> list[str]:
    """The links, the busiest of all alternatives first; last those whose use is not known."""
    most = {
        link: max((one.utilization for one in of.values() if one.utilization >= 0), default=-1.0)
        for link, of in carried.items()
    }

    def rank(link: str) -> tuple[float, list[int | str]]:
        """By what is shown, then by name: `worker 2 up` before `worker 10 up`."""
        parts = re.split(r"([0-9]+)", link)
        return -float(f"{most[link]:.2e}"), [int(one) if one.isdecimal() else one for one in parts]

    return sorted(most, key=rank)


def pictures(
    result: "Result[Any]",
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


def staleness(result: "Result[Any]", named: Mapping[str, str]) -> Iterator[Chart]:
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


# Of quantities as text: what its values are told in, and how many of that are one in SI.
_UNITS: Final = {
    "time": ("s", 1.0),
    "bytes": ("B", 1.0),
    "rate": ("bit/s", 8.0),
    "flops": ("FLOP/s", 1.0),
}


def scatter(
    table: Table,
    x: str,
    y: str,
    front: Collection[int] = (),
    hollow: Collection[int] = (),
    best: Collection[int] = (),
    target: float | None = None,
) -> Chart | None:
    """A point per row of a table, `x` and `y` keys of its columns; None where one is missing.

    `front`: rows that a line joins; `hollow`: rows that miss something; `best`: the answer.
    """
    data: dict[str, Sequence[Any]] = {"who": table.rows}
    heads = {}
    for column in table.columns:
        values, unit = numbers(column.cells)
        if all(value is None for value in values):
            continue
        heads[column.key] = head = titled(column.head, unit)
        data[head] = values
    if x not in heads or y not in heads:
        return None
    whole = range(len(table.rows))
    marks = {"front": front, "hollow": hollow, "ring": best}
    data |= {name: [row in rows for row in whole] for name, rows in marks.items()}
    data |= {"x": data[heads[x]], "mean": data[heads[y]]}
    at = Chart(table.corner, "points", data, heads[x], heads[y], "who", target)
    return at._replace(ring="the answer", hollow="may miss a target")


def along(table: Table, metrics: Mapping[str, str], named: Mapping[str, str]) -> list[Chart]:
    """Lines of strategies along the rows, a view per metric (by its key, how it is called).

    A column's key is its metric and the label of its strategy; the best of a line is marked.
    """
    places, unit = numbers(table.rows)
    across = titled(table.corner.rpartition(" by ")[2], unit)
    found = []
    for metric, head in metrics.items():
        rows = []
        for column in table.columns:
            own, _, label = column.key.partition(" ")
            if own != metric:
                continue
            for x, cell in zip(places, column.cells, strict=True):
                if isinstance(cell, Number) and math.isfinite(cell.mean):
                    row = (named[label], x, *_bounds(cell))
                    best = {"ring": cell.verdict == "best"}
                    rows.append(dict(zip(_CURVE, row, strict=True)) | best)
        if any(row["mean"] for row in rows):
            words = {"by": "who", "ring": "its best"}
            found.append(Chart.of("along", "lines", rows, across, head, **words))
    return found


def titled(head: str, unit: str) -> str:
    """What an axis is called, with its unit."""
    return f"{head} ({unit})" if unit and unit not in head else head


def numbers(cells: Sequence[Cell]) -> tuple[list[float | str | None], str]:
    """Cells as values of an axis, and their unit; texts that are no quantities stay texts."""
    if any(isinstance(cell, Number) for cell in cells):
        known = [cell for cell in cells if isinstance(cell, Number)]
        (unit, *_) = [cell.unit for cell in known]
        values = [_mean(cell) for cell in cells]
        finite = [value if math.isfinite(value) else None for value in values]
        return [*finite], "share" if unit == "part" else unit
    texts = [cell if isinstance(cell, str) and cell not in ("", "-") else None for cell in cells]
    there = [text for text in texts if text is not None]
    for dimension, (unit, often) in {"": ("", 1.0), **_UNITS}.items():
        with suppress(ValueError):
            read = {text: often * _read(text, dimension) for text in there}
            return [None if text is None else read[text] for text in texts], unit
    return list(texts), ""


def _read(text: str, dimension: str) -> float:
    return units.parse(text, dimension) if dimension else float(text)


def _mean(cell: Cell) -> float:
    return cell.mean if isinstance(cell, Number) else math.nan


def _bounds(cell: Number) -> tuple[float, float, float]:
    """Its mean and the ends of its interval."""
    half = cell.half if math.isfinite(cell.half) else 0.0
    return cell.mean, cell.mean - half, cell.mean + half
