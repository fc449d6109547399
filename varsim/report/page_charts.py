"""The charts of a page as the data that its script draws (see templates/chart.js)."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from varsim.report.told import Chart

# How to read a chart, by its name or else its mark.
_ABOUT: Final = {
    "loss": "Means over the replications, bands their 95 % intervals. A rising curve means that "
    "the learning rate is too large there.",
    "crossover": "Means over the replications, bands their 95 % intervals; a ring: two modes take "
    "the same time.",
    "lines": "Means over the replications, bands their 95 % intervals; rings their best.",
    "points": "Click a point to open its row.",
}
_FRONT: Final = " The line joins the points that beat everything cheaper."
_FLAGS: Final = ("front", "hollow", "ring")  # of points
_NO_AXES: Final = (*_FLAGS, "x", "mean", "text")  # columns of points


class Drawn(NamedTuple):
    """A chart as the page shows it; `content`: the data of its script."""

    name: str
    heading: str
    about: str
    content: dict[str, Any]


def drawn(charts: Sequence[Chart], colors: Mapping[str, str]) -> list[Drawn]:
    """The charts of a page in their order; `colors`: of what is compared, by name."""
    views: dict[str, list[Chart]] = {}
    for one in charts:
        views.setdefault(one.name, []).append(one)
    return [_chart(one, colors) for one in views.values()]


def identity(name: str) -> str:
    """A name as that of an element."""
    return re.sub(r"\W+", "-", name)


def capital(heading: str) -> str:
    """A heading begins with a capital."""
    return heading[:1].upper() + heading[1:]


def _chart(views: Sequence[Chart], colors: Mapping[str, str]) -> Drawn:
    first, name = views[0], identity(views[0].name)
    about = _ABOUT.get(first.name, _ABOUT[first.mark])
    if first.mark == "points":
        front = any(first.data["front"])
        heading = f"{capital(_axis(first.y)['head'])} against {_axis(first.x)['head']}"
        return Drawn(name, heading, about + _FRONT * front, _points(first, colors))
    heads = {one.y for one in views}
    heading = _axis(first.y if len(heads) == 1 else first.x)["head"]
    if len(heads) > 1:
        heading = f"along {heading}"
    return Drawn(name, capital(heading), about, _lines(views, colors))


def _lines(views: Sequence[Chart], colors: Mapping[str, str]) -> dict[str, Any]:
    """Lines of strategies: what chart.js draws."""
    names = list(dict.fromkeys(name for one in views for name in one.data[one.by]))
    axes = [
        {
            "x": _axis(one.x),
            "y": _axis(one.y),
            # A loss that grows beyond all bounds would leave nothing to see of the others.
            "clip": one.name == "loss",
            "target": one.target,
        }
        for one in views
    ]
    series = [
        {"name": name, "color": colors[name], "views": [_series(one, name) for one in views]}
        for name in names
    ]
    return {"mark": "lines", "views": axes, "series": series}


def _series(chart: Chart, name: str) -> dict[str, Any]:
    rows = [at for at, own in enumerate(chart.data[chart.by]) if own == name]
    picked = {
        key: [_plain(chart.data[key][at]) for at in rows] for key in ("x", "mean", "low", "high")
    }
    known = all(value is not None for value in picked["low"])
    if not known or picked["low"] == picked["high"]:
        picked = {"x": picked["x"], "mean": picked["mean"]}
    ring = [bool(chart.data["ring"][at]) for at in rows] if "ring" in chart.data else []
    return picked | ({"ring": ring} if any(ring) else {})


def _points(chart: Chart, colors: Mapping[str, str]) -> dict[str, Any]:
    """Rows as points: what chart.js draws, with the table that they open."""
    names = list(dict.fromkeys(chart.data[chart.by]))
    heads = [head for head in chart.data if head not in (chart.by, *_NO_AXES)]
    return {
        "mark": "points",
        "x": heads.index(chart.x),
        "y": heads.index(chart.y),
        "axes": [
            _axis(head) | {"values": [_plain(value) for value in chart.data[head]]}
            for head in heads
        ],
        "names": names,
        "colors": [colors.get(name, "var(--faint)") for name in names],
        "series": [names.index(name) for name in chart.data[chart.by]],
        **{name: [int(one) for one in chart.data[name]] for name in _FLAGS},
        "said": {"hollow": chart.hollow, "ring": chart.ring},
        "target": chart.target,
        "table": f"table-{identity(chart.name)}",
    }


def _axis(head: str) -> dict[str, str]:
    """What an axis is called, and the unit in brackets at its end."""
    found = re.fullmatch(r"(.*) \(([^()]+)\)", head)
    return {"head": found[1], "unit": found[2]} if found else {"head": head, "unit": ""}


def _plain(value: Any) -> Any:
    """A value as JSON has it, five digits of a number."""
    if isinstance(value, str) or value is None:
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
