"""What a class needs: `python docs/slides.py` writes files that load nothing into `slides`.

Slides of every lesson (or of those that are named), the hand-out to print, and the page with
sliders that it leads to.

A cell whose `slide_type` is `slide` begins a slide; `skip` leaves it out, as are cells that are
hidden or removed. Of code, slides show scenarios and what has at most three lines and draws
nothing; of the rest what it prints and draws. What comes of a scenario is on the next slide: a
class predicts before it sees.
"""

import re
import subprocess
import sys
from html import escape
from pathlib import Path

import zmq
from docutils.utils.math.latex2mathml import tex2mathml
from jupyter_client.manager import KernelManager
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from myst_nb.core.read import read_myst_markdown_notebook
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

HERE = Path(__file__).parent
ROOT = HERE.parent
TARGET = ROOT / "slides"
SHORT = 3  # lines of code
WIDE = 72  # characters of what is printed, that fit in large letters
COLOURS = HtmlFormatter(style="tango", nowrap=True)


def _formula(tex: str, settings: dict[str, bool]) -> str:
    """A formula as MathML."""
    return tex2mathml(tex, as_block=settings["display_mode"])


MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
MARKDOWN.use(dollarmath_plugin, renderer=_formula, double_inline=True)


def main(arguments: list[str]) -> None:
    """Write the slides of the lessons named, or all that a class needs."""
    explore = TARGET / "explore" / "straggler.html"
    explore.parent.mkdir(parents=True, exist_ok=True)
    for path in map(Path, arguments or sorted((HERE / "lessons").glob("*.md"))):
        _write(f"{path.stem}.html", page(executed(path)))
    if not arguments:
        _write("handout.html", handout())
        command = ["-m", "varsim", "explore", str(HERE / "explore" / "straggler.yaml"), "--bet"]
        subprocess.run([sys.executable, *command, "-q", "--out", str(explore)], check=True)


def _write(name: str, text: str) -> None:
    """Write a file, and say where it is."""
    place = TARGET / name
    place.write_text(text, encoding="utf-8")
    print(place)


def handout() -> str:
    """One page A4 for everybody in a class."""
    text = (HERE / "handout.md").read_text(encoding="utf-8")
    return _filled("handout", title="Hand-out", text=MARKDOWN.render(text))


def executed(path: Path) -> NotebookNode:
    """A lesson with what its cells print and draw."""
    notebook = read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=path)
    sharp = new_code_cell("%config InlineBackend.figure_formats = ['retina']")
    sharp.metadata["tags"] = ["remove-cell"]
    notebook.cells.insert(0, sharp)
    # Else the kernel warns that others on the machine could listen to it.
    KernelManager.transport_encryption.default_value = "auto" if zmq.has("curve") else "disabled"
    folder = {"metadata": {"path": ROOT}}
    NotebookClient(notebook, resources=folder, coalesce_streams=True).execute()
    return notebook


def page(notebook: NotebookNode) -> str:
    """One file that has everything in it, for 1280 x 720, scaled to any window."""
    title = escape(notebook.cells[1].source.splitlines()[0].lstrip("# "))
    shown = "\n".join(map(_section, slides(notebook)))
    return _filled("page", title=title, colours=COLOURS.get_style_defs(".code"), slides=shown)


def _filled(template: str, **parts: str) -> str:
    """A file of `docs/slides` with these parts."""
    text = (HERE / "slides" / f"{template}.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _section(shown: str) -> str:
    """One slide; links lead to other lessons, or nowhere."""
    kind = ' class="asks"' if "<strong>Question." in shown else ""
    shown = re.sub(r'href="(\d_\w+)\.md"', r'href="\1.html"', shown)
    shown = re.sub(r'<a href="[^"]*\.md[^"]*">(.*?)</a>', r"\1", shown)
    return f"<section{kind}>\n{shown}\n</section>"


def slides(notebook: NotebookNode) -> list[str]:
    """The HTML of each slide."""
    found: list[list[str]] = [[]]
    predict = False  # what is printed next is not to be seen yet
    for cell in notebook.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        hidden = bool({"hide-cell", "remove-cell"} & set(cell.metadata.get("tags", ())))
        if hidden or kind == "slide":
            found.append([])
        if hidden or kind == "skip":
            continue
        if cell.cell_type == "markdown":
            found[-1].append(MARKDOWN.render(cell.source))
            continue
        scenario = '"""' in cell.source
        drawn = any({"image/png", "text/html"} & set(one.get("data", ())) for one in cell.outputs)
        if scenario or (len(cell.source.splitlines()) <= SHORT and not drawn):
            code = highlight(cell.source, PythonLexer(), COLOURS)
            found[-1].append(f'<pre class="code">{code}</pre>')
        predict |= scenario
        if predict and cell.outputs:
            found.append([])
            predict = False
        found[-1] += map(_output, cell.outputs)
    return ["\n".join(one) for one in found if one]


def _output(output: NotebookNode) -> str:
    """What a cell printed or drew, as HTML."""
    if output.output_type == "stream":
        large = max(map(len, output.text.splitlines())) <= WIDE
        return f'<pre class="{"large" if large else "printed"}">{escape(output.text)}</pre>'
    data = output.data
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        return f'<div class="shown">{data["text/html"]}</div>'
    return f"<pre>{escape(data['text/plain'])}</pre>"


if __name__ == "__main__":
    main(sys.argv[1:])
