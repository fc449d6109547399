"""The command `python -m validation`: parses, validates, prints, writes the report."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from validation import report as validation_report
from validation.finding import Finding, matches
from validation.index.section import Section, broken, by_chance, missed
from validation.index.whole import Asked, Whole, validated
from validation.index.whole import published as published_findings
from validation.index.words import error_of, left_out, number, sentence
from validation.points.point import Point, PointFileError, bundled_points, read_points
from validation.published import PublishedFileError, presets
from varsim.calibration.recorded.comparison import Comparison, compare
from varsim.calibration.recorded.runs import computes
from varsim.cli.console import OUT_OF_BOUNDS, USAGE, Group, complain, write
from varsim.cli.measurements import read, write_measured
from varsim.cli.options import Jobs, Quiet, processes
from varsim.report.files.directory import check_target
from varsim.scenario.loading import load_scenario
from varsim.scenario.training import Scenario
from varsim.scenario.variables import VariablesScenario

COMMAND: Final = "python -m validation"
WHOLE_REPORT: Final = Path("reports") / "validation"
HERE: Final = Path(__file__).parent
RUNS: Final = HERE / "data" / "measured"
QUICKSTART: Final = HERE.parent / "scenarios" / "quickstart.yaml"
_MOST_MISSES: Final = 30

app = typer.Typer(
    cls=Group, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback(invoke_without_command=True)
def main(
    points: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Test points of closed forms, instead of everything."),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Published measurements, instead of everything."),
    ] = None,
    equivalences: Annotated[
        bool,
        typer.Option("--equivalences", help="Only what must be equal between runs of a scenario."),
    ] = False,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of --equivalences, instead of the quickstart."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Only families, experiments or points so named."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; of everything: reports/validation."),
    ] = None,
    jobs: Jobs = "2",  # type: ignore[assignment]
    quiet: Quiet = False,
) -> None:
    """Hold varsim against theory and measurements.

    Without options all of it: closed forms, other simulators, published measurements, jobs from
    presets alone, training across slow links, all-reduces between nodes, sharded training,
    interruptions of large jobs, recorded faults and runs, identities. Ends with 3 where a bound is
    missed, but for random points of closed forms, each held against its 99 % interval, of which
    one in a hundred misses by chance: as long as no more than one in fifty does.
    """
    if scenario is not None and not equivalences:
        raise typer.BadParameter("--scenario goes with --equivalences")
    if equivalences and (points is not None or published is not None):
        raise typer.BadParameter("--equivalences goes with --scenario, --only and --out alone")
    validate(Wanted(points, published, equivalences, scenario, only, out, processes(jobs), quiet))


class Wanted(NamedTuple):
    """What the options say."""

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
        """Whether all of it is validated."""
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
            words += [
                " --equivalences",
                *([f" --scenario {self.scenario}"] if self.scenario else []),
            ]
        return f"{COMMAND}{''.join(words)}" + (f" --out {self.out}" if self.out else "")


def validate(wanted: Wanted) -> None:
    """Validate everything, or the files that are given; say how it went, and write it.

    Ends with OUT_OF_BOUNDS where a bound is missed by more than chance; says so where by chance.
    """
    if wanted.directory is not None:
        check_target(wanted.directory, "validation")
    whole = _validated(wanted)
    if not whole.sections:
        complain(f"varsim: no family, experiment or point fits {wanted.only!r}")
        raise typer.Exit(USAGE)
    for section in whole.sections:
        _tell(section)
    if (directory := wanted.directory) is not None:
        if whole.comparison is not None:
            write(f"measured runs: {write_measured(wanted.command, whole.comparison, directory)}")
        page = validation_report.write(whole.sections, directory, wanted.command)
        write(f"report: {page}")
    if wanted.everything and wanted.only is None:
        write(f"errors of presets: {presets.write(whole.presets)}")
    if wrong := [one for section in whole.sections for one in broken(section)]:
        complain(f"varsim: {len(wrong)} lines miss their bound")
        raise typer.Exit(OUT_OF_BOUNDS)


def _validated(wanted: Wanted) -> Whole:
    def said(what: str) -> None:
        if not wanted.quiet:
            complain(f"varsim: {what}")

    try:
        asked = Asked(
            points=_points(wanted),
            published=(
                partial(published_findings, wanted.published, wanted.only)
                if wanted.everything or wanted.published is not None
                else None
            ),
            presets=wanted.everything,
            peers=wanted.everything,
            outer=wanted.everything,
            between_nodes=wanted.everything,
            sharded=wanted.everything,
            interruptions=wanted.everything,
            runs=_compared if wanted.everything and _wants_runs(wanted) else None,
            identities=_identical(wanted),
            only=wanted.only,
        )
        return validated(asked, said, wanted.jobs)
    except (PointFileError, PublishedFileError) as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None


def _points(wanted: Wanted) -> list[Point] | None:
    if wanted.points is not None:
        return read_points(wanted.points)
    every = [point for path in bundled_points() for point in read_points(path)]
    return every if wanted.everything else None


def _identical(wanted: Wanted) -> Scenario | None:
    """The scenario on which identities are tried: the user's own, or the quickstart."""
    if not (wanted.equivalences or wanted.everything):
        return None
    scenario = load_scenario(QUICKSTART if wanted.scenario is None else wanted.scenario)
    if isinstance(scenario, VariablesScenario):
        complain("varsim: identities are between strategies of training; this is kind: variables")
        raise typer.Exit(USAGE)
    return scenario


def _wants_runs(wanted: Wanted) -> bool:
    """Measured runs take a minute, whatever part of them is looked at."""
    runs = [run for run in read(RUNS) if computes(run)]
    names = ["measured", *(run.id for run in runs), *(run.kind for run in runs)]
    return matches(wanted.only, *names, "parameter servers", "collectives")


def _compared() -> Comparison:
    return compare(read(RUNS))


def _tell(section: Section) -> None:
    """A section in a few lines: what it came to, each group, and each miss."""
    write(f"{section.title}: {sentence(section)}")
    for one in missed(section.findings)[:_MOST_MISSES]:
        write(f"  missed: {_miss(one)}")
    if (more := len(missed(section.findings)) - _MOST_MISSES) > 0:
        write(f"  and {more} more")
    if excused := by_chance(section):
        write(f"  {excused}")
    for line in left_out(section.findings):
        write(f"  {line}")


def _miss(one: Finding) -> str:
    half = "" if one.half_width is None else f" ± {one.half_width:.2g}"
    why = f" ({one.why})" if one.why else ""
    return (
        f"{one.group}: {one.name}: expected {number(one.expected)} {one.unit}, got "
        f"{number(one.got)}{half}, {error_of(one)}; {one.bound}{why}"
    )
