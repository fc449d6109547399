"""The lessons have their parts and run; what they tell they assert themselves.

All of them run as slides here, and where the site is built: `test_documentation_site.py`.
"""

import re
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("myst_nb", reason="needs the extra 'docs'")
pytest.importorskip("nbclient", reason="needs nbclient")

from myst_nb.core.read import read_myst_markdown_notebook
from nbclient import NotebookClient
from nbformat import NotebookNode

import varsim
from tests.browsing import chromium

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("*.md"))
PARTS = ["**Question.**", "prediction", "## Run it", "## Look at it", "## Theory in three lines"]
# What does not fit on the slide that is shown, its solution unfolded.
CUT = """() => {
    const slide = document.querySelector("section.now"), cut = [];
    for (const one of slide.querySelectorAll("details")) one.open = true;
    for (const one of [slide, ...slide.querySelectorAll("pre, p, li, table, img, iframe")]) {
        const {right, bottom} = one.getBoundingClientRect();
        if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline"
            || right > 1280 || bottom > 720) cut.push(one.outerHTML.slice(0, 80));
    }
    if (slide.scrollHeight > slide.clientHeight) cut.push(`${slide.scrollHeight} px high`);
    return cut;
}"""


def notebook(path: Path) -> NotebookNode:
    """A lesson as Jupyter gets it."""
    return read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=path)


def slides() -> ModuleType:
    """`docs/slides.py`."""
    spec = spec_from_file_location("slides", ROOT / "docs" / "slides.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_there_are_six() -> None:
    assert [path.name[0] for path in LESSONS] == list("123456")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_has_its_parts_in_order(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    at = [text.index(part) for part in [*PARTS, "## Exercises"]]
    assert at == sorted(at)
    exercises = re.findall(r"^\*\*\d\.\*\* ", text[at[-1] :], re.M)
    assert len(exercises) == text.count("<summary>Solution</summary>") == 3
    before_it_runs = text[at[2] : text.index("```{code-cell}", at[2])]
    assert len(before_it_runs.split()) < 50
    *cells, last = notebook(path).cells
    assert last.metadata["tags"] == ["remove-cell"]
    assert "assert " in last.source
    for cell in cells:
        if cell.cell_type == "code":
            assert "assert" not in cell.source, "a student would take it for a part of the exercise"
            assert max(map(len, cell.source.splitlines())) <= 88, "wider than the page"


def test_the_first_runs() -> None:
    NotebookClient(notebook(LESSONS[0]), resources={"metadata": {"path": ROOT}}).execute()


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_slides_fit_on_the_screen_and_load_nothing(
    path: Path, browser: Any, tmp_path: Path
) -> None:
    module = slides()
    executed = module.executed(path)
    file = tmp_path / "slides.html"
    file.write_text(module.page(executed), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    asked, heard = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.context.set_offline(True)
    page.goto(file.as_uri())
    number = page.locator("section").count()
    for at in range(number):
        assert page.evaluate(CUT) == [], f"slide {at + 1} of {path.stem}"
        for picture in page.locator("section.now > img").all():
            assert picture.bounding_box()["height"] > 350, f"slide {at + 1} of {path.stem}"
        text = page.locator("section.now").inner_text()
        assert "None" not in text
        if "Question." in text:
            question = at
        if "you: " in text or "you ?" in text:
            answer = at
        page.keyboard.press("ArrowRight")
    assert page.locator("nav").inner_text() == f"{number} / {number}"
    assert number > 10
    assert question < answer, "the answer stands on a slide of its own, after the question"
    assert heard == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
    page.close()


def test_the_hand_out_is_one_page_to_print(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "handout.html"
    file.write_text(slides().handout(), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    assert page.locator("tr").count() == 7
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
    assert re.findall(rb"/MediaBox \[0 0 59[45][\d.]* 84[12][\d.]*\]", printed), "A4"
    page.close()


@pytest.mark.slow
@pytest.mark.product
def test_what_the_hand_out_asks_is_answered_as_the_teacher_is_told() -> None:
    found = varsim.sweep(ROOT / "docs" / "explore" / "straggler.yaml").frame()
    factor, waits = found.columns[:2]
    sync = found[found.strategy == "sync_replicas"].set_index([factor, waits]).examples_per_s
    gained = {slow: sync[slow, 5] / sync[slow, 6] for slow in (1, 1.5, 2, 3, 4)}
    assert gained[1] < 0.95
    assert abs(gained[1.5] - 1) < 0.03, "even"
    assert min(gained[2], gained[3], gained[4]) > 1.05
    stale = found[found.strategy == "none"].staleness_mean
    assert max(abs(stale - 5)) < 0.05


@pytest.mark.slow
@pytest.mark.product
def test_the_quiz_has_ten_answers_that_its_runs_give() -> None:
    path = ROOT / "docs" / "quiz.md"
    quiz = notebook(path)
    assert path.read_text(encoding="utf-8").count("<summary>Answer</summary>") == 10
    assert sum("hide-cell" in cell.metadata.get("tags", ()) for cell in quiz.cells) == 11
    NotebookClient(quiz, resources={"metadata": {"path": ROOT}}).execute()
