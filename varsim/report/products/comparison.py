"""What a comparison of scenarios tells: how many times as fast each is, and what differs."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from varsim.report.notes import plain
from varsim.report.products import candidates, cautions
from varsim.report.products.figures import UNITS
from varsim.report.products.sweep_points import SPEEDS
from varsim.report.told import (
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
from varsim.report.wording import names
from varsim.scenario.training import Scenario
from varsim.scenario.writing import MADE_BY, dump_scenario, provenance, provenance_of_many
from varsim.study.comparison import FASTER, SLOWER, SideBySide
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD

FILES: Final = {
    "comparison.csv": "every number and ratio, with its interval",
    "comparison.json": "the same, and what differs between the scenarios, as data",
}
_COLUMNS: Final = (
    *("strategy", "scenario", "metric", "unit", "mean", "low", "high", "replications"),
    *("ratio", "ratio_low", "ratio_high", "verdict"),
)
# What is said of pairs, by their verdicts, in this order.
_SAID: Final = (
    ("compared", (FASTER,)),
    ("compared", (SLOWER,)),
    ("compared-once", (UNTOLD,)),
    ("compared-close", (CLOSE,)),
    ("compared-same", (EQUAL, SAME)),
)
_MOST_SENTENCES: Final = 3


def report(found: SideBySide) -> Report:
    """What there is to tell of a comparison."""
    scenarios = [one.scenario for one in found.sides]
    texts = [f"# {one.name}\n{dump_scenario(one.scenario)}" for one in found.sides]
    return Report(
        "compare",
        " vs. ".join(one.name for one in found.sides),
        tuple(_headline(found)),
        _table(found),
        tuple(_notes(found)),
        details=(_differing(found),) if any(map(found.differences, _others(found))) else (),
        pictures=partial(_pictures, found),
        source=Reproduction("\n".join(texts), "varsim compare A.yaml B.yaml"),
        provenance=provenance_of_many(scenarios),
        families=dict.fromkeys((one.name for one in found.sides), ""),
        files=FILES,
        data=Data(_COLUMNS, list(_rows(found))),
        facts=partial(_document, found),
        meanings={found.metric: found.sides[0].metrics[found.metric].description},
    )


def _others(found: SideBySide) -> range:
    return range(1, len(found.sides))


def _named(found: SideBySide) -> tuple[str, ...]:
    """What people call the strategies, as in the first scenario."""
    called = names(found.sides[0].scenario)
    return tuple(called[first] for first, *_ in found.rows)


def _head(found: SideBySide) -> str:
    unit = found.sides[0].metrics[found.metric].unit
    return SPEEDS.get(found.metric) or found.metric + f" ({unit})" * bool(unit)


def _number(found: SideBySide, row: int, side: int) -> Number:
    unit = UNITS.get(found.sides[0].metrics[found.metric].unit, "")
    return Number.of(found.estimate(row, side), unit)


# --- the headline and the table -------------------------------------------------------------------


def _headline(found: SideBySide) -> Iterator[Note]:
    """Of each other scenario how its strategies compare with the first's; of one alone, of all."""
    every = [list(_sentences(found, other)) for other in _others(found)]
    told = every[0] if len(every) == 1 else [one for first in every for one in first[:1]]
    yield from told[:_MOST_SENTENCES]
    if not told:
        yield Note("compared-nothing", {"what": _head(found)})


def _sentences(found: SideBySide, other: int) -> Iterator[Note]:
    named, pairs = _named(found), found.pairs(other)
    for code, verdicts in _SAID:
        if some := [one for one in pairs if one.said in verdicts]:
            ratios = [one.ratio.mean for one in some]
            of: dict[str, Value] = {
                "first": found.sides[0].name,
                "other": found.sides[other].name,
                "who": tuple(named[one.row] for one in some),
                "low": Number(min(ratios)),
                "high": Number(max(ratios)),
            }
            if found.metric not in SPEEDS:
                of["what"] = found.metric
            yield Note(code, of)


def _table(found: SideBySide) -> Table:
    """A row for each strategy: its number in each scenario, and the ratio to the first."""
    first, *others = found.sides
    every = range(len(found.rows))

    def numbers(side: int) -> Column:
        cells = tuple(_number(found, row, side) for row in every)
        name = found.sides[side].name
        return Column(f"{found.metric} {name}", name, cells, bar=True, about=found.metric)

    columns = [numbers(0)]
    for other, one in enumerate(others, 1):
        ratios = tuple(Number.of(pair.ratio) for pair in found.pairs(other))
        head = f"{one.name} vs. {first.name}" if len(others) > 1 else f"vs. {first.name}"
        columns += [numbers(other), Column(f"ratio {one.name}", head, ratios, main=True)]
    return Table(_named(found), tuple(columns), corner=_head(found), fold=False)


def _differing(found: SideBySide) -> Table:
    """What the scenarios say, where it differs from the first."""
    every = [found.differences(other) for other in _others(found)]
    paths = list(dict.fromkeys(path for one in every for path in one))
    columns = [
        Column("0", found.sides[0].name, tuple(_first(every, path) for path in paths), prose=True)
    ]
    for side, own in zip(found.sides[1:], every, strict=True):
        cells = tuple(own[path][1] if path in own else "" for path in paths)
        columns.append(Column(side.name, side.name, cells, prose=True))
    return Table(tuple(paths), tuple(columns), corner="What differs: key", fold=False)


def _first(every: list[dict[str, tuple[str, str]]], path: str) -> str:
    return next(one[path][0] for one in every if path in one)


def _pictures(found: SideBySide) -> tuple[Chart, ...]:
    """A bar for each scenario, strategy by strategy; what surely is more, in bold."""
    named, rows = _named(found), list[dict[str, object]]()
    ahead = {
        (pair.row, other if pair.said == FASTER else 0)
        for other in _others(found)
        for pair in found.pairs(other)
        if pair.said in (FASTER, SLOWER)
    }
    for row, who in enumerate(named):
        for at, side in enumerate(found.sides):
            number = _number(found, row, at)
            if math.isfinite(number.mean):
                best = (row, at) in ahead
                of = {"mean": number.mean, "half": number.half, "best": best}
                rows.append({"strategy": who, "who": side.name, **of})
    if not rows:
        return ()
    return (Chart.of("comparison", "bars", rows, _head(found), "", by="who", panel="strategy"),)


# --- the notes ------------------------------------------------------------------------------------


def _notes(found: SideBySide) -> Iterator[Note]:
    first, *others = found.sides
    for other, one in enumerate(others, 1):
        differences = found.differences(other)
        what = tuple(
            f"{path} = {own} instead of {mine}" for path, (mine, own) in differences.items()
        )
        if what:
            yield Note("differs", {"who": one.name, "what": what})
        else:
            yield Note("differs-nowhere", {"who": one.name, "first": first.name})
    if found.redrawn:
        lead = first.scenario
        draws: dict[str, Value] = {"seed": f"{lead.seed}", "count": lead.replications}
        yield Note("redrawn", {"who": found.redrawn, **draws})
    for side in found.sides:
        called = names(side.scenario)
        if stuck := tuple(called[one] for one in side.labels if one in side.deadlocked):
            yield Note("deadlocked-there", {"who": stuck, "where": side.name})
        if isinstance(side.scenario, Scenario):
            for note in cautions.memory(side.scenario):
                who = note.values["who"]
                assert isinstance(who, tuple)
                there = tuple(f"{one} in {side.name}" for one in who)
                yield Note("memory-marked", {**note.values, "who": there})
    if alone := tuple(_alone(found)):
        yield Note("not-in-all", {"who": alone})
    for note in cautions.of_points([one.scenario for one in found.sides]):
        if note.code != "memory":
            yield note
    if found.exact:
        yield Note("exact")
    elif found.replications > 1:
        yield Note("interval", {"count": found.replications})
    else:
        yield Note("one-run")


def _alone(found: SideBySide) -> Iterator[str]:
    """The strategies that are not in all scenarios, and where they are."""
    for at, side in enumerate(found.sides):
        shared, called = {row[at] for row in found.rows}, names(side.scenario)
        for label in side.labels:
            if label not in shared:
                yield f"{called[label]} ({side.name})"


# --- for programs ---------------------------------------------------------------------------------


def _rows(found: SideBySide) -> Iterator[tuple[object, ...]]:
    """A row for each strategy and scenario."""
    unit = found.sides[0].metrics[found.metric].unit
    pairs = {(pair.row, other): pair for other in _others(found) for pair in found.pairs(other)}
    for row, labels in enumerate(found.rows):
        for at, side in enumerate(found.sides):
            one = found.estimate(row, at)
            numbers = (one.mean, one.low, one.high, one.replications)
            pair = pairs.get((row, at))
            beside = (None,) * 4 if pair is None else (*pair.ratio[:3], pair.said)
            yield (labels[0], side.name, found.metric, unit, *numbers, *beside)


def _document(found: SideBySide) -> dict[str, Any]:
    """All of it as plain data."""
    told = found.report
    return {
        "made_by": MADE_BY,
        "kind": "compare",
        "name": told.name,
        "asked_sha256": found.sha256,
        "provenance": dict(told.provenance),
        "headline": [plain(note) for note in told.headline],
        "notes": [plain(note) for note in told.notes],
        "metric": found.metric,
        "scenarios": {one.name: provenance(one.scenario) for one in found.sides},
        "differences": {
            one.name: {
                path: {"first": mine, "own": own}
                for path, (mine, own) in found.differences(other).items()
            }
            for other, one in enumerate(found.sides[1:], 1)
        },
        "rows": candidates.records(_COLUMNS, _rows(found)),
    }
