"""The table of what other simulators print, and what it takes to agree with it."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

# Where the numbers are random: as far from what is expected as this, and the interval covers it.
RANDOM = 0.005


class Got(NamedTuple):
    """What varsim gets; `half_width` of the 99 % interval where it is random."""

    value: float
    half_width: float | None = None


# (name, quantity) -> what varsim gets.
Measured: TypeAlias = Mapping[tuple[str, str], Got]


@dataclass(frozen=True, slots=True)
class Row:
    """One number as it was printed: `text` holds all digits shown."""

    group: str
    name: str
    quantity: str
    unit: str
    text: str
    rule: str  # exact, digits or random
    source: str

    @property
    def expected(self) -> float:
        """The number."""
        return float(self.text)

    @property
    def bound(self) -> str:
        """What it takes to agree, in words."""
        return {
            "exact": "exact",
            "digits": "all digits shown",
            "random": f"inside the 99 % interval, of at most {100 * RANDOM:g} % each way",
        }[self.rule]

    def keeps(self, got: float, half_width: float | None) -> bool:
        """Whether that is good enough."""
        if self.rule == "exact":
            return got == self.expected
        if self.rule == "digits":
            decimals = len(self.text.partition(".")[2])
            return f"{got:.{decimals}f}" == self.text
        assert half_width is not None
        close = abs(got - self.expected) <= half_width
        return close and half_width <= RANDOM * self.expected


def rows() -> list[Row]:
    """All of them, in order."""
    path = Path(__file__).parents[1] / "data" / "references" / "peer_checks.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        Row(
            one["group"],
            one["name"],
            one["quantity"],
            one["unit"],
            one["expected"],
            one["rule"],
            one["source"],
        )
        for one in csv.DictReader(lines)
    ]
