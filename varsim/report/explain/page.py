"""What `varsim explain` prints: the setting once, then a table for each mode."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from varsim import inert
from varsim.report.explain.look import looks, spellings
from varsim.report.explain.medium import Markdown, Medium, Terminal
from varsim.report.explain.numbers import duration, total
from varsim.report.explain.setting import about, setting
from varsim.report.explain.table import OVERLAP, lines_of
from varsim.scenario.fault import Fault, ScenarioError, Source
from varsim.scenario.training import Scenario
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.telling import Telling, told

Form: TypeAlias = Literal["table", "md"]

_ORDER = "Steps overlap here: rows stand in the order in which they end."


def explanation(
    scenario: Scenario | VariablesScenario,
    file: str,
    question: str = "",
    *,
    modes: Sequence[str] = (),
    steps: int | None = None,
    form: Form = "table",
    width: int = 80,
) -> Iterator[str]:
    """The lines to print, at most `width` columns wide; of all modes, or of these.

    `steps`: the first so many; without it as many as make a table that is not too long.
    ScenarioError for a scenario of another kind, or a mode that it does not compare.
    """
    if not isinstance(scenario, VariablesScenario):
        raise _refused(
            file,
            "what happens to single variables is told of a scenario of 'kind: variables'; this one "
            "compares training strategies, see varsim.study.why.account.why",
        )
    for mode in modes:
        if mode not in scenario.labels:
            raise _refused(f"--mode {mode}", f"this scenario has: {', '.join(scenario.labels)}")
    chosen = {
        mode: label
        for mode, label in zip(scenario.all_modes, scenario.labels, strict=True)
        if not modes or label in modes
    }
    try:
        tellings = told(scenario, list(chosen), steps)
    except ValueError as error:
        raise _refused(file, f"{error}: lower program.steps, or cluster.workers") from None
    labelled = {chosen[one.mode]: one for one in tellings}
    if form == "md":
        return _page(Markdown(), scenario, inert.markdown(question), labelled)
    return _page(Terminal(width), scenario, question, labelled)


def _page(
    medium: Medium, scenario: VariablesScenario, question: str, told: dict[str, Telling]
) -> Iterator[str]:
    """The setting, then mode by mode, then what was left out."""
    spelled = spellings(scenario, [row for one in told.values() for row in one.rows])
    yield from medium.title(scenario.name)
    yield from medium.paragraphs([question] if question else [])
    yield from medium.entries(list(setting(scenario, spelled)))
    for label, telling in told.items():
        there = looks(scenario, telling.mode, telling.rows, spelled)
        yield from medium.heading(label)
        yield from medium.paragraphs(list(about(there, telling.rows, scenario.program.outside)))
        lines = lines_of(telling.rows, there, scenario.cluster.workers)
        if any(line.heading.endswith(OVERLAP) for line in lines):
            yield from medium.paragraphs([_ORDER])
        yield from medium.table(lines)
        yield from medium.paragraphs([_closing(telling)])
    if notes := list(_notes(scenario, telling)):
        yield from medium.heading("not shown")
        yield from medium.paragraphs(notes)


def _closing(telling: Telling) -> str:
    """What the steps that are shown took and sent."""
    rows = [row for row in telling.rows if row.step]
    took = max((row.end for row in rows), default=telling.began) - telling.began
    steps = "1 step" if telling.steps == 1 else f"{telling.steps} steps"
    each = f" ({duration(took // telling.steps)} per step)" if telling.steps > 1 else ""
    sent = total([some for row in rows for some in row.sent]) or "nothing"
    return f"After the variables were created, {steps} took {duration(took)}{each} and sent {sent}."


def _notes(scenario: VariablesScenario, telling: Telling) -> Iterator[str]:
    """What there is beyond the tables."""
    shown, steps = telling.steps, scenario.program.steps
    if shown < steps:
        left = f"Steps {shown + 1} to {steps}" if shown + 1 < steps else f"Step {steps}"
        yield f"{left}: --steps {steps} shows them all."
    if scenario.replications > 1:
        yield f"All replications but the first of {scenario.replications}."
    if scenario.vary is not None:
        yield "What vary changes: see varsim run."


def _refused(where: str, why: str) -> ScenarioError:
    return ScenarioError([Fault(Source(where), 0, 0, why)])
