"""What the commands do with a scenario of training."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from varsim.cli.amount import refuse_absurd, refuse_hopeless
from varsim.cli.console import (
    ERROR,
    OUT_OF_BOUNDS,
    complain,
    show,
    write,
)
from varsim.cli.settings import Asking, Settings, question

if TYPE_CHECKING:
    from varsim.study.beginning import Beginning
    from varsim.study.experiment import Checked, Training


def run(experiment: "Training", settings: Settings) -> None:
    """Simulate a scenario, write its report, print its summary.

    DeadlockError, after all that, if a strategy deadlocked; OUT_OF_BOUNDS if a
    target is not surely met by every one.
    """
    from varsim.cli.progress import Progress
    from varsim.report.files.directory import RUN, Asked, check_target, replaced
    from varsim.report.files.save import save

    scenario = experiment.scenario
    refuse_absurd(scenario, settings.sure)
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
    saved = save(result, directory, told, plots=settings.plots, rows=settings.rows)
    if other:
        complain(f"varsim: {other}")
    closing = [*saved.notes, f"report: {saved.directory / 'report.html'}"]
    show(told, settings.format, closing, every=settings.all_rows)
    if result.deadlock is not None:
        raise result.deadlock
    if not all(judgement.met for judgement in result.judgements):
        raise typer.Exit(OUT_OF_BOUNDS)


def check(experiment: "Training", strategies: Sequence[str]) -> "Checked[Beginning]":
    """How it begins; USAGE where no run of it would end."""
    refuse_hopeless(experiment.scenario)
    return experiment.check()


def explain(experiment: "Training", asked: Asking) -> None:
    """Print why each strategy is as slow as it is; into a directory as pages and a figure, too."""
    from varsim.cli.progress import Progress

    other, out = "", asked.out
    asked.refuse_of_variables()
    scenario = experiment.scenario
    if out is not None:
        from varsim.report.files.directory import Asked, check_target, replaced

        check_target(out, "why")
        other = replaced(out, ["why"], Asked.of(scenario))
    refuse_absurd(scenario, asked.sure)
    with Progress(asked.quiet) as progress:
        found = experiment.explain(progress)
    told = replace(
        found.report,
        question=question(asked.file),
        next=found.report.next.replace("FILE", shlex.quote(str(asked.file))),
    )
    show(told, asked.format, [], every=asked.all_rows or bool(asked.strategies))
    if out is not None:
        from varsim.report.files.keeping import put_report

        put_report(told, out)
        if other:
            complain(f"varsim: {other}")
        (write if asked.format == "table" else complain)(f"report: {out / 'why.html'}")
    if all(account.stuck for account in found.accounts):
        complain("varsim: there was nothing to explain: no strategy made updates to the end")
        raise typer.Exit(ERROR)
