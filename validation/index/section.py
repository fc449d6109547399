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
    excused = _excused(section)
    return [one for one in missed(section.findings) if one not in excused]


def by_chance(section: Section) -> str:
    """That some misses do not count as such; empty where there are none."""
    if not (excused := _excused(section)):
        return ""
    random = sum(map(is_random, section.findings))
    return (
        f"{len(excused)} of {random:,} random lines outside their 99 % interval: at most "
        f"{1 - ENOUGH:.0%} may be, by chance, so that this alone is no failure"
    )


def _excused(section: Section) -> list[Finding]:
    """Misses of random lines, where they are so few that chance explains them."""
    random = [one for one in section.findings if is_random(one)]
    outside = missed(random)
    return outside if len(outside) <= (1 - ENOUGH) * len(random) else []


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
