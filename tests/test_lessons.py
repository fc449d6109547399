"""The lessons have their parts, are slides, and run; what they tell they assert themselves.

All of them run where the site is built: `test_documentation_site.py`.
"""

import re
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="needs the extra 'docs'")
pytest.importorskip("nbclient", reason="needs nbclient")
pytest.importorskip("nbconvert", reason="needs nbconvert")

from myst_nb.core.read import read_myst_markdown_notebook
from nbclient import NotebookClient
from nbconvert import SlidesExporter
from nbformat import NotebookNode
from traitlets.config import PyFileConfigLoader

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("*.md"))
PARTS = ["**Question.**", "prediction", "## Run it", "## Look at it", "## Theory in three lines"]


def notebook(path: Path) -> NotebookNode:
    """A lesson as Jupyter gets it."""
    return read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=path)


def test_there_are_six() -> None:
    assert [path.name[0] for path in LESSONS] == list("123456")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_has_its_parts_in_order(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    at = [text.index(part) for part in [*PARTS, "## Exercises"]]
    assert at == sorted(at)
    exercises = re.findall(r"^\*\*\d\.\*\* ", text[at[-1] :], re.M)
    assert len(exercises) == text.count("<summary>Solution</summary>") == 3
    cells = notebook(path).cells
    *_, last = cells
    assert last.metadata["tags"] == ["remove-cell"]
    assert "assert " in last.source


def test_the_first_runs() -> None:
    NotebookClient(notebook(LESSONS[0]), resources={"metadata": {"path": ROOT}}).execute()


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_is_slides(path: Path) -> None:
    body, _ = SlidesExporter().from_notebook_node(notebook(path))
    assert body.count("<section>") > 10


@pytest.mark.parametrize("beside", [True, False])
def test_slides_load_nothing_from_elsewhere_if_what_they_need_is_beside_them(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if beside:
        (tmp_path / "slides" / "node_modules").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    config = PyFileConfigLoader("slides.py", ROOT / "docs").load_config()
    body, _ = SlidesExporter(config=config).from_notebook_node(notebook(LESSONS[0]))
    loaded = re.findall(r'(?:src|href)="([^"#]+)"|"([^"]+/(?:reveal|notes)\.js)"|(import .*)', body)
    remote = [one for found in loaded for one in found if "http" in one]
    assert bool(remote) is not beside, remote
    assert "assert " not in body, "the last cell is for tests"
