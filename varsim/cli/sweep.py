"""What the commands do with a sweep: run it, go on with it, merge its parts, tell its result."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import typer

from varsim.cli.campaign import claim, tell_effort
from varsim.cli.console import USAGE, complain, read_from, write
from varsim.cli.settings import question
from varsim.cli.weighing import weigh_cases

if TYPE_CHECKING:
    from varsim.scenario.sweep.space import Sweep
    from varsim.study.experiment import SweepExperiment
    from varsim.study.sweep.campaign import Books
    from varsim.study.sweep.case import Case
    from varsim.study.sweep.store import Store
    from varsim.study.sweep.table import Table

Formats: TypeAlias = Literal["table", "csv", "json"]

FAILED: Final = 4
_SHARD: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


class Shard(NamedTuple):
    """One part of a sweep: every `of`-th case, from the `number`-th on; both count from 1."""

    number: int
    of: int


class SweepSettings(NamedTuple):
    """What the options of `varsim sweep` say."""

    file: Path
    out: Path | None
    strategies: tuple[str, ...]
    jobs: int | None  # None: as many as there are cores, but this process alone for small work
    scheduler: str | None
    shard: Shard | None
    quiet: bool
    format: Formats
    sure: bool = False  # whatever it takes

    def directory(self, sweep: "Sweep") -> Path:
        """Where the results of a sweep go; the command ends if others lie there."""
        part = "" if self.shard is None else f"-{self.shard.number}-of-{self.shard.of}"
        return claim(self.file, self.out, "sweep", sweep, part)


def shard(text: str) -> Shard:
    """`2/8` as a part of a sweep."""
    found = _SHARD.fullmatch(text.strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"{text!r} is no part of a sweep (for example 1/4, up to 4/4)")
    return Shard(int(found[1]), int(found[2]))


def share(text: str) -> float:
    """`2%` as a number."""
    from varsim.scenario.sweep.loading import percentage

    try:
        return percentage(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def run(
    settings: SweepSettings, sets: Sequence[str], precision: float | None, most: int | None
) -> None:
    """Make all runs that are not there yet, then write and print the results.

    Ends with FAILED where a run failed. Interrupted, it says how to go on.
    """
    from varsim.scenario.sweep.loading import load_sweep

    carry_on(load_sweep(settings.file, sets, precision, most, settings.strategies), settings)


def carry_on(sweep: "Sweep", settings: SweepSettings) -> None:
    """`run`, of a sweep that is loaded."""
    from varsim.cli.progress import SweepProgress
    from varsim.report.files.sweep import write_sweep
    from varsim.study.sweep.campaign import carry_out
    from varsim.study.sweep.execution import backend
    from varsim.study.sweep.store import Store

    experiment = _experiment(sweep, settings.strategies)
    mine = _part(experiment.distinct, settings.shard)
    weigh_cases(mine, sweep.first_replications, _runs(sweep), sure=settings.sure)
    directory = settings.directory(sweep)
    with Store(directory) as store:
        say_damage(store, "made again")
        books = experiment.books(store, mine)
        todo = books.begin()
        _say_resumed(books, len(todo), settings)
        try:
            with (
                backend(
                    [books.cases[key] for key, _ in todo], settings.jobs, settings.scheduler
                ) as made_by,
                SweepProgress(settings.quiet, _teller(experiment)) as progress,
            ):
                write_sweep(sweep, question(settings.file), directory)
                carry_out(books, store, made_by, progress.show, todo)
        except KeyboardInterrupt:
            kept = f"{books.status.done} runs are kept in {store.path}"
            complain(f"varsim: {kept}; the same command goes on from there")
            raise
        if settings.shard is not None:
            _tell_part(books, settings, directory)
        else:
            _conclude(experiment, books, settings, directory)


def merge(
    parts: Sequence[Path],
    settings: SweepSettings,
    sets: Sequence[str],
    precision: float | None,
    most: int | None,
) -> None:
    """Put the runs of several directories together; the results, if nothing is missing."""
    from varsim.report.files.sweep import write_sweep
    from varsim.scenario.sweep.loading import load_sweep
    from varsim.study.sweep.store import STORE, Store

    sweep = load_sweep(settings.file, sets, precision, most, settings.strategies)
    experiment = _experiment(sweep, settings.strategies)
    for part in parts:
        if not (part / STORE).is_file():
            raise typer.BadParameter(f"{part} holds no runs of a sweep (no {STORE})")
    directory = settings.directory(sweep)
    keys = {case.key for case in experiment.distinct}
    with Store(directory) as store:
        say_damage(store, "counted as missing")
        for part in parts:
            if part.resolve() != directory.resolve():
                with Store(part) as source:
                    say_damage(source, "counted as missing")
                    store.add(one for one in source.runs() if one.key in keys)
        books = experiment.books(store)
        missing = len(books.begin())
        write_sweep(sweep, question(settings.file), directory)
        if missing:
            complain(
                f"varsim: {books.resumed} runs merged into {directory}, at least {missing} are "
                f"missing; to make them: varsim sweep {settings.file} --out {directory}"
            )
            raise typer.Exit(FAILED)
        _conclude(experiment, books, settings, directory)


def redraw(directory: Path) -> None:
    """Draw the plots of a sweep again, and its page, from the runs that are kept."""
    from varsim.report.files.claim import check_target
    from varsim.report.files.keeping import damaged, put_report
    from varsim.report.files.sweep import SCENARIO, swept_in
    from varsim.report.sweep import report
    from varsim.scenario.sweep.loading import load_sweep
    from varsim.study.sweep.store import Store

    check_target(directory, "sweep")
    file = directory / SCENARIO
    strategies, asked = read_from(swept_in, directory)
    sweep = load_sweep(file, strategies=strategies)
    experiment = _experiment(sweep, tuple(strategies))
    with Store(directory) as store:
        say_damage(store, "counted as missing")
        books = experiment.books(store)
        if missing := len(books.begin()):
            complain(
                f"varsim: {missing} runs are missing in {directory}; to make them: "
                f"varsim sweep {file} --out {directory}"
            )
            raise typer.Exit(FAILED)
        if sweep.sha256 != asked:
            complain(f"varsim: {damaged(file)}")
            raise typer.Exit(USAGE)
        told = report(experiment.table(books), question(file))
        put_report(told, directory, again=True)


def check(experiment: "SweepExperiment", strategies: Sequence[str]) -> None:
    """Say what a sweep varies, and how many runs that takes."""
    sweep = experiment.sweep
    distinct = len(experiment.distinct)
    for index, quantity in enumerate(sweep.quantities):
        values = list(dict.fromkeys(point.values[index].text for point in sweep.points))
        told = ", ".join(values) if len(values) <= 12 else f"{values[0]} to {values[-1]}"
        write(f"  sweep        {quantity.path}: {told}")
    least, most = (
        count * distinct for count in (sweep.first_replications, sweep.most_replications)
    )
    write(
        f"\n{len(sweep.points)} points, {len(experiment.cases)} rows, {distinct} of them "
        f"different: {least:,} runs, up to {most:,} for an interval of ± "
        f"{100 * sweep.precision:g} % of the throughput"
    )
    cases, often = experiment.distinct, sweep.first_replications
    tell_effort(weigh_cases(cases, often, _runs(sweep), closer=True), "sweep")


def _runs(sweep: "Sweep") -> str:
    """What runs are foreseen, in words."""
    more = sweep.most_replications > sweep.first_replications
    return "the first runs of all points" if more else "all runs"


def _experiment(sweep: "Sweep", strategies: tuple[str, ...]) -> "SweepExperiment":
    """The experiment; the command ends where a strategy is asked for that is not there."""
    from varsim.study.experiment import SweepExperiment

    try:
        return SweepExperiment(sweep, strategies)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _part(cases: "Sequence[Case]", shard: Shard | None) -> "Sequence[Case]":
    return cases if shard is None else cases[shard.number - 1 :: shard.of]


def say_damage(store: "Store", then: str) -> None:
    """Tell of runs that could not be read, and what becomes of them."""
    if store.damage is not None:
        complain(f"varsim: {store.damage.told(then)}")


def _say_resumed(books: "Books", missing: int, settings: SweepSettings) -> None:
    if books.resumed and not settings.quiet:
        complain(f"varsim: {books.resumed} of {books.resumed + missing} already there")


def _teller(experiment: "SweepExperiment") -> Callable[[str, float], str]:
    """Says in words which case is the best so far."""
    sweep = experiment.sweep
    first: dict[str, tuple[int, str]] = {}
    for point, label, case in experiment.cases:
        first.setdefault(case.key, (point, label))

    def told(key: str, speed: float) -> str:
        point, label = first[key]
        where = sweep.told_of_times(sweep.points[point])
        return f"{label}{where and f' at {where}'}: {speed:,.4g} examples/s"

    return told


def _tell_part(books: "Books", settings: SweepSettings, directory: Path) -> None:
    assert settings.shard is not None
    status = books.status
    number, of = settings.shard
    write(f"part {number} of {of}: {status.done} runs in {directory}")
    write(f"when all parts are there: varsim merge {settings.file} DIR DIR ...")
    if status.failed:
        complain(f"varsim: {status.failed} runs failed")
        raise typer.Exit(FAILED)


def _conclude(
    experiment: "SweepExperiment",
    books: "Books",
    settings: SweepSettings,
    directory: Path,
) -> None:
    """Write and print what came of it."""
    from varsim.report.files.keeping import put_report
    from varsim.report.files.sweep import write_results
    from varsim.report.sweep import report
    from varsim.report.words.sweep import answer

    table = experiment.table(books)
    written = write_results(table, answer(table), directory)
    put_report(report(table, question(settings.file)), directory, again=True)
    closing = [f"results: {', '.join(map(str, written))}", f"report: {directory / 'report.html'}"]
    _show(table, settings.format, closing)
    if table.failed:
        complain(f"varsim: {len(table.failed)} of {len(table.rows)} rows failed")
        raise typer.Exit(FAILED)


def _show(table: "Table", format: Formats, closing: Sequence[str]) -> None:
    from varsim.report.words.sweep import answer, left_out, notes, shown

    closing = [f"result sha256: {table.sha256}", *closing]
    if format == "table":
        from varsim.report.terminal import drawn

        write(drawn(shown(table)), end="")
        for line in (*left_out(table), *notes(table), "", *answer(table), *closing):
            write(line)
        return
    write(table.csv() if format == "csv" else table.json(answer(table)), end="")
    for line in closing:  # stdout stays what the format promises
        complain(line)
