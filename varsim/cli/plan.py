"""What the commands do with a plan: search, write what came of it, tell it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import typer

from varsim.cli import sweep as sweeping
from varsim.cli.console import OUT_OF_BOUNDS, complain, write
from varsim.cli.places import claim
from varsim.cli.settings import question as first_line
from varsim.cli.weighing import MOST_WEIGHED, weigh_cases

if TYPE_CHECKING:
    from varsim.report.plan import PlanText
    from varsim.scenario.plan.question import Question
    from varsim.study.effort import Effort
    from varsim.study.experiment import PlanExperiment
    from varsim.study.plan.plan import Plan, Planning

Formats: TypeAlias = Literal["table", "csv", "json", "md"]


class PlanSettings(NamedTuple):
    """What the options of `varsim plan` say."""

    file: Path
    out: Path | None
    strategies: tuple[str, ...]
    jobs: int | None
    scheduler: str | None
    exhaustive: bool
    quiet: bool
    format: Formats
    sure: bool = False  # whatever it takes

    def directory(self, question: "Question") -> Path:
        """Where the plan of a scenario goes; the command ends if others lie there."""
        from varsim.report.files.claim import Asked

        default = Path("reports") / f"{question.name}-plan"
        asked = Asked(question.name, question.sha256)
        return claim(self.out or default, "plan", self.file, default, asked)


def run(settings: PlanSettings, sets: Sequence[str], minimize: str | None) -> None:
    """Find the answer, write and print it; OUT_OF_BOUNDS where there is none.

    Runs are kept as they end. Interrupted, it says how to go on.
    """
    from varsim.cli.progress import SweepProgress
    from varsim.scenario.plan.loading import load_question
    from varsim.study.plan.plan import Planning
    from varsim.study.plan.runs import Runs
    from varsim.study.sweep.execution import backend
    from varsim.study.sweep.store import Store

    question = load_question(settings.file, sets, minimize, settings.strategies)
    if settings.exhaustive and not question.enumerated:
        raise typer.BadParameter(
            f"--exhaustive: {question.combinations:,} combinations are too many to run all"
        )
    planning = Planning(question)
    _weigh(planning, settings.sure)
    directory = settings.directory(question)
    with Store(directory) as store:
        runs = None
        sweeping.say_damage(store, "made again where they are needed")
        cases = planning.cases(MOST_WEIGHED) * question.first_replications
        try:
            with (
                backend(cases, settings.jobs, settings.scheduler) as made_by,
                SweepProgress(settings.quiet, _teller(planning)) as progress,
            ):
                runs = Runs(store, made_by, progress.show)
                plan = planning.run(runs, settings.exhaustive)
        except KeyboardInterrupt:
            done = 0 if runs is None else runs.status.done
            complain(
                f"varsim: {done} runs are kept in {store.path}; the same command goes on from there"
            )
            raise
        if runs.status.resumed and not settings.quiet:
            complain(f"varsim: {runs.status.resumed} of {runs.status.done} runs already there")
        _conclude(plan, settings, directory)
    if plan.found.answer is None:
        raise typer.Exit(OUT_OF_BOUNDS)


def check(experiment: "PlanExperiment", strategies: Sequence[str]) -> None:
    """Say what a plan asks, and how large its space is."""
    from varsim.report.words.caution import cautions
    from varsim.report.words.targets import said as told_target
    from varsim.scenario.plan.objective import OBJECTIVES
    from varsim.study.plan.cell import distinct
    from varsim.study.plan.plan import Planning

    question = experiment.question
    write(f"  minimize     {question.objective}: {OBJECTIVES[question.objective].about}")
    for name, bound in question.targets.bounds.items():
        write(f"  target       {told_target(name, bound, question.loss)}")
    for quantity, values in zip(question.quantities, question.texts, strict=True):
        told = ", ".join(values) if len(values) <= 12 else f"{values[0]} to {values[-1]}"
        write(f"  space        {quantity.path}: {told}")
    write(f"  strategies   {', '.join(question.strategies)}")
    for said in cautions(question.base):
        write(f"  note         {said}")
    planning = Planning(question)
    whole = _weigh(planning, closer=True)
    if not question.enumerated:
        write(
            f"\n{question.combinations:,} combinations: {question.trials:,} of them are tried, "
            "chosen by what the others showed (optuna)"
        )
        sweeping.tell(whole, "plan")
        return
    cells = planning.cells
    least, most = question.first_replications, question.most_replications
    write(
        f"\n{len(cells):,} cells, {len(distinct(cells)):,} of them different: {least} to {most} "
        "runs of each that may be the answer"
    )
    sweeping.tell(whole, "plan")


def _weigh(planning: "Planning", sure: bool = True, closer: bool = False) -> "Effort | None":
    """Foresee a search, as if every cell were looked at once."""
    question = planning.question
    fewer = "give the space fewer values" if question.enumerated else "plan fewer trials"
    runs = "the first runs of all cells" if question.enumerated else "the first runs of all trials"
    cases = planning.cases(MOST_WEIGHED)
    return weigh_cases(cases, question.first_replications, runs, fewer, sure, closer)


def _teller(planning: "Planning") -> Callable[[str, float], str]:
    """Says in words which cell is the best so far."""
    from varsim.report.words.plan import amount_told

    question = planning.question

    def say(number: str, value: float) -> str:
        amount = amount_told(question.objective, value, question.currency)
        return f"{planning.where(int(number))}: {amount}"

    return say


def _conclude(plan: "Plan", settings: PlanSettings, directory: Path) -> None:
    """Write and print what came of it."""
    from varsim.report.files.claim import put_into
    from varsim.report.files.plan import SCENARIO, write_plan
    from varsim.report.plan import PlanText
    from varsim.report.plots.plan.pareto import PLOT, draw_plan

    put_into(directory, "plan", lambda path: draw_plan(plan, path))
    text = PlanText(plan)
    asked = first_line(settings.file)
    write_plan(text, asked, directory, f"{PLOT.name}.png")
    closing = [f"result sha256: {plan.sha256}"]
    if plan.scenario is not None:
        closing.append(f"the answer as a scenario: varsim run {directory / SCENARIO}")
    closing.append(f"plan: {directory / 'plan.md'}, picture: {directory / f'{PLOT.name}.png'}")
    if settings.format == "table":
        _show(text)
        for line in closing:
            write(line)
        return
    if settings.format == "md":
        write(text.markdown(asked, ""), end="")
    else:
        write(text.csv() if settings.format == "csv" else text.json(), end="")
    for line in closing:  # stdout stays what the format promises
        complain(line)


def _show(plan: "PlanText") -> None:
    """The sentences, and the table of cost and throughput."""
    from varsim.report.terminal import drawn
    from varsim.report.words.plan import table, table_note
    from varsim.study.plan.pareto import trade

    for line in plan.sentences:
        write(line)
    if trade(plan.found).front:
        write("")
        write(table_note(plan.found))
        write(drawn(table(plan.found, plan.places)), end="")
    write("")
