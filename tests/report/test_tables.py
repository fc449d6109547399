"""Tables of a page that one works with: sorted, asked what they say, drawn as points."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.markers import MarkerStyle

from tests.browsing import chromium
from varsim.report import page
from varsim.report.charts.looks import MARKERS
from varsim.report.report import Media, Report, Row, Source, Table, Text

ROWS = [
    (label, {"workers": workers, "bandwidth": speed, "examples/s": rate, "time": time})
    for label, workers, speed, rate, time in (
        ("a", "4", "10 Gbit/s", "1,040 ± 25", "1.2 s"),
        ("a", "8", "100 Mbit/s", "90.5 ± 1.5", "300 ms"),
        ("b", "16", "1 Gbit/s", "-", "2 min"),
    )
]
TABLE = Table.of(
    ROWS,
    "strategy",
    caption="Every row",
    meanings={"examples/s": "how fast it is"},
    axes=("workers", "examples/s"),
    front=(0, 1),
    hollow=(1,),
    on=Media.PAGE,
)
SIDEWAYS = Table(
    ("a", "b"),
    (Row("loss", ("0.5 ± 0.1", "0.25"), "how wrong it is"), Row("speed", ("900 us", "1 ms"))),
    caption="Compared",
    on=Media.PAGE,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    told = Report(
        "sweep",
        "small",
        ("The answer.",),
        (),
        (
            Text(("Rows",), "heading", name="rows", on=Media.PAGE),
            TABLE,
            Text(("Compared",), "heading", name="compared", on=Media.PAGE),
            SIDEWAYS,
        ),
        {"varsim": "1"},
        alternatives={"a": "asynchronous", "b": "synchronous"},
        source=Source("seed: 7\n", "It is `here`.", "Run it:", "varsim run"),
    )
    page.write(told, folder)
    return folder / "report.html"


def directions(corners: Iterable[Any]) -> list[float]:
    """In which directions the corners of a mark lie, in degrees."""
    return sorted((math.degrees(math.atan2(y, x)) + 1) % 360 for x, y in corners)


def test_scripts_of_a_page_stay_small() -> None:
    size = {name: len(script.encode()) for name, script in page.scripts().items()}
    assert set(size) == {"shared", "player", "tables", "points", "sorting", "chart"}
    assert sum(size[name] for name in ("shared", "sorting", "chart", "player")) <= 40_000


def test_without_scripts_they_are_plain_tables_that_say_what_they_mean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert '<th scope="col" title="how fast it is">examples/s</th>' in text
    assert text.count("<tr data-front") == 2
    assert text.count('data-missed="1"') == 1
    assert "<button" not in text.partition("<script>")[0]


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


def column(table: Any, place: int) -> list[str]:
    return texts(table.locator(f"tbody td:nth-child({place + 2})"))


@pytest.mark.slow
@pytest.mark.product
class TestInABrowser:
    def test_a_click_sorts_rows_by_what_numbers_are_worth(self, shown: Any) -> None:
        table = shown.locator("table").first
        table.get_by_role("button", name="time").click()
        assert column(table, 3) == ["2 min", "1.2 s", "300 ms"]
        table.get_by_role("button", name="time").press("Enter")
        assert column(table, 3) == ["300 ms", "1.2 s", "2 min"]
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
        table.get_by_role("button", name="bandwidth").click()
        assert column(table, 0) == ["4", "16", "8"]
        table.get_by_role("button", name="examples/s").click()
        assert column(table, 2) == ["1,040 ± 25", "90.5 ± 1.5", "-"], "what is missing comes last"

    def test_alternatives_in_columns_are_sorted_by_a_row(self, shown: Any) -> None:
        table = shown.locator("table").nth(1)
        table.get_by_role("button", name="speed").click()
        assert texts(table.locator("thead th")) == ["b", "a"]
        assert texts(table.locator("tbody td")) == ["0.25", "0.5 ± 0.1", "1 ms", "900 us"]

    def test_a_number_tells_its_meaning_and_interval(self, shown: Any) -> None:
        shown.locator("table").first.locator("tbody td").nth(2).hover()
        assert texts(shown.locator(".tip p")) == [
            "a · examples/s: 1,040 ± 25",
            "how fast it is",
            "95 % confidence interval: 1,015 to 1,065",
        ]
        shown.locator("table").nth(1).locator("tbody td").first.focus()
        shown.keyboard.press("ArrowRight")
        assert shown.locator(".tip").inner_text().startswith("loss · b: 0.25")
        shown.keyboard.press("ArrowLeft")
        assert "0.4 to 0.6" in shown.locator(".tip").inner_text()
        shown.keyboard.press("Escape")
        assert not shown.locator(".tip").is_visible()

    def test_a_point_has_the_mark_of_its_strategy_in_the_pictures(self, tmp_path: Path) -> None:
        names = [f"s{index}" for index in range(len(MARKERS))]
        # The table begins with the last strategy.
        rows = [(name, {"x": str(at), "y": "1"}) for at, name in enumerate(reversed(names))]
        table = Table.of(rows, "strategy", caption="Rows", axes=("x", "y"), on=Media.PAGE)
        told = Report(
            "sweep",
            "marks",
            (),
            (),
            (Text(("Rows",), "heading", name="rows", on=Media.PAGE), table),
            {"varsim": "1"},
            alternatives=dict.fromkeys(names, "asynchronous"),
            source=Source("", "", "", ""),
        )
        page.write(told, tmp_path)
        with chromium() as browser:
            shown = browser.new_page()
            shown.goto((tmp_path / "report.html").as_uri())
            points = shown.locator(".points [role=button]")
            drawn = points.evaluate_all("all => all.map((one) => one.getAttribute('d'))")
        for path, marker in zip(reversed(drawn), MARKERS, strict=True):
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
        points = shown.locator(".points [role=button]")
        assert points.count() == 2, "one row has no rate"
        assert shown.locator(".points .front").count() == 1
        paper = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        fills = points.evaluate_all("all => all.map((one) => getComputedStyle(one).fill)")
        assert [fill == paper for fill in fills].count(True) == 1, "what misses a target is hollow"
        shown.locator(".points select").nth(1).select_option(label="time")
        assert points.count() == 3
        shown.locator(".points select").first.select_option(label="bandwidth")
        labels = shown.locator(".points text").all_text_contents()
        assert labels[:4] == ["0.1", "0.2", "0.5", "1"], "logarithmic"
        assert "bandwidth (Gbit/s, logarithmic)" in labels
        assert shown.locator(".points .front").count() == 0, "a front of other axes"
        points.nth(1).click()
        assert shown.locator("tr.chosen").inner_text().split("\t")[1] == "8"
        points.first.focus()
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("Enter")
        assert shown.locator("tr.chosen").inner_text().split("\t")[1] == "16"
