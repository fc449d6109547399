"""The documentation as a site: built without a warning, no link is dead, no network is needed."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.browsing import chromium

ROOT = Path(__file__).parent.parent
TO_BUILD = 400  # seconds, at most; the limit of a test is for the test alone

pytestmark = pytest.mark.timeout(func_only=True)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, one for all processes; a warning of Sphinx (a dead link, say) is a failure.

    The lessons are executed, and what they assert is one.
    """
    own = tmp_path_factory.getbasetemp()
    out = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "site"
    said = out / "said"  # is there when it has been built
    try:
        out.mkdir()
    except FileExistsError:  # another process builds it
        until = time.monotonic() + TO_BUILD
        while not said.exists() and time.monotonic() < until:
            time.sleep(0.1)
    else:
        built(out)
    assert said.read_text(encoding="utf-8") == ""
    return out / "html"


def built(out: Path) -> None:
    """Build the site, and leave what was said of a failure, or nothing."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(out / "trees")]
    command += [str(ROOT / "docs"), str(out / "html")]
    failure = "it was interrupted"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TO_BUILD)
        failure = f"exit status {done.returncode}\n{done.stderr}" if done.returncode else ""
    finally:
        (out / "part").write_text(failure, encoding="utf-8")
        (out / "part").replace(out / "said")


@pytest.mark.slow
@pytest.mark.product
def test_every_page_is_reached_from_the_first(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert name == "index.html" or f'href="{name}"' in first, name


@pytest.mark.slow
@pytest.mark.product
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["'](?:https?:)?//[^"']*"""
    )
    for page in site.rglob("*.html"):
        assert not loaded.findall(page.read_text(encoding="utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text()), style


@pytest.mark.slow
@pytest.mark.product
def test_lessons_come_with_their_pictures_and_formulas(site: Path) -> None:
    for lesson in (ROOT / "docs" / "lessons").glob("*.md"):
        page = (site / "lessons" / f"{lesson.stem}.html").read_text(encoding="utf-8")
        assert page.count('src="../_images/') >= 1, lesson
        assert page.count("<math") == page.count("</math>") > 2, lesson
        assert "simulated" in "".join(re.findall('class="output .*?</div>', page, re.S)), lesson


FOUND = {
    "DDP": "scenario/all_reduce",
    "FSDP": "scenario/all_reduce",
    "Horovod": "scenario/all_reduce",
    "NCCL": "scenario/network",
    "slow node": "recipes",
    "carbon": "concepts/limits",
    "install": "start",
}


@pytest.mark.slow
@pytest.mark.product
def test_what_people_know_is_found_where_it_is_explained(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page()
        for query, name in FOUND.items():
            page.goto(f"{(site / 'search.html').as_uri()}?q={query}")
            page.wait_for_selector("#search-results li a")
            first = page.locator("#search-results li a").first.get_attribute("href")
            assert first.partition(".html")[0] == name, query


def pages(site: Path) -> list[str]:
    """Pages that Sphinx made, as addresses."""
    own = {path.with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    names = [path.relative_to(ROOT / "docs") for path in own]
    return sorted((site / f"{name}.html").as_uri() for name in names)


@pytest.mark.slow
@pytest.mark.product
def test_blocks_fit_and_on_a_phone_all_that_is_said_is_seen(site: Path) -> None:
    """Of what scrolls inside there is only code and tables, and these on narrow screens alone."""
    cut = """wanted => [...document.querySelectorAll(wanted)]
        .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1)
        .map(one => one.innerText)"""
    prose = ".sentences pre, .highlight-console pre, .highlight-sh pre"
    with chromium() as browser:
        for width, wanted in ((1400, "pre"), (420, prose)):
            page = browser.new_page(viewport={"width": width, "height": 900})
            for address in pages(site):
                page.goto(address)
                assert page.evaluate(cut, wanted) == [], (address, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, address


@pytest.mark.slow
@pytest.mark.product
def test_pictures_and_timelines_follow_the_page_into_the_dark(site: Path) -> None:
    light = "one => getComputedStyle(one).colorScheme + getComputedStyle(one).filter"
    within = "getComputedStyle(document.documentElement).colorScheme"
    with chromium() as browser:
        page = browser.new_page()
        for name, picture in (("lessons/1_one_straggler", ".cell_output img"), ("index", "img")):
            page.goto((site / f"{name}.html").as_uri())
            seen = {}
            for theme in ("light", "dark"):
                page.evaluate(f"document.body.dataset.theme = '{theme}'")
                seen[theme] = page.locator(picture).first.evaluate(light)
            assert seen["light"] != seen["dark"], name
        page.goto((site / "lessons/1_one_straggler.html").as_uri())
        frame = page.wait_for_selector("iframe").content_frame()
        for theme in ("light", "dark"):
            page.evaluate(f"document.body.dataset.theme = '{theme}'")
            frame.wait_for_function(f"{within} === '{theme}'")


@pytest.mark.slow
@pytest.mark.product
def test_a_search_in_a_file_finds_pages_and_asks_for_nothing(site: Path) -> None:
    with chromium() as browser:
        page, heard = browser.new_page(), []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.fill("input[name=q]", "staleness")
        page.press("input[name=q]", "Enter")
        page.wait_for_function("document.querySelector('.search-summary')?.textContent")
        page.wait_for_selector("#search-results li a")
        found = page.locator("#search-results li a").all_inner_texts()
        assert "Glossary" in " ".join(found)
        assert heard == []


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (path.parent / target).exists(), target
    for file in re.findall(r"`((?:varsim|scenarios|tests|reports|validation)/[\w./]+)`", text):
        assert (ROOT / file).exists() or file.endswith("lazy_reader.py"), file
