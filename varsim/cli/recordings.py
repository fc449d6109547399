"""What the commands do with recorded runs of real clusters."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import typer

from varsim.cli.console import OUT_OF_BOUNDS, USAGE, complain, write, write_prose

if TYPE_CHECKING:
    from varsim.calibration.recorded.comparison import Comparison
    from varsim.calibration.recorded.report import Table
    from varsim.calibration.recorded.runs import Run

Halves: TypeAlias = Literal["first", "second", "all"]

_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?%")


def percent(text: str) -> float:
    """`4%` as a number."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a percentage (for example 4%)")
    return float(found[1]) / 100


def validate(folder: Path, bound: float | None, out: Path | None, quiet: bool) -> None:
    """Predict every run of a folder, and say how well.

    `out` gets a page and a figure. Ends with OUT_OF_BOUNDS where a total time is off by more than
    `bound`.
    """
    from varsim.calibration.recorded.comparison import compare, error
    from varsim.calibration.recorded.report import (
        calibration_table,
        incomplete_runs,
        run_table,
        summary_table,
    )

    def said(what: str) -> None:
        if not quiet:
            complain(f"varsim: {what}")

    if out is not None:
        from varsim.report.files.directory import check_target

        check_target(out, "validation")
    runs = read(folder)
    comparison = compare(runs, said)
    if not comparison.predictions:
        complain("varsim: nothing is computed in any of these runs; there is nothing to predict")
        raise typer.Exit(USAGE)
    _write_table(run_table(comparison))
    for line in incomplete_runs(comparison):
        write_prose(line)
    for table in (summary_table(comparison), calibration_table(comparison)):
        write("")
        _write_table(table)
    write("")
    for one in comparison.half_calibrations:
        names = "nothing" if one.calibration is None else ", ".join(one.calibration.runs)
        write_prose(f"{one.family}, {one.half} half, calibrated on: {names}")
    worst = comparison.worst
    off = abs(error(worst.best.total, worst.measured.total))
    write_prose(f"farthest off in total time: {worst.run}, {off:.2%}")
    if out is not None:
        write(f"report: {_write_page(folder, comparison, out)}")
    if bound is not None and off > bound:
        complain(f"varsim: {worst.run} is off by {off:.2%}, which is more than {100 * bound:g}%")
        raise typer.Exit(OUT_OF_BOUNDS)


def _write_table(table: "Table") -> None:
    """A table as those of other commands, as wide as the terminal."""
    from varsim.report import screen, told

    names, *cells = zip(*table.rows, strict=True)
    corner, *heads = table.head
    columns = [
        told.Column(head, head, own, prose=at < table.named)
        for at, (head, own) in enumerate(zip(heads, cells, strict=True), 1)
    ]
    for line in screen.grid(
        told.Table(names, tuple(columns), corner=corner), columns, screen.columns()
    ):
        write(line.rstrip())


def calibrate(folder: Path, half: Halves) -> None:
    """Print the overheads that half of a folder's runs tell of, as part of a scenario."""
    from varsim.calibration.recorded.comparison import calibrate_half, family_of
    from varsim.calibration.recorded.report import fragment

    runs = read(folder)
    for index, family in enumerate(dict.fromkeys(map(family_of, runs))):
        found = calibrate_half(runs, family, None if half == "all" else half)
        if index:
            write("---")
        write(f"# overheads of {family}, {half if half == 'all' else f'{half} half'}")
        for line in ["# nothing to be learnt"] if found is None else fragment(found):
            write(line)


def read(folder: Path) -> "list[Run]":
    """The runs of a folder; ends with USAGE where they cannot be read, a line for each problem."""
    from varsim.calibration.recorded.runs import RunFileError, read_runs

    try:
        return read_runs(folder)
    except RunFileError as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None


def _write_page(folder: Path, comparison: "Comparison", out: Path) -> Path:
    return write_measured(f"varsim validate --runs {folder} --out {out}", comparison, out)


def write_measured(command: str, comparison: "Comparison", out: Path) -> Path:
    """Write measured.md and its figure into a directory; the page."""
    from varsim.calibration.recorded.report import markdown
    from varsim.report.charts.marks import drawn
    from varsim.report.charts.style import write as write_figure
    from varsim.report.files.directory import put
    from varsim.report.products.measured import charts, families

    text = markdown(comparison, command, "measured.png")

    def fill(path: Path) -> None:
        figure, _ = drawn(charts(comparison), families(comparison))
        write_figure(figure, path / "measured.png")
        (path / "measured.md").write_text(text, encoding="utf-8", newline="\n")

    put(out, "validation", fill)
    return out / "measured.md"
