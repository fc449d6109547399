"""What runs, sweeps, plans and explanations leave in their directory: their files and a page."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from varsim.report import formats, page
from varsim.report.files.directory import FACTS, Kind, put, put_file
from varsim.report.formats import Format
from varsim.report.told import Report
from varsim.scenario.provenance import to_json
from varsim.scenario.sweep.space import Sweep
from varsim.scenario.writing import needs_text

SWEPT: Final = "sweep.yaml"
# What is written of a report beside its page and figures, and as what.
FORMS: Final[dict[Kind, dict[str, Format]]] = {
    "sweep": {"results.csv": "csv", "results.json": "json"},
    "plan": {"cells.csv": "csv", "plan.json": "json", "plan.md": "md"},
    "why": {"why.md": "md", "why.json": "json"},
    "stragglers": {"stragglers.json": "json"},
}


def put_run(
    directory: Path,
    kind: Kind,
    files: Mapping[str, Iterable[str] | bytes],
    facts: dict[str, Any],
    show: Callable[[Path], None] | None,
) -> None:
    """Put a run in its place: its files, its facts, and what a function writes besides."""

    def fill(path: Path) -> None:
        for name, parts in files.items():
            if isinstance(parts, bytes):
                (path / name).write_bytes(parts)
                continue
            with (path / name).open("w", encoding="utf-8", newline="") as file:
                file.writelines(parts)
        (path / FACTS[kind]).write_text(to_json(facts), encoding="utf-8", newline="\n")
        if show is not None:
            show(path)

    put(directory, kind, fill)


def put_report(
    report: Report, directory: Path, more: Mapping[str, str | bytes | None] = {}
) -> None:
    """Put what is told of something where its files lie: as text, its page, its plots.

    `more`: other files by their names; None: there is none. Raises as `put` does.
    """
    plots = report.drawn()

    def fill(path: Path) -> None:
        pictures = {
            f"{name}.png": f"{one.y or name} against {one.x}" for name, (one, *_) in plots.items()
        }
        for name, format in FORMS[report.kind].items():
            text = formats.in_file(report, format, pictures)
            (path / name).write_bytes(text.encode())
        for name, content in more.items():
            if content is not None:
                raw = content.encode() if isinstance(content, str) else content
                (path / name).write_bytes(raw)
        if plots:
            from varsim.report.charts.marks import write_all

            write_all(plots, report.families, path)
        if report.kind in page.PAGES:
            page.write(report, path, beside=directory)

    put(directory, report.kind, fill)


def write_sweep(sweep: Sweep, question: str, directory: Path) -> None:
    """Write the sweep as a scenario file, with all changes that were made on the command line."""
    needed = needs_text(*(point.scenario for point in sweep.points))
    put_file(directory / SWEPT, head(question) + sweep.yaml + needed)


def head(question: str) -> str:
    """The comment that a written scenario begins with: what it is to answer, if that is known."""
    return "".join(f"{f'# {line}'.rstrip()}\n" for line in question.splitlines())
