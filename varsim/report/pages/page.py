"""What all report pages share: one HTML file each that needs nothing else."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from varsim.inert import visible
from varsim.scenario.loading import dump_scenario

if TYPE_CHECKING:
    from markupsafe import Markup

    from varsim.report.plots.figure import Drawn, Look
    from varsim.report.plots.plot import Plot
    from varsim.scenario.training import Scenario
    from varsim.scenario.variables import VariablesScenario

_PROVENANCE: Final = {
    "scenario_sha256": "SHA-256 of the scenario",
    "seed": "seed",
    "varsim": "varsim",
    "schema": "version of the scenario schema",
    "engine": "version of the engine's semantics",
}
# On a dark page: what the colours of the plots become.
_DARK: Final = {
    "1f2328": "e4e8ee",
    "59636e": "a0a9b5",
    "d9dee3": "343c46",
    "ffffff": "14181d",
    "964a8b": "c583ba",
    "7a21dd": "a77bff",
    "832db6": "b878e4",
    "bd1f01": "e4573c",
    "a96b59": "c48a79",
    "717581": "959aa6",
}


class Row(NamedTuple):
    """What it is called, what that means (or nothing), and a text for every strategy."""

    name: str
    meaning: str
    cells: list[str]


class Table(NamedTuple):
    """Text in rows, a column per strategy."""

    caption: str
    rows: list[Row]


class Section(NamedTuple):
    """One figure of the page."""

    name: str
    heading: str
    title: str
    caption: str
    svg: "Markup"
    table: Table | None

    @classmethod
    def of(cls, plot: "Plot[Any]", drawn: "Drawn", table: Table | None = None) -> Self:
        """The section of a plot that has been drawn."""
        svg = inlined(drawn, plot.name)
        return cls(plot.name, plot.heading, drawn.title, plot.caption, svg, table)


def rendered(template: str, content: Mapping[str, Any], folder: Path | None = None) -> str:
    """A page as HTML, from one of the templates, or from one in a folder that uses them."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [Path(__file__).parent.parent / "templates", *([folder] if folder else [])]
    environment = Environment(  # escapes whatever is put into the page
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    return environment.get_template(template).render(content)


def common(
    scenario: "Scenario | VariablesScenario",
    provenance: Mapping[str, str | int],
    looks: "Mapping[str, Look]",
) -> dict[str, Any]:
    """What every page says; `looks`: of what is compared, the columns of its tables."""
    return {
        "name": scenario.name,
        "strategies": list(looks),
        "colors": {
            label: f"var(--c{look.color[1:]},{look.color})" for label, look in looks.items()
        },
        "dark_colors": _DARK,
        "scenario": dump_scenario(scenario),
        "provenance": provenance,
        "provenance_names": _PROVENANCE,
    }


def inlined(drawn: "Drawn", name: str) -> "Markup":
    """A figure as part of a page: without its title, with ids of its own and the page's colours."""
    from markupsafe import Markup, escape

    svg = drawn.svg[drawn.svg.index("<svg ") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(
        r' id="([^"]*)"',
        lambda found: f' id="{name}-{found[1]}"' if found[1] in referred else "",
        svg,
    )
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'((?:fill|stroke)(?:: |="))#([0-9a-f]{6})', r"\1var(--c\2,#\2)", svg)
    svg = re.sub(r"\n\s*", " ", svg)
    box = " ".join(f"{value:g}" for value in drawn.below_title)
    start = f'<svg role="img" aria-label="{escape(drawn.title)}" viewBox="{box}">'
    return Markup(start + svg[svg.index(">") + 1 :])


def dark_colors() -> Mapping[str, str]:
    """On a dark page: what the colours of the plots become."""
    return _DARK


def _shown(value: object) -> object:
    """What is put into a page, before it is escaped: nothing in a text acts unseen."""
    return visible(value) if type(value) is str else value


def _unbroken(text: str) -> str:
    """A number stays on the line of its interval and its unit; an interval stays whole."""
    held = r" (?=[±%])|(?<=±) |(?<=\d) (?=to \d|[mun]?s\b)|(?<=\d to) "
    return re.sub(held, "\N{NO-BREAK SPACE}", text)
