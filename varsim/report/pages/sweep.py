"""The page of a sweep: the answer, its plots, its table; one HTML file that needs nothing else."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from varsim.report.pages.page import Section, common, rendered
from varsim.report.words.sweep import answer, cells, notes
from varsim.study.statistics import CONFIDENCE
from varsim.study.sweep.table import Table, descriptions

if TYPE_CHECKING:
    from varsim.report.plots.figure import Drawn

PAGE: Final = "report.html"
MOST_ROWS: Final = 2000  # of the table on the page; results.csv has all
_FILES: Final = {
    "results.csv": "the table, all digits, units in the names of the columns",
    "results.json": "the same, with what each column means, seed and versions",
    "results.parquet": "the same as results.csv",
    "sweep.yaml": "the sweep as it was run, with all changes of the command line",
    "runs.sqlite": "every run, kept as it ended",
}


def write(table: Table, directory: Path, question: str = "") -> Path:
    """Draw all plots into an existing directory and write the page; returns the page.

    Each file is there whole or as it was before; OSError if it cannot be written.
    """
    from varsim.report.files.sweep import put

    drawn = _draw(table, directory)
    files = {name: about for name, about in _FILES.items() if (directory / name).exists()}
    text = page(table, drawn, files, question)
    return put(directory / PAGE, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))


def page(table: Table, drawn: "dict[str, Drawn]", files: dict[str, str], question: str = "") -> str:
    """The page as HTML; `drawn` as `draw_all` gives it, `files` lie beside the page."""
    from varsim.report.plots.figure import looks
    from varsim.report.plots.sweep.gallery import plots

    made = table.document()["provenance"] | {"result_sha256": table.sha256}
    shared = common(table.sweep.points[0].scenario, made, looks(table.strategies))
    names = shared["provenance_names"] | {"result_sha256": "SHA-256 of what was simulated"}
    rows = table.rows[:MOST_ROWS]
    content: dict[str, Any] = {
        "question": question,
        "setting": _setting(table),
        "answer": answer(table),
        "notes": notes(table),
        "figures": [
            Section.of(plot, drawn[plot.name]) for plot in plots(table) if plot.name in drawn
        ],
        "rows": list(zip((row.strategy for row in rows), cells(table, rows), strict=True)),
        "left_out": max(0, len(table.rows) - MOST_ROWS),
        "confidence": f"{100 * CONFIDENCE:g} %",
        "columns": descriptions(table),
        "scenario": table.sweep.yaml,
        "provenance_names": names,
        "files": files,
    }
    return rendered("sweep.html.j2", shared | content)


def _draw(table: Table, directory: Path) -> "dict[str, Drawn]":
    """Draw aside, then put all plots in place; those of another sweep go."""
    from varsim.report.plots.sweep import gallery

    partial = directory / f".plots.partial-{os.getpid()}"
    try:
        partial.mkdir()
        drawn = gallery.draw_all(table, partial)
        for name in gallery.NAMES:
            for path in (partial / f"{name}.png", partial / f"{name}.svg"):
                if path.exists():
                    path.replace(directory / path.name)
                else:
                    (directory / path.name).unlink(missing_ok=True)
    except OSError as error:
        if error.strerror is not None:  # said of what the caller knows
            error.filename, error.filename2 = str(directory), None
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return drawn


def _setting(table: Table) -> str:
    sweep = table.sweep
    counts = [
        (len(table.strategies), "strategy", "strategies"),
        (len(sweep.points), "point", "points"),
        (sum({row.case: row.replications for row in table.rows}.values()), "run", "runs"),
    ]
    return " · ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts)
