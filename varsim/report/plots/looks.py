"""How strategies and activities are told apart: colours, markers, dashes, hatches.

A hue belongs to a family of strategies, wherever it is drawn: those of Petroff, "Accessible Color
Sequences for Data Visualization" (2021), arXiv 2107.02270, matplotlib's style petroff6, which the
colour-blind tell apart. Variants within a family are lighter or darker, by steps of 0.1 or more in
the lightness of OKLab, and have dashes of their own. Colour never stands alone: strategies differ
by marker too, activities by hatch. A page without figures needs them, too, so that nothing here
draws.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

# Of each family: its hue, then variants of it.
SHADES: Final = {
    "all-reduce": ("#5790fc", "#2b5dbe", "#9bbefe", "#043594"),
    "copies": ("#f89c20", "#b46d00", "#7a4800", "#fec489"),
    "asynchronous": ("#e42536", "#9b0c1e", "#fe7f7a", "#65010e"),
    "synchronous": ("#964a8b", "#bc7cb1", "#67225e", "#e3a1d8"),
    "alone": ("#9c9ca1", "#6e6e73", "#47474b", "#c3c4c8"),
    "neighbours": ("#7a21dd", "#9c69f4", "#460686", "#bea1ff"),
}
DASHES: Final = ("-", "--", "-.", ":")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
# What colours become on a dark page: these, and those of text, lines, paper and activities.
DARK: Final = {
    "#1f2328": "#e4e8ee",
    "#59636e": "#a0a9b5",
    "#d9dee3": "#343c46",
    "#ffffff": "#14181d",
    "#2b5dbe": "#436fc1",
    "#043594": "#cfe0ff",
    "#7a4800": "#ffebd7",
    "#9b0c1e": "#ffbab4",
    "#65010e": "#ffe9e6",
    "#964a8b": "#a23c95",
    "#67225e": "#ffc6f4",
    "#47474b": "#eeeef1",
    "#7a21dd": "#d6c7ff",
    "#460686": "#7f56c9",
    "#832db6": "#b878e4",
    "#bd1f01": "#e4573c",
    "#a96b59": "#c48a79",
    "#717581": "#959aa6",
}


class Look(NamedTuple):
    """How one strategy or activity is told apart; `mark` is a marker or a hatch."""

    color: str
    mark: str
    line: str = "-"


def looks(families: Mapping[str, str]) -> dict[str, Look]:
    """How every strategy looks, by its family: the hue of that, and the next of its variants.

    Of an unknown family it is like a variant of the one that none before it has.
    """
    found: dict[str, Look] = {}
    used: list[str] = []
    for index, (label, family) in enumerate(families.items()):
        own = family if family in SHADES else min(SHADES, key=used.count)
        variant = used.count(own)
        used.append(own)
        found[label] = Look(
            SHADES[own][variant % len(SHADES[own])],
            MARKERS[index % len(MARKERS)],
            DASHES[(variant + variant // len(SHADES[own])) % len(DASHES)],
        )
    return found
