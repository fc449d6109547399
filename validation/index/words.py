"""Numbers and sentences of the report."""

import re
from collections.abc import Sequence
from statistics import median
from typing import Final

from validation.finding import Finding, Verdict
from validation.index.section import LEFT_OUT, Group, Section

_TINY: Final = 5e-13


def number(value: float | None) -> str:
    """A number with six digits; nothing where there is none."""
    return "" if value is None else f"{value:.6g}"


def error_of(one: Finding) -> str:
    """In percent, of the number expected; where that is 0, the number itself."""
    if one.error is None:
        return ""
    if one.expected == 0:
        return f"{one.error:+.3g}"
    if abs(one.error) < _TINY:
        return "0"
    return f"{100 * one.error:+.2g} %" if abs(one.error) < 1e-4 else f"{100 * one.error:+.2f} %"


def half_of(one: Finding) -> str:
    """Half the 99 % interval, as it stands behind a number."""
    return "" if one.half_width is None else f"± {one.half_width:.2g}"


def bound_of(group: Group) -> str:
    """The bounds of a group, shortened where there are many."""
    bounds = group.bound.split("; ")
    return group.bound if len(bounds) <= 2 else f"{'; '.join(bounds[:2])}; ..."


def verdict_counts(section: Section) -> dict[Verdict, int]:
    """How many lines have each verdict."""
    return {verdict: sum(one.verdict is verdict for one in section.findings) for verdict in Verdict}


def sentence(section: Section) -> str:
    """What came out, in a sentence or two."""
    counts = verdict_counts(section)
    judged = counts[Verdict.PASS] + counts[Verdict.MISS]
    lead = f"{section.lead} " if section.lead else ""
    reported = counts[Verdict.REPORTED]
    if reported == len(section.findings):
        return f"{lead}All {reported} lines are reported without a bound."
    said = f"{lead}{counts[Verdict.PASS]} of {judged} lines keep their bound."
    errors = sizes(section.findings)
    if section.scaled and errors:
        said += f" Median error {100 * median(errors):.2g} %, largest {100 * max(errors):.3g} %."
    if reported:
        said += f" {reported} are reported without a bound."
    left = sum(counts[verdict] for verdict in LEFT_OUT)
    if left:
        said += f" {left} were not run, for reasons given below."
    return said


def left_out(findings: Sequence[Finding]) -> list[str]:
    """What was not run, and why: a line for all of a group that have the same reason."""
    names: dict[tuple[Verdict, str, str], list[str]] = {}
    for one in findings:
        if one.verdict in LEFT_OUT:
            names.setdefault((one.verdict, one.group, one.why), []).append(one.name)
    return [
        f"{verdict}: {group} ({own[0] if len(own) == 1 else f'{len(own)} lines'}): {why}"
        for (verdict, group, why), own in names.items()
    ]


def sizes(findings: Sequence[Finding]) -> list[float]:
    """Relative errors without their signs, of lines that are judged and compare two numbers."""
    return [
        abs(one.error)
        for one in findings
        if one.error is not None
        and one.expected != 0
        and one.unit  # else it sums up others
        and one.verdict in (Verdict.PASS, Verdict.MISS)
    ]


def sources(findings: Sequence[Finding]) -> str:
    """Where the numbers of these lines come from, each once; lines of one file together."""
    lines: dict[str, list[int]] = {}
    for source in dict.fromkeys(one.source for one in findings if one.source):
        match = _LINE.search(source)
        own = lines.setdefault(_LINE.sub("", source), [])
        own += [int(match[1])] if match else []
    return "; ".join(
        f"{source}, line{'s' * (len(own) > 1)} {_ranges(own)})" if own else source
        for source, own in lines.items()
    )


_LINE: Final = re.compile(r", line (\d+)\)$")


def _ranges(numbers: Sequence[int]) -> str:
    """So: 2 to 5, 9."""
    runs: list[list[int]] = []
    for one in sorted(numbers):
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
