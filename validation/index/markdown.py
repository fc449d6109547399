"""The report as Markdown: an index, and a page with all lines of each section."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from validation.finding import Finding, Verdict
from validation.index.section import LEFT_OUT, Group, Section, groups, missed
from validation.index.words import (
    bound_of,
    error_of,
    half_of,
    number,
    sentence,
    sources,
    verdict_counts,
)
from varsim.inert import visible

_LISTS: Final = {
    Verdict.OUT_OF_SCOPE: "Out of scope",
    Verdict.NOT_RUN: "Not run",
}
_HEAD: Final = ("line", "quantity", "expected", "got", "error", "99 % interval", "verdict", "bound")


def index(sections: Sequence[Section], command: str, notes: str, pictures: Collection[str]) -> str:
    """The index page. `command` made it; `notes`: a page beside it, or nothing, as `pictures`."""
    parts = [
        "# Validation",
        f"Made by `{command}`. Do not edit.",
        "Every line is one number: what was expected, what varsim got, and whether that keeps the "
        "bound, which was written down before. Nothing is hidden: misses come first, and what was "
        "not run is listed with the reason. The same with all lines on one page: "
        "[index.html](index.html); as a table: [lines.csv](lines.csv).",
    ]
    if notes:
        parts.append(
            f"What was tried, and what explains misses of measured runs: [{notes}]({notes})."
        )
    parts += ["## In sum", _table(_SUM, map(_sum_row, sections), 1)]
    if "agreement" in pictures:
        parts.append("![Predicted against expected](agreement.png)")
    if "errors" in pictures:
        parts.append("![Errors of each family or experiment](errors.png)")
    for section in sections:
        parts += _section(section, pictures)
    return "\n\n".join(parts) + "\n"


def lines(section: Section, command: str) -> str:
    """All lines of a section, group by group."""
    parts = [
        f"# {section.title}: all lines",
        f"Made by `{command}`. Do not edit. Back to the [index](index.md).",
        f"Bound: {section.bound}",
    ]
    by_group: dict[str, list[Finding]] = {}
    for one in section.findings:
        by_group.setdefault(one.group, []).append(one)
    for name, own in by_group.items():
        parts.append(f"## {_plain(name)}")
        parts.append(_table(_HEAD, map(_row, own), 2))
        if source := sources(own):
            parts.append(f"Source: {_plain(source)}")
    return "\n\n".join(parts) + "\n"


_SUM: Final = ("section", "lines", "passed", "missed", "calibrated on", "left out")
_GROUPS: Final = ("family or experiment", "lines", "passed", "missed", "worst error", "bound")


def _section(section: Section, pictures: Collection[str]) -> Iterable[str]:
    yield f"## {section.title}"
    yield section.about
    yield f"**Bound.** {section.bound}"
    yield sentence(section)
    yield f"All lines: [{section.key}.md]({section.key}.md)." + (
        f" More: [{section.link}]({section.link})." if section.link else ""
    )
    if f"errors_{section.key}" in pictures:
        yield f"![Errors of each family or experiment](errors_{section.key}.png)"
    judged = [group for group in groups(section) if group.passed + group.missed]
    if judged:
        yield _table(_GROUPS, map(_group_row, judged), 1)
    if wrong := missed(section.findings):
        yield "### Missed"
        yield _table(
            ("line", "quantity", "expected", "got", "error", "bound", "why"), map(_miss, wrong), 2
        )
    for verdict, title in _LISTS.items():
        left = [one for one in section.findings if one.verdict is verdict]
        if left:
            yield f"### {title}"
            yield "\n".join(_reasons(left))


def _reasons(left: Sequence[Finding]) -> Iterable[str]:
    """Groups and how many lines of each, by their reason."""
    counts: dict[tuple[str, str], int] = {}
    for one in left:
        counts[one.group, one.why] = counts.get((one.group, one.why), 0) + 1
    for (group, why), count in counts.items():
        yield f"- {_plain(group)} ({count} line{'s' * (count != 1)}): {_plain(why)}"


def _sum_row(section: Section) -> Sequence[str]:
    counts = verdict_counts(section)
    return (
        f"[{section.title}](#{section.title.lower().replace(' ', '-')})",
        str(len(section.findings)),
        str(counts[Verdict.PASS]),
        str(counts[Verdict.MISS]),
        str(counts[Verdict.CALIBRATED]),
        str(sum(counts[verdict] for verdict in LEFT_OUT)),
    )


def _group_row(group: Group) -> Sequence[str]:
    worst = "" if group.worst is None else error_of(group.worst)
    judged = group.passed + group.missed
    return (
        _plain(group.name),
        *(str(judged), str(group.passed), str(group.missed)),
        worst,
        _plain(bound_of(group)),
    )


def _row(one: Finding) -> Sequence[str]:
    why = f": {one.why}" if one.why and one.verdict in (*LEFT_OUT, Verdict.REPORTED) else ""
    return (
        *(_plain(one.name), _plain(_unit(one))),
        *(number(one.expected), number(one.got), error_of(one), half_of(one)),
        _plain(f"{one.verdict}{why}"),
        _plain(one.bound),
    )


def _miss(one: Finding) -> Sequence[str]:
    return (
        *(_plain(f"{one.group}: {one.name}"), _plain(_unit(one))),
        *(number(one.expected), number(one.got), error_of(one)),
        *(_plain(one.bound), _plain(one.why)),
    )


def _unit(one: Finding) -> str:
    """A quantity with its unit."""
    return f"{one.quantity} [{one.unit}]" if one.unit else one.quantity


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], named: int) -> str:
    words = {"verdict", "bound", "why"}
    rule = ["---" if index < named or name in words else "---:" for index, name in enumerate(head)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _plain(text: str) -> str:
    """Nothing that would end a cell or begin markup."""
    text = visible(text).replace("\n", " ").replace("](", "]\\(")
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
