"""The page of a small report: its table and charts, by pointer and by keys, in a real browser."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.markers import MarkerStyle
from typer.testing import CliRunner

from tests.browsing import chromium
from tests.pages import ROOT
from tests.seams import app
from varsim.report import explore, page
from varsim.report.charts.looks import MARKERS
from varsim.report.products.figures import along, scatter
from varsim.report.told import Column, Note, Number, Report, Table
from varsim.report.told import Reproduction as Source

PLACES = ("4", "8", "16")
EVERY = Table(
    ("a", "a", "b"),
    (
        Column("workers", "workers", PLACES),
        Column("bandwidth", "bandwidth", ("10 Gbit/s", "100 Mbit/s", "1 Gbit/s")),
        Column("speed", "examples/s", (Number(1040, 25), Number(90.5, 1.5), "-"), bar=True),
        Column(
            "time", "time", (Number(1.2, unit="s"), Number(0.3, unit="s"), Number(120, unit="s"))
        ),
    ),
    corner="all points",
)
LINES = Table(
    PLACES,
    (
        Column(
            "speed a", "a", (Number(10, 1), Number(20, 1, verdict="best"), Number(15, 1)), bar=True
        ),
        Column(
            "speed b", "b", (Number(5, 1), Number(10, 1), Number(40, 1, verdict="best")), bar=True
        ),
        Column("wasted a", "a: wasted", tuple(Number(one, unit="share") for one in (0, 0.1, 0.2))),
    ),
    corner="examples/s by workers",
)


def told(name: str = "small", **more: Any) -> Report:
    every = scatter(EVERY, "workers", "speed", front=[0, 1], hollow=[1], best=[0], target=500)
    assert every is not None
    lines = along(LINES, {"speed": "examples/s", "wasted": "wasted (share)"}, {"a": "a", "b": "b"})
    return Report(
        "sweep",
        name,
        (Note("nothing"),),
        LINES,
        (Note("exact"), Note("marks")),
        charts=(*lines, every),
        details=(EVERY,),
        source=Source("seed: 7\n", "varsim run"),
        provenance={"varsim": "1"},
        families={"a": "asynchronous", "b": "synchronous"},
        **more,
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    page.write(told(), folder)
    return folder / "report.html"


def directions(corners: Iterable[Any]) -> list[float]:
    """In which directions the corners of a mark lie, in degrees."""
    return sorted((math.degrees(math.atan2(y, x)) + 1) % 360 for x, y in corners)


def test_scripts_of_a_page_stay_small() -> None:
    size = {name: len(script.encode()) for name, script in page.scripts().items()}
    assert set(size) == {"shared", "player", "chart", "explore"}
    assert sum(size.values()) - size["explore"] <= 40_000
    assert sum(size.values()) - size["chart"] <= 40_000


def test_a_page_to_explore_that_is_too_large_to_be_sent_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore, "MOST_BYTES", 10_000)
    out = tmp_path / "page.html"
    command = ["explore", "tests/small.yaml", "--vary", "seed=1,2", "--out", str(out)]
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app.app, command)
    assert (done.exit_code, "MB, more than 0.01: take" in done.stderr) == (2, True), done.stderr
    assert not out.exists()


def test_it_loads_nothing_and_admits_its_own_scripts_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == text.count("<script>") + text.count("<style>")
    assert ' style="' not in text


def test_bars_of_one_metric_have_one_scale(path: Path) -> None:
    body = path.read_text(encoding="utf-8").partition("<tbody>")[2].partition("</tbody>")[0]
    widths = [one.partition('"')[0] for one in body.split('<i class="w')[1:]]
    assert widths == ["25", "12", "50", "25", "38", "100"], "of 40 examples/s"


def test_a_caption_speaks_of_bands_only_where_there_are_some(path: Path, tmp_path: Path) -> None:
    exact = Column("speed a", "a", (Number(10), Number(20), Number(15)))
    charts = along(Table(PLACES, (exact,), corner="by workers"), {"speed": "speed"}, {"a": "a"})
    page.write(replace(told(), charts=tuple(charts)), tmp_path)
    assert "bands" in path.read_text(encoding="utf-8")
    assert "bands" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_without_a_script_a_page_names_the_picture_of_its_timeline_if_there_is_one(
    tmp_path: Path,
) -> None:
    for there in (None, "timeline.svg"):
        if there is not None:
            (tmp_path / there).touch()
        page.write(told(played=dict), tmp_path)
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert ("beside this page shows its first steps" in text) == (there is not None)
        assert (f"{there} beside" in text) == (there is not None)


def test_a_name_is_text_and_no_markup(tmp_path: Path) -> None:
    page.write(told("<b>\u202e</b>"), tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in text
    assert "<b>\\u202e" not in text
    assert "\u202e" not in text


@pytest.fixture
def shown(path: Path) -> Iterator[Any]:
    """The page in Chromium; its console and errors must stay empty."""
    said: list[str] = []
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 420, "height": 900})
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.goto(path.as_uri())
        yield shown
    assert said == []


def texts(found: Any) -> list[str]:
    return [text.strip().replace("\u00a0", " ") for text in found.all_inner_texts()]


@pytest.mark.slow
@pytest.mark.product
class TestInABrowser:
    def test_a_click_sorts_rows_by_what_numbers_are_worth(self, shown: Any) -> None:
        table = shown.locator("table.main")
        table.get_by_role("button", name="a").first.click()
        assert texts(table.locator("tbody th")) == ["8", "16", "4"]
        table.get_by_role("button", name="a").first.press("Enter")
        assert texts(table.locator("tbody th")) == ["4", "16", "8"]
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"

    def test_it_is_whole_on_a_phone(self, shown: Any) -> None:
        wide = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide == [420, 420]

    def test_lines_tell_their_values_by_keys_and_ring_their_best(self, shown: Any) -> None:
        chart = shown.locator("#chart-along")
        assert chart.locator(".ring").count() == 2
        picture = chart.locator("svg").first
        picture.focus()
        for _ in range(2):
            shown.keyboard.press("ArrowRight")
        assert picture.get_attribute("aria-label") == "workers 8, a: 20, b: 10"
        assert texts(shown.locator(".tip p")) == ["workers 8", "a: 20", "b: 10"]
        chart.get_by_role("button", name="wasted").click()
        assert chart.locator("text").all_text_contents()[-2] == "wasted (%)"
        assert chart.locator(".ring").count() == 0
        chart.get_by_role("button", name="examples/s").click()

    def test_a_point_has_the_mark_of_its_strategy_in_the_pictures(self, tmp_path: Path) -> None:
        names = tuple(f"s{index}" for index in range(len(MARKERS)))
        places = tuple(map(str, range(len(names))))
        table = Table(
            names, (Column("x", "across", places), Column("y", "up", places)), corner="rows"
        )
        chart = scatter(table, "x", "y")
        assert chart is not None
        families = dict.fromkeys(names, "asynchronous")
        page.write(Report("sweep", "marks", (Note("nothing"),), table, (), charts=(chart,),
                          families=families, provenance={"varsim": "1"}), tmp_path)  # fmt: skip
        with chromium() as browser:
            shown = browser.new_page()
            shown.goto((tmp_path / "report.html").as_uri())
            points = shown.locator(".chart [role=button]")
            drawn = points.evaluate_all("all => all.map((one) => one.getAttribute('d'))")
        for path, marker in zip(drawn, MARKERS, strict=True):
            corners = [tuple(map(float, one.split(","))) for one in path[1:-1].split("L")]
            own = MarkerStyle(marker)
            there = own.get_transform().transform(np.asarray(own.get_path().vertices)[:-1])
            if marker == "o":
                assert len(corners) == 24
            else:
                assert directions((x, -y) for x, y in corners) == pytest.approx(
                    directions(there), abs=16
                ), marker

    def test_rows_are_points_on_axes_of_ones_choice_and_open_their_row(self, shown: Any) -> None:
        chart = shown.locator("#chart-all-points")
        points = chart.locator("[role=button]")
        assert points.count() == 2, "one row has no rate"
        assert chart.locator(".front").count() == 1
        assert chart.locator(".ring").count() == 1
        paper = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        fills = points.evaluate_all("all => all.map((one) => getComputedStyle(one).fill)")
        assert [fill == paper for fill in fills].count(True) == 1, "what misses a target is hollow"
        chart.locator("select").nth(1).select_option(label="time")
        assert points.count() == 3
        chart.locator("select").first.select_option(label="bandwidth")
        labels = chart.locator("text").all_text_contents()
        assert labels[:3] == ["0.1", "1", "10"], "the values themselves"
        assert "bandwidth (Gbit/s, logarithmic)" in labels
        assert chart.locator(".front").count() == 0, "a front of other axes"
        points.nth(1).click()
        assert shown.locator("tr.chosen").inner_text().split("\t")[1] == "8"
        points.first.focus()
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("Enter")
        assert shown.locator("tr.chosen").inner_text().split("\t")[1] == "16"
