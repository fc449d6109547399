"""What the commands do with a scenario of variables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from varsim.cli.console import USAGE, complain, tell, write, write_prose
from varsim.cli.settings import Asking, Settings, question, text_width

if TYPE_CHECKING:
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.experiment import Program


# More messages than these, somebody has to want (--yes); some ten thousand a second.
MOST_EVENTS: Final = 1e8


def run(experiment: "Program", settings: Settings) -> None:
    """Simulate a scenario, write its report, print its tables and its answer."""
    from varsim.cli.progress import Progress
    from varsim.report.files.claim import RUN, Asked, check_target, replaced
    from varsim.report.files.program import save_variables
    from varsim.report.variables import report
    from varsim.study.program.beginning import events
    from varsim.units import format_count

    scenario = experiment.scenario
    refuse_strategies(scenario, settings.strategies)
    if settings.rows or settings.plots == "svg":
        option = "--rows" if settings.rows else "--plots svg"
        complain(f"varsim: {option} has no effect: a run of variables writes all of it anyway")
        raise typer.Exit(USAGE)
    if settings.all_rows:
        complain("varsim: --all has no effect: the tables of variables always have every row")
        raise typer.Exit(USAGE)
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
    told = report(result, settings.question, plots=bool(settings.plots))
    saved = save_variables(result, directory, told)
    if other:
        complain(f"varsim: {other}")
    tell(told, settings.format, [f"report: {saved / 'report.html'}"])


def check(experiment: "Program", strategies: Sequence[str]) -> None:
    """Say what a scenario is, and what a step takes and sends in each mode, by how it begins."""
    from varsim.report.words.program.scenario import beginnings, describe

    scenario = experiment.scenario
    refuse_strategies(scenario, strategies)
    for line in describe(scenario):
        write_prose(line, 15)
    write("\nHow the program begins in each mode:")
    for line in beginnings(experiment.check(), scenario.program.longest):
        write_prose(line, 4)


def explain(experiment: "Program", asked: Asking) -> None:
    """Print what each copy holds, what is sent where, and when."""
    from varsim.report.explain.report import explanation
    from varsim.report.render import markdown
    from varsim.report.terminal import terminal

    scenario = experiment.scenario
    refuse_strategies(scenario, asked.strategies)
    asked.refuse_of_training()
    told = explanation(
        scenario, str(asked.file), question(asked.file), modes=asked.modes, steps=asked.steps
    )
    if asked.format == "md":
        write(markdown(told))
    else:
        write(terminal(told, text_width()), end="")


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
