"""What the commands do with a scenario of training."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from varsim.cli.console import OUT_OF_BOUNDS, complain, read_from, write
from varsim.cli.settings import Asking, Formats, Settings, question, text_width
from varsim.cli.weighing import asks_first, foreseen, weigh, weigh_explaining, weigh_step

if TYPE_CHECKING:
    from varsim.study.experiment import Training
    from varsim.study.result import Result


def run(experiment: "Training", settings: Settings) -> None:
    """Simulate a scenario, write its report, print its summary.

    DeadlockError, after all that, if a strategy came to stand still; OUT_OF_BOUNDS if one misses a
    target.
    """
    from varsim.cli.progress import Progress
    from varsim.report.files.claim import RUN, Asked, check_target, replaced
    from varsim.report.files.save import save
    from varsim.report.pages import training as report

    scenario = experiment.scenario
    weigh(scenario, settings.sure)
    directory = settings.directory(scenario.name)
    check_target(directory)
    other = replaced(directory, RUN, Asked.of(scenario))
    with Progress(settings.quiet) as progress:
        result = experiment.run(settings.jobs, progress)

    def extras(path: Path) -> None:
        report.write(result, path, settings.question)

    saved = save(result, directory, extras, question=settings.question)
    if other:
        complain(f"varsim: {other}")
    _show(result, settings.format, [*saved.notes, f"report: {saved.directory / 'report.html'}"])
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
        from varsim.report.pages.why import write as write_pages

        written = write_pages(found, out, first)
        if other:
            complain(f"varsim: {other}")
        (write if asked.format == "table" else complain)(f"report: {written}")


def redraw(directory: Path, question: Callable[[], str]) -> None:
    """Draw the plots of a saved run again."""
    from varsim.report.files.claim import put_into
    from varsim.report.files.save import load_result
    from varsim.report.pages import training as report

    result, asked = read_from(lambda path: (load_result(path), question()), directory)
    put_into(directory, "training", lambda path: report.write(result, path, asked, directory))


def _show(result: "Result", format: Formats, closing: Iterable[str]) -> None:
    """Print a result: as a table with its answer, or as text for another program."""
    if format == "table":
        from varsim.cli.progress import drawn

        write(drawn(result.table()), end="")
        for line in (*result.notes, "", *result.answer().splitlines(), *closing):
            write(line)
        return
    from varsim.report.words.render import render

    write(render(result, format), end="")
    for line in closing:  # stdout stays what the format promises
        complain(line)
