"""How strategies and activities are told apart: colours, markers, dashes, hatches.

A hue belongs to a family of strategies, wherever it is drawn: those of Petroff, "Accessible Color
Sequences for Data Visualization" (2021), arXiv 2107.02270, matplotlib's style petroff6, which the
colour-blind tell apart. Variants within a family are lighter or darker, by steps of 0.07 or more in
the lightness of OKLab, and have dashes of their own. Colour never stands alone: strategies differ
by marker too, activities by hatch. A page without figures needs them, too, so that nothing here
draws.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

Line: TypeAlias = str | tuple[float, tuple[float, ...]]

# Of each family: its hue, then variants of it.
SHADES: Final = {
    "all-reduce": ("#5790fc", "#2b5dbe", "#9bbefe", "#043594", "#3f76e0", "#001e61"),
    "copies": ("#f89c20", "#b46d00", "#7a4800", "#fec489", "#d78405", "#553101"),
    "asynchronous": ("#e42536", "#9b0c1e", "#fe7f7a", "#65010e", "#c20224", "#ff464d"),
    "synchronous": ("#964a8b", "#bc7cb1", "#67225e", "#e3a1d8", "#7f3575", "#490042"),
    "alone": ("#9c9ca1", "#6e6e73", "#47474b", "#c3c4c8", "#848489", "#2b2b2f"),
    "neighbours": ("#7a21dd", "#9c69f4", "#460686", "#bea1ff", "#6001b5", "#2b0058"),
}
# Two of them as lengths of dashes and of the gaps after them, in widths of the line.
DASHES: Final[tuple[Line, ...]] = (
    *("-", "--", "-.", ":"),
    (0, (6.4, 1.6, 1, 1.6, 1, 1.6)),
    (0, (9, 2)),
)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
# What colours become on a dark page: these, and those of text, lines, paper and activities.
DARK: Final = {
    "#1f2328": "#e4e8ee",
    "#59636e": "#a0a9b5",
    "#d9dee3": "#343c46",
    "#ffffff": "#14181d",
    "#2b5dbe": "#4778d7",
    "#9bbefe": "#a8c7fe",
    "#043594": "#cfe0ff",
    "#3f76e0": "#3060bc",
    "#001e61": "#80acfe",
    "#b46d00": "#b87002",
    "#7a4800": "#ffe2c6",
    "#fec489": "#ffbf7d",
    "#d78405": "#d78618",
    "#553101": "#985c02",
    "#9b0c1e": "#feb1ac",
    "#fe7f7a": "#fe8681",
    "#65010e": "#fed8d4",
    "#c20224": "#bf1227",
    "#ff464d": "#f95557",
    "#964a8b": "#a23c95",
    "#bc7cb1": "#c77fbb",
    "#67225e": "#fedbf7",
    "#e3a1d8": "#e197d5",
    "#7f3575": "#ad67a2",
    "#490042": "#fcb1ef",
    "#47474b": "#e8e8f7",
    "#c3c4c8": "#cecddc",
    "#848489": "#848488",
    "#2b2b2f": "#b5b5ba",
    "#7a21dd": "#d6c7ff",
    "#9c69f4": "#995bfa",
    "#460686": "#813fde",
    "#bea1ff": "#c0a5ff",
    "#6001b5": "#ac82ff",
    "#2b0058": "#ede7fe",
    "#832db6": "#b878e4",
    "#bd1f01": "#e4573c",
    "#a96b59": "#c48a79",
    "#717581": "#959aa6",
    "#b7d5f2": "#2b4e70",
}


class Look(NamedTuple):
    """How one strategy or activity is told apart; `mark` is a marker or a hatch."""

    color: str
    mark: str
    line: Line = "-"


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
