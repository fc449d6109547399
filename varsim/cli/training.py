"""What the commands do with a scenario of training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from varsim.cli.console import OUT_OF_BOUNDS, complain, read_from, tell, write
from varsim.cli.settings import Asking, Settings, question, text_width
from varsim.cli.weighing import asks_first, foreseen, weigh, weigh_explaining, weigh_step

if TYPE_CHECKING:
    from varsim.report.report import Report
    from varsim.study.experiment import Training


def run(experiment: "Training", settings: Settings) -> None:
    """Simulate a scenario, write its report, print its summary.

    DeadlockError, after all that, if a strategy came to stand still; OUT_OF_BOUNDS if one misses a
    target.
    """
    from varsim.cli.progress import Progress
    from varsim.report.files.claim import RUN, Asked, check_target, replaced
    from varsim.report.files.save import save
    from varsim.report.training import report

    scenario = experiment.scenario
    weigh(scenario, settings.sure)
    directory = settings.directory(scenario.name)
    check_target(directory)
    other = replaced(directory, RUN, Asked.of(scenario))
    with Progress(settings.quiet) as progress:
        result = experiment.run(settings.jobs, progress)
    told = report(result, settings.question)
    saved = save(result, directory, told)
    if other:
        complain(f"varsim: {other}")
    tell(told, settings.format, [*saved.notes, f"report: {saved.directory / 'report.html'}"])
    if result.deadlock is not None:
        raise result.deadlock
    if any(not judgement.met for judgement in result.judgements):
        raise typer.Exit(OUT_OF_BOUNDS)


def check(experiment: "Training", strategies: Sequence[str]) -> None:
    """Say what a scenario is, and how long one step of each strategy should take."""
    from varsim.report.words.caution import SPEED_WORDS, cautions, guessed, two_points
    from varsim.study.effort import effort
    from varsim.study.estimate import describe, estimates
    from varsim.units import format_seconds

    scenario = experiment.scenario
    for line in describe(scenario):
        write(line)
    write("\nTime of one step, on the back of an envelope:")
    rows = [(e.label, format_seconds(e.step_time), e.why) for e in estimates(scenario)]
    label_width = max(len(label) for label, _, _ in rows)
    time_width = max(len(time) for _, time, _ in rows)
    for label, time, why in rows:
        write(f"  {label:<{label_width}}  {time:>{time_width}}  {why}")
    for said in cautions(scenario):
        write(f"\n{said}")
    if guessed(scenario):
        write(two_points(scenario))
        for speed, words in SPEED_WORDS.items():
            there = estimates(scenario.with_law_alone(speed))
            told = ", ".join(f"{one.label} {format_seconds(one.step_time)}" for one in there)
            write(f"At {words}: {told}")
    weigh_step(scenario)
    whole = effort(scenario)
    asks = " varsim run asks for --yes." if asks_first(whole) else ""
    write(f"\nTo run it takes {foreseen(whole)}.{asks}")
    weigh(scenario, sure=True)


def explain(experiment: "Training", asked: Asking) -> None:
    """Print why each strategy is as slow as it is; into a directory as pages and a figure, too."""
    from varsim.cli.progress import Progress
    from varsim.report.words.why_text import page

    other, out = "", asked.out
    asked.refuse_of_variables()
    scenario, first = experiment.scenario, question(asked.file)
    if out is not None:
        from varsim.report.files.claim import Asked, check_target, replaced

        check_target(out, "why")
        other = replaced(out, ["why"], Asked.of(scenario))
    weigh_explaining(scenario, asked.sure)
    with Progress(asked.quiet) as progress:
        found = experiment.explain(progress)
    for line in page(found, first, asked.format, width=text_width()):
        write(line)
    if out is not None:
        from varsim.report.why import write as write_pages

        written = write_pages(found, out, first)
        if other:
            complain(f"varsim: {other}")
        (write if asked.format == "table" else complain)(f"report: {written}")


def redraw(directory: Path) -> None:
    """Draw the plots of a saved run again, whatever it is of."""
    from varsim.report import page
    from varsim.report.files.claim import kinds_of

    def saved(path: Path) -> "Report":
        if "variables" in kinds_of(path):
            from varsim.report.files.program import load_variables
            from varsim.report.variables import report as of_variables

            return of_variables(load_variables(path), question(path / "scenario.yaml"))
        from varsim.report.files.save import load_result
        from varsim.report.training import report

        return report(load_result(path), question(path / "scenario.yaml"))

    page.put(read_from(saved, directory), directory)
