"""What is told of a sweep: its best points; along one axis a row per value, else per strategy."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

from varsim.report.products import candidates, cautions
from varsim.report.products.candidates import there_is
from varsim.report.products.cautions import one_rate, rate
from varsim.report.products.figures import along, scatter, titled
from varsim.report.products.sweep_points import (
    DETAILS,
    EFFICIENCY,
    MILLION,
    best_for_cost,
    cell_of,
    in_words,
    metrics,
    name_of,
    pictures,
    place,
    points,
    ranking,
    spans,
    speed,
    unit_of,
)
from varsim.report.told import (
    Cell,
    Chart,
    Column,
    Data,
    Note,
    Number,
    Report,
    Reproduction,
    Table,
    Value,
)
from varsim.report.wording import headline, untold
from varsim.report.wording import target as target_said
from varsim.scenario.training import Scenario
from varsim.scenario.writing import provenance_of_many
from varsim.study.candidate import Places, short_names
from varsim.study.crossings import Lines
from varsim.study.grid import Grid, GridRow, SweepTable, descriptions
from varsim.study.lives import KEPT
from varsim.study.metrics import STEPS
from varsim.study.runs import STEERING, TARGET, speed_of
from varsim.study.verdict import CLOSE, EQUAL, SAME, Ranking

_LONGEST: Final = 40  # values of an axis that are a row each
_EFFICIENCY: Final = (
    "Efficiency: examples/s per worker, as a share of those of one worker (or of the same strategy "
    "with the fewest)."
)
_FILES: Final = {
    "results.csv": "the table, all digits, units in the names of the columns",
    "results.json": "the same, with what each column means, seed and versions",
    "sweep.yaml": "the sweep as it was run, with all changes of the command line",
    "runs.jsonl": "every run, kept as it ended, a line each",
}


def report(table: SweepTable) -> Report:
    """What there is to tell of a sweep."""
    found, sweep = _TellingSweep(table), table.sweep
    maps, compared, every = (*found.scaling(), *found.maps()), found.compared(), points(table)
    charts = tuple(found.charts(compared, every))
    return Report(
        "sweep",
        sweep.points[0].scenario.name,
        tuple(found.headline()),
        compared,
        tuple(found.notes()),
        charts=charts,
        details=(*maps, every),
        always=min(1, len(maps)),
        source=Reproduction(sweep.yaml, "varsim sweep sweep.yaml --out again"),
        provenance=_provenance(table) | {"result_sha256": table.sha256},
        families={found.named[label]: of for label, of in table.families.items()},
        files=_FILES,
        data=Data(table.columns, list(table.cells())),
        facts=partial(document, table),
        pictures=partial(pictures, table, found.named, found.answers, charts),
    )


def best(table: SweepTable, strategy: str) -> GridRow | None:
    """The row of a strategy with the highest throughput; None where it applied no gradient.

    One that does not fit into memory, or is too short, only where all are.
    """
    rows = [row for row in table.rows if row.strategy == strategy and row.mean(speed(row)) > 0]
    rows = [row for row in rows if not row.candidate.too_large] or rows
    rows = [row for row in rows if not row.done.too_short] or rows
    return max(rows, key=lambda row: row.mean(speed(row)), default=None)


class _TellingSweep:
    """A sweep with its axes, and the best point of each strategy, the fastest first."""

    def __init__(self, table: SweepTable) -> None:
        self.table = table
        self.named = {label: name_of(table, label) for label in table.strategies}
        bests = [row for label in table.strategies if (row := best(table, label)) is not None]
        self.bests = sorted(bests, key=lambda row: (not row.counts, -row.mean(speed(row))))
        self.answers = [row for row in self.bests if row.counts]
        groups = {quantity.group for quantity in table.sweep.quantities}
        self.lines = Lines.of(table)
        self.one_axis = len(groups) == 1 and 1 < len(table.sweep.points) <= _LONGEST

    # --- the headline -----------------------------------------------------------------------------

    def headline(self) -> Iterator[Note]:
        """Which is fastest, where; where a target is reached first; where it is cheapest."""
        if not self.bests:
            yield Note("nothing")
            return
        every = [row for row in self.bests if not row.done.too_short]
        rows = [row for row in every if row.counts]
        if not every:
            who = tuple(self.named[row.strategy] for row in self.bests)
            count = Number(min(row.done.gradients for row in self.bests))
            yield Note("too-short", {"who": who, "count": count, "more": ""})
        elif not rows:
            yield Note("none-fits", {"who": tuple(self.named[row.strategy] for row in every)})
        else:
            yield self._changing() or self._fastest(rows)
            yield from self._least(TARGET, "soonest")
            yield from self._least(MILLION, "cheapest")

    def _fastest(self, bests: Sequence[GridRow]) -> Note:
        """Which strategy is fastest, each at its best point; of one strategy, where it is."""
        rows, of = list(bests), len(_distinct(self.table.rows))
        if len(self.table.strategies) == 1:
            rows, of = self._own(rows[0].strategy), 0
        metric = speed(rows[0])
        found = ranking(self.table, rows, metric, of=of)
        assert found is not None, "they all have a throughput"
        if len(rows) > 1 and len(found.same) == len(rows) and len(self.table.strategies) == 1:
            rate = Number(rows[0].mean(metric), unit=unit_of(metric))
            return Note("same-everywhere", {"who": self.named[rows[0].strategy], "rate": rate})
        where = {index: self._reach(row, metric) for index, row in enumerate(rows)}
        values = {
            index: Number.of(row.estimate(metric), unit_of(metric))
            for index, row in enumerate(rows)
        }
        count = self._replications([rows[index] for index in found.tied], metric)
        note = headline(found, where, values, count)
        more: dict[str, Value] = {"more": _more(self.table)} if note.code == "too-few" else {}
        if "tied" in note.values and len(self.table.strategies) == 1:
            tied, first = [rows[index] for index in found.tied], rows[found.best]
            span = in_words(self.table, spans(self.table, tied, first, metric))
            more |= {"tied": (span,)} if span else {}
        return note._replace(values={**note.values, **more})

    def _changing(self) -> Note | None:
        """Which modes of a program are the fastest from where to where; None if that is open."""
        once = any(row.random[0] and row.replications == 1 for row in self.table.rows)
        if self.lines is None or once:
            return None
        of: dict[str, Value] = {"axis": self._heads[0]}
        of |= {"least": self.lines.places[0], "most": self.lines.places[-1]}
        for number, one in enumerate(self.lines.fastest(), 1):
            of[f"best{number}"] = tuple(self.named[mode] for mode in one.modes)
            of[f"until{number}"] = Number(one.end)
        return Note("fastest-from", of)

    def _crossing(self) -> Iterator[Note]:
        """Where two modes change places that are not the fastest there; how that is known."""
        if self.lines is None:
            return
        told = {one.end for one in self.lines.fastest()}
        for one in self.lines.crossings():
            if one.place not in told:
                names: dict[str, Value] = {"first": self.named[one.faster]}
                names |= {"second": self.named[one.other], "axis": self._heads[0]}
                yield Note("others-cross", names | {"where": Number(one.place)})
        if self.lines.crossings():
            yield Note("between-points")

    def _replications(self, rows: Sequence[GridRow], metric: str) -> int:
        """Of how many replications the least known of these rows has; 1 where all are exact."""
        return min((row.replications for row in rows if not row.exact(metric)), default=1)

    def _decided(self, rows: Sequence[GridRow], metric: str) -> Ranking[int] | None:
        """The ranking of these rows; None where they have too few replications for one."""
        found = ranking(self.table, rows, metric)
        if found is None:
            return None
        count = self._replications([rows[index] for index in found.tied], metric)
        return None if untold(found, count) else found

    def _reach(self, row: GridRow, metric: str) -> str:
        """Its place, with what is not told from it."""
        tied = self._as_good(row, metric) if len(self.table.strategies) > 1 else []
        span = in_words(self.table, spans(self.table, tied, row, metric))
        return f"{self.named[row.strategy]} at {span}" if span else self._place(row, metric)

    def _as_good(self, row: GridRow, metric: str) -> list[GridRow]:
        """The rows of its strategy that are not told from it, the best; none where that is open."""
        own = self._own(row.strategy)
        found = self._decided(own, metric)
        return [own[index] for index in found.tied] if found is not None else []

    def _own(self, strategy: str) -> list[GridRow]:
        """The rows of a strategy that differ in what matters to its throughput, and count."""
        rows = [row for row in self.table.rows if row.strategy == strategy]
        rows = [row for row in rows if row.mean(speed(row)) > 0 and not row.done.too_short]
        rows = [row for row in rows if not row.candidate.too_large] or rows
        return list({self.table.told_for(row, speed(row)): row for row in reversed(rows)}.values())

    def _place(self, row: GridRow, metric: str) -> str:
        """A row in words: its strategy, if there are several, and where it lies."""
        where = self.table.told_for(row, metric)
        if len(self.table.strategies) == 1:
            return where or self.named[row.strategy]
        return f"{self.named[row.strategy]} at {where}" if where else self.named[row.strategy]

    def _least(self, metric: str, code: str) -> Iterator[Note]:
        """Which row has the least of something, among all that have it in every replication."""
        there = {
            self._place(row, metric): row
            for row in reversed(self.table.rows)
            if math.isfinite(row.mean(metric)) and row.counts
        }
        rows = list(there.values())[::-1]
        found = ranking(self.table, rows, metric, highest=False)
        if found is None:
            return
        row, target = rows[found.best], self.table.sweep.points[0].scenario.target_loss
        of: dict[str, Value] = {"target": f"{target:g}" if target is not None else ""}
        if metric == TARGET and self._shared_rate(rows) is not None:
            times = [one.mean(metric) for one in rows]
            low, high = (Number(one, unit="s") for one in (min(times), max(times)))
            yield Note("reached-unranked", of | {"low": low, "high": high})
            return
        first = Number(row.mean(metric), unit="s" if metric == TARGET else self.table.currency)
        of["time" if metric == TARGET else "price"] = first
        if len(found.tied) == 1:
            yield Note(code, {"best": self._place(row, metric), **of})
            return
        tied = tuple(self._place(rows[index], metric) for index in found.tied)
        few = untold(found, count := self._replications([rows[i] for i in found.tied], metric))
        of["last"] = first._replace(mean=max(rows[index].mean(metric) for index in found.tied))
        if few:
            of["count"] = count
        yield Note(f"{code}-{'too-few' if few else 'tie'}", {"tied": tied, **of})

    def _shared_rate(self, rows: Sequence[GridRow]) -> Note | None:
        """That rows share one learning rate for updates of very different sizes, not swept."""
        sizes = dict[str, list[float]]()
        if any("learning_rate" in quantity.path for quantity in self.table.sweep.quantities):
            return None
        for row in rows:
            scenario = row.scenario
            if not isinstance(scenario, Scenario):
                return None
            batch = scenario.workload_of(scenario.strategy(row.strategy)).batch_size
            if row.mean("updates_per_s") > 0 and scenario.workload.has_values:
                size = row.mean(STEERING) / row.mean("updates_per_s") / batch
                sizes.setdefault(rate(scenario, row.strategy), []).append(size)
        return one_rate(sizes.values())

    # --- tables -----------------------------------------------------------------------------------

    def compared(self) -> Table:
        """Along one axis a row per value, a column per strategy; else each strategy at its best."""
        if self.one_axis:
            return self._along()
        rows = self.bests or list(self.table.rows[:1])
        first = rows[0]
        metric = speed(first)
        as_good = [spans(self.table, self._as_good(row, metric), row, metric) for row in rows]
        places = [place(self.table, *each) for each in zip(rows, as_good, strict=True)]
        by_speed = ranking(self.table, self.answers, metric) if self.answers else None
        tied = len(by_speed.tied) if by_speed is not None else 0
        return points(self.table, rows, places, "best point of", tied)

    def _along(self) -> Table:
        """The values of the axis as rows; best of each column marked, and what ties with it."""
        quick, alone = speed(self.table.rows[0]), len(self.named) == 1
        columns = []
        for metric, head, unit in metrics(self.table):
            for label, who in self.named.items() if metric != EFFICIENCY else ():
                rows = self._rows(label)
                cells = tuple(cell_of(row, metric, unit) for row in rows)
                if metric == quick:
                    cells = self._marked(rows, cells)
                name = head if alone else who if metric == quick else f"{who}: {head}"
                found = Column(
                    f"{metric} {label}",
                    name,
                    cells,
                    bar=metric in (STEERING, STEPS),
                    detail=metric in DETAILS,
                    of="" if alone else who,
                    main=metric == quick,
                )
                columns.append(found)
        heads = ", ".join(self._heads)
        corner = heads if alone else f"{unit_of(quick)} by {heads}"
        there = [one for one in columns if any(there_is(cell) for cell in one.cells)]
        return Table(self._places, tuple(there), corner=corner)

    def scaling(self) -> Iterator[Table]:
        """Along one axis how efficient each strategy is with more workers, if these are swept."""
        if not self.one_axis:
            return
        columns = (
            Column(label, who, tuple(cell_of(row, EFFICIENCY, "part") for row in self._rows(label)))
            for label, who in self.named.items()
        )
        known = [one for one in columns if any(map(there_is, one.cells))]
        if known:
            corner = f"efficiency by {', '.join(self._heads)}"
            yield Table(self._places, tuple(known), corner=corner, fold=False, above=(_EFFICIENCY,))

    def _rows(self, label: str) -> list[GridRow | None]:
        """The rows of a strategy, one for each point."""
        by = {row.candidate.at: row for row in self.table.rows if row.strategy == label}
        return [by.get(index) for index in range(len(self.table.sweep.points))]

    @cached_property
    def _heads(self) -> tuple[str, ...]:
        values = map(self._value, range(len(self.table.sweep.points)))
        return tuple(dict.fromkeys(name for place in values for name in place))

    @cached_property
    def _places(self) -> tuple[str, ...]:
        values = map(self._value, range(len(self.table.sweep.points)))
        return tuple(", ".join(place.values()) for place in values)

    def _value(self, index: int) -> dict[str, str]:
        """The values of the axis at a point, by the shortest names; once where all have one."""
        if not self._common:
            quantities = self.table.sweep.quantities
            heads = short_names([one.path for one in quantities])
            values = self.table.sweep.points[index].values
            return {name: one.text for name, one in zip(heads, values, strict=True)}
        return dict(
            item
            for row in self.table.rows
            if row.candidate.at == index
            for item in self.table.place(row).items()
        )

    @cached_property
    def _common(self) -> bool:
        """Whether what matters to strategies has one value at each point, by its name."""
        seen: dict[tuple[int, str], set[str]] = {}
        for row in self.table.rows:
            for name, text in self.table.place(row).items():
                seen.setdefault((row.candidate.at, name), set()).add(text)
        there = len({point for point, _ in seen}) == len(self.table.sweep.points)
        return there and all(len(texts) == 1 for texts in seen.values())

    def _marked(self, rows: Sequence[GridRow | None], cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """The cells of throughput, with the best of them and what cannot be told from it."""
        there = {
            at: row
            for at, row in enumerate(rows)
            if row is not None and row.mean(speed(row)) > 0 and not row.candidate.too_large
        }
        if len({row.candidate.case.key for row in there.values()}) < 2:
            return cells
        places, own = list(there), list(there.values())
        found = self._decided(own, speed(own[0]))
        if found is None or len(found.same) == len(own):
            return cells
        marks = {places[one.key]: "equal" for one in found.of(CLOSE, EQUAL, SAME)}
        marks[places[found.best]] = "best"
        return tuple(
            cell._replace(verdict=marks.get(at, "")) if isinstance(cell, Number) else cell  # type: ignore[arg-type]
            for at, cell in enumerate(cells)
        )

    def maps(self) -> tuple[Table, ...]:
        """Of two axes the throughput of each strategy, the fastest first; its best marked."""
        quantities = self.table.sweep.quantities
        if len(quantities) != 2 or quantities[0].group == quantities[1].group:
            return ()
        found = []
        for first in self.bests:
            label = first.strategy
            if self.table.mattering(label) == [0, 1]:
                found.append(self._map(label, [one.path for one in quantities]))
        return tuple(found)

    def _map(self, label: str, paths: Sequence[str]) -> Table:
        at = (0, 1) if self._count(0) <= self._count(1) else (1, 0)
        across, down = (short_names(paths)[one] for one in at)
        texts = [tuple(point.values[one].text for one in at) for point in self.table.sweep.points]
        rows = {texts[row.candidate.at]: row for row in self.table.rows if row.strategy == label}
        wide, high = (list(dict.fromkeys(one[place] for one in texts)) for place in (0, 1))
        every = [rows.get((x, y)) for x in wide for y in high]
        metric = speed(next(iter(rows.values())))
        cells = self._marked(every, tuple(cell_of(row, metric, "") for row in every))
        columns = (
            Column(x, x, cells[n * len(high) : (n + 1) * len(high)]) for n, x in enumerate(wide)
        )
        corner = f"{self.named[label]}, {unit_of(metric)}: {down} / {across}"
        return Table(tuple(high), tuple(columns), corner=corner, shaded=True)

    def _count(self, at: int) -> int:
        return len({point.values[at].text for point in self.table.sweep.points})

    # --- the charts -------------------------------------------------------------------------------

    def charts(self, compared: Table, every: Table) -> Iterator[Chart]:
        """Along one axis a line per strategy; else, and where there are prices, all points."""
        table = self.table
        quick = speed(table.rows[0])
        if self.one_axis:
            told = {
                key: titled(head, unit) for key, head, unit in metrics(table) if key not in DETAILS
            }
            yield from along(compared, told, self.named)
        rows = table.rows[: len(every.rows)]
        front = {rows.index(row) for row in best_for_cost(table) if row in rows}
        if front:
            yield from filter(None, [scatter(every, "cost_per_hour", quick, front)])
        elif not self.one_axis and len(table.sweep.points) > 1:
            places: dict[str, set[str]] = {}
            for row in rows:
                for name, value in table.place(row).items():
                    places.setdefault(name, set()).add(value)
            widest = max(places, key=lambda name: len(places[name]), default="replications")
            yield from filter(None, [scatter(every, widest, quick)])

    # --- the notes --------------------------------------------------------------------------------

    def notes(self) -> Iterator[Note]:
        """What a reader must know besides."""
        both = [self.compared(), *self.maps()[:1]]
        cells = (cell for each in both for one in each.columns for cell in one.cells)
        if any(isinstance(cell, Number) and cell.verdict == "best" for cell in cells):
            yield Note("marks")
        yield from self._crossing()
        yield from notes(self.table, self.named)
        yield from self._few_in_common()
        reached = [row for row in self.table.rows if math.isfinite(row.mean(TARGET))]
        yield from filter(None, [self._shared_rate([row for row in reached if row.counts])])
        scenarios = [point.scenario for point in self.table.sweep.points]
        yield from (one for one in cautions.of_points(scenarios) if one.code != "memory")

    def _few_in_common(self) -> Iterator[Note]:
        """That points are too close to call though their intervals are apart: few are compared."""
        rows = self._own(self.table.strategies[0]) if len(self.named) == 1 else self.bests
        found = ranking(self.table, rows, speed(rows[0])) if rows else None
        if found is None:
            return
        best, own = rows[found.best], rows[found.best].estimate(speed(rows[found.best]))
        for rival in found.of(CLOSE):
            row, other = rows[rival.key], rows[rival.key].estimate(speed(rows[rival.key]))
            apart = abs(own.mean - other.mean) > own.half_width + other.half_width
            if apart and row.replications != best.replications:
                few, many = sorted((row.replications, best.replications))
                yield Note("few-in-common", {"few": few, "many": many})
                return


def best_so_far(grid: Grid) -> Callable[[str, float], str]:
    """What the progress of a sweep says of its best case: where it is, by what matters to times."""
    sweep, first = grid.sweep, {one.case.key: one for one in reversed(grid.candidates)}
    places = Places(sweep.quantities, grid.candidates, priced=False)

    unit = unit_of(speed_of(sweep.points[0].scenario))

    def say(key: str, value: float) -> str:
        one = first[key]
        where = places.told(one, [i for i in places.matters(one.label) if i in sweep.for_times])
        return f"{one.strategy.title}{where and f' at {where}'}: {value:,.4g} {unit}"

    return say


def _more(table: SweepTable) -> str:
    """How to run every point five times, which most_replications may forbid."""
    few = table.sweep.most_replications < 5
    return f"{'--most-replications 5 ' if few else ''}--set replications=5"


def _provenance(table: SweepTable) -> dict[str, str | int]:
    return provenance_of_many([point.scenario for point in table.sweep.points])


def document(table: SweepTable) -> dict[str, Any]:
    """The table with all that is needed to read it, as plain data."""
    found = _TellingSweep(table)
    return candidates.facts(
        *("sweep", table.sweep.name, _provenance(table), table.sha256),
        *(found.headline(), found.notes()),
        asked_sha256=table.sweep.sha256,
        precision=table.sweep.precision,
        most_replications=table.sweep.most_replications,
        columns=descriptions(table),
        rows=candidates.records(table.columns, table.cells()),
    )


def notes(table: SweepTable, named: Mapping[str, str]) -> Iterator[Note]:
    """The notes of its rows; `named`: its strategies."""

    def who(row: GridRow) -> str:
        return f"{named[row.strategy]} at {table.told(row)}"

    rows = [row for row in table.rows if not row.failure]
    swept = any(quantity.place[0] == "stop" for quantity in table.sweep.quantities)
    base, alone = table.sweep.points[0].scenario, _distinct(rows)
    yield from candidates.failed(table.rows, who, "failed-rows")
    yield from _misfits(table, named)
    yield from _unjudged(table)
    yield from _ends_early(table, rows, who)
    yield from candidates.short(alone, base, who, "short-rows", swept=swept)
    yield from _precision(table, rows)
    yield from _scale(table, rows, named)
    yield from _idle(table, rows)
    yield from candidates.few_spells(alone)
    yield from cautions.unpriced([point.scenario for point in table.sweep.points])


def _misfits(table: SweepTable, named: Mapping[str, str]) -> Iterator[Note]:
    if large := table.too_large:
        who = tuple(dict.fromkeys(named[row.strategy] for row in large))
        counts = {"count": len(large), "of": len(table.rows)}
        yield Note("memory-rows", {"who": who, **counts})


def _unjudged(table: SweepTable) -> Iterator[Note]:
    """That a sweep asks for no targets."""
    targets = table.sweep.points[0].scenario.targets
    asked = [target_said(name, bound, targets.loss) for name, bound in targets.bounds.items()]
    if asked:
        yield Note("unjudged", {"targets": tuple(asked)})


def _ends_early(
    table: SweepTable, rows: Sequence[GridRow], who: Callable[[GridRow], str]
) -> Iterator[Note]:
    """That no step ends within the horizon of some jobs, though nothing interrupts them."""
    idle = [
        row
        for row in rows
        if row.mean(KEPT) == 0 == row.mean("interruptions") and row.mean("goodput") > 0
    ]
    if idle:
        yield Note("no-step", {"who": who(idle[0]), "count": len(idle), "of": len(table.rows)})


def _precision(table: SweepTable, rows: Sequence[GridRow]) -> Iterator[Note]:
    """When replications ended, and how many rows are not known as precisely as was asked for."""
    wide = [row for row in rows if not row.precise]
    if wide:
        share = Number(table.sweep.precision, unit="share")
        most = table.sweep.most_replications
        counts = {"count": len(wide), "of": len(table.rows)}
        yield Note("wide", {"precision": share, "most": most, **counts})
    if any(row.precise and row.replications > table.sweep.first_replications for row in rows):
        yield Note("stopped-when-precise")


def _scale(table: SweepTable, rows: Sequence[GridRow], named: Mapping[str, str]) -> Iterator[Note]:
    """What the numbers are: means with intervals, or exact."""
    once = [row for row in rows if not row.random[1]]
    if queued := dict.fromkeys(named[row.strategy] for row in once if row.replays):
        yield Note("recorded-order", {"who": tuple(queued)})
    exact = [row for row in once if not row.replays]
    if exact and len(exact) == len(table.rows):
        yield Note("exact")
    elif exact:
        yield Note("exact-rows", {"count": len(exact), "of": len(table.rows)})
    many = [row.replications for row in rows if row.replications > 1]
    if many:
        yield Note("interval-rows", {"low": min(many), "high": max(many)})
        points = table.sweep.points
        if len(points) > 1 and len({point.scenario.seed for point in points}) == 1:
            yield Note("shared-draws")


def _idle(table: SweepTable, rows: Sequence[GridRow]) -> Iterator[Note]:
    """What is swept and changes no throughput."""
    metric = speed(table.rows[0])
    quantities = table.sweep.quantities
    chosen = {index for label in table.strategies for index in table.mattering(label, metric)}
    groups = {quantities[index].group for index in chosen}
    idle = [one.path for one in quantities if one.group not in groups]
    if len(table.sweep.points) > 1 and idle:
        yield Note("no-effect", {"what": tuple(short_names(idle))})


def _distinct(rows: Sequence[GridRow]) -> list[GridRow]:
    """The first of those rows of each strategy that are of the same runs."""
    found = {(row.strategy, row.candidate.case.key): row for row in reversed(rows)}
    return list(reversed(found.values()))
