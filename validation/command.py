"""The command `python -m validation`: parses, validates, prints, writes the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from validation import (
    between_nodes,
    faults,
    identities,
    interruptions,
    measured,
    outer,
    peers,
    published,
    report,
    sharded,
)
from validation.finding import Finding, Section, error_of, half_of, matches, number
from validation.points import findings as closed_forms
from validation.points.estimate import FAMILIES
from validation.points.point import Point, PointFileError, bundled_points, read_points
from validation.published import presets
from validation.published.table import PublishedFileError
from varsim.calibration.recorded.comparison import Comparison, compare
from varsim.calibration.recorded.runs import computes
from varsim.cli.console import OUT_OF_BOUNDS, complain, refuse, write
from varsim.cli.console import CommandGroup as Group
from varsim.cli.measurements import read, write_measured
from varsim.cli.options import Jobs, Quiet, processes
from varsim.report.files.directory import check_target
from varsim.report.products.recorded import report as measured_report
from varsim.scenario.loading import load_scenario
from varsim.scenario.training import Scenario
from varsim.scenario.variables import VariablesScenario
from varsim.study.simulation import mapped

COMMAND: Final = "python -m validation"
WHOLE_REPORT: Final = Path("reports") / "validation"
HERE: Final = Path(__file__).parent
RUNS: Final = HERE / "data" / "measured"
QUICKSTART: Final = HERE.parent / "scenarios" / "quickstart.yaml"
_MOST_MISSES: Final = 30
# Sections that take seconds, each a module with SECTION, GROUPS and findings.
_BEFORE: Final = (peers,)
_AFTER: Final = (presets, outer, between_nodes, sharded, interruptions, faults)

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
    directory = WHOLE_REPORT if out is None and everything and only is None else out
    if directory is not None:
        check_target(directory, "validation")

    def said(what: str) -> None:
        if not quiet:
            complain(f"varsim: {what}")

    files = [points] if points is not None else bundled_points() if everything else ()
    try:
        asked = _Asked(
            [point for file in files for point in read_points(file)],
            (published,) if everything or published is not None else (),
            everything,
            _identical(scenario) if everything or equivalences else None,
            only,
        )
        sections, comparison = _validated(asked, said, processes(jobs))
    except (PointFileError, PublishedFileError) as error:
        refuse(str(error))
    if not sections:
        refuse(f"no family, experiment or point fits {only!r}")
    for section in sections:
        _tell(section)
    if directory is not None:
        given: dict[str, object] = {"--points": points, "--published": published, "--only": only}
        given |= {"--equivalences": equivalences or None, "--scenario": scenario, "--out": out}
        command = _command(given)
        if comparison is not None:
            page = write_measured(command, measured_report(comparison), directory)
            write(f"measured runs: {page}")
        write(f"report: {report.write(sections, directory, command)}")
    if everything and only is None:
        write(f"errors of presets: {presets.write()}")
    if wrong := [one for section in sections for one in section.broken()]:
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


def _identical(file: Path | None) -> Scenario:
    """The scenario on which identities are tried: the user's own, or the quickstart."""
    scenario = load_scenario(QUICKSTART if file is None else file)
    if isinstance(scenario, VariablesScenario):
        refuse("identities are between strategies of training; this is kind: variables")
    return scenario


# Everything that is asked for, in a few processes at once.


class _Asked(NamedTuple):
    """What to validate: points; published measurements of files (None: those that are bundled).

    `identities`: the scenario on which they are tried; `everything`: all else, too.
    """

    points: Sequence[Point]
    published: Sequence[Path | None]
    everything: bool
    identities: Scenario | None
    only: str | None


def _validated(
    asked: _Asked, said: Callable[[str], None], jobs: int
) -> tuple[list[Section], Comparison | None]:
    """All sections that have lines, and measured runs in full. The order changes no number."""
    only, everything = asked.only, asked.everything
    points = [point for point in asked.points if matches(only, point.family, point.id)]
    known = [point for point in points if point.family in FAMILIES]
    # What takes longest begins first.
    aside: dict[str, Callable[[], object]] = {}
    for file in asked.published:
        aside["published measurements"] = partial(published.findings, file, only)
    if everything and _wants_runs(only):
        aside["recorded runs"] = _compared
    work: list[Callable[[], object]] = [
        *aside.values(),
        *(partial(closed_forms.run_point, point) for point in known),
    ]
    names = [*aside, *[f"{len(known)} points of closed forms"] * bool(known)]
    if names:
        said(", ".join(names))
    done: list[Any] = []
    for one in mapped(_called, work, max(1, min(jobs, len(work)))):
        done.append(one)
        simulated = len(done) - len(aside)
        if simulated <= 0:
            said(f"{names[len(done) - 1]}: done")
        elif simulated % 20 == 0 or simulated == len(known):
            said(f"closed forms: {simulated} of {len(known)} points simulated")
    found = dict(zip(aside, done, strict=False))
    lines = found.get("published measurements", [])
    comparison = found.get("recorded runs")
    sections = [
        closed_forms.SECTION._replace(findings=closed_forms.told(points, done[len(aside) :])),
        *(_made(_BEFORE, only, said) if everything else ()),
        published.SECTION._replace(findings=lines, lead=published.lead(lines)),
        *(_made(_AFTER, only, said) if everything else ()),
    ]
    if comparison is not None:
        sections.append(_of(measured.SECTION, measured.findings(comparison), only))
    if asked.identities is not None:
        said("identities")
        tried = identities.findings(asked.identities)
        sections.append(_of(identities.SECTION, tried, only))
    return [section for section in sections if section.findings], comparison


def _called(work: Callable[[], object]) -> object:
    return work()


def _compared() -> Comparison:
    return compare(read(RUNS))


def _wants_runs(only: str | None) -> bool:
    """Measured runs take a minute, whatever part of them is looked at."""
    runs = [run for run in read(RUNS) if computes(run)]
    names = [*(run.id for run in runs), *(run.kind for run in runs)]
    return matches(only, "measured runs", *names, "parameter servers", "collectives")


def _made(
    modules: Sequence[Any], only: str | None, said: Callable[[str], None]
) -> Iterator[Section]:
    """The sections of modules of which the name, or one of their groups, fits a pattern."""
    for module in modules:
        section = module.SECTION
        if module is peers or matches(only, _name(section), *module.GROUPS):
            said(section.title.lower())
            lead = module.lead() if module is presets else ""
            yield _of(section._replace(lead=lead), module.findings(), only)


def _name(section: Section) -> str:
    """By which it is chosen as a whole."""
    return section.key.replace("_", " ")


def _of(section: Section, found: Sequence[Finding], only: str | None) -> Section:
    """A section with the lines that are meant by a pattern: all by its own name."""
    name = _name(section)
    kept = [one for one in found if matches(only, name, one.group, one.name)]
    return section._replace(findings=kept)


def _tell(section: Section) -> None:
    """A section in a few lines: what it came to, each miss, and what was not run."""
    write(f"{section.title}: {section.sentence()}")
    wrong = section.missed()
    for one in wrong[:_MOST_MISSES]:
        half = f" {half_of(one)}" if one.half_width is not None else ""
        why = f" ({one.why})" if one.why else ""
        write(
            f"  missed: {one.group}: {one.name}: expected {number(one.expected)} {one.unit}, got "
            f"{number(one.got)}{half}, {error_of(one)}; {one.bound}{why}"
        )
    if (more := len(wrong) - _MOST_MISSES) > 0:
        write(f"  and {more} more")
    if excused := section.by_chance():
        write(f"  {excused}")
    for (verdict, group, why), own in section.left_out().items():
        lines = own[0].name if len(own) == 1 else f"{len(own)} lines"
        write(f"  {verdict}: {group} ({lines}): {why}")
