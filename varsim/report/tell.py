"""Who tells of what: one dispatch from a result to its report, which shows itself in a notebook."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsim.report import formats, page, screen
from varsim.report.files.directory import KINDS
from varsim.report.notes import coded
from varsim.report.told import Chart, Report
from varsim.report.wording import shown, unheld
from varsim.scenario.change import in_python
from varsim.scenario.fault import known

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True)
class Told(Report):
    """Report that shows itself: as text (`str`), as HTML, as plots, as files."""

    @property
    def answer(self) -> str:
        """Headline, a sentence a line."""
        return formats.answer(self)

    @property
    def lines(self) -> tuple[str, ...]:
        """Notes, each with its code in brackets."""
        return tuple(unheld(in_python(coded(note))) for note in self.notes)

    def frame(self) -> "DataFrame":
        """Return the table as text, all its columns.

        Returns
        -------
        pandas.DataFrame
            A row for each alternative.

        """
        from pandas import DataFrame

        columns = self.table.columns
        cells = {one.head: [unheld(shown(cell)) for cell in one.cells] for one in columns}
        return DataFrame(cells, index=list(self.table.rows)).rename_axis(self.table.corner)

    def html(self) -> str:
        """What the command prints, for a notebook."""
        return formats.html(self)

    def gallery(self) -> "Gallery":
        """Its plots by name."""
        return Gallery(self)

    def timeline(self) -> "Timeline":
        """The timeline to walk through; ValueError where there is none."""
        if self.played is None:
            raise ValueError(f"a result of {self.kind} has no timeline of workers")
        return Timeline(page.player(self))

    def save(self, result: Any, directory: Path, *, rows: bool = False) -> Path:
        """Write the files that the command writes; the place of the page."""
        from varsim.report.files.save import FORMS, put_report, save, write_sweep

        match result.product:
            case "run":
                save(result, directory, self, rows=rows)
            case "plan":
                from varsim.report.products.plan_cells import SCENARIO, scenario_text

                put_report(self, directory, {SCENARIO: scenario_text(result, self)})
            case "tune":
                from varsim.report.products import tune

                text = tune.scenario_text(result, self.question)
                put_report(self, directory, {tune.SCENARIO: text})
            case "sweep":
                from varsim.study.store import Store

                put_report(self, directory)
                write_sweep(result.sweep, self.question, directory)
                with Store(directory) as store:
                    store.add(run for row in result.rows for run in row.runs)
            case _ if self.kind in FORMS:
                put_report(self, directory)
            case _:
                raise ValueError(f"of a {result.product} nothing is saved")
        return directory / KINDS[self.kind].page

    def __str__(self) -> str:
        return screen.terminal(self, width=screen.WIDEST, put=in_python)


class Gallery:
    """The plots of a report by name: `result.plot.timeline()` draws one and returns its Axes.

    Several panels are a list of Axes, top to bottom. In a notebook the picture is shown, too.
    """

    def __init__(self, report: Report) -> None:
        self._figures, self._families = report.drawn(), report.families

    def __getattr__(self, name: str) -> "Callable[[], Axes | list[Axes]]":
        try:
            known("plot", name, self._figures)
        except ValueError as error:
            raise AttributeError(str(error)) from None
        return lambda: _drawn(name, self._figures[name], self._families)

    def __dir__(self) -> list[str]:
        return list(self._figures)

    def __repr__(self) -> str:
        return f"plots: {', '.join(self._figures)}"


def _drawn(name: str, views: Sequence[Chart], families: Mapping[str, str]) -> "Axes | list[Axes]":
    from varsim.report.charts.marks import drawn

    figure, axes = drawn(views, families)
    if "IPython" in sys.modules:
        from IPython import get_ipython
        from IPython.display import Image, display

        if get_ipython() is not None:
            content = BytesIO()
            figure.savefig(content, format="png", dpi=100, metadata={"Software": None})
            picture = Image(content.getvalue(), alt=name)  # type: ignore[no-untyped-call]
            display(picture)  # type: ignore[no-untyped-call]
    return axes[0] if len(axes) == 1 else axes


@dataclass(frozen=True)
class Timeline:
    """The timeline to walk through, as HTML: what a notebook shows, or a page of its own."""

    page: str

    def __repr__(self) -> str:
        return "<Timeline: a notebook shows it; save(path) writes it as a page>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.page)}" title="Timeline" width="100%" height="640" '
            'frameborder="0"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Write the page."""
        Path(path).write_text(self.page, encoding="utf-8", newline="\n")


def report_of(result: Any) -> Report:
    """What there is to tell of a result, as data; only what tells of its product is imported."""
    match result.product:
        case "run" if result.scenario.kind == "variables":
            from varsim.report.products import variables

            return variables.report(result)
        case "run":
            from varsim.report.products import training

            return training.report(result)
        case "check":
            from varsim.report.products import check

            return check.report(result)
        case "compare":
            from varsim.report.products import comparison

            return comparison.report(result)
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
        case "story":
            from varsim.report.products import story

            return story.report(result)
    raise TypeError(f"no report for a {type(result).__name__}")


def tell(result: object) -> Told:
    """Tell a result as data: what its command prints, and its page shows.

    Parameters
    ----------
    result : Result, SweepTable, Plan, Rates, Checked, Why or Story
        What `run`, `sweep`, `plan`, `tune`, `check` or `explain` returned.

    Returns
    -------
    Told
        The report: `headline`, `table`, `notes` and `charts` as data; `answer`, `frame()`,
        `html()` and `str` show it.

    Examples
    --------
    >>> import varsim
    >>> result = varsim.run("slow_worker", strategies=["on_write"])
    >>> [note.code for note in varsim.tell(result).headline]
    ['alone']

    """
    found = report_of(result)
    return Told(**{field.name: getattr(found, field.name) for field in fields(found)})
