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
    from varsim.report.plan import Plan
    from varsim.scenario.plan.question import Question
    from varsim.study.effort import Effort
    from varsim.study.plan.cell import Cell, Places
    from varsim.study.plan.guess import Guess
    from varsim.study.plan.runs import Runs
    from varsim.study.plan.search import Found
    from varsim.study.sweep.case import Case
    from varsim.study.sweep.execution import Backend

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
    from varsim.scenario.plan.loading import load_question
    from varsim.study.plan.cell import Places, all_cells
    from varsim.study.sweep.store import Store

    question = load_question(settings.file, sets, minimize, settings.strategies)
    cells = all_cells(question) if question.enumerated else []
    _weigh(question, cells, settings.sure)
    directory = settings.directory(question)
    with Store(directory) as store:
        from varsim.cli.progress import SweepProgress
        from varsim.study.plan.guess import guess
        from varsim.study.plan.runs import Runs

        known: dict[int, Cell] = {cell.number: cell for cell in cells}
        places = Places(question.quantities, cells)
        runs = None
        sweeping.say_damage(store, "made again where they are needed")
        try:
            with (
                _backend(question, cells, settings) as backend,
                SweepProgress(settings.quiet, _teller(question, known, places)) as progress,
            ):
                runs = Runs(store, backend, progress.show)
                found, cells = _search(question, cells, known, runs, settings.exhaustive)
                doubtful = guess(found, runs)
        except KeyboardInterrupt:
            done = 0 if runs is None else runs.status.done
            complain(
                f"varsim: {done} runs are kept in {store.path}; the same command goes on from there"
            )
            raise
        if runs.status.resumed and not settings.quiet:
            complain(f"varsim: {runs.status.resumed} of {runs.status.done} runs already there")
        _conclude(_told(found, cells, runs, doubtful), settings, directory)
    if found.answer is None:
        raise typer.Exit(OUT_OF_BOUNDS)


def check(file: Path, sets: Sequence[str], strategies: Sequence[str] = ()) -> None:
    """Say what a plan asks, and how large its space is."""
    from varsim.report.words.caution import cautions
    from varsim.report.words.targets import said as told_target
    from varsim.scenario.plan.loading import load_question
    from varsim.scenario.plan.objective import OBJECTIVES
    from varsim.study.plan.cell import all_cells, distinct

    question = load_question(file, sets, strategies=strategies)
    write(f"{file}: ok")
    write(f"  minimize     {question.objective}: {OBJECTIVES[question.objective].about}")
    for name, bound in question.targets.bounds.items():
        write(f"  target       {told_target(name, bound, question.loss)}")
    for quantity, values in zip(question.quantities, question.texts, strict=True):
        told = ", ".join(values) if len(values) <= 12 else f"{values[0]} to {values[-1]}"
        write(f"  space        {quantity.path}: {told}")
    write(f"  strategies   {', '.join(question.strategies)}")
    for said in cautions(question.base):
        write(f"  note         {said}")
    cells = all_cells(question) if question.enumerated else []
    whole = _weigh(question, cells)
    if not question.enumerated:
        write(
            f"\n{question.combinations:,} combinations: {question.trials:,} of them are tried, "
            "chosen by what the others showed (optuna)"
        )
        sweeping.tell(whole, "plan")
        return
    least, most = question.first_replications, question.most_replications
    write(
        f"\n{len(cells):,} cells, {len(distinct(cells)):,} of them different: {least} to {most} "
        "runs of each that may be the answer"
    )
    sweeping.tell(whole, "plan")


def is_plan(file: Path) -> bool:
    """Whether a file has a plan block."""
    from varsim.scenario.plan.loading import has_plan

    return has_plan(file)


def _search(
    question: "Question",
    cells: "list[Cell]",
    known: "dict[int, Cell]",
    runs: "Runs",
    exhaustive: bool,
) -> "tuple[Found, list[Cell]]":
    """What was found, and the cells it was found among."""
    from varsim.study.plan.search import Search

    if not question.enumerated:
        from varsim.study.plan.optimizer import chosen

        if exhaustive:
            raise typer.BadParameter(
                f"--exhaustive: {question.combinations:,} combinations are too many to run all"
            )
        cells = chosen(question, runs, known)
    # Of chosen cells all have been run already.
    everything = exhaustive or not question.enumerated
    return Search(question, cells, runs, exhaustive=everything).run(), cells


def _backend(question: "Question", cells: "Sequence[Cell]", settings: PlanSettings) -> "Backend":
    """Where the runs are made, as if every cell were looked at once."""
    runs = _cases(question, cells) * question.first_replications
    return sweeping.backend(runs, settings.jobs, settings.scheduler)


def _weigh(question: "Question", cells: "Sequence[Cell]", sure: bool = True) -> "Effort | None":
    """Foresee a search, as if every cell were looked at once."""
    fewer = "give the space fewer values" if question.enumerated else "plan fewer trials"
    runs = "the first runs of all cells" if question.enumerated else "the first runs of all trials"
    return weigh_cases(_cases(question, cells), question.first_replications, runs, fewer, sure)


def _cases(question: "Question", cells: "Sequence[Cell]") -> "list[Case]":
    """What is to be run at most, once each; of too many cells as many as are tried.

    For those that are tried stand some from all over the space, one after the other.
    """
    from varsim.study.plan.cell import distinct, some_cells

    if cells:
        return [cell.case for cell in distinct(cells)]
    some = some_cells(question, min(MOST_WEIGHED, question.trials))
    each = -(-question.trials // len(some))
    return [cell.case for cell in some for _ in range(each)]


def _teller(
    question: "Question", known: "dict[int, Cell]", places: "Places"
) -> Callable[[str, float], str]:
    """Says in words which cell is the best so far."""
    from varsim.report.words.plan import amount_told as told

    def say(number: str, value: float) -> str:
        where = places.full(known[int(number)])
        return f"{where}: {told(question.objective, value, question.currency)}"

    return say


def _told(found: "Found", cells: "list[Cell]", runs: "Runs", doubtful: "Guess | None") -> "Plan":
    """The plan, with what binds the answer."""
    from varsim.report.plan import Plan
    from varsim.study.plan.binding import binding
    from varsim.study.plan.cell import Places

    best = found.answer
    own = [] if best is None else runs.of(best.cell, best.replications)
    bound = None if best is None else binding(found, best, own)
    places = Places(found.question.quantities, cells)
    return Plan(found, places, own, runs.status.done, bound, doubtful)


def _conclude(plan: "Plan", settings: PlanSettings, directory: Path) -> None:
    """Write and print what came of it."""
    from varsim.report.files.claim import put_into
    from varsim.report.files.plan import SCENARIO, write_plan
    from varsim.report.plots.plan.pareto import PLOT, draw_plan

    put_into(directory, "plan", lambda path: draw_plan(plan, path))
    asked = first_line(settings.file)
    write_plan(plan, asked, directory, f"{PLOT.name}.png")
    closing = [f"result sha256: {plan.sha256}"]
    if plan.scenario is not None:
        closing.append(f"the answer as a scenario: varsim run {directory / SCENARIO}")
    closing.append(f"plan: {directory / 'plan.md'}, picture: {directory / f'{PLOT.name}.png'}")
    if settings.format == "table":
        _show(plan)
        for line in closing:
            write(line)
        return
    if settings.format == "md":
        write(plan.markdown(asked, ""), end="")
    else:
        write(plan.csv() if settings.format == "csv" else plan.json(), end="")
    for line in closing:  # stdout stays what the format promises
        complain(line)


def _show(plan: "Plan") -> None:
    """The sentences, and the table of cost and throughput."""
    from varsim.cli.progress import drawn
    from varsim.report.words.plan import table, table_note
    from varsim.study.plan.pareto import trade

    for line in plan.sentences:
        write(line)
    if trade(plan.found).front:
        write("")
        write(table_note(plan.found))
        write(drawn(table(plan.found, plan.places)), end="")
    write("")
