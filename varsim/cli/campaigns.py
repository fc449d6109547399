"""The commands that run a scenario many times: sweep, merge, plan, tune."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

import typer

from varsim.cli import options
from varsim.cli.console import OUT_OF_BOUNDS, SweepProgress, complain, refuse, show, write
from varsim.cli.options import EngineName, question
from varsim.cli.runs import swept_of, use

if TYPE_CHECKING:
    from varsim.scenario.plan import Question
    from varsim.scenario.space import Sweep
    from varsim.study.grid import SweepTable
    from varsim.study.runs import Runs, Study


Kind: TypeAlias = Literal["sweep", "plan"]
# Says in words which is the best so far, by its key and what it reaches.
Best: TypeAlias = Callable[[str, float], str]

FAILED: Final = 4
_MISSING: Final = "counted as missing"
_SHARD: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


class Shard(NamedTuple):
    """One part of a sweep: every `of`-th case, from the `number`-th on; both count from 1."""

    number: int
    of: int


def shard(text: str) -> Shard:
    """`2/8` as a part of a sweep."""
    found = _SHARD.fullmatch(text.strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"{text!r} is not a part of a sweep (for example 1/4, up to 4/4)")
    return Shard(int(found[1]), int(found[2]))


def share(text: str) -> float:
    """`2%` as a number."""
    from varsim.scenario.sweep import percentage

    try:
        return percentage(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Precision: TypeAlias = Annotated[
    float | None,
    typer.Option(
        parser=share,
        metavar="PERCENT",
        help="Half-width of the throughput's 95 % interval to aim for; default: 2 %.",
    ),
]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>-sweep."),
]
Most: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, max=10_000, metavar="N", help="Most replications of any point."),
]


def sweep(
    file: options.File,
    out: Out = None,
    seed: options.Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Fewest replications of any point; as --set replications=N."
        ),
    ] = None,
    most_replications: Most = None,
    precision: Precision = None,
    sets: options.Axes = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    shard: Annotated[
        Shard | None,
        typer.Option(parser=shard, metavar="I/N", help="Only this part of the runs, such as 1/4."),
    ] = None,
    backend: options.Backend = "local",
    scheduler: options.Scheduler = None,
    quiet: options.Quiet = False,
    format: options.Table = "table",
    all_rows: options.All = False,
    plots: options.Plots = True,
    yes: options.Yes = False,
    engine: options.Engine = "auto",
) -> None:
    """Run a scenario at many points.

    Each strategy is run at each point until its throughput is known precisely enough. Runs are
    kept as they end: the same command resumes where it stopped.
    """
    options.check_backend(backend, scheduler)
    options.check_all(all_rows, format)
    if scheduler is not None and jobs:
        raise typer.BadParameter(
            "--jobs is for this machine: with dask there is one per dask worker"
        )
    if scheduler is not None and shard is not None:
        raise typer.BadParameter(
            "--shard is for machines without a common scheduler: leave it out with dask"
        )
    from varsim.core.units import counted
    from varsim.report.files.save import write_sweep
    from varsim.report.products.sweep import best_so_far
    from varsim.scenario.sweep import load_sweep

    given = options.with_shorthands(sets, seed=seed, replications=replications)
    asked = load_sweep(file, given, precision, most_replications, tuple(strategy))
    number, of = shard or (1, 1)
    study = swept_of(asked, file, (number, of))
    where = _Where(jobs or None, scheduler, quiet)
    made_by = _made_by(study, engine, where)
    _refuse_excess(study, yes)
    as_it_is = not (given or strategy or precision or most_replications)
    part = "" if shard is None else f"-{number}-of-{of}"
    directory = claim(file, out, "sweep", asked, part)
    with _running(study, best_so_far(study), where, directory) as runs:
        if runs.resumed and not quiet:
            complain(f"varsim: {runs.resumed} of {runs.resumed + len(runs.todo)} already there")
        write_sweep(asked, question(file, whole=as_it_is, changed=sets), directory)
        runs.make()
    if made_by and not quiet:
        complain(made_by)
    if shard is None:
        _conclude(study.table(runs), directory, format, plots, all_rows)
        return
    write(f"part {number} of {of}: {counted(runs.status.done, 'run')} in {directory}")
    write(f"when all parts are there: varsim merge {file} DIR DIR ...")
    if runs.status.failed:
        complain(f"varsim: {counted(runs.status.failed, 'run')} failed")
        raise typer.Exit(FAILED)


def explore(
    file: options.File,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write; default: reports/<scenario name>.html."),
    ] = None,
    vary: Annotated[
        list[str],
        typer.Option(metavar="PATH=1,2,4", help="A slider, with these values; repeatable."),
    ] = [],  # noqa: B006
    replications: options.Replications = None,
    sets: options.Sets = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    bet: Annotated[
        bool, typer.Option("--bet", help="Hide what comes out until the reader has made a bet.")
    ] = False,
    quiet: options.Quiet = False,
    yes: options.Yes = False,
) -> None:
    """Make one page with sliders of a sweep, for a browser without a network.

    Sliders for up to four quantities, of `sweep:` or --vary; at most 200 points, all simulated
    before. The address names the point that is shown, so that a link opens it.
    """
    from varsim.cli.console import Progress
    from varsim.report.explore import MARK, MOST_BYTES, Explored, explorable, page
    from varsim.report.files.directory import check_file, put_file
    from varsim.scenario.sweep import load_sweep

    given = options.with_shorthands([*sets, *vary], seed=None, replications=replications)
    asked = load_sweep(file, given)
    if why := explorable(asked):
        refuse(why)
    _refuse_excess(swept_of(asked, file), yes)
    place = out or Path("reports") / f"{asked.name}.html"
    if out is None:
        place.parent.mkdir(exist_ok=True)
    check_file(place, MARK, "varsim explore")
    explored = []
    with Progress(quiet) as progress:
        for number, point in enumerate(asked.points):
            progress(number, len(asked.points))
            result = point.scenario.run()
            explored.append(Explored(point, result, result.report))
        progress(len(explored), len(explored))
    made = page(asked, explored, question(file, changed=sets), bet=bet)
    if len(made) > MOST_BYTES:
        refuse(
            f"the page would have {len(made) / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:g}: take "
            "fewer points, strategies or workers"
        )
    put_file(place, made)
    write(f"page: {place}, {len(explored)} points")


def merge(
    file: options.File,
    parts: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories written by sweep --shard.")
    ],
    out: Out = None,
    sets: options.Axes = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    precision: Precision = None,
    most_replications: Most = None,
    strategy: options.Kinds = [],  # noqa: B006
    format: options.Table = "table",
    all_rows: options.All = False,
    plots: options.Plots = True,
) -> None:
    """Merge the parts of a sweep.

    FILE and the options are those of the parts; what is missing can be run afterwards.
    """
    options.check_all(all_rows, format)
    from varsim.core.units import counted
    from varsim.report.files.save import write_sweep
    from varsim.scenario.sweep import load_sweep
    from varsim.study.runs import Runs
    from varsim.study.store import STORE, is_runs_file, kept

    asked = load_sweep(file, sets, precision, most_replications, tuple(strategy))
    study = swept_of(asked, file)
    for part in parts:
        if not is_runs_file(part / STORE):
            raise typer.BadParameter(f"{part} holds no runs of a sweep (no {STORE})")
    directory = claim(file, out, "sweep", asked)
    keys = {case.key for case in study.cases}
    with kept(directory, _warn, _MISSING) as store:
        for part in parts:
            if part.resolve() != directory.resolve():
                with kept(part, _warn, _MISSING) as source:
                    store.add(one for one in source.runs() if one.key in keys)
        runs = Runs(store)
        study.begin(runs)
        as_it_is = not (sets or strategy or precision or most_replications)
        write_sweep(asked, question(file, whole=as_it_is, changed=sets), directory)
    if missing := len(runs.todo):
        complain(
            f"varsim: {counted(runs.resumed, 'run')} merged into {directory}; at least "
            f"{counted(missing, 'run is', 'runs are')} missing; to make them: "
            f"varsim sweep {file} --out {directory}"
        )
        raise typer.Exit(FAILED)
    _conclude(study.table(runs), directory, format, plots, all_rows)


def _conclude(
    table: "SweepTable", directory: Path, format: options.Tables, plots: bool, all_rows: bool
) -> None:
    """Write and print what came of a sweep."""
    from varsim.report.files.save import FORMS, SWEPT, put_report

    asked = question(directory / SWEPT, whole=True)
    told = replace(table.report, question=asked)
    put_report(told if plots else replace(told, pictures=tuple), directory)
    results = ", ".join(str(directory / name) for name in FORMS["sweep"])
    closing = [f"result sha256: {table.sha256}", f"results: {results}"]
    show(told, format, [*closing, f"report: {directory / 'report.html'}"], every=all_rows)
    if table.failed:
        complain(f"varsim: {len(table.failed)} of {len(table.rows)} rows failed")
        raise typer.Exit(FAILED)


class _Where(NamedTuple):
    """Where runs are made, and whether that is told: `jobs` None: as is best for so much work."""

    jobs: int | None
    scheduler: str | None = None
    quiet: bool = False


@contextmanager
def _running(
    study: "Study[Any]", best: Best, where: _Where, directory: Path | None = None, then: str = ""
) -> Iterator["Runs"]:
    """What makes the runs of a study, and shows how far it is; interrupted, it says how to go on.

    Of runs in the directory that cannot be read it says what becomes of them (`then`).
    """
    from varsim.core.units import counted
    from varsim.study.runs import campaign
    from varsim.study.store import STORE

    jobs, scheduler, quiet = where
    progress = SweepProgress(quiet, best)
    made = campaign(
        *(study, directory),
        jobs=jobs,
        scheduler=scheduler,
        watch=progress.show,
        say=_warn,
        then=then or "made again",
    )
    try:
        with made as runs, progress:
            yield runs
    except KeyboardInterrupt:
        if directory is not None:
            complain(
                f"varsim: {counted(progress.done, 'run is', 'runs are')} kept in "
                f"{directory / STORE}; run the same command again to resume"
            )
        raise


def _warn(text: str) -> None:
    complain(f"varsim: {text}")


def _made_by(study: "Study[Any]", engine: EngineName, where: _Where) -> str:
    """Have the runs of a study made by an engine, or refuse where it cannot: what to tell of it."""
    from varsim.study.runs import among, processes

    expected = study.cases * study.first
    each = 0.0 if where.scheduler else among(expected, processes(expected, where.jobs))
    return use(engine, {case.key: case.scenario for case in study.cases}.values(), each)


def _refuse_excess(study: "Study[Any]", sure: bool) -> None:
    """End the command where the first runs of a study are too much to be meant."""
    from varsim.study.beginning import excess

    if why := excess([case.scenario for case in study.cases], study.first, sure=sure):
        refuse(why)


def claim(
    file: Path, out: Path | None, kind: Kind, asked: "Sweep | Question", part: str = ""
) -> Path:
    """The directory for what comes of a scenario file; results of the same kind are gone on from.

    Where others lie there, or the file itself, the command ends. Where results of something else
    are there, it is said. `part`: what the name of the directory ends with if none is given.
    """
    from varsim.report.files.directory import (
        KINDS,
        Origin,
        check_target,
        kinds_of,
        replaced,
    )

    default = Path("reports") / f"{asked.name}-{kind}{part}"
    directory = out or default
    there = kinds_of(directory)
    others = [other for other in there if other not in (kind, "validation", "why", "stragglers")]
    if others and kind not in there:
        _refuse(f"{directory} holds {KINDS[others[0]].said}", directory, default)
    if kind not in there and file.resolve() == (directory / f"{kind}.yaml").resolve():
        _refuse(f"{directory} holds {file.name}, which would be replaced", directory, default)
    check_target(directory, kind)
    if other := replaced(directory, kind, Origin(asked.name, asked.sha256)):
        complain(f"varsim: {other}; its runs are kept")
    return directory


def _refuse(why: str, directory: Path, default: Path) -> NoReturn:
    other = default if default != directory else Path(f"{default}-2")
    refuse(f"{why}: name another directory, say --out {other}")


Objectives = Literal[
    "cost_per_hour",
    "cost_per_million_examples",
    "cost_to_target",
    "time_to_target",
    "step_time_mean",
    "staleness_mean",
    "wasted_compute",
    "workers",
    "parameter_servers",
]


def plan(
    file: options.File,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>-plan."),
    ] = None,
    seed: options.Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="First runs of each configuration; as --set replications=N."
        ),
    ] = None,
    minimize: Annotated[
        Objectives | None,
        typer.Option(
            metavar="WHAT",
            help="What to minimize, instead of what the file says; see varsim list objectives.",
        ),
    ] = None,
    sets: options.Axes = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Run every configuration, whatever its price.")
    ] = False,
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    backend: options.Backend = "local",
    scheduler: options.Scheduler = None,
    quiet: options.Quiet = False,
    format: options.Format = "table",
    every: options.All = False,
    yes: options.Yes = False,
    engine: options.Engine = "auto",
) -> None:
    """Find the cheapest cluster that meets the targets.

    The plan block of the file says what to minimize over which space; strategies compete. Ends
    with 3 where nothing reaches the targets. Runs are kept: the same command resumes.
    """
    options.check_backend(backend, scheduler)
    options.check_all(every, format)
    from varsim.report.files.save import put_report
    from varsim.report.products.plan_cells import SCENARIO, best_so_far, scenario_text
    from varsim.scenario.plan import load_question
    from varsim.study.cheapest import Cheapest

    given = options.with_shorthands(sets, seed=seed, replications=replications)
    asked = load_question(file, given, minimize, tuple(strategy))
    if exhaustive and not asked.enumerated:
        raise typer.BadParameter(
            f"--exhaustive: {asked.combinations:,} combinations are too many to run all"
        )
    study = Cheapest(asked, exhaustive)
    where = _Where(jobs or None, scheduler, quiet)
    made_by = _made_by(study, engine, where)
    _refuse_excess(study, yes)
    directory = claim(file, out, "plan", asked)
    then = "made again where they are needed"
    with _running(study, best_so_far(study), where, directory, then) as runs:
        found = study.run(runs)
        if runs.resumed and not quiet:
            complain(f"varsim: {runs.resumed} of {runs.status.done} runs already there")
        as_it_is = not (given or minimize or strategy)
        changed = [*sets, *([minimize] if minimize else [])]
        report = replace(found.report, question=question(file, whole=as_it_is, changed=changed))
        put_report(report, directory, {SCENARIO: scenario_text(found, report)})
    if made_by and not quiet:
        complain(made_by)
    closing = [f"result sha256: {found.sha256}"]
    if found.scenario is not None:
        closing.append(f"the answer as a scenario: varsim run {directory / SCENARIO}")
    closing.append(f"plan: {directory / 'plan.md'}, report: {directory / 'report.html'}")
    show(report, format, closing, every=every)
    if found.scenario is None:
        raise typer.Exit(OUT_OF_BOUNDS)


class LearningRates(NamedTuple):
    """The learning rates that are tried, where the command line says which."""

    given: tuple[float, ...] = ()


def learning_rates(text: str) -> LearningRates:
    """`0.02,0.05` as learning rates."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < rate < float("inf") for rate in found):
        raise typer.BadParameter(f"{text!r} is not a list of learning rates such as 0.02,0.05,0.1")
    if len(set(found)) < len(found):
        raise typer.BadParameter(f"{text!r} names a learning rate twice")
    return LearningRates(tuple(found))


def tune(
    file: options.File,
    rates: Annotated[
        LearningRates | None,
        typer.Option(
            parser=learning_rates,
            metavar="R,R,...",
            help="Only these learning rates, for every strategy; default: around each one's own, "
            "and further until the best lies between others.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the scenario with the best rates there."),
    ] = None,
    seed: options.Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(metavar="N", help="Fewest replications of any rate; as --set replications=N."),
    ] = None,
    sets: options.Sets = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    quiet: options.Quiet = False,
    format: options.Table = "table",
    every: options.All = False,
) -> None:
    """Compare strategies, each at its best learning rate.

    The best rate is the one that reaches the target loss soonest or, without a target loss, ends at
    the lowest loss. It is searched for in one set of runs and measured in another.
    """
    from varsim.report.files.directory import put_file
    from varsim.report.products.tune import best_so_far, scenario_text
    from varsim.scenario.loading import load_scenario
    from varsim.study.tune import BestRates

    options.check_all(every, format)
    given = options.with_shorthands(sets, seed=seed, replications=replications)
    scenario = load_scenario(file, given, tuple(strategy))
    try:
        study = BestRates(scenario, rates.given if rates else ())
    except ValueError as error:
        refuse(f"{file}: {error}")
    if out is not None:
        _check_target(out)
    where = _Where(jobs or None, quiet=quiet)
    _refuse_excess(study, sure=True)
    with _running(study, best_so_far(study), where) as runs:
        found = study.run(runs)
    told = replace(found.report, question=question(file, changed=sets))
    closing = [f"result sha256: {found.sha256}"]
    if out is not None:
        put_file(out, scenario_text(found, told.question))
        closing.append(f"with these rates: varsim run {out}")
    show(told, format, closing, every=every)


def _check_target(file: Path) -> None:
    """End the command where the scenario would replace something that this did not write."""
    from varsim.report.files.directory import check_file
    from varsim.report.products.tune import MARK

    if file.is_dir():
        refuse(f"{file} is a folder: name a file, say --out {file / 'tuned.yaml'}")
    if not file.resolve().parent.is_dir():
        refuse(f"cannot write {file}: there is no folder {file.parent}")
    check_file(file, MARK, "varsim tune")
