"""What the commands do with recordings of real clusters, and with all there is to validate."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import typer

from varsim.commands.console import OUT_OF_BOUNDS, USAGE, bundled_quickstart, complain, write

if TYPE_CHECKING:
    from varsim.scenario import Scenario
    from varsim.validation.comparison import Comparison
    from varsim.validation.finding import Finding
    from varsim.validation.index.section import Section
    from varsim.validation.index.whole import Whole
    from varsim.validation.points.point import Point
    from varsim.validation.runs import Run

Halves: TypeAlias = Literal["first", "second", "all"]

WHOLE_REPORT: Final = Path("reports") / "validation"
_MOST_MISSES: Final = 30
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?%")


def percent(text: str) -> float:
    """`4%` as a number."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a percentage (for example 4%)")
    return float(found[1]) / 100


class Wanted(NamedTuple):
    """What the options of `varsim validate` say, but for recorded runs of one's own."""

    points: Path | None
    published: Path | None
    equivalences: bool
    scenario: Path | None
    only: str | None
    out: Path | None
    jobs: int
    quiet: bool

    @property
    def everything(self) -> bool:
        """Whether all that comes with varsim is validated."""
        return self.points is None and self.published is None and not self.equivalences

    @property
    def directory(self) -> Path | None:
        """Where the report goes: that of a part only where somebody says so."""
        whole = self.everything and self.only is None
        return WHOLE_REPORT if self.out is None and whole else self.out

    @property
    def command(self) -> str:
        """The options as they were typed."""
        given = {"--points": self.points, "--published": self.published, "--only": self.only}
        words = [f" {option} {value}" for option, value in given.items() if value is not None]
        if self.equivalences:
            words += [" --equivalences", *([f" {self.scenario}"] if self.scenario else [])]
        return f"varsim validate{''.join(words)}" + (f" --out {self.out}" if self.out else "")


def validate_all(wanted: Wanted) -> None:
    """Validate everything bundled, or the files that are given; say how it went, and write it.

    Ends with OUT_OF_BOUNDS where a bound is missed by more than chance.
    """
    from varsim.validation.index.section import broken

    if wanted.directory is not None:
        from varsim.files.claim import check_target

        check_target(wanted.directory, "validation")
    whole = _validated(wanted)
    if not whole.sections:
        complain(f"varsim: no family, experiment or point fits {wanted.only!r}")
        raise typer.Exit(USAGE)
    for section in whole.sections:
        _tell(section)
    if (directory := wanted.directory) is not None:
        from varsim import validation_report

        if whole.comparison is not None:
            write(f"measured runs: {_write_measured(wanted.command, whole.comparison, directory)}")
        page = validation_report.write(whole.sections, directory, wanted.command)
        write(f"report: {page}")
    if wrong := [one for section in whole.sections for one in broken(section)]:
        complain(f"varsim: {len(wrong)} lines miss their bound")
        raise typer.Exit(OUT_OF_BOUNDS)


def _validated(wanted: Wanted) -> "Whole":
    from varsim.validation.index.whole import Asked, published, validated
    from varsim.validation.points.point import PointFileError
    from varsim.validation.published import PublishedFileError

    def said(what: str) -> None:
        if not wanted.quiet:
            complain(f"varsim: {what}")

    try:
        asked = Asked(
            points=_points(wanted),
            published=(
                partial(published, wanted.published, wanted.only)
                if wanted.everything or wanted.published is not None
                else None
            ),
            peers=wanted.everything,
            runs=partial(_compared, None) if wanted.everything and _wants_runs(wanted) else None,
            identities=_identical(wanted),
            only=wanted.only,
        )
        return validated(asked, said, wanted.jobs)
    except (PointFileError, PublishedFileError) as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None


def _points(wanted: Wanted) -> "list[Point] | None":
    from varsim.validation.points.point import bundled_points, read_points

    if wanted.points is not None:
        return read_points(wanted.points)
    return read_points(bundled_points()) if wanted.everything else None


def _identical(wanted: Wanted) -> "Scenario | None":
    """The scenario on which identities are tried: the user's own, or the quickstart."""
    from varsim.load.loading import load_scenario
    from varsim.variables import VariablesScenario

    if not (wanted.equivalences or wanted.everything):
        return None
    scenario = load_scenario(bundled_quickstart() if wanted.scenario is None else wanted.scenario)
    if isinstance(scenario, VariablesScenario):
        complain("varsim: identities are between strategies of training; this is kind: variables")
        raise typer.Exit(USAGE)
    return scenario


def _wants_runs(wanted: Wanted) -> bool:
    """Measured runs take a minute, whatever part of them is looked at."""
    from varsim.validation.matching import matches
    from varsim.validation.runs import computes

    runs = [run for run in _runs(None) if computes(run)]
    names = ["measured", *(run.id for run in runs), *(run.kind for run in runs)]
    return matches(wanted.only, *names, "parameter servers", "collectives")


def _compared(folder: Path | None) -> "Comparison":
    from varsim.validation.comparison import compare

    return compare(_runs(folder))


def _tell(section: "Section") -> None:
    """A section in a few lines: what it came to, each group, and each miss."""
    from varsim.validation.index.section import missed
    from varsim.validation.index.words import left_out, sentence

    write(f"{section.title}: {sentence(section)}")
    for one in missed(section.findings)[:_MOST_MISSES]:
        write(f"  missed: {_miss(one)}")
    if (more := len(missed(section.findings)) - _MOST_MISSES) > 0:
        write(f"  and {more} more")
    for line in left_out(section.findings):
        write(f"  {line}")


def _miss(one: "Finding") -> str:
    from varsim.validation.index.words import error_of, number

    half = "" if one.half_width is None else f" ± {one.half_width:.2g}"
    why = f" ({one.why})" if one.why else ""
    return (
        f"{one.group}: {one.name}: expected {number(one.expected)} {one.unit}, got "
        f"{number(one.got)}{half}, {error_of(one)}; {one.bound}{why}"
    )


def validate(folder: Path | None, bound: float | None, out: Path | None, quiet: bool) -> None:
    """Predict every run of a folder (None: those that come with varsim), and say how well.

    `out` gets a page and a figure. Ends with OUT_OF_BOUNDS where a total time is off by more than
    `bound`.
    """
    from varsim.validation.comparison import compare, error
    from varsim.validation.report import (
        as_text,
        calibration_table,
        run_table,
        standstills,
        summary_table,
    )

    def said(what: str) -> None:
        if not quiet:
            complain(f"varsim: {what}")

    if out is not None:
        from varsim.files.claim import check_target

        check_target(out, "validation")
    runs = _runs(folder)
    comparison = compare(runs, said)
    if not comparison.predictions:
        complain("varsim: nothing is computed in any of these runs; there is nothing to predict")
        raise typer.Exit(USAGE)
    for line in [*as_text(run_table(comparison)), *standstills(comparison), ""]:
        write(line)
    for line in [*as_text(summary_table(comparison)), "", *as_text(calibration_table(comparison))]:
        write(line)
    write("")
    for one in comparison.learnt:
        names = "nothing" if one.calibration is None else ", ".join(one.calibration.runs)
        write(f"{one.family}, {one.half} half, calibrated on: {names}")
    worst = comparison.worst
    off = abs(error(worst.best.total, worst.measured.total))
    write(f"farthest off in total time: {worst.run}, {off:.2%}")
    if out is not None:
        write(f"report: {_write_page(folder, comparison, out)}")
    if bound is not None and off > bound:
        complain(f"varsim: {worst.run} is off by {off:.2%}, which is more than {100 * bound:g}%")
        raise typer.Exit(OUT_OF_BOUNDS)


def calibrate(folder: Path | None, half: Halves) -> None:
    """Print the overheads that half of a folder's runs tell of, as part of a scenario."""
    from varsim.validation.comparison import family_of, learn
    from varsim.validation.report import fragment

    runs = _runs(folder)
    for index, family in enumerate(dict.fromkeys(map(family_of, runs))):
        found = learn(runs, family, None if half == "all" else half)
        if index:
            write("---")
        write(f"# overheads of {family}, {half if half == 'all' else f'{half} half'}")
        for line in ["# nothing to be learnt"] if found is None else fragment(found):
            write(line)


def bundled_runs() -> Path:
    """The recordings that come with varsim."""
    return Path(__file__).parent.parent / "data" / "measured"


def _runs(folder: Path | None) -> "list[Run]":
    from varsim.validation.runs import RunFileError, read_runs

    try:
        return read_runs(bundled_runs() if folder is None else folder)
    except RunFileError as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None


def _write_page(folder: Path | None, comparison: "Comparison", out: Path) -> Path:
    given = "" if folder is None else f" --runs {folder}"
    return _write_measured(f"varsim validate{given} --out {out}", comparison, out)


def _write_measured(command: str, comparison: "Comparison", out: Path) -> Path:
    from varsim.files.claim import put_into
    from varsim.plots.measured import draw
    from varsim.validation.report import markdown

    text = markdown(comparison, command, "measured.png")

    def fill(path: Path) -> None:
        draw(comparison, path / "measured")
        (path / "measured.md").write_text(text, encoding="utf-8", newline="\n")

    put_into(out, "validation", fill)
    return out / "measured.md"
