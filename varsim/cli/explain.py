"""Telling what happens to variables, step by step, and why training is as slow as it is."""

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, Literal

import typer

from varsim.cli.console import USAGE, complain, write
from varsim.cli.weighing import weigh_explaining

if TYPE_CHECKING:
    from varsim.report.explain.page import Form
    from varsim.scenario.training import Scenario
    from varsim.scenario.variables import VariablesScenario

# Wider lines are hard to read; narrower ones are torn, and so they are in a pipe.
WIDEST: Final = 100
NARROWEST: Final = 80


def explain(
    scenario: "Scenario | VariablesScenario",
    file: Path,
    question: str,
    modes: Sequence[str],
    steps: int | None,
    form: "Form",
) -> None:
    """Print what each copy holds, what is sent where, and when."""
    from varsim.report.explain.page import explanation

    for line in explanation(
        scenario, str(file), question, modes=modes, steps=steps, form=form, width=_width()
    ):
        write(line)


def why(
    scenario: "Scenario",
    question: str,
    form: Literal["table", "md", "json"],
    out: Path | None,
    quiet: bool,
    sure: bool,
) -> None:
    """Print why each strategy is as slow as it is; into `out` as pages and a figure, too."""
    from varsim.cli.progress import Progress
    from varsim.report.words.why_text import page
    from varsim.study.why.account import why

    other = ""
    if out is not None:
        from varsim.report.files.claim import Asked, check_target, replaced

        check_target(out, "why")
        other = replaced(out, ["why"], Asked.of(scenario))
    weigh_explaining(scenario, sure)
    with Progress(quiet) as progress:
        found = why(scenario, progress)
    for line in page(found, question, form, width=_width()):
        write(line)
    if out is not None:
        from varsim.report.pages.why import write as write_pages

        written = write_pages(found, out, question)
        if other:
            complain(f"varsim: {other}")
        (write if form == "table" else complain)(f"report: {written}")


def refuse_training(
    scenario: "VariablesScenario", strategies: Sequence[str], form: str, out: Path | None
) -> None:
    """End the command where options were given that are about strategies of training."""
    from varsim.cli.variables import refuse_strategies

    refuse_strategies(scenario, strategies)
    if form == "json":
        _refuse("--format json", "variables are told step by step, as a table or as Markdown")
    if out is not None:
        _refuse("--out", "of variables nothing is written; varsim run writes a report")


def refuse_variables(file: Path, modes: Sequence[str], steps: int | None) -> None:
    """End the command where options were given that are about variables."""
    other = f"{file} trains; it has strategies (--strategy), and all of a run is looked at"
    if modes:
        _refuse("--mode", other)
    if steps is not None:
        _refuse("--steps", other)


def _refuse(option: str, why: str) -> None:
    complain(f"varsim: {option} has no effect: {why}")
    raise typer.Exit(USAGE)


def _width() -> int:
    columns = get_terminal_size((NARROWEST, 0)).columns
    return max(NARROWEST, min(columns, WIDEST))
