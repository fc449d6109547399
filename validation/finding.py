"""A line of a validation: what was expected, what came out, whether that is good enough; sections.

A section is a part of the validation: what was held against it beforehand, and its lines.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from statistics import median
from typing import Final, NamedTuple, Self


class Verdict(StrEnum):
    """How a line ended."""

    PASS = "pass"
    MISS = "miss"
    CALIBRATED = "calibrated on"  # the line was used to fit; it proves nothing
    REPORTED = "no bound"  # nothing was promised beforehand
    OUT_OF_SCOPE = "out of scope"  # describes nothing that varsim simulates or computes
    NOT_RUN = "not run"  # not known, or outside the range of what is compared


# Verdicts of lines in which nothing was simulated, and of those that have a bound.
LEFT_OUT: Final = (Verdict.OUT_OF_SCOPE, Verdict.NOT_RUN)
JUDGED: Final = (Verdict.PASS, Verdict.MISS)


class NotRunError(Exception):
    """A point that describes something that varsim does not simulate, or not yet."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(why)
        self.verdict = verdict
        self.why = why


@dataclass(frozen=True, slots=True)
class Finding:
    """What was expected of one point, and what came out.

    `group`: its family or experiment. `half_width`: of the 99 % interval of `got`; None where
    nothing is random. `bound`: what decided between pass and miss, in words, known beforehand.
    `why`: what explains a miss, or why it was not run. `may_miss`: whether one in a hundred such
    lines misses by chance.
    """

    group: str
    name: str
    quantity: str
    unit: str
    expected: float
    got: float | None = None
    half_width: float | None = None
    bound: str = ""
    verdict: Verdict = Verdict.NOT_RUN
    source: str = ""
    why: str = ""
    may_miss: bool = False

    def held(self, passed: bool, bound: str, why: str = "") -> Self:
        """The same, judged by a bound; `why` explains a miss."""
        verdict, why = (Verdict.PASS, "") if passed else (Verdict.MISS, why)
        return replace(self, bound=bound, verdict=verdict, why=why)

    def within(self, most: float, why: str = "") -> Self:
        """The same, judged by its error, which is to be at most this share of what is expected."""
        return self.held(abs(self.error or 0.0) <= most, f"within {most:.0%}", why)

    def at_most(self, most: float, why: str = "") -> Self:
        """The same, judged by what came out, a share."""
        return self.held((self.got or 0.0) <= most, f"at most {most:.0%}", why)

    @property
    def error(self) -> float | None:
        """(got - expected) / expected; None where nothing was got, the difference at 0."""
        if self.got is None:
            return None
        return (self.got - self.expected) / (abs(self.expected) or 1.0)

    @property
    def compares(self) -> bool:
        """Whether it is judged, and no sum of others, which have no unit."""
        return self.verdict in JUDGED and bool(self.unit)


def matches(only: str | None, *names: str) -> bool:
    """Whether one of the names fits: as a file name would, or, without wildcards, contains it."""
    if only is None:
        return True
    pattern = only if any(letter in only for letter in "*?[") else f"*{only}*"
    return any(fnmatchcase(name, pattern) for name in names)


# Of lines that may miss by chance so many must pass.
ENOUGH: Final = 0.98
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
    findings: Sequence[Finding] = ()
    scaled: bool = True
    link: str = ""
    lead: str = ""

    def groups(self) -> Mapping[str, list[Finding]]:
        """The lines of each family or experiment, in their order."""
        found: dict[str, list[Finding]] = {}
        for one in self.findings:
            found.setdefault(one.group, []).append(one)
        return found

    def count(self, *verdicts: Verdict) -> int:
        """How many lines ended so."""
        return count(self.findings, *verdicts)

    def sentence(self) -> str:
        """What came out, in a sentence or two."""
        lead = f"{self.lead} " if self.lead else ""
        reported = self.count(Verdict.REPORTED)
        if reported == len(self.findings):
            return f"{lead}All {reported} lines are reported without a bound."
        said = f"{lead}{self.count(Verdict.PASS)} of {self.count(*JUDGED)} lines keep their bound."
        errors = [abs(one.error or 0.0) for one in self.findings if one.compares and one.expected]
        if self.scaled and errors:
            said += (
                f" Median error {100 * median(errors):.2g} %, largest {100 * max(errors):.3g} %."
            )
        if reported:
            said += f" {reported} are reported without a bound."
        if left := self.count(*LEFT_OUT):
            said += f" {left} were not run, for reasons given below."
        return said

    def missed(self) -> list[Finding]:
        """Lines whose bound is missed."""
        return missed(self.findings)

    def broken(self) -> list[Finding]:
        """Misses that are no chance: all but those of random lines, unless these are too many."""
        excused = self._excused()
        return [one for one in self.missed() if one not in excused]

    def by_chance(self) -> str:
        """That some misses do not count as such; empty where there are none."""
        if not (excused := self._excused()):
            return ""
        random = sum(one.may_miss for one in self.findings)
        return (
            f"{len(excused)} of {random:,} random lines outside their 99 % interval: at most "
            f"{1 - ENOUGH:.0%} may be, by chance, so that this alone is no failure"
        )

    def _excused(self) -> list[Finding]:
        """Misses of random lines, where they are so few that chance explains them."""
        random = [one for one in self.findings if one.may_miss]
        outside = missed(random)
        return outside if len(outside) <= (1 - ENOUGH) * len(random) else []

    def left_out(self) -> dict[tuple[Verdict, str, str], list[Finding]]:
        """What was not run, by verdict, group and reason."""
        found: dict[tuple[Verdict, str, str], list[Finding]] = {}
        for one in self.findings:
            if one.verdict in LEFT_OUT:
                found.setdefault((one.verdict, one.group, one.why), []).append(one)
        return found


def count(findings: Iterable[Finding], *verdicts: Verdict) -> int:
    """How many lines ended so."""
    return sum(one.verdict in verdicts for one in findings)


def missed(findings: Iterable[Finding]) -> list[Finding]:
    """Lines whose bound is missed."""
    return [one for one in findings if one.verdict is Verdict.MISS]


def number(value: float | None) -> str:
    """A number with six digits; nothing where there is none."""
    return "" if value is None else f"{value:.6g}"


def error_of(one: Finding) -> str:
    """In percent, of the number expected; where that is 0, the number itself."""
    if one.error is None:
        return ""
    if one.expected == 0:
        return f"{one.error:+.3g}"
    if abs(one.error) < 5e-13:
        return "0"
    return f"{100 * one.error:+.2g} %" if abs(one.error) < 1e-4 else f"{100 * one.error:+.2f} %"


def half_of(one: Finding) -> str:
    """Half the 99 % interval."""
    return "" if one.half_width is None else f"± {one.half_width:.2g}"


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
