"""A report as data: what tests of numbers outside `report/` look at, in place of its code.

Words are approved in `tests/transcripts`; nothing of `varsim.report` is named here.
"""

from typing import Any

from varsim import Scenario, load


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
