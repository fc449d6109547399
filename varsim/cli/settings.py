"""How a run is to be made and shown, as the command line says; the option `--engine`."""

import os
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, NoReturn, TypeAlias

import typer

from varsim.cli.console import USAGE, complain
from varsim.cluster.fast import ENGINE

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.study.experiment import AnyExperiment
    from varsim.study.sweep.case import Case


_MOST_LINES: Final = 50  # of what a scenario says of itself

Formats: TypeAlias = Literal["table", "json", "csv", "md"]


class Settings(NamedTuple):
    """What the options of `varsim run` say; `question`: what the scenario says of itself."""

    file: Path
    question: str
    out: Path | None
    jobs: int
    quiet: bool
    format: Formats
    sure: bool = False  # whatever it takes
    plots: Literal["png", "svg", ""] = "png"
    strategies: tuple[str, ...] = ()  # the kinds or labels of those that are wanted
    all_rows: bool = False
    rows: bool = False

    def directory(self, name: str) -> Path:
        """Where the report of a scenario of this name goes."""
        return self.out if self.out is not None else Path("reports") / name


class Asking(NamedTuple):
    """What the options of `varsim explain` say; some are of training, others of variables."""

    file: Path
    strategies: tuple[str, ...]
    modes: tuple[str, ...]
    steps: int | None
    format: Literal["table", "md", "json"]
    out: Path | None
    quiet: bool
    sure: bool
    all_rows: bool = False

    def refuse_of_training(self) -> None:
        """End the command where options were given that are about training."""
        if self.all_rows:
            _refuse("--all", "variables are told whole; --steps says how many steps")
        if self.out is not None:
            _refuse("--out", "nothing is written for variables; varsim run writes a report")

    def refuse_of_variables(self) -> None:
        """End the command where options were given that are about variables."""
        why = (
            f"{self.file} trains a model: choose among its strategies (--strategy); the whole run "
            "is looked at"
        )
        if self.modes:
            _refuse("--mode", why)
        if self.steps is not None:
            _refuse("--steps", why)


def _refuse(option: str, why: str) -> NoReturn:
    complain(f"varsim: {option} has no effect: {why}")
    raise typer.Exit(USAGE)


def question(file: Path, *, whole: bool = False) -> str:
    """What a scenario is to answer: its first line, if that is a comment.

    `whole`: all lines of that comment. They tell of the file as it is, with numbers that options
    make wrong.
    """
    from varsim.scenario.loading import STDIN, read_text

    if file == STDIN:
        lines = read_text(file).splitlines()[:_MOST_LINES]
    else:
        with file.open(encoding="utf-8-sig") as source:
            lines = [source.readline(1000) for _ in range(_MOST_LINES if whole else 1)]
    comment = takewhile(lambda line: line.lstrip().startswith("#"), lines)
    said = [line.strip().lstrip("#").removeprefix(" ") for line in comment]
    return "\n".join(said if whole else said[:1]).strip()


Engine = Annotated[
    Literal["auto", "simpy", "fast"],
    typer.Option(
        envvar=ENGINE,
        help="Engine of runs in which only times matter; the results are the same.",
    ),
]


def use(engine: Engine, scenarios: "Iterable[Scenario]", among: float = 0.0) -> str:
    """Make the runs of these scenarios by an engine; refuse where it cannot. What to tell of it.

    `among`: gradients of all runs that one process makes, if it makes several.
    """
    from varsim.cluster.fast.choice import can_compile
    from varsim.study.engine import is_worth_it, reason_against

    if engine == "fast" and not can_compile():
        complain("varsim: --engine fast needs numba: pip install 'varsim[fast]'")
        raise typer.Exit(USAGE)
    os.environ[ENGINE] = engine  # for the processes that are started, too
    if engine == "simpy":
        return ""
    against: dict[str, str] = {}
    picked: dict[str, bool] = {}
    for scenario in scenarios:
        for strategy in scenario.strategies:
            label = strategy.label
            reason = reason_against(scenario, strategy)
            against[label] = against.get(label) or reason
            worth = not reason and is_worth_it(scenario, strategy, among)
            picked[label] = picked.get(label, True) and worth
    slow = {label: reason for label, reason in against.items() if reason}
    if engine == "fast" and slow:
        label, reason = next(iter(slow.items()))
        complain(f"varsim: --engine fast does not cover {label}: {reason}")
        raise typer.Exit(USAGE)
    fast = ", ".join(label for label, is_fast in picked.items() if is_fast)
    return f"varsim: simulated by the fast engine (times only): {fast}" if fast else ""


def use_in_campaign(
    engine: Engine, runs: "Sequence[Case]", jobs: int | None, scheduler: str | None
) -> str:
    """The same for runs of these cases; `jobs` and `scheduler` as of `execution.backend`."""
    from varsim.study.sweep.execution import among, processes

    each = 0.0 if scheduler is not None else among(runs, processes(runs, jobs))
    return use(engine, [run.scenario for run in {run.key: run for run in runs}.values()], each)


def use_for(engine: Engine, experiment: "AnyExperiment", *, times: bool = False) -> str:
    """The same for any experiment; `times`: whether only its times are looked at."""
    from varsim.study.experiment import Program, SweepExperiment, Training
    from varsim.study.why.levers import times_only

    if isinstance(experiment, Program):
        if engine != "auto":
            complain("varsim: --engine has no effect: programs of variables are run on SimPy")
            raise typer.Exit(USAGE)
        return ""
    if isinstance(experiment, Training):
        scenarios = [experiment.scenario]
    elif isinstance(experiment, SweepExperiment):
        scenarios = [case.scenario for case in experiment.distinct]
    else:
        scenarios = [experiment.question.base]
    return use(engine, map(times_only, scenarios) if times else scenarios)
