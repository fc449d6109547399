"""Who tells of what: one dispatch from a result to its report, by its product."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsim.report import formats, screen
from varsim.report.told import Report

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Told(Report):
    """A report that shows itself: as text, as HTML, as plots, as files."""

    @property
    def answer(self) -> str:
        """The headline, a sentence a line."""
        return formats.answer(self)

    @property
    def lines(self) -> tuple[str, ...]:
        """The notes, each with its code in brackets."""
        return formats.lines(self)

    def frame(self) -> "DataFrame":
        """The table as text, all its columns; a row each."""
        return formats.frame(self)

    def html(self) -> str:
        """What the command prints, for a notebook."""
        return formats.html(self)

    def gallery(self) -> Any:
        """Its plots by name."""
        from varsim.report.notebook import Gallery

        return Gallery(self)

    def timeline(self) -> Any:
        """The timeline to walk through; ValueError where there is none."""
        from varsim.report.notebook import timeline

        return timeline(self)

    def save(self, result: Any, directory: Path, *, rows: bool = False) -> Path:
        """Write the files of a run; the place of the page."""
        from varsim.report.notebook import written

        return written(result, self, directory, rows=rows)

    def __str__(self) -> str:
        return screen.terminal(self, width=screen.WIDEST)


def report_of(result: Any) -> Report:
    """What there is to tell of a result, as data; only what tells of its product is imported."""
    match result.product:
        case "run":
            from varsim.report.products import training

            return training.report(result)
        case "check":
            from varsim.report.products import check

            return check.report(result)
        case "explain":
            from varsim.report.products import why

            return why.report(result)
        case "sweep":
            from varsim.report.products import sweep

            return sweep.report(result)
        case "plan":
            from varsim.report.products import plan

            return plan.report(result)
        case "tune":
            from varsim.report.products import tune

            return tune.report(result)
        case "variables":
            from varsim.report.products import variables

            return variables.report(result)
        case "story":
            from varsim.report.products import story

            return story.report(result)
    raise TypeError(f"no report for a {type(result).__name__}")


def tell(result: object) -> Told:
    """What there is to tell of a result."""
    found = report_of(result)
    return Told(**{field.name: getattr(found, field.name) for field in fields(found)})
