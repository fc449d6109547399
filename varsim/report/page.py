"""A report as a page: one HTML file that needs nothing else, and its figures beside it."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from varsim.inert import visible
from varsim.report.files.directory import Kind
from varsim.report.report import Block, Figure, Media, Report, Table, Text

if TYPE_CHECKING:
    from markupsafe import Markup

    from varsim.report.plots.figure import Drawn

# What the page of each kind is called.
PAGES: Final[dict[Kind, str]] = {
    "training": "report.html",
    "variables": "report.html",
    "sweep": "report.html",
    "plan": "report.html",
    "why": "why.html",
}
_LONG: Final = 16  # characters of a word that may be parted
PROVENANCE: Final = {
    "scenario_sha256": "SHA-256 of the scenario",
    "seed": "seed",
    "varsim": "varsim",
    "schema": "version of the scenario schema",
    "engine": "version of the engine's semantics",
    "needs": "needed besides varsim",
    "result_sha256": "SHA-256 of what was simulated",
}


class Part(NamedTuple):
    """One part of the page: what stands under one heading, or a figure."""

    name: str
    heading: str
    blocks: list[Block]
    figure: "Picture | None" = None


class Picture(NamedTuple):
    """A figure as a page shows it."""

    title: str
    caption: str
    svg: "Markup"
    table: Table | None
    played: "Markup | None" = None  # the data of its player, as JSON


def write(report: Report, directory: Path, beside: Path | None = None) -> None:
    """Draw all figures of a report into an existing directory, and write its page if it has one.

    `beside`: where files of the report are, too.
    """
    drawn = {}
    if report.figures:
        from varsim.report.plots.plot import draw_all

        drawn = draw_all([(one.plot, one.subject) for one in report.figures], directory)
    if report.kind not in PAGES:
        return
    places = (directory, beside or directory)
    files = {
        name: about
        for name, about in report.files.items()
        if any((place / name).exists() for place in places)
    }
    text = page(report, drawn, files)
    (directory / PAGES[report.kind]).write_text(text, encoding="utf-8", newline="\n")


def page(report: Report, drawn: "Mapping[str, Drawn]", files: Mapping[str, str]) -> str:
    """The report as HTML; figures as drawn, by name; `files` lie beside the page."""
    content = {
        "report": report,
        "parts": list(_parts(report, drawn)),
        "scripts": scripts(),
        **_colors(report.alternatives),
        "provenance_names": PROVENANCE,
        "files": files,
    }
    return rendered("page.html.j2", content)


def _colors(families: Mapping[str, str]) -> dict[str, Any]:
    """The colours of its alternatives, and what they become on a dark page."""
    from varsim.report.charts.looks import DARK, PHASES, looks

    look = looks(families)
    colors = {title: f"var(--c{one.color[1:]},{one.color})" for title, one in look.items()}
    return {"colors": colors, "dark_colors": DARK, "phases": PHASES}


def _parts(report: Report, drawn: "Mapping[str, Drawn]") -> Iterator[Part]:
    """The blocks by the headings that they stand under."""
    part = None
    for block in report.on(Media.PAGE):
        if isinstance(block, Figure):
            yield from filter(None, [part])
            part, plot = None, block.plot
            found = drawn[plot.name]
            picture = Picture(
                found.title,
                plot.reads(block.subject),
                inlined(found, plot.name),
                block.table,
                block.played and json_text(block.played(block.subject)),
            )
            yield Part(plot.name, plot.heading, [], picture)
        elif isinstance(block, Text) and block.sort == "heading":
            yield from filter(None, [part])
            part = Part(block.name, " ".join(block.lines), [])
        else:
            assert part is not None, "a page begins with a heading or a figure"
            part.blocks.append(block)
    yield from filter(None, [part])


def rendered(
    template: str,
    content: Mapping[str, Any],
    folder: Path | None = None,
    filters: Mapping[str, Callable[..., Any]] = {},
) -> str:
    """A page as HTML, from one of the templates, or from one in a folder that uses them."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [Path(__file__).parent / "templates", *([folder] if folder else [])]
    environment = Environment(  # escapes whatever is put into the page
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"unbroken": _unbroken, "coded": _coded, "parted": _parted, **filters}
    return _sealed(environment.get_template(template).render(content))


def _sealed(page: str) -> str:
    """A page whose policy admits its own style and script, each by its hash, and no others."""

    def own(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes = (b64encode(sha256(one.encode()).digest()).decode() for one in found)
        return " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"

    return page.replace("SCRIPTS", own("script"), 1).replace("STYLES", own("style"), 1)


def scripts() -> dict[str, "Markup"]:
    """The scripts of pages, without indentation and lines of comment."""
    from markupsafe import Markup

    found = Path(__file__).parent.glob("templates/*.js")
    bare = re.compile(r"^\s*(?://.*)?\n|^ +", re.MULTILINE)
    return {path.stem: Markup(bare.sub("", path.read_text(encoding="utf-8"))) for path in found}


def json_text(content: object) -> "Markup":
    """Data within a page: nothing in it can end its element."""
    from markupsafe import Markup

    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def inlined(drawn: "Drawn", name: str) -> "Markup":
    """A figure as part of a page, on its ground and in its colours: no title, ids of its own."""
    from markupsafe import Markup, escape

    from varsim.report.plots.figure import FONTS

    svg = drawn.svg[drawn.svg.index("<svg ") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="patch_1">.*?</g>', "", svg, count=1, flags=re.DOTALL)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(
        r' id="([^"]*)"',
        lambda found: f' id="{name}-{found[1]}"' if found[1] in referred else "",
        svg,
    )
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(f"; {FONTS}", "")
    svg = re.sub(r' style="([^"]*)"', _attributes, svg)
    svg = re.sub(r'((?:fill|stroke)=")#([0-9a-f]{6})', r"\1var(--c\2,#\2)", svg)
    svg = re.sub(r"\n\s*", " ", svg)
    box = " ".join(f"{value:g}" for value in drawn.below_title)
    start = f'<svg role="img" aria-label="{escape(drawn.title)}" viewBox="{box}">'
    return Markup(start + svg[svg.index(">") + 1 :])


def _attributes(style: re.Match[str]) -> str:
    """Attributes in place of a style, which the page's policy does not admit."""
    pairs = (one.split(": ") for one in style[1].split("; "))
    return "".join(f' {name}="{value}"' for name, value in pairs)


def _shown(value: object) -> object:
    """What is put into a page, before it is escaped: nothing in a text acts unseen."""
    return visible(value) if type(value) is str else value


def _unbroken(text: str) -> str:
    """A number stays on the line of its interval and its unit; an interval stays whole."""
    held = r" (?=[±%])|(?<=±) |(?<=\d) (?=to \d|[mun]?s\b|[A-Z]{3}\b)|(?<=\d to) "
    return re.sub(held, "\N{NO-BREAK SPACE}", text)


def _parted(name: str) -> "Markup":
    """A name whose long words may go on in another line after an underscore."""
    from markupsafe import Markup, escape

    return Markup(" ").join(
        Markup("_<wbr>" if len(word) > _LONG else "_").join(map(escape, word.split("_")))
        for word in name.split(" ")
    )


def _coded(text: str) -> "Markup":
    """Names in backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))
