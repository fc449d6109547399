"""The commands that run a scenario many times: sweep, merge, plan, tune."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, NoReturn, TypeAlias

import typer

from varsim.cli import options
from varsim.cli.console import OUT_OF_BOUNDS, SweepProgress, complain, refuse, show, write
from varsim.cli.options import EngineName, question
from varsim.cli.runs import swept_of, use

if TYPE_CHECKING:
    from varsim.scenario.plan import Question
    from varsim.scenario.space import Sweep
    from varsim.study.case import Case
    from varsim.study.cheapest import Planning
    from varsim.study.grid import Grid as Swept
    from varsim.study.runs import Backend, Books, Watcher
    from varsim.study.store import Store


Kind: TypeAlias = Literal["sweep", "plan"]

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
    from varsim.scenario.sweep import load_sweep
    from varsim.study.runs import carry_out

    given = options.with_shorthands(sets, seed=seed, replications=replications)
    asked = load_sweep(file, given, precision, most_replications, tuple(strategy))
    swept = swept_of(asked, file)
    number, of = shard or (1, 1)
    mine = swept.distinct[number - 1 :: of]
    expected = mine * asked.first_replications
    told_by = use_in_campaign(engine, expected, jobs or None, scheduler)
    as_it_is = not (given or strategy or precision or most_replications)
    refuse_excess_of(mine, asked.first_replications, yes)
    part = "" if shard is None else f"-{number}-of-{of}"
    directory = claim(file, out, "sweep", asked, part)
    with opened(directory, "made again") as store:
        books = swept.books(store, mine)
        todo = books.begin()
        if books.resumed and not quiet:
            complain(f"varsim: {books.resumed} of {books.resumed + len(todo)} already there")
        cases = [books.cases[key] for key, _ in todo]
        told = _teller(swept)
        with making(store, cases, jobs or None, scheduler, quiet, told) as (made_by, watch):
            watch(books.status)
            write_sweep(asked, question(file, whole=as_it_is, changed=sets), directory)
            carry_out(books, store, made_by, watch, todo)
    if told_by and not quiet:
        complain(told_by)
    if shard is None:
        _conclude(swept, books, file, directory, format, plots, all_rows)
        return
    write(f"part {number} of {of}: {counted(books.status.done, 'run')} in {directory}")
    write(f"when all parts are there: varsim merge {file} DIR DIR ...")
    if books.status.failed:
        complain(f"varsim: {counted(books.status.failed, 'run')} failed")
        raise typer.Exit(FAILED)


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
    from varsim.study.store import STORE, is_runs_file

    asked = load_sweep(file, sets, precision, most_replications, tuple(strategy))
    swept = swept_of(asked, file)
    for part in parts:
        if not is_runs_file(part / STORE):
            raise typer.BadParameter(f"{part} holds no runs of a sweep (no {STORE})")
    directory = claim(file, out, "sweep", asked)
    keys = {case.key for case in swept.distinct}
    with opened(directory, _MISSING) as store:
        for part in parts:
            if part.resolve() != directory.resolve():
                with opened(part, _MISSING) as source:
                    store.add(one for one in source.runs() if one.key in keys)
        books = swept.books(store)
        missing = len(books.begin())
        as_it_is = not (sets or strategy or precision or most_replications)
        write_sweep(asked, question(file, whole=as_it_is, changed=sets), directory)
    if missing:
        complain(
            f"varsim: {counted(books.resumed, 'run')} merged into {directory}; at least "
            f"{counted(missing, 'run is', 'runs are')} missing; to make them: "
            f"varsim sweep {file} --out {directory}"
        )
        raise typer.Exit(FAILED)
    _conclude(swept, books, file, directory, format, plots, all_rows)


def _teller(swept: "Swept") -> Callable[[str, float], str]:
    """Says in words which case is the best so far: by what makes a difference to its times."""
    from varsim.study.grid import mattering, short_names

    sweep = swept.sweep
    first: dict[str, tuple[int, str]] = {}
    for point, label, case in swept.cases:
        first.setdefault(case.key, (point, label))
    varied = mattering(sweep, [(point, label, case.key) for point, label, case in swept.cases])

    def told(key: str, speed: float) -> str:
        point, label = first[key]
        chosen = [index for index in varied[label] if index in sweep.for_times]
        names = short_names([sweep.quantities[index].path for index in chosen])
        values = (sweep.points[point].values[index].text for index in chosen)
        where = ", ".join(map(" = ".join, zip(names, values, strict=True)))
        who = sweep.points[point].scenario.strategy(label).title
        return f"{who}{where and f' at {where}'}: {speed:,.4g} examples/s"

    return told


def _conclude(
    swept: "Swept",
    books: "Books",
    file: Path,
    directory: Path,
    format: options.Tables,
    plots: bool,
    all_rows: bool,
) -> None:
    """Write and print what came of it."""
    from varsim.report.files.save import FORMS, SWEPT, put_report

    table = swept.table(books)
    asked = question(directory / SWEPT, whole=True)
    told = replace(table.report, question=asked)
    put_report(told if plots else replace(told, pictures=tuple), directory)
    results = ", ".join(str(directory / name) for name in FORMS["sweep"])
    closing = [f"result sha256: {table.sha256}", f"results: {results}"]
    show(told, format, [*closing, f"report: {directory / 'report.html'}"], every=all_rows)
    if table.failed:
        complain(f"varsim: {len(table.failed)} of {len(table.rows)} rows failed")
        raise typer.Exit(FAILED)


def claim(
    file: Path, out: Path | None, kind: Kind, asked: "Sweep | Question", part: str = ""
) -> Path:
    """The directory for what comes of a scenario file; results of the same kind are gone on from.

    Where others lie there, or the file itself, the command ends. Where results of something else
    are there, it is said. `part`: what the name of the directory ends with if none is given.
    """
    from varsim.report.files.directory import (
        KINDS,
        Asked,
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
    if other := replaced(directory, [kind], Asked(asked.name, asked.sha256)):
        complain(f"varsim: {other}; its runs are kept")
    return directory


def _refuse(why: str, directory: Path, default: Path) -> NoReturn:
    other = default if default != directory else Path(f"{default}-2")
    refuse(f"{why}: name another directory, say --out {other}")


def opened(directory: Path, then: str) -> "AbstractContextManager[Store]":
    """The runs that a directory keeps; of those that cannot be read it says what `then` happens."""
    from varsim.study.store import kept

    return kept(directory, lambda text: complain(f"varsim: {text}"), then)


@contextmanager
def making(
    store: "Store",
    cases: "Sequence[Case]",
    jobs: int | None,
    scheduler: str | None,
    quiet: bool,
    told: Callable[[str, float], str],
) -> Iterator["tuple[Backend, Watcher]"]:
    """What makes runs, and what shows how far it is; interrupted, it says how to go on.

    `told` says in words which case, by its key, is the best so far.
    """
    from varsim.core.units import counted
    from varsim.study.runs import backend

    progress = SweepProgress(quiet, told)
    try:
        with backend(cases, jobs, scheduler) as made_by, progress:
            yield made_by, progress.show
    except KeyboardInterrupt:
        complain(
            f"varsim: {counted(progress.done, 'run is', 'runs are')} kept in {store.path}; run "
            "the same command again to resume"
        )
        raise


def use_in_campaign(
    engine: EngineName, runs: "Sequence[Case]", jobs: int | None, scheduler: str | None
) -> str:
    """The same for runs of these cases; `jobs` and `scheduler` as of `execution.backend`."""
    from varsim.study.runs import among, processes

    each = 0.0 if scheduler is not None else among(runs, processes(runs, jobs))
    return use(engine, [run.scenario for run in {run.key: run for run in runs}.values()], each)


def refuse_excess_of(cases: "Sequence[Case]", replications: int, sure: bool) -> None:
    """End the command where these cases, each run so often at least, are too much to be meant."""
    from varsim.study.beginning import excess

    if why := excess([case.scenario for case in cases], replications, sure=sure):
        refuse(why)


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
    from varsim.report.products.plan_cells import SCENARIO, scenario_text
    from varsim.scenario.plan import load_question
    from varsim.study.beginning import MOST_COUNTED
    from varsim.study.cheapest import Planning
    from varsim.study.runs import Runs

    given = options.with_shorthands(sets, seed=seed, replications=replications)
    asked = load_question(file, given, minimize, tuple(strategy))
    if exhaustive and not asked.enumerated:
        raise typer.BadParameter(
            f"--exhaustive: {asked.combinations:,} combinations are too many to run all"
        )
    planning = Planning(asked)
    cases = planning.cases(MOST_COUNTED) * asked.first_replications
    made_by = use_in_campaign(engine, cases, jobs or None, scheduler)
    refuse_excess_of(planning.cases(MOST_COUNTED), asked.first_replications, yes)
    directory = claim(file, out, "plan", asked)
    with opened(directory, "made again where they are needed") as store:
        with making(store, cases, jobs or None, scheduler, quiet, _best_of_plan(planning)) as (
            by,
            watch,
        ):
            runs = Runs(store, by, watch)
            found = planning.run(runs, exhaustive)
        if runs.status.resumed and not quiet:
            complain(f"varsim: {runs.status.resumed} of {runs.status.done} runs already there")
        as_it_is = not (given or minimize or strategy)
        asked_for = question(
            file, whole=as_it_is, changed=[*sets, *([minimize] if minimize else [])]
        )
        report = replace(found.report, question=asked_for)
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


def _best_of_plan(planning: "Planning") -> Callable[[str, float], str]:
    """Says in words which cell is the best so far."""
    from varsim.report.products.plan_cells import amount
    from varsim.report.wording import shown

    question = planning.question

    def say(number: str, value: float) -> str:
        best = shown(amount(question.objective, value, question.currency))
        return f"{planning.where(int(number))}: {best}"

    return say


class Grid(NamedTuple):
    """The learning rates that are tried, where the command line says which."""

    rates: tuple[float, ...]


def grid(text: str) -> Grid:
    """`0.02,0.05` as a grid."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < rate < float("inf") for rate in found):
        raise typer.BadParameter(f"{text!r} is not a list of learning rates such as 0.02,0.05,0.1")
    if len(set(found)) < len(found):
        raise typer.BadParameter(f"{text!r} names a learning rate twice")
    return Grid(tuple(found))


def tune(
    file: options.File,
    rates: Annotated[
        Grid | None,
        typer.Option(
            parser=grid,
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
    from varsim.report.products.tune import best_so_far, report, scenario_text
    from varsim.scenario.loading import load_scenario
    from varsim.study.runs import campaign
    from varsim.study.store import kept
    from varsim.study.tune import Tuning

    options.check_all(every, format)
    given = options.with_shorthands(sets, seed=seed, replications=replications)
    scenario = load_scenario(file, given, tuple(strategy))
    try:
        tuning = Tuning(scenario, rates.rates if rates is not None else ())
    except ValueError as error:
        refuse(f"{file}: {error}")
    if out is not None:
        _check_target(out)
    refuse_excess_of(tuning.cases, tuning.first, sure=True)
    with (
        kept(None, complain) as store,
        SweepProgress(quiet, partial(best_so_far, tuning)) as progress,
        campaign(store, tuning.cases * tuning.first, jobs or None, None, progress.show) as runs,
    ):
        found = tuning.run(runs)
    told = replace(report(found), question=question(file, changed=sets))
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
