"""How strategies and activities are told apart: colours, markers, dashes, hatches.

A hue belongs to a family of strategies: those of Petroff, "Accessible Color Sequences for Data
Visualization" (2021), arXiv 2107.02270, matplotlib's style petroff6, which the colour-blind tell
apart. A variant has the hue of a family that is not there: dots of one hue in several shades are
hard to tell apart. Where all are taken, it is lighter or darker than its family, by 0.15 or more in
the lightness of OKLab. A shade has a contrast of 3 or more to its page (hues 2.1 and 2.7 where they
are lightest). The first of a family has a solid line, all others have dashes. Colour never stands
alone: strategies differ by marker too, activities by hatch. A page without figures needs them, too,
so that nothing here draws.
"""

from collections.abc import Mapping
from itertools import cycle
from typing import Final, NamedTuple, TypeAlias

Line: TypeAlias = str | tuple[float, tuple[float, ...]]

# Of each family: its hue, then variants of it.
SHADES: Final = {
    "all-reduce": ("#5790fc", "#001d60", "#1145aa"),
    "copies": ("#f89c20", "#5a3400", "#965a01"),
    "asynchronous": ("#e42536", "#500008", "#9a021b"),
    "synchronous": ("#964a8b", "#4c0045", "#c979bd"),
    "alone": ("#9c9ca1", "#2c2c30", "#56565a"),
    "neighbours": ("#7a21dd", "#30005f", "#a36fff"),
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
    "#001d60": "#cfe0ff",
    "#1145aa": "#3262be",
    "#5a3400": "#985c02",
    "#965a01": "#ffe2c6",
    "#e42536": "#e92c3a",
    "#500008": "#ffdcd9",
    "#9a021b": "#ff8c87",
    "#964a8b": "#a23c95",
    "#4c0045": "#fedbf7",
    "#c979bd": "#e197d5",
    "#2c2c30": "#e8e8f7",
    "#56565a": "#6e6e73",
    "#7a21dd": "#d6c7ff",
    "#30005f": "#813fde",
    "#a36fff": "#ac82ff",
}


class Look(NamedTuple):
    """How a strategy is told apart; `mark`: a marker."""

    color: str
    mark: str
    line: Line = "-"


def looks(families: Mapping[str, str]) -> dict[str, Look]:
    """How every strategy looks: the hue of its family; a variant, one that no family here needs.

    Where none is left, the next shade of its own. Of an unknown family it is like a variant of the
    one that fewest have.
    """
    own = {label: family for label, family in families.items() if family in SHADES}
    for label in families:
        own.setdefault(label, min(SHADES, key=[*own.values()].count))
    free = [family for family in SHADES if family not in own.values()]
    found: dict[str, Look] = {}
    used: list[str] = []
    shades = {family: cycle(each) for family, each in SHADES.items()}
    for index, label in enumerate(families):
        family = own[label]
        variant = used.count(family)
        varied = len(used) - len(set(used))  # how many before it are no first of their family
        used.append(family)
        lent = free.pop(0) if variant and free else family
        found[label] = Look(
            next(shades[lent]),
            MARKERS[index % len(MARKERS)],
            DASHES[1 + varied % (len(DASHES) - 1) if variant else 0],
        )
    return found


class PartLook(NamedTuple):
    """An activity, or a part of a bar: its colour on a light and a dark page, hatch, name."""

    light: str
    dark: str
    hatch: str
    said: str


# What workers do: greys for computing, browns for the network, pale yellows for waiting; hues are
# for strategies alone.
PHASES: Final = {
    one.said: one
    for one in (
        PartLook("#3d4249", "#dde0d6", "", "compute"),
        PartLook("#dcc0a0", "#7d5f40", "///", "read"),
        PartLook("#8c5f36", "#a3754a", "\\\\\\", "write"),
        PartLook("#5e3c1c", "#ead3b4", "xxx", "queue"),
        PartLook("#efe2a0", "#756a2e", "|||", "barrier"),
        PartLook("#e2d27c", "#938743", "---", "token"),
        PartLook("#b0a34a", "#57501f", "+++", "lock"),
        PartLook("#dfe3e8", "#2f363f", "//||", "down"),
    )
}
# Computing of gradients that are never applied.
VAIN: Final = ("#c3c8cf", "#565e69")


# First those of the time of workers, then what the time of a step is lost to (see `explain`).
PARTS: Final = {
    "compute": PartLook(*PHASES["compute"][:2], "", "computing"),
    "vain": PartLook(*VAIN, "xx", "wasted computing"),
    "wait": PartLook(*PHASES["token"][:2], "---", "waiting for others"),
    "network": PartLook(*PHASES["write"][:2], "///", "network"),
    "down": PartLook(*PHASES["down"][:2], "//||", "not running"),
    "mean_compute": PartLook(*PHASES["compute"][:2], "", "mean compute"),
    "variance": PartLook(*VAIN, "...", "varying compute times"),
    "stragglers": PartLook(*PHASES["token"][:2], "xxx", "stragglers"),
    "latency": PartLook("#b7dcc4", "#3d6b52", "|||", "latency"),
    "bandwidth": PartLook(*PHASES["write"][:2], "\\\\\\", "bandwidth of links"),
    "uplinks": PartLook(*PHASES["queue"][:2], "xx", "uplinks of racks"),
    "slow_links": PartLook(*PHASES["read"][:2], "---", "slow links"),
    "overheads": PartLook("#4fae62", "#8fd0a0", "+++", "software overheads"),
    "server": PartLook("#2c6b57", "#1f8f74", "///", "servers (ports, handling)"),
    "deaths": PartLook(*PHASES["down"][:2], "//||", "deaths and restarts"),
    "rest": PartLook("#eef0f2", "#20262d", "", "all else"),
}
