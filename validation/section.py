"""A part of the validation: what was held against it beforehand, and its lines."""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from validation.finding import Finding, Verdict
from validation.points.findings import ENOUGH, is_random

# Verdicts of lines in which nothing was simulated, and of those that have a bound.
LEFT_OUT: Final = (Verdict.OUT_OF_SCOPE, Verdict.NOT_RUN)
JUDGED: Final = (Verdict.PASS, Verdict.MISS)
_TINY: Final = 5e-13
_LINE: Final = re.compile(r", line (\d+)\)$")


class Section(NamedTuple):
    """`key` names its files; `bound` was written before anything was run; `about`: how it is made.

    `scaled`: whether the sizes of its errors say something. `link`: a page with more. `lead`: what
    is said first of what came out.
    """

    key: str
    title: str
    about: str
    bound: str
    findings: Sequence[Finding]
    scaled: bool = True
    link: str = ""
    lead: str = ""

    def groups(self) -> Mapping[str, list[Finding]]:
        """The lines of each family or experiment, in their order."""
        found: dict[str, list[Finding]] = {}
        for one in self.findings:
            found.setdefault(one.group, []).append(one)
        return found

    def sentence(self) -> str:
        """What came out, in a sentence or two."""
        lead = f"{self.lead} " if self.lead else ""
        reported = count(self.findings, Verdict.REPORTED)
        if reported == len(self.findings):
            return f"{lead}All {reported} lines are reported without a bound."
        kept, judged = count(self.findings, Verdict.PASS), count(self.findings, *JUDGED)
        said = f"{lead}{kept} of {judged} lines keep their bound."
        if self.scaled and (errors := _sizes(self.findings)):
            said += (
                f" Median error {100 * median(errors):.2g} %, largest {100 * max(errors):.3g} %."
            )
        if reported:
            said += f" {reported} are reported without a bound."
        if left := count(self.findings, *LEFT_OUT):
            said += f" {left} were not run, for reasons given below."
        return said


def count(findings: Iterable[Finding], *verdicts: Verdict) -> int:
    """How many lines ended so."""
    return sum(one.verdict in verdicts for one in findings)


def missed(findings: Iterable[Finding]) -> list[Finding]:
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


def left_out(findings: Iterable[Finding]) -> dict[tuple[Verdict, str, str], list[Finding]]:
    """What was not run, by verdict, group and reason."""
    found: dict[tuple[Verdict, str, str], list[Finding]] = {}
    for one in findings:
        if one.verdict in LEFT_OUT:
            found.setdefault((one.verdict, one.group, one.why), []).append(one)
    return found


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


def _sizes(findings: Iterable[Finding]) -> list[float]:
    """Relative errors without their signs, of lines that are judged and compare two numbers."""
    return [
        abs(one.error)
        for one in findings
        if one.error is not None and compares(one) and one.expected != 0
    ]


def compares(one: Finding) -> bool:
    """Whether a line is judged, and no sum of others, which have no unit."""
    return one.verdict in JUDGED and bool(one.unit)


def sources(findings: Iterable[Finding]) -> str:
    """Where the numbers of these lines come from, each once; lines of one file together."""
    lines: dict[str, list[int]] = {}
    for source in dict.fromkeys(one.source for one in findings if one.source):
        match = _LINE.search(source)
        own = lines.setdefault(_LINE.sub("", source), [])
        own += [int(match[1])] if match else []
    return "; ".join(
        f"{source}, line{'s' * (len(own) > 1)} {_runs(own)})" if own else source
        for source, own in lines.items()
    )


def _runs(numbers: Iterable[int]) -> str:
    """So: 2 to 5, 9."""
    runs: list[list[int]] = []
    for one in sorted(numbers):
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
