"""Results in a notebook: their plots one by one, the timeline to walk through, their files."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsim.report.page import PAGES, player
from varsim.report.told import Chart, Report
from varsim.scenario.fault import known

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


class Gallery:
    """The plots of a report by name: `result.plot.timeline()` draws one and returns its Axes.

    Several panels are a list of Axes, top to bottom. In a notebook the picture is shown, too.
    """

    def __init__(self, report: Report) -> None:
        charts, families = report.drawn().items(), report.families
        self._figures = {name: partial(_chart, views, families) for name, views in charts}

    def __getattr__(self, name: str) -> "Callable[[], Axes | list[Axes]]":
        try:
            known("plot", name, self._figures)
        except ValueError as error:
            raise AttributeError(str(error)) from None
        return lambda: _drawn(name, *self._figures[name]())

    def __dir__(self) -> list[str]:
        return list(self._figures)

    def __repr__(self) -> str:
        return f"plots: {', '.join(self._figures)}"


def _chart(views: list[Chart], families: Mapping[str, str]) -> "tuple[Picture, list[Axes]]":
    from varsim.report.charts.marks import drawn

    return drawn(views, families)


def _drawn(name: str, figure: "Picture", axes: "list[Axes]") -> "Axes | list[Axes]":
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
        from markupsafe import escape

        return (
            f'<iframe srcdoc="{escape(self.page)}" title="Timeline" width="100%" height="640" '
            'frameborder="0"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Write the page."""
        Path(path).write_text(self.page, encoding="utf-8", newline="\n")


def timeline(report: Report) -> Timeline:
    """The timeline of a report; ValueError if it has none."""
    if report.played is None:
        raise ValueError(f"a result of {report.kind} has no timeline of workers")
    return Timeline(player(report))


def written(result: Any, report: Report, directory: str | Path, *, rows: bool = False) -> Path:
    """Write the files that `varsim run` writes; the place of the page."""
    from varsim.report.files.keeping import put_report
    from varsim.report.files.program import save_variables
    from varsim.report.files.save import save
    from varsim.report.products.plan_facts import SCENARIO, scenario_text

    if report.kind == "plan":
        put_report(report, Path(directory), {SCENARIO: scenario_text(result, report)})
    elif report.kind == "variables":
        save_variables(result, Path(directory), report, rows=rows)
    else:
        save(result, Path(directory), report, rows=rows)
    return Path(directory) / PAGES["training"]
