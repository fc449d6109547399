"""`varsim run --animate` leaves a picture that moves, and needs nothing to do so."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli

SVG = "{http://www.w3.org/2000/svg}"
SCENARIO = """
name: moving
replications: 1
cluster:
  workers: 3
  compute: {kind: constant, value: 100 ms}
  slow_workers: [{rank: 2, factor: 1.9}]
  parameter_servers: 1
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 1 ms}
workload: {batch_size: 1, problem: {kind: timing, size: 1 MB}}
strategies:
  - {kind: sync_replicas, replicas_to_aggregate: 2}
  - {kind: none}
stop: {time: 3 s}
"""


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ET.Element:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moving.yaml").write_text(SCENARIO)
    command = ["run", "moving.yaml", "--no-plots", "--animate", "--out"]
    for out in ("first", "second"):
        assert CliRunner().invoke(cli.app, [*command, out]).exit_code == 0
    first, second = (Path(out, "animation.svg").read_bytes() for out in ("first", "second"))
    assert first == second
    return ET.fromstring(first)


def moves(element: ET.Element, what: str) -> list[str]:
    """The values that an attribute goes through, over all its animations."""
    return [
        value
        for one in element.iter(f"{SVG}animate")
        if one.get("attributeName") == what
        for value in str(one.get("values")).split(";")
    ]


def test_every_gradient_is_a_dot_and_a_dropped_one_falls(drawn: ET.Element) -> None:
    sync, free = (list(panel.iter(f"{SVG}circle")) for panel in drawn.findall(f"{SVG}g")[:2])

    assert min(len(free), len(sync)) > 6
    # What is dropped is red and falls, below every worker; nothing else of sync_replicas is red.
    bottom = max(float(value) for dot in sync for value in moves(dot, "cy"))
    assert bottom > max(float(str(dot.get("cy"))) for dot in sync)
    fallen = [dot for dot in sync if f"{bottom:g}" in moves(dot, "cy")]
    assert fallen
    assert fallen == [dot for dot in sync if "#e42536" in moves(dot, "fill")]
    # Without waiting gradients are stale, and none is dropped.
    assert any("#e42536" in moves(dot, "fill") for dot in free)
    assert not any(f"{bottom:g}" in moves(dot, "cy") for dot in free)


def test_tokens_wait_in_their_queue(drawn: ET.Element) -> None:
    sync, free = drawn.findall(f"{SVG}g")[:2]

    def queue(panel: ET.Element) -> list[ET.Element]:
        return [one for one in panel.iter(f"{SVG}rect") if moves(one, "visibility")]

    assert queue(sync)
    assert not queue(free)


def test_times_are_shares_of_the_whole_and_ascend(drawn: ET.Element) -> None:
    for one in drawn.iter(f"{SVG}animate"):
        times = [float(time) for time in str(one.get("keyTimes")).split(";")]
        assert times == sorted(times)
        assert (times[0], len(times)) == (0.0, len(str(one.get("values")).split(";")))
        assert times[-1] <= 1


def test_variables_have_no_gradients_to_show() -> None:
    done = CliRunner().invoke(cli.app, ["run", "metric_sum", "--animate"])
    assert done.exit_code == 2
    assert "--animate" in done.stderr


def test_the_key_names_what_is_seen_and_nothing_else(tmp_path: Path) -> None:
    scenario = tmp_path / "one.yaml"
    kept, _, _ = SCENARIO.partition("strategies:")
    scenario.write_text(f"{kept}strategies: [{{kind: on_write}}]\nstop: {{time: 2 s}}\n")
    scenario.write_text(scenario.read_text().replace("  parameter_servers: 1\n", ""))
    command = ["run", str(scenario), "--no-plots", "--animate", "--out", str(tmp_path / "one")]
    assert CliRunner().invoke(cli.app, command).exit_code == 0
    drawn = ET.fromstring((tmp_path / "one/animation.svg").read_bytes())
    key = {str(one.text): float(str(one.get("x"))) for one in drawn.findall(f"{SVG}text")}
    assert {"a gradient", "computing", "sending", "waiting"} < set(key)
    assert not {"a token", "receiving", "a stale one; a dropped one falls"} & set(key)
    # The picture of one strategy is narrow, and the words of its key stay in it.
    wide = float(str(drawn.get("viewBox")).split()[2])
    assert max(x + 6 * len(said) for said, x in key.items() if not said[0].isdigit()) < wide
