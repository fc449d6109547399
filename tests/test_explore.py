"""`varsim explore` makes one page with sliders; each of its points is what a run of it tells."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import varsim
from tests.browsing import chromium
from tests.seams import app as cli

SCENARIO = """
# What does a slow worker cost?
name: slow
replications: 2
cluster:
  workers: 3
  compute: {kind: constant, value: 100 ms}
  slow_workers: [{rank: 2, factor: 1}]
  parameter_servers: 1
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 1 ms}
workload:
  batch_size: 4
  problem: {kind: quadratic, dimension: 4, noise: 0.5}
  optimizer: {kind: sgd, learning_rate: 0.1}
strategies: [{kind: on_write}, {kind: none}]
sweep: {cluster.slow_workers.0.factor: [1, 2, 4], cluster.network.latency: [1 ms, 9 ms]}
stop: {time: 4 s}
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.yaml").write_text(SCENARIO.lstrip())

    def explore(*options: str) -> Any:
        return CliRunner().invoke(cli.app, ["explore", "slow.yaml", *options])

    return explore


def content(page: Path) -> Any:
    text = page.read_text(encoding="utf-8")
    (found,) = re.findall(r'id="explore-data">(.*?)</script>', text, re.DOTALL)
    return json.loads(gzip.decompress(base64.b64decode(found)))


def test_every_point_is_there_with_what_a_run_of_it_says(made: Any) -> None:
    assert made("--out", "page.html").exit_code == 0
    found = content(Path("page.html"))

    assert [(axis["name"], axis["title"], axis["texts"]) for axis in found["axes"]] == [
        ("factor", "slow workers: factor", ["1", "2", "4"]),
        ("latency", "network: latency", ["1 ms", "9 ms"]),
    ]
    assert sorted(found["points"]) == [f"{a} {b}" for a in range(3) for b in range(2)]
    changes = {"cluster.slow_workers.0.factor": 4, "cluster.network.latency": 0.009}
    lines = SCENARIO.splitlines(keepends=True)
    one = "".join(line for line in lines if not line.startswith("sweep"))
    told = varsim.run(one, changes).report.table
    point = found["points"]["2 1"]
    column = next(one for one in told.columns if one.head == found["columns"][0]["head"])
    for name, row in zip(found["names"], point["rows"], strict=True):
        assert row["values"][0] == column.cells[told.rows.index(name)].mean
    assert [len(curve) > 1 for curve in point["loss"]] == [True, True]
    assert all(one["workers"][0]["spans"] for one in point["played"]["strategies"])


def test_axes_are_given_as_options_too(made: Any) -> None:
    assert made("--out", "page.html", "--vary", "cluster.workers=3,4").exit_code == 0
    assert [axis["name"] for axis in content(Path("page.html"))["axes"]][-1] == "workers"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--vary", "seed=" + ",".join(map(str, range(40)))], "240 points; a page holds 200"),
        (
            ["--vary", "seed=1,2", "--vary", "cluster.workers=3,4", "--vary", "stop.time=4 s,5 s"],
            "5 axes; a page has sliders for 4",
        ),
        (["--out", "slow.yaml"], "was not written by varsim explore"),
        (["--vary", "cluster.wrkers=3,4"], "wrkers"),
    ],
)
def test_what_cannot_be_a_page_is_refused(made: Any, options: list[str], said: str) -> None:
    done = made(*options)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert Path("slow.yaml").read_text() == SCENARIO.lstrip()


def test_the_key_has_what_is_in_any_timeline(made: Any) -> None:
    """Only with a backup worker is anything dropped, and only there somebody waits for a token."""
    backups = "strategies=[{kind: sync_replicas, replicas_to_aggregate: 3}]"
    axis = "strategies.0.replicas_to_aggregate=3,2"
    done = made("--set", backups, "--vary", axis, "--out", "page.html", "--set", "replications=1")
    assert done.exit_code == 0, done.stderr
    played = content(Path("page.html"))["played"]
    assert any("dropped" in mark for mark in played["marks"])
    assert "token" in {one["name"] for one in played["phases"] if one["seen"]}


def test_a_page_is_made_anew_but_no_report_is_replaced(made: Any) -> None:
    lines = SCENARIO.splitlines(keepends=True)
    one = "".join(line for line in lines if not line.startswith("sweep"))
    Path("one.yaml").write_text(one.lstrip())
    assert CliRunner().invoke(cli.app, ["run", "one.yaml", "--out", "run"]).exit_code == 0
    before = Path("run/report.html").read_bytes()
    assert made("--out", "run/report.html").exit_code == 2
    assert Path("run/report.html").read_bytes() == before
    assert [made("--out", "page.html").exit_code for _ in range(2)] == [0, 0]


@pytest.mark.slow
@pytest.mark.product
def test_sliders_choose_by_keys_and_a_link_opens_the_same_point(made: Any) -> None:
    assert made("--out", "page.html", "--bet").exit_code == 0
    address = f"file://{Path('page.html').resolve()}"
    found = content(Path("page.html"))
    errors: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 420, "height": 800})
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}#factor=2&latency=9%20ms")
        first = page.locator(".explored .first")
        assert not first.is_visible()
        page.fill(".bet input", "nothing")
        page.keyboard.press("Enter")
        assert first.inner_text() == found["points"]["1 1"]["headline"]
        page.keyboard.press("ArrowRight")
        assert first.inner_text() == found["points"]["2 1"]["headline"]
        page.wait_for_url("**#factor=4&latency=9%20ms")
        shown = page.locator("tbody tr").first.locator("td em").first.inner_text()
        assert shown == found["points"]["2 1"]["rows"][0]["texts"][0]
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert page.locator(".player canvas").count() == 1
        story = page.locator(".player-story")
        before = story.inner_text()
        page.focus(".player canvas")
        page.keyboard.press("ArrowRight")
        assert story.inner_text() != before
    assert errors == []


@pytest.mark.slow
@pytest.mark.product
def test_what_is_there_is_moved_and_not_made_anew_and_reload_and_back_find_the_point(
    made: Any,
) -> None:
    assert made("--out", "page.html").exit_code == 0
    found = content(Path("page.html"))["points"]
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"file://{Path('page.html').resolve()}")
        page.wait_for_selector(".player canvas")
        added = page.evaluate(DRAG)
        assert added == []
        first = page.locator(".explored .first")
        page.wait_for_url("**#factor=4&latency=1%20ms")
        page.reload()
        assert first.inner_text() == found["2 0"]["headline"]
        page.evaluate("location.hash = '#factor=2&latency=9 ms'")
        page.wait_for_function("document.querySelector('output').textContent === '2'")
        assert first.inner_text() == found["1 1"]["headline"]
        page.go_back()
        page.wait_for_function("document.querySelector('output').textContent === '4'")
        page.goto(f"file://{Path('page.html').resolve()}#factor=%E0&x&latency=9 ms")
        page.wait_for_function("document.querySelectorAll('output')[1].textContent === '9 ms'")


# Elements that a page adds while a slider goes over all its points.
DRAG = """() => {
    const added = [], slider = document.querySelector("input[type=range]");
    const seen = new MutationObserver(() => {});
    seen.observe(document.body, { childList: true, subtree: true });
    for (const value of [1, 2, 0, 2]) {
        slider.value = value;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
    }
    for (const { addedNodes } of seen.takeRecords()) {
        for (const node of addedNodes) if (node.nodeType === 1) added.push(node.tagName);
    }
    return added;
}"""
