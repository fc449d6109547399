"""One line of a validation: what was expected, what varsim got, and whether that is good enough."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Verdict(StrEnum):
    """How a line ended."""

    PASS = "pass"
    MISS = "miss"
    CALIBRATED = "calibrated on"  # the line was used to fit; it proves nothing
    REPORTED = "no bound"  # nothing was promised beforehand
    OUT_OF_SCOPE = "out of scope"  # describes nothing that varsim simulates or computes
    NOT_RUN = "not run"  # not known, or outside the range of what is compared


@dataclass(frozen=True, slots=True)
class Finding:
    """What was expected of one point, and what came out.

    `group`: its family or experiment. `half_width`: of the 99 % interval of `got`; None where
    nothing is random. `bound`: what decided between pass and miss, in words, known beforehand.
    `why`: what explains a miss, or why it was not run.
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

    @property
    def error(self) -> float | None:
        """(got - expected) / expected; None where nothing was got, the difference at 0."""
        if self.got is None:
            return None
        return (self.got - self.expected) / (abs(self.expected) or 1.0)


# Which lines of a validation are meant by a pattern.


def matches(only: str | None, *names: str) -> bool:
    """Whether one of the names fits: as a file name would, or, without wildcards, contains it."""
    if only is None:
        return True
    pattern = only if any(letter in only for letter in "*?[") else f"*{only}*"
    return any(fnmatchcase(name, pattern) for name in names)


# That a point is not run, and why.


class NotRunError(Exception):
    """A point that describes something that varsim does not simulate, or not yet."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(why)
        self.verdict = verdict
        self.why = why
