"""What the commands do with a scenario of variables."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer

from varsim.cli.console import USAGE, complain, show
from varsim.cli.settings import Asking, Settings, question

if TYPE_CHECKING:
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.experiment import Checked, Program
    from varsim.study.program.beginning import ProgramBeginning


# More messages than these, somebody has to want (--yes); some ten thousand a second.
MOST_EVENTS: Final = 1e8


def run(experiment: "Program", settings: Settings) -> None:
    """Simulate a scenario, write its report, print its answer and its tables."""
    from varsim.cli.progress import Progress
    from varsim.report.files.directory import RUN, Asked, check_target, replaced
    from varsim.report.files.program import save_variables
    from varsim.study.program.beginning import events
    from varsim.units import format_count

    scenario = experiment.scenario
    refuse_strategies(scenario, settings.strategies)
    if not settings.sure and (number := events(scenario)) > MOST_EVENTS:
        complain(
            f"varsim: about {format_count(number)} reads, writes and messages to simulate, which "
            "may take hours: lower program.steps, replications or cluster.workers, or give --yes"
        )
        raise typer.Exit(USAGE)
    directory = settings.directory(scenario.name)
    check_target(directory)
    other = replaced(directory, RUN, Asked.of(scenario))
    with Progress(settings.quiet) as progress:
        result = experiment.run(settings.jobs, progress)
    told = replace(
        result.report,
        question=settings.question,
        next=result.report.next.replace("FILE", shlex.quote(str(settings.file))),
    )
    saved = save_variables(result, directory, told, plots=settings.plots, rows=settings.rows)
    if other:
        complain(f"varsim: {other}")
    closing = [*saved.notes, f"report: {saved.directory / 'report.html'}"]
    show(told, settings.format, closing, every=settings.all_rows)


def check(experiment: "Program", strategies: Sequence[str]) -> "Checked[ProgramBeginning]":
    """How it begins in each mode."""
    refuse_strategies(experiment.scenario, strategies)
    return experiment.check()


def explain(experiment: "Program", asked: Asking) -> None:
    """Print what each copy holds, what is sent where, and when."""
    scenario = experiment.scenario
    refuse_strategies(scenario, asked.strategies)
    asked.refuse_of_training()
    for mode in asked.modes:
        if mode not in scenario.labels:
            complain(f"--mode {mode}: error: this scenario has: {', '.join(scenario.labels)}")
            raise typer.Exit(USAGE)
    labels = zip(scenario.all_modes, scenario.labels, strict=True)
    modes = [mode for mode, label in labels if not asked.modes or label in asked.modes]
    try:
        story = experiment.explain(modes=modes, steps=asked.steps)
    except ValueError as error:
        complain(f"{asked.file}: error: {error}: lower program.steps, or cluster.workers")
        raise typer.Exit(USAGE) from None
    show(replace(story.report, question=question(asked.file)), asked.format, [], every=True)


def refuse_strategies(scenario: "VariablesScenario", wanted: Sequence[str]) -> None:
    """End the command where strategies were asked for: there are modes instead."""
    if wanted:
        there = "every variable of this one has its own synchronization"
        if scenario.modes:
            chosen = next((mode for mode in wanted if mode in scenario.modes), scenario.modes[0])
            there = (
                f"modes ({', '.join(scenario.modes)}); to run one of them write --set "
                f"'modes=[{chosen}]'"
            )
        complain(
            "varsim: --strategy has no effect: a scenario of variables has no strategies, but "
            f"{there}"
        )
        raise typer.Exit(USAGE)
