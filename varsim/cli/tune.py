"""What `varsim tune` does: search, tell what was found, write it as a scenario."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import typer

from varsim.cli.console import USAGE, complain, write
from varsim.cli.settings import question
from varsim.cli.weighing import weigh_cases

if TYPE_CHECKING:
    from varsim.report.tune import Rates
    from varsim.study.experiment import AnyExperiment


Formats: TypeAlias = Literal["table", "csv", "json"]

_TRIED: Final = 10  # rates of a strategy, about


class Grid(NamedTuple):
    """The learning rates that are tried, where the command line says which."""

    rates: tuple[float, ...]


class TuneSettings(NamedTuple):
    """What the options of `varsim tune` say; without a grid as many rates as it takes."""

    file: Path
    out: Path | None
    grid: Grid | None
    jobs: int | None
    quiet: bool
    format: Formats


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


def run(experiment: "AnyExperiment", settings: TuneSettings) -> None:
    """Find the best rate of each strategy, print what was found, write the scenario if asked."""
    from varsim.cli.progress import SweepProgress
    from varsim.report.tune import Rates
    from varsim.report.words.tune import best_so_far
    from varsim.study.plan.runs import Runs
    from varsim.study.sweep.case import case_of
    from varsim.study.sweep.execution import backend
    from varsim.study.sweep.store import Store
    from varsim.study.tune.search import Search

    if experiment.kind != "training" or not experiment.scenario.workload.has_values:
        why = "problem timing has" if experiment.kind == "training" else "variables have"
        complain(f"varsim: {settings.file}: {why} no loss, and so no best learning rate")
        raise typer.Exit(USAGE)
    scenario = experiment.scenario
    given = settings.grid.rates if settings.grid is not None else ()
    if settings.out is not None:
        _check_target(settings.out)
    cases = [case_of(scenario, strategy) for strategy in scenario.strategies]
    cases *= len(given) or _TRIED
    weigh_cases(cases, scenario.replications, fewer="try fewer --rates")
    with (
        TemporaryDirectory(prefix="varsim-") as directory,
        Store(Path(directory)) as store,
        backend(cases * scenario.replications, settings.jobs, None) as made_by,
    ):
        search = Search(scenario, given)
        with SweepProgress(settings.quiet, partial(best_so_far, search)) as progress:
            tuned = search.run(Runs(store, made_by, progress.show))
    _conclude(Rates(scenario, search.goal, tuple(tuned)), settings)


def _check_target(file: Path) -> None:
    """End the command where the scenario would replace something that this did not write."""
    from varsim.report.files.claim import NotARunError, check_file
    from varsim.report.tune import MARK

    if file.is_dir():
        complain(f"varsim: {file} is a folder: name a file, say --out {file / 'tuned.yaml'}")
    elif not file.resolve().parent.is_dir():
        complain(f"varsim: cannot write {file}: there is no folder {file.parent}")
    else:
        try:
            check_file(file, MARK, "varsim tune")
        except NotARunError as error:
            complain(f"varsim: {error}")
        else:
            return
    raise typer.Exit(USAGE)


def _conclude(found: "Rates", settings: TuneSettings) -> None:
    from varsim.report.files.sweep import put

    closing = [f"result sha256: {found.sha256}"]
    if settings.out is not None:
        text = found.yaml(question(settings.file))
        put(settings.out, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
        closing.append(f"with these rates: varsim run {settings.out}")
    if settings.format == "table":
        from varsim.report.terminal import drawn

        write(drawn(found.words.table()), end="")
        for line in (*found.words.notes(), "", *found.words.answer(), *closing):
            write(line)
        return
    write(found.csv() if settings.format == "csv" else found.json(), end="")
    for line in closing:  # stdout stays what the format promises
        complain(line)
