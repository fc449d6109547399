"""What a sweep, a plan and a search for rates tell alike: tables of candidates, and their notes."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from varsim.report.notes import plain
from varsim.report.products import cautions
from varsim.report.told import Cell, Column, Note, Number, Table, Value, plain_number
from varsim.report.wording import shown
from varsim.scenario.training import Scenario
from varsim.scenario.writing import MADE_BY
from varsim.study.candidate import CandidateOutcome
from varsim.study.verdict import CONFIDENCE

One = TypeVar("One", bound=CandidateOutcome)


def table(
    names: Iterable[str],
    places: Sequence[Mapping[str, str]],
    columns: Iterable[Column],
    corner: str,
    *,
    best: int = 0,
    first: bool = True,
) -> Table:
    """A row for each candidate: where it lies, and its numbers; what none of them has is left out.

    `first`: where they lie stands before all else, and in each part of a table in parts.
    """
    keys = [
        Column(name, name, tuple(place.get(name, "") for place in places))
        for name in dict.fromkeys(name for place in places for name in place)
    ]
    every = [*keys, *columns] if first else [*columns, *keys]
    there = [one for one in every if not one.cells or any(map(there_is, one.cells))]
    count = sum(one in there for one in keys) if first else 0
    return Table(tuple(names), tuple(there), corner=corner, best=best, keys=count)


def there_is(cell: Cell) -> bool:
    """Whether a cell says something."""
    return shown(cell) not in ("-", "")


def failed(some: Sequence[One], who: Callable[[One], str], code: str) -> Iterator[Note]:
    """That runs of some failed, the first of them, and why."""
    if found := [one for one in some if one.failure]:
        counts = {"count": len(found), "of": len(some)}
        why = found[0].failure.partition("\n")[0]
        yield Note(code, {"who": who(found[0]), "why": why, **counts})


def short(
    some: Sequence[One], base: Any, who: Callable[[One], str], code: str, *, swept: bool
) -> Iterator[Note]:
    """That runs of some are short, the shortest, and what makes them longer unless `swept`."""
    found = [one for one in some if one.done.gradients < one.done.needed]
    if not found:
        return
    assert isinstance(base, Scenario), "no program is too short"
    fewest = min(found, key=lambda one: one.done.gradients)
    lasts = math.inf if base.stop.time is None else base.stop.time
    timed = {one.done.time >= lasts for one in found}
    rules = {rule for one in timed for rule in (["time"] if one else ["global_steps", "examples"])}
    of: dict[str, Value] = {
        "who": who(fewest),
        "gradients": Number(fewest.done.gradients),
        "count": len(found),
        "of": len(some),
        "more": "" if swept else cautions.longer(base, rules, [one.done for one in found]),
    }
    out = sum(one.done.too_short for one in found)
    yield Note(code, of | ({"out": out} if out else {}))


def few_spells(some: Iterable[CandidateOutcome]) -> Iterator[Note]:
    """That runs of some hold too few spells for intervals; the worst."""
    yield from worst(
        (
            note
            for one in some
            for note in cautions.few_spells(one.scenario, {one.strategy: one.done.gradients})
        ),
        "count",
    )


def worst(notes: Iterable[Note], key: str) -> list[Note]:
    """The note with the least of a number, if there is one."""

    def mean(note: Note) -> float:
        value = note.values[key]
        return value.mean if isinstance(value, Number) else math.inf

    return sorted(notes, key=mean)[:1]


def facts(
    kind: str,
    name: str,
    provenance: Mapping[str, str | int],
    sha256: str,
    headline: Iterable[Note],
    notes: Iterable[Note],
    **more: Any,
) -> dict[str, Any]:
    """What there is to tell of a study, as plain data; `more`: what is its own."""
    return {
        "made_by": MADE_BY,
        "kind": kind,
        "name": name,
        "provenance": dict(provenance),
        "result_sha256": sha256,
        "confidence": CONFIDENCE,
        "headline": [plain(note) for note in headline],
        "notes": [plain(note) for note in notes],
        **more,
    }


def records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, Any]]:
    """Rows as plain data by the names of their columns."""
    return [dict(zip(columns, map(plain_number, row), strict=True)) for row in rows]
