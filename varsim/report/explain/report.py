"""The report of what happens to variables: the setting once, then a table for each mode."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from varsim.report.explain.look import Look, looks, spellings
from varsim.report.explain.numbers import UNITS, duration, side_by_side, total
from varsim.report.explain.setting import about, setting
from varsim.report.explain.words import sent, sentence, who
from varsim.report.report import Block, Media, Report, Table, Text
from varsim.report.report import Row as Line
from varsim.scenario.fault import Fault, ScenarioError, Source
from varsim.scenario.provenance import provenance
from varsim.scenario.training import Scenario
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.rows import Row, Story, Telling, told

_MOST_DECIMALS: Final = 3
# The end of a heading over several steps.
_OVERLAP: Final = "which overlap"
_COLUMNS: Final = ("who", "what happens", "sent", "copies after")
_ORDER: Final = "Steps overlap here: rows stand in the order in which they end."


def explanation(
    scenario: Scenario | VariablesScenario,
    file: str,
    question: str = "",
    *,
    modes: Sequence[str] = (),
    steps: int | None = None,
) -> Report:
    """What happens in a run of all modes, or of these.

    `steps`: the first so many; without it as many as make a table that is not too long.
    ScenarioError for a scenario of another kind, or a mode that it does not compare.
    """
    if not isinstance(scenario, VariablesScenario):
        raise _refused(
            file,
            "single variables are explained for a scenario of 'kind: variables'; this one compares "
            "training strategies: see varsim.study.why.account.why",
        )
    for mode in modes:
        if mode not in scenario.labels:
            raise _refused(f"--mode {mode}", f"this scenario has: {', '.join(scenario.labels)}")
    labels = zip(scenario.all_modes, scenario.labels, strict=True)
    try:
        story = told(
            scenario, [mode for mode, label in labels if not modes or label in modes], steps
        )
    except ValueError as error:
        raise _refused(file, f"{error}: lower program.steps, or cluster.workers") from None
    return report(story, question)


def report(story: Story, question: str = "") -> Report:
    """All there is to tell of it."""
    scenario = story.scenario
    labels = dict(zip(scenario.all_modes, scenario.labels, strict=True))
    blocks = list(_blocks(scenario, question, {labels[one.mode]: one for one in story}))
    made = provenance(scenario)
    return Report("story", scenario.name, (), (), tuple(blocks), made, question)


def _blocks(
    scenario: VariablesScenario, question: str, told: Mapping[str, Telling]
) -> Iterator[Block]:
    """The setting, then mode by mode, then what was left out."""
    spelled = spellings(scenario, [row for one in told.values() for row in one.rows])
    yield Text((scenario.name,), "title", on=Media.TEXT)
    if question:
        yield Text((question,), "paragraphs", on=Media.TEXT)
    terms, texts = zip(*setting(scenario, spelled), strict=True)
    yield Text(texts, "entries", terms=terms, plain=True, on=Media.TEXT)
    for label, telling in told.items():
        there = looks(scenario, telling.mode, telling.rows, spelled)
        said = list(about(there, telling.rows, scenario.program.outside))
        lines = lines_of(telling.rows, there, scenario.cluster.workers)
        if any(line.label.endswith(_OVERLAP) for line in lines):
            said.append(_ORDER)
        yield Text((label,), "heading", on=Media.TEXT)
        yield Text(tuple(said), "paragraphs", plain=True, on=Media.TEXT)
        yield Table(_COLUMNS, tuple(lines), "when", holds="story", on=Media.TEXT)
        yield Text((_closing(telling),), "paragraphs", plain=True, on=Media.TEXT)
    if notes := list(_notes(scenario, telling)):
        yield Text(("not shown",), "heading", on=Media.TEXT)
        yield Text(tuple(notes), "paragraphs", plain=True, on=Media.TEXT)


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
        yield "The program at other ratios (vary): see varsim run."


def _refused(where: str, why: str) -> ScenarioError:
    return ScenarioError([Fault(Source(where), 0, 0, why)])


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit for all times of a table, with as many decimals as tell them apart."""

    size: int  # ns
    unit: str
    decimals: int

    @classmethod
    def of(cls, times: Sequence[int]) -> "Scale":
        """The scale for these times (ns)."""
        size, unit = next((pair for pair in UNITS if max(times) >= pair[0]), UNITS[-1])
        unlike = len(set(times))
        for decimals in range(_MOST_DECIMALS + 1):
            scale = cls(size, unit, decimals)
            exact = all(time * 10**decimals % size == 0 for time in times)
            if exact or (decimals and len({scale.number(time) for time in times}) == unlike):
                break
        return scale

    def number(self, time: int) -> str:
        """The number alone."""
        return f"{time / self.size:.{self.decimals}f}"

    def span(self, begin: int, end: int) -> str:
        """`50.1 us`, or `50.1 to 100.1 us`."""
        first, last = self.number(begin), self.number(end)
        return f"{last} {self.unit}" if first == last else f"{first} to {last} {self.unit}"


def lines_of(rows: Sequence[Row], there: Mapping[str, Look], replicas: int) -> list[Line]:
    """The lines of the table of these rows, which are in the order of their ends."""
    scale = Scale.of([time for row in rows for time in (row.begin, row.end)])
    lines, before = [], dict[str, list[str]]()
    for heading, some, apart in _sections(rows):
        lines.append(Line(heading, ()))
        for row in some:
            step = f"(step {row.step}) " if apart else ""
            held = _held(row, there, replicas)
            same = len(held) > 1 and held == before.get(row.variable)
            before[row.variable] = held
            copies = "unchanged" if same else "\n".join(held)
            what = f"{step}{sentence(row, there)}"
            cells = (who(row, replicas), what, sent(row), copies)
            lines.append(Line(scale.span(row.begin, row.end), cells))
    return lines


def _held(row: Row, there: Mapping[str, Look], replicas: int) -> list[str]:
    """The copies after a row."""
    if not row.copies:
        return []
    look = there[row.variable]
    return side_by_side(look.plain(row).copies, replicas, look.spelling)


def _sections(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row], bool]]:
    """A heading, its rows, and whether they are of several steps, which overlap in time."""
    spans: dict[int, tuple[int, int]] = {}
    for row in rows:
        begin, end = spans.get(row.step, (row.begin, row.end))
        spans[row.step] = (min(begin, row.begin), max(end, row.end))
    groups: list[list[int]] = []
    latest = 0
    for step in sorted(spans):
        if groups and spans[step][0] < latest:
            groups[-1].append(step)
        else:
            groups.append([step])
        latest = max(latest, spans[step][1])
    for steps in groups:
        some = [row for row in rows if row.step in steps]
        first, last = steps[0], steps[-1]
        if first == last:
            yield (f"step {first}" if first else "before step 1"), some, False
        else:
            between = "and" if last == first + 1 else "to"
            yield f"steps {first} {between} {last}, {_OVERLAP}", some, True
