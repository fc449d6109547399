"""The rows of one mode as the lines of a table, in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from varsim.report.explain.look import Look
from varsim.report.explain.numbers import UNITS, side_by_side
from varsim.report.explain.words import sent, sentence, who
from varsim.study.program.rows import Row

_MOST_DECIMALS: Final = 3
# The end of a heading over several steps.
OVERLAP: Final = "which overlap"


class Line(NamedTuple):
    """One row of the table, cell by cell; `heading` alone stands over the rows of a step."""

    heading: str = ""
    when: str = ""
    who: str = ""
    what: str = ""
    sent: str = ""
    copies: tuple[str, ...] = ()


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
    """The table of these rows, which are in the order of their ends."""
    scale = Scale.of([time for row in rows for time in (row.begin, row.end)])
    lines, before = [], dict[str, list[str]]()
    for heading, some, apart in _sections(rows):
        lines.append(Line(heading=heading))
        for row in some:
            step = f"(step {row.step}) " if apart else ""
            held = _held(row, there, replicas)
            same = len(held) > 1 and held == before.get(row.variable)
            before[row.variable] = held
            lines.append(
                Line(
                    when=scale.span(row.begin, row.end),
                    who=who(row, replicas),
                    what=f"{step}{sentence(row, there)}",
                    sent=sent(row),
                    copies=("unchanged",) if same else tuple(held),
                )
            )
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
            yield f"steps {first} {between} {last}, {OVERLAP}", some, True
