"""What commands leave in their directory: the files of runs, sweeps, plans and explanations."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from varsim.report import formats, page
from varsim.report.files.directory import KINDS, Kind, put, put_file
from varsim.report.files.rows import MOST_SPANS, rows_of
from varsim.report.formats import Format, csv_text
from varsim.report.told import Report
from varsim.scenario.space import Sweep
from varsim.scenario.writing import dump_scenario, needs_text, to_json
from varsim.study.result import Result

Plots: TypeAlias = Literal["png", "svg", ""]
Content: TypeAlias = str | bytes | Iterable[str]

SWEPT: Final = "sweep.yaml"
# What is written of a report beside its page and figures, and as what.
FORMS: Final[dict[Kind, dict[str, Format]]] = {
    "sweep": {"results.csv": "csv", "results.json": "json"},
    "plan": {"configurations.csv": "csv", "plan.json": "json", "plan.md": "md"},
    "tune": {"rates.csv": "csv", "rates.json": "json"},
    "compare": {"comparison.csv": "csv", "comparison.json": "json"},
    "why": {"why.md": "md", "why.json": "json"},
    "stragglers": {"stragglers.json": "json"},
}


class SavedRun(NamedTuple):
    """Where a result was saved, and what there is to say about it, one line each."""

    directory: Path
    notes: tuple[str, ...]


def save(
    result: Result[Any],
    directory: Path,
    report: Report | None = None,
    most_spans: int = MOST_SPANS,
    *,
    plots: Plots = "png",
    rows: bool = True,
    animated: bool = False,
) -> SavedRun:
    """Write all files of a run; an older run in `directory` is replaced once these are complete.

    With its report: its page and its plots, too; `rows`: what happened, a row each, and a trace;
    `animated`: a picture that moves, of a run of training.
    What else lies in `directory`, such as notes, is kept. Raises NotARunError if it holds no run,
    OSError if it cannot be written; then, and when interrupted, what was there is untouched.
    """
    of_rows, notes = dict[str, Content](), tuple[str, ...]()
    facts: dict[str, Any] = result.report.facts()
    if rows:
        of_rows, counts, notes = rows_of(result, most_spans)
        facts["remarks"] = list(notes)
        for run, count in zip(facts["runs"], counts, strict=False):
            run["rows"] = count
    if animated and isinstance(result, Result) and report and report.played:
        from varsim.report.charts.animation import animation

        of_rows["animation.svg"] = animation(result, report.played())
    files: dict[str, Content] = {
        "summary.csv": csv_text(result.report.data),
        "scenario.yaml": head(report.question if report else "") + dump_scenario(result.scenario),
        **of_rows,
        KINDS["run"].facts: to_json(facts),
    }
    _put(directory, "run", files, report, plots)
    return SavedRun(directory, notes)


def put_report(
    report: Report, directory: Path, more: Mapping[str, str | bytes | None] = {}
) -> None:
    """Put what is told of something where its files lie: as text, its page, its plots.

    `more`: other files by their names; None: there is none. Raises as `put` does.
    """
    drawn = report.drawn().items()
    pictures = {f"{name}.png": f"{one.y or name} against {one.x}" for name, (one, *_) in drawn}
    files: dict[str, Content] = {
        name: formats.in_file(report, format, pictures)
        for name, format in FORMS[report.kind].items()
    }
    files |= {name: content for name, content in more.items() if content is not None}
    _put(directory, report.kind, files, report, "png", beside=directory)


def _put(
    directory: Path,
    kind: Kind,
    files: Mapping[str, Content],
    report: Report | None,
    plots: Plots,
    beside: Path | None = None,
) -> None:
    """Put files in their place, with the page and the plots of a report; `beside`: see `page`."""

    def fill(path: Path) -> None:
        for name, content in files.items():
            if isinstance(content, str | bytes):
                raw = content.encode() if isinstance(content, str) else content
                (path / name).write_bytes(raw)
                continue
            with (path / name).open("w", encoding="utf-8", newline="") as file:
                file.writelines(content)
        if report is None:
            return
        if plots and (drawn := report.drawn()):
            from varsim.report.charts.marks import write_all

            write_all(drawn, report.families, path, plots)
        if KINDS[kind].page:
            page.write(report, path, beside)

    put(directory, kind, fill)


def write_sweep(sweep: Sweep, question: str, directory: Path) -> None:
    """Write the sweep as a scenario file, with all changes that were made on the command line."""
    needed = needs_text(*(point.scenario for point in sweep.points))
    put_file(directory / SWEPT, head(question) + sweep.yaml + needed)


def head(question: str) -> str:
    """The comment that a written scenario begins with: what it is to answer, if that is known."""
    return "".join(f"{f'# {line}'.rstrip()}\n" for line in question.splitlines())
