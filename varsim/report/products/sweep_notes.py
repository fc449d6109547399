"""What a reader of a sweep must know besides its numbers."""

from collections.abc import Iterator, Mapping, Sequence

from varsim.report.products import cautions
from varsim.report.told import Note, Number, Value
from varsim.report.wording import target as target_said
from varsim.scenario.targets import counted
from varsim.study.goodput import KEPT
from varsim.study.sweep.table import Row, Table, short_names


def notes(table: Table, named: Mapping[str, str]) -> Iterator[Note]:
    """The notes of its rows; `named`: its strategies."""
    rows = [row for row in table.rows if not row.failure]
    yield from _failed(table, named)
    yield from _misfits(table, named)
    yield from _unjudged(table)
    yield from _ends_early(table, rows, named)
    yield from _short(table, rows, named)
    yield from _precision(table, rows)
    yield from _scale(table, rows, named)
    yield from _idle(table, rows)
    yield from _spells(table, rows)
    yield from _unpriced(table)


def _failed(table: Table, named: Mapping[str, str]) -> Iterator[Note]:
    if failed := table.failed:
        first = failed[0]
        who = f"{named[first.strategy]} at {table.told(first)}"
        why = first.failure.splitlines()[0]
        counts = {"count": len(failed), "of": len(table.rows)}
        yield Note("failed-rows", {"who": who, "why": why, **counts})


def _misfits(table: Table, named: Mapping[str, str]) -> Iterator[Note]:
    if table.misfits:
        who = tuple(named[label] for label in {label: 0 for _, label in sorted(table.misfits)})
        counts = {"count": len(table.misfits), "of": len(table.rows)}
        yield Note("memory-rows", {"who": who, **counts})


def _unjudged(table: Table) -> Iterator[Note]:
    """That a sweep asks for no targets."""
    targets = table.sweep.points[0].scenario.targets
    asked = [target_said(name, bound, targets.loss) for name, bound in targets.bounds.items()]
    if asked:
        yield Note("unjudged", {"targets": tuple(asked)})


def _ends_early(table: Table, rows: Sequence[Row], named: Mapping[str, str]) -> Iterator[Note]:
    """That no step ends within the horizon of some jobs, though nothing interrupts them."""
    idle = [
        row
        for row in rows
        if row.mean(KEPT) == 0 == row.mean("interruptions") and row.mean("goodput") > 0
    ]
    if idle:
        who = f"{named[idle[0].strategy]} at {table.told(idle[0])}"
        yield Note("no-step", {"who": who, "count": len(idle), "of": len(table.rows)})


def _short(table: Table, rows: Sequence[Row], named: Mapping[str, str]) -> Iterator[Note]:
    """That some runs are short, and what makes them longer unless that is swept."""
    short = [row for row in _distinct(rows) if row.done.gradients < row.done.needed]
    if not short:
        return
    fewest = min(short, key=lambda row: row.done.gradients)
    more = ""
    if not any(quantity.place[0] == "stop" for quantity in table.sweep.quantities):
        stop = table.sweep.points[0].scenario.stop
        timed = stop.time is not None and any(row.done.time >= stop.time for row in short)
        rules = {"time"} if timed else {"global_steps", "examples"}
        more = cautions.longer(stop, rules, [row.done for row in short])
    out = sum(row.done.too_short for row in short)
    of: dict[str, Value] = {
        "who": f"{named[fewest.strategy]} at {table.told(fewest)}",
        "gradients": Number(fewest.done.gradients),
        "count": len(short),
        "of": len(_distinct(rows)),
        "more": more,
    }
    yield Note("short-rows", of | ({"out": out} if out else {}))


def _precision(table: Table, rows: Sequence[Row]) -> Iterator[Note]:
    """When replications ended, and how many rows are not known as precisely as was asked for."""
    wide = [row for row in rows if not row.precise]
    if wide:
        share = Number(table.sweep.precision, unit="share")
        most = table.sweep.most_replications
        counts = {"count": len(wide), "of": len(table.rows)}
        yield Note("wide", {"precision": share, "most": most, **counts})
    if any(row.precise and row.replications > table.sweep.first_replications for row in rows):
        yield Note("stopped-when-precise")


def _scale(table: Table, rows: Sequence[Row], named: Mapping[str, str]) -> Iterator[Note]:
    """What the numbers are: means with intervals, or exact."""
    once = [row for row in rows if not row.random[1]]
    if queued := dict.fromkeys(named[row.strategy] for row in once if table.replays(row)):
        yield Note("recorded-order", {"who": tuple(queued)})
    exact = [row for row in once if not table.replays(row)]
    if exact and len(exact) == len(table.rows):
        yield Note("exact")
    elif exact:
        yield Note("exact-rows", {"count": len(exact), "of": len(table.rows)})
    many = [row.replications for row in rows if row.replications > 1]
    if many:
        yield Note("interval-rows", {"low": min(many), "high": max(many)})


def _idle(table: Table, rows: Sequence[Row]) -> Iterator[Note]:
    """What is swept and changes no throughput."""
    metric = KEPT if any(KEPT in row.values for row in rows) else "examples_per_s"
    found = set(range(len(table.sweep.quantities)))
    for label in table.strategies:
        found &= {*table.idle(label, metric)} | found - {*table.mattering(label)}
    if len(table.sweep.points) > 1 and (idle := sorted(found)):
        paths = [table.sweep.quantities[index].path for index in idle]
        yield Note("no-effect", {"what": tuple(short_names(paths))})


def _spells(table: Table, rows: Sequence[Row]) -> Iterator[Note]:
    """That some runs hold too few spells for intervals; the worst."""
    found = [
        note
        for row in _distinct(rows)
        for note in cautions.few_spells(
            table.sweep.points[row.point].scenario, {row.strategy: row.done.gradients}
        )
    ]
    if found:
        yield min(found, key=lambda note: _mean(note.values["count"]))


def _mean(value: Value) -> float:
    return value.mean if isinstance(value, Number) else float("inf")


def _unpriced(table: Table) -> Iterator[Note]:
    """The machines that cost nothing here, as they have no price."""
    prices = table.sweep.points[0].scenario.prices
    if prices is None:
        return
    every = [
        counted(one, point.scenario.cluster_of(one))
        for point in table.sweep.points
        for one in point.scenario.strategies
    ]
    kinds = {"workers": "device_hour", "parameter servers": "server_hour"}
    for place, (what, key) in enumerate(kinds.items()):
        if any(one[place] for one in every) and not getattr(prices, key):
            yield Note("no-price", {"what": what, "key": key})


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """The first of those rows of each strategy that are of the same runs."""
    found = {(row.strategy, row.case): row for row in reversed(rows)}
    return list(reversed(found.values()))
