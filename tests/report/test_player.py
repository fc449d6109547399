"""The timeline to walk through: its data against the trace, its script in a real browser."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import varsim
from tests.browsing import chromium
from varsim.report import page
from varsim.report.charts import timeline
from varsim.scenario.loading import load_scenario
from varsim.study.result import Result, simulate

SMALL = Path(__file__).parent.parent / "small.yaml"
OVERLAPPING = """\
name: overlapping
seed: 1
cluster:
  workers: 3
  compute: {kind: uniform, low: 80 ms, high: 120 ms}
  parameter_servers: 2
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload: {problem: {kind: timing}, model: resnet50, batch_size: 32}
strategies:
  - {kind: on_write, name: buckets, overlap: true}
  - {kind: none}
stop: {global_steps: 6}
"""
# Notes what is written on a canvas, and where.
WRITTEN = """
let written = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
  const { width } = this.measureText(text);
  const left = { left: 0, center: width / 2, right: width }[this.textAlign];
  written.push({ text: `${text}`, x: x - left, y, width });
  return write.call(this, text, x, y, ...more);
};
"""


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(load_scenario(SMALL))


@pytest.fixture(scope="module")
def report(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("player")
    page.write(result.report, folder)
    return folder / "report.html"


def test_spans_and_gradients_are_those_of_the_trace(result: Result) -> None:
    content = timeline.content(result)
    assert content["cut"] == ""
    for label, told in zip(result.strategies, content["strategies"], strict=True):
        trace = result.trace(label)
        spans = [
            [worker["rank"], *worker["spans"][i : i + 3]]
            for worker in told["workers"]
            for i in range(0, len(worker["spans"]), 3)
        ]
        assert spans == trace.spans[:, [0, 1, 3, 4]].tolist()
        assert told["updates"] == trace.steps.tolist()
        gradients = [dict(zip(content["gradient"], row, strict=True)) for row in told["gradients"]]
        assert [one["computed"] for one in gradients] == trace.gradients[:, 5].tolist()
        assert [one["ended"] for one in gradients] == trace.gradients[:, 7].tolist()


@pytest.fixture(scope="module")
def overlapping() -> Result:
    return varsim.run(OVERLAPPING)


def test_what_is_sent_while_a_worker_computes_has_a_lane(overlapping: Result) -> None:
    content = timeline.content(overlapping)
    buckets, servers = content["strategies"]
    for told, label in ((buckets, "buckets"), (servers, "none")):
        rows = [
            [worker["rank"], *worker["sends"][i : i + 4]]
            for worker in told["workers"]
            for i in range(0, len(worker["sends"]), 4)
        ]
        trace = overlapping.trace(label)
        assert rows == trace.send_rows.array().tolist()
        assert bool(rows) is (label == "buckets")
    assert buckets["said"]["write"] == "all-reducing gradients with all other workers"
    assert servers["said"]["write"] == "sending gradients to the 2 servers"


def test_the_key_explains_what_there_is_to_see(result: Result, overlapping: Result) -> None:
    assert len(timeline.content(result)["marks"]) == 1, "updates alone"
    assert timeline.content(overlapping)["marks"][1:] == ["thin bars: communication"]


def test_a_long_run_is_cut_and_says_so(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST", 20)
    content = timeline.content(result)
    begun = sum(
        len(worker["spans"]) // 3 for told in content["strategies"] for worker in told["workers"]
    )
    assert begun <= 20
    assert content["cut"].startswith(f"The page holds the first {content['end'] / 1e9:.4g} s of ")
    assert "--rows" in content["cut"]


def test_the_policy_admits_these_scripts_and_this_style_alone(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        own = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digests = [b64encode(sha256(one.encode()).digest()).decode() for one in own]
        admitted = " ".join(f"'sha256-{digest}'" for digest in digests)
        assert f"{directive} {admitted};" in policy
    assert "unsafe" not in policy
    assert ' style="' not in text


def test_a_name_cannot_end_the_data(result: Result, report: Path) -> None:
    (data,) = re.findall(r'id="player-data">(.*?)</script>', report.read_text(), re.DOTALL)
    assert "<" not in data
    told = json.loads(data)
    del told["open"]
    assert told == json.loads(json.dumps(timeline.content(result)))


@contextmanager
def opened(result: Result, folder: Path, width: int = 900, script: str = "") -> Iterator[Any]:
    """The page of a result in Chromium; its console and errors must stay empty."""
    page.write(result.report, folder)
    said: list[str] = []
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": width, "height": 900})
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.add_init_script(script)
        shown.goto((folder / "report.html").as_uri())
        yield shown
    assert said == []


@pytest.fixture
def shown(result: Result, tmp_path: Path) -> Iterator[Any]:
    with opened(result, tmp_path) as page_of_it:
        yield page_of_it


@pytest.mark.slow
@pytest.mark.product
class TestInABrowser:
    def test_keys_go_from_event_to_event(self, shown: Any, result: Result) -> None:
        story = shown.locator(".player-story")
        shown.locator("#player canvas").focus()
        assert story.inner_text().startswith("At 0 s:")
        shown.keyboard.press("ArrowRight")
        moments = [
            row[column]
            for told in timeline.content(result)["strategies"]
            for row in told["gradients"]
            for column in (4, 5, 6)  # begun, computed, arrived
        ]
        first = min(moment for moment in moments if moment > 0)
        assert story.inner_text().startswith(f"At {first / 1e3:.6g} us:")
        shown.keyboard.press("ArrowLeft")
        assert story.inner_text().startswith("At 0 s:")

    def test_the_story_says_who_does_what_and_who_is_waited_for(
        self, shown: Any, result: Result
    ) -> None:
        story = shown.locator(".player-story")
        shown.locator("#player canvas").focus()
        told = story.inner_text()
        while "until worker" not in told:
            shown.keyboard.press("ArrowRight")
            before, told = told, story.inner_text()
            assert told != before, "somebody waits for somebody before the end"
        assert re.search(
            r"Now .*workers? [\d, to]+: waiting for other workers, until worker \d", told
        )

    def test_a_click_tells_the_way_of_a_gradient(self, shown: Any) -> None:
        canvas = shown.locator("#player canvas")
        canvas.click(position={"x": 200, "y": 52})
        assert "Chosen in " in shown.locator(".player-story").inner_text()
        assert "worker 0" in shown.locator(".player-story").inner_text()
        shown.keyboard.press("Escape")
        assert "Chosen in " not in shown.locator(".player-story").inner_text()

    def test_what_a_worker_keeps_was_read_once(self, tmp_path: Path) -> None:
        """The second gradient is of what was read for the first, and that one update."""
        cached = "  - {kind: ssp, staleness: 3, refresh: when_stale}\n"
        kinds = OVERLAPPING.index("  - {kind: on_write")
        scenario = OVERLAPPING[:kinds] + cached + "stop: {global_steps: 12}\n"
        result = varsim.run(scenario)
        with opened(result, tmp_path) as shown:
            story = shown.locator(".player-story")
            shown.locator("#player canvas").focus()
            assert "the variables of step 0 are read by workers 0 to 2. Now" in story.inner_text()
            told = ""
            while "gradient 1 is begun" not in told:
                shown.keyboard.press("ArrowRight")
                before, told = told, story.inner_text()
                assert told != before
        assert re.search(
            r"gradient 1 is begun by worker \d, with the variables of step 0, "
            r"and 1 update of its own since",
            told,
        )

    def test_hover_says_who_does_what(self, shown: Any) -> None:
        shown.locator("#player canvas").hover(position={"x": 200, "y": 52})
        assert shown.locator("#tip").inner_text().startswith("worker 0, iteration ")

    def test_a_lane_of_links_is_drawn_and_told(self, overlapping: Result, tmp_path: Path) -> None:
        with opened(overlapping, tmp_path) as shown:
            canvas = shown.locator("#player canvas")
            told = timeline.content(overlapping)
            sent = told["strategies"][0]["workers"][0]["sends"]
            middle = (sent[1] + sent[2]) / 2
            box = canvas.bounding_box()
            x = 52 + middle / told["window"] * (box["width"] - 86)
            canvas.hover(position={"x": x, "y": 22 + 24 + 13 + 2})
            assert (
                "all-reducing gradients with all other workers"
                in shown.locator("#tip").inner_text()
            )
            canvas.focus()
            story = shown.locator(".player-story")
            while "computing and all-reducing" not in (before := story.inner_text()):
                shown.keyboard.press("ArrowRight")
                assert story.inner_text() != before, "it is told before the end"

    def test_what_plays_covers_the_future(self, shown: Any) -> None:
        """Right of the cursor there is nothing while it plays, and all of it afterwards."""
        canvas = shown.locator("#player canvas")

        def ink() -> int:
            """Dark pixels in the right half of the first strategy's rows."""
            picture = Image.open(BytesIO(canvas.screenshot())).convert("L")
            part = picture.crop((picture.width // 2, 50, picture.width - 40, 60))
            return int((np.asarray(part) < 200).sum())

        before = ink()
        canvas.focus()
        shown.keyboard.press(" ")
        shown.wait_for_timeout(300)
        assert ink() < before / 5
        shown.keyboard.press(" ")
        shown.keyboard.press("Home")
        assert ink() == before

    def test_curves_have_the_dashes_that_the_legend_shows(self, shown: Any, result: Result) -> None:
        lines = shown.locator(".player-legend label")
        told = timeline.content(result)["strategies"]
        for line, one in zip(lines.all(), told, strict=True):
            path = line.locator("path")
            assert path.get_attribute("stroke-dasharray") == ",".join(map(str, one["dash"]))
            dot = line.locator(".dot").evaluate("one => getComputedStyle(one).backgroundColor")
            assert path.evaluate("one => getComputedStyle(one).stroke") == dot

    def test_the_legend_takes_a_strategy_away(self, shown: Any) -> None:
        canvas = shown.locator("#player canvas")
        before = canvas.bounding_box()["height"]
        shown.locator(".player-legend input").first.uncheck()
        assert canvas.bounding_box()["height"] < before
