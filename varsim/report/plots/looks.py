"""How strategies and activities are told apart: colours, markers, hatches.

Colours: Petroff, "Accessible Color Sequences for Data Visualization" (2021), arXiv 2107.02270;
the lists are matplotlib's styles petroff6 and petroff10, written out because 3.9 lacks the first.
Colour never stands alone: strategies differ by marker too, activities by hatch. A page without
figures needs them, too, so that nothing here draws.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

PETROFF6: Final = ("#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd")
PETROFF10: Final = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")


class Look(NamedTuple):
    """How one strategy or activity is told apart; `mark` is a marker or a hatch."""

    color: str
    mark: str


def looks(strategies: Sequence[str]) -> dict[str, Look]:
    """A colour and a marker for every strategy, by its place in the scenario."""
    colors = PETROFF6 if len(strategies) <= len(PETROFF6) else PETROFF10
    return {
        strategy: Look(colors[index % len(colors)], MARKERS[index % len(MARKERS)])
        for index, strategy in enumerate(strategies)
    }
