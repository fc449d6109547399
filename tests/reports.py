"""A report as data: what tests of numbers outside `report/` look at, in place of its code.

Words are approved in `tests/transcripts`. What is made (by `varsim.run`, `sweep`, `plan`,
`explain`, ...) names the module that tells of it; nothing else of `varsim.report` is named here.
"""

import json
from importlib import import_module
from typing import Any, NamedTuple

from varsim.study.shown import Shown


class Told(NamedTuple):
    """What a report holds: sentences, tables as rows of texts, the rows of its CSV, its JSON."""

    answer: tuple[str, ...]
    notes: tuple[str, ...]
    texts: tuple[str, ...]
    tables: tuple[list[dict[str, str]], ...]
    data: list[dict[str, Any]]
    facts: dict[str, Any]


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
