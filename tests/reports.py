"""A report as data: what tests of numbers outside `report/` look at, in place of its code.

Words are approved in `tests/transcripts`. What is made (by `varsim.run`, `sweep`, `plan`,
`explain`, ...) names the module that tells of it; nothing else of `varsim.report` is named here.
"""

import json
from importlib import import_module
from typing import Any, NamedTuple

from varsim import Scenario, load
from varsim.study.shown import Shown


class Told(NamedTuple):
    """What a report holds: sentences, tables as rows of texts, the rows of its CSV, its JSON."""

    answer: tuple[str, ...]
    notes: tuple[str, ...]
    texts: tuple[str, ...]
    tables: tuple[list[dict[str, str]], ...]
    data: list[dict[str, Any]]
    facts: dict[str, Any]


def checked(made: Scenario) -> Any:
    """How a scenario of training begins."""
    return load(made).check()


def noted(made: Any, code: str) -> list[Any]:
    """The notes of this code in what is told of a result, or of how a scenario begins."""
    found = checked(made) if isinstance(made, Scenario) else made
    return [note for note in found.report.notes if note.code == code]


def cells(report: Any, key: str) -> tuple[Any, ...]:
    """The cells of a column of its table; none where it has no such column."""
    return next((one.cells for one in report.table.columns if one.key == key), ())


def told(made: Any, *given: Any, **options: Any) -> Told:
    """All that its report says, as plain data; a row has its label under the name ''."""
    if isinstance(made, Shown):
        return _data(made.report)
    report = import_module(made.told_by).report(made, *given, **options)
    tables = [block for block in report.blocks if hasattr(block, "rows")]
    return Told(
        report.answer,
        report.notes,
        tuple(line for block in report.blocks for line in getattr(block, "lines", ())),
        tuple(
            [{"": row.label, **dict(zip(one.columns, row.cells, strict=False))} for row in one.rows]
            for one in tables
        ),
        [dict(zip(report.data.columns, row, strict=True)) for row in report.data.rows],
        json.loads(json.dumps(report.facts(), default=str)),
    )


def _data(report: Any) -> Told:
    """The same of what is told as data."""
    rows = report.frame().to_dict("index")
    return Told(
        tuple(report.answer.splitlines()),
        report.lines,
        (*report.answer.splitlines(), *report.lines),
        ([{"": name, **row} for name, row in rows.items()],),
        [dict(zip(report.data.columns, row, strict=True)) for row in report.data.rows],
        json.loads(json.dumps(report.facts(), default=str)),
    )
