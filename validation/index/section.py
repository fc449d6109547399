"""A part of the validation: what was held against it beforehand, and its lines."""

from collections.abc import Sequence
from typing import NamedTuple

from validation.finding import Finding, Verdict
from validation.points.findings import ENOUGH, is_random

# Verdicts of lines in which nothing was simulated.
LEFT_OUT = (Verdict.OUT_OF_SCOPE, Verdict.NOT_RUN)


class Section(NamedTuple):
    """`key` names its files; `bound` was written before anything was run; `about`: how it is made.

    `scaled`: whether a plot of predicted against expected says something. `link`: a page with more.
    `lead`: what is said first of what came out.
    """

    key: str
    title: str
    about: str
    bound: str
    findings: Sequence[Finding]
    scaled: bool = True
    link: str = ""
    lead: str = ""


class Group(NamedTuple):
    """A family or experiment in numbers."""

    name: str
    lines: int
    passed: int
    missed: int
    calibrated: int
    left_out: int
    worst: Finding | None
    bound: str
    why: str


def groups(section: Section) -> list[Group]:
    """All groups of a section, in their order."""
    by_name: dict[str, list[Finding]] = {}
    for one in section.findings:
        by_name.setdefault(one.group, []).append(one)
    return [_group(name, lines) for name, lines in by_name.items()]


def missed(findings: Sequence[Finding]) -> list[Finding]:
    """Lines whose bound is missed."""
    return [one for one in findings if one.verdict is Verdict.MISS]


def broken(section: Section) -> list[Finding]:
    """Misses that are no chance: all but those of random lines, unless these are too many."""
    random = [one for one in section.findings if is_random(one)]
    by_chance = [one for one in random if one.verdict is Verdict.MISS]
    excused = len(by_chance) <= (1 - ENOUGH) * len(random)
    return [one for one in missed(section.findings) if not (excused and one in by_chance)]


def _group(name: str, lines: list[Finding]) -> Group:
    count = {verdict: sum(one.verdict is verdict for one in lines) for verdict in Verdict}
    judged = [one for one in lines if one.verdict in (Verdict.PASS, Verdict.MISS)]
    left_out = [one for one in lines if one.verdict in LEFT_OUT]
    worst = max(judged, key=lambda one: abs(one.error or 0.0), default=None)
    bounds = dict.fromkeys(one.bound for one in judged)
    reasons = dict.fromkeys(one.why for one in left_out)
    return Group(
        name,
        len(lines),
        count[Verdict.PASS],
        count[Verdict.MISS],
        count[Verdict.CALIBRATED],
        len(left_out),
        worst,
        "; ".join(bounds),
        "; ".join(reasons),
    )
