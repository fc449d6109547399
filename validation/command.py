"""The command `python -m validation`: parses, validates, prints, writes the report."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from validation import report as validation_report
from validation.finding import Finding, matches
from validation.points.point import PointFileError, bundled_points, read_points
from validation.published import PublishedFileError, presets
from validation.published import findings as published_findings
from validation.section import Section, broken, by_chance, error_of, left_out, missed, number
from validation.whole import Asked, Whole, validated
from varsim.calibration.recorded.comparison import Comparison, compare
from varsim.calibration.recorded.runs import computes
from varsim.cli.console import OUT_OF_BOUNDS, Group, complain, refuse, write
from varsim.cli.measurements import read, write_measured
from varsim.cli.options import Jobs, Quiet, processes
from varsim.report.files.directory import check_target
from varsim.report.products.recorded import report as measured_report
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
    everything = points is None and published is None and not equivalences
    if out is None and everything and only is None:
        directory: Path | None = WHOLE_REPORT
    else:
        directory = out
    if directory is not None:
        check_target(directory, "validation")

    def said(what: str) -> None:
        if not quiet:
            complain(f"varsim: {what}")

    files = [points] if points is not None else bundled_points() if everything else ()
    asked = partial(published_findings, published, only)
    try:
        whole = validated(
            Asked(
                points=[point for file in files for point in read_points(file)],
                published=asked if everything or published is not None else None,
                others=everything,
                runs=_compared if everything and _wants_runs(only) else None,
                identities=_identical(scenario) if everything or equivalences else None,
                only=only,
            ),
            said,
            processes(jobs),
        )
    except (PointFileError, PublishedFileError) as error:
        refuse(str(error))
    if not whole.sections:
        refuse(f"no family, experiment or point fits {only!r}")
    for section in whole.sections:
        _tell(section)
    if directory is not None:
        given: dict[str, object] = {"--points": points, "--published": published, "--only": only}
        given |= {"--equivalences": equivalences or None, "--scenario": scenario, "--out": out}
        _write(whole, directory, _command(given))
    if everything and only is None:
        write(f"errors of presets: {presets.write()}")
    if wrong := [one for section in whole.sections for one in broken(section)]:
        complain(f"varsim: {len(wrong)} lines miss their bound")
        raise typer.Exit(OUT_OF_BOUNDS)


def _command(given: Mapping[str, object]) -> str:
    """The command with its options, as they were typed."""
    words = [
        option if value is True else f"{option} {value}"
        for option, value in given.items()
        if value is not None
    ]
    return " ".join([COMMAND, *words])


def _write(whole: Whole, directory: Path, command: str) -> None:
    if whole.comparison is not None:
        page = write_measured(command, measured_report(whole.comparison), directory)
        write(f"measured runs: {page}")
    write(f"report: {validation_report.write(whole.sections, directory, command)}")


def _identical(file: Path | None) -> Scenario:
    """The scenario on which identities are tried: the user's own, or the quickstart."""
    scenario = load_scenario(QUICKSTART if file is None else file)
    if isinstance(scenario, VariablesScenario):
        refuse("identities are between strategies of training; this is kind: variables")
    return scenario


def _wants_runs(only: str | None) -> bool:
    """Measured runs take a minute, whatever part of them is looked at."""
    runs = [run for run in read(RUNS) if computes(run)]
    names = ["measured", *(run.id for run in runs), *(run.kind for run in runs)]
    return matches(only, *names, "parameter servers", "collectives")


def _compared() -> Comparison:
    return compare(read(RUNS))


def _tell(section: Section) -> None:
    """A section in a few lines: what it came to, each miss, and what was not run."""
    write(f"{section.title}: {section.sentence()}")
    wrong = missed(section.findings)
    for one in wrong[:_MOST_MISSES]:
        write(f"  missed: {_miss(one)}")
    if (more := len(wrong) - _MOST_MISSES) > 0:
        write(f"  and {more} more")
    if excused := by_chance(section):
        write(f"  {excused}")
    for (verdict, group, why), own in left_out(section.findings).items():
        lines = own[0].name if len(own) == 1 else f"{len(own)} lines"
        write(f"  {verdict}: {group} ({lines}): {why}")


def _miss(one: Finding) -> str:
    half = "" if one.half_width is None else f" ± {one.half_width:.2g}"
    why = f" ({one.why})" if one.why else ""
    return (
        f"{one.group}: {one.name}: expected {number(one.expected)} {one.unit}, got "
        f"{number(one.got)}{half}, {error_of(one)}; {one.bound}{why}"
    )
