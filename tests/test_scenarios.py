"""Every scenario that comes along answers the question in its first line, as it did before."""

import csv
import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import GOLDEN, check_columns, check_rows
from tests.seams import (
    ProgramTrace,
    Result,
    VariablesScenario,
    load_scenario,
    simulate,
)
from varsim import load

ROOT = Path(__file__).parent.parent
EVERY_FILE = sorted((ROOT / "scenarios").glob("*.yaml"))
SWEEPS = [path for path in EVERY_FILE if "\nsweep:" in path.read_text()]
PLANS = [path for path in EVERY_FILE if "\nplan:" in path.read_text()]
LONG = (
    "slow_worker",
    "sparse_rows",
    "neighbours_only",
    "read_every",
    "tokens_or_textbook",
)  # 5 s to 15 s
SCENARIOS = [path for path in EVERY_FILE if path not in (*SWEEPS, *PLANS)]
OF_VARIABLES = [path for path in SCENARIOS if isinstance(load_scenario(path), VariablesScenario)]


def summary_of(path: Path) -> list[list[str]]:
    """The summary of a short version of a scenario, as text; the key in the first two columns."""
    if path in OF_VARIABLES:
        return variables_summary_of(simulated(path))
    result = simulate(load_scenario(path, ["replications=2"]))
    rows = result.summary[["strategy", "metric", "mean", "low", "high"]]
    return [[str(value) for value in row] for row in rows.itertuples(index=False)]


def simulated(path: Path) -> Result[VariablesScenario]:
    """The result of a scenario of variables."""
    scenario = load_scenario(path)
    assert isinstance(scenario, VariablesScenario)
    return simulate(scenario)


def variables_summary_of(result: Result[VariablesScenario]) -> list[list[str]]:
    """Every metric of every mode, and what was seen at last."""
    summary = result.summary[["strategy", "metric", "mean"]]
    rows = [[str(value) for value in row] for row in summary.itertuples(index=False)]
    for mode in result.strategies:
        trace = result.trace(mode)
        assert isinstance(trace, ProgramTrace)
        for view in trace.views:
            for who, seen in enumerate([*view.replicas, view.outside]):
                if seen is not None:
                    name = "outside" if who == len(view.replicas) else f"replica {who}"
                    rows.append([mode, f"{view.variable} seen by {name}", str(seen.mean)])
    return rows


def swept(
    path: Path, points: slice, most: int = 2, strategies: Sequence[str] = (), **given: Any
) -> Any:
    """The table of some of the points of a sweep, each run twice or until it is known."""
    asked = load(path)
    few = replace(
        asked,
        points=asked.points[points],
        first_replications=2,
        most_replications=most,
        **given,
        strategies=tuple(strategies),
    )
    return few.run()


def sweep_summary_of(path: Path) -> list[list[str]]:
    """The table of a few of its first points; of more where there is one strategy."""
    alone = len(load(path).points[0].scenario.strategies) == 1
    table = swept(path, slice(0, 9 if alone else 5, 2))
    return [list(map(text_of, row[:-1])) for row in (table.columns, *table.cells())]


def text_of(cell: object) -> str:
    """A cell as files have it."""
    return "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=path.stem,
            marks=[pytest.mark.slow, pytest.mark.product] if path.stem in LONG else [],
        )
        for path in SCENARIOS
    ],
)
def test_a_scenario_gives_its_golden_summary(path: Path) -> None:
    """To change golden files on purpose: python tests/test_scenarios.py NAME, in its own commit."""
    check_rows(summary_of(path), path.stem)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_gives_its_golden_table(path: Path) -> None:
    check_columns(sweep_summary_of(path), path.stem)


@pytest.mark.parametrize("path", EVERY_FILE, ids=lambda path: path.stem)
def test_a_scenario_begins_with_its_question(path: Path) -> None:
    """In one line, which a report shows, and the documentation lists."""
    question = path.read_text().partition("\n")[0].removeprefix("# ")
    assert question.endswith("?")
    listed = (ROOT / "docs/gallery.md").read_text()
    command = "sweep" if path in SWEEPS else "plan" if path in PLANS else "run"
    assert f"{question} [`varsim {command} {path.stem}`](../scenarios/{path.name})\n" in listed
    assert f"![{question}](gallery/{path.stem}.svg)" in listed
    assert path.stem == load(path).name


PICTURES = sorted((ROOT / "docs/gallery").glob("*.svg"))
QUICK = ("batch_norm", "llama_scale", "metric_sum", "read_or_write")


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_what_is_written_in_a_picture_of_the_gallery_can_be_read(path: Path) -> None:
    """On a phone, where a picture is 350 pixels wide, letters have at least 9 of them."""
    text = path.read_text()
    (width,) = re.findall(r'viewBox="0 0 ([0-9.]+) ', text)
    sizes = [float(size) for size in re.findall(r"font-size: ([0-9.]+)px", text)]
    assert min(sizes) * 350 / float(width) >= 9


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.product] if path.stem in QUICK else [])
        for path in PICTURES
    ],
    ids=lambda path: path.stem,
)
def test_a_picture_of_the_gallery_says_what_its_run_does(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To draw one again: python docs/gallery.py NAME."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    gallery = importlib.import_module("gallery")
    (name,) = (name for name in gallery.PICTURES if Path(name).name == path.stem)
    drawn, kept = gallery.draw(name, tmp_path).read_text(), path.read_text()
    assert re.findall(r">([^<]+)</text>", drawn) == re.findall(r">([^<]+)</text>", kept)


@pytest.fixture(scope="module")
def result() -> Result:
    (path,) = (path for path in SCENARIOS if path.stem == "slow_worker")
    return simulate(load_scenario(path))


class TestSlowWorker:
    """scenarios/slow_worker.yaml by hand.

    Three workers compute for 100 ms, worker 3 for 300 ms; the model (or a gradient) needs 1 ms on
    a link; links are first come, first served; the run lasts 30 s.
    """

    @staticmethod
    def step_times(result: Result, label: str) -> list[float]:
        (trace,) = (trace for trace in result.traces if trace.strategy == label)
        return [time / 1e6 for time in trace.steps.tolist()]

    @staticmethod
    def metric(result: Result, label: str, metric: str) -> float:
        rows = result.summary
        (value,) = rows[(rows.strategy == label) & (rows.metric == metric)]["mean"]
        return float(value)

    def test_single(self, result: Result) -> None:
        # A gradient every 100 ms: 300 of them; at 30 s sharp the last one still counts.
        assert self.step_times(result, "single") == [100.0 * (i + 1) for i in range(300)]

    def test_on_write(self, result: Result) -> None:
        # Slowest replica 300 ms, then 2 (4 - 1) rounds with a quarter of 1 ms each: 301.5 ms.
        # 30 s / 301.5 ms = 99.5, of which 97 are between the second round and the last.
        assert self.step_times(result, "on_write") == [301.5 * (i + 1) for i in range(99)]
        assert self.metric(result, "on_write", "updates_per_s") == pytest.approx(1 / 0.3015)
        # Workers 0 to 2 wait 200 of 301.5 ms.
        barrier = 3 * 200 / (4 * 301.5)
        assert self.metric(result, "on_write", "share_barrier") == pytest.approx(barrier)

    def test_on_read(self, result: Result) -> None:
        # Worker 3 sets the pace: 10 steps of 300 ms, then a read of 1.5 ms. Nine reads end at
        # 9 * 3,001.5 = 27,013.5 ms; nine more steps end at 29,713.5 ms. The others are at most a
        # read ahead: 100 steps each.
        steps = [300.0 * (i + 1) + 1.5 * (i // 10) for i in range(99)]
        assert self.step_times(result, "on_read") == steps
        assert self.metric(result, "on_read", "gradients_applied") == 99 + 3 * 100

    def test_none(self, result: Result) -> None:
        # Reads at 0 are served one after the other: workers start computing at 1, 2, 3, 4 ms.
        # So gradients of workers 0 to 2 arrive at 102, 103, 104 ms, and every 102 ms again:
        # 1 ms read, 100 ms compute, 1 ms push. Worker 3: at 305 ms, and about every 302 ms.
        steps = self.step_times(result, "none")
        assert steps[:10] == [102, 103, 104, 204, 205, 206, 305, 306, 307, 308]
        # (30,000 - 102) / 102 = 293.1, so 294 gradients of each fast worker, and 99 of worker 3.
        assert len(steps) == 3 * 294 + 99

    def test_sync_replicas(self, result: Result) -> None:
        # Four initial tokens of step 0. The first gradients of workers 0 to 2 come at 102, 103,
        # 104; each takes a token 0 at once. Worker 0's second gradient comes at 204 and, in the
        # place of worker 3's, completes the first update. Worker 0 takes the last token 0. The
        # second gradients of workers 1, 2 (205, 206) and the first of worker 3 (305) are stale,
        # as is the third of worker 0 (306), whose token was an old one.
        # Step 1: workers 1 and 2 push at 307 and 308, worker 0 at 408, worker 3 at
        # 305 + 1 + 300 + 1 = 607. From then on all start together and read one after the other,
        # worker 3 last: 4 + 300 + 1 = 305 ms.
        steps = self.step_times(result, "sync_replicas")
        assert steps == [204.0, 607.0] + [607.0 + 305 * (i + 1) for i in range(96)]
        assert self.metric(result, "sync_replicas", "gradients_dropped") == 4

    def test_sync_replicas_with_a_backup(self, result: Result) -> None:
        # Three initial tokens. 102, 103, 104: the first update, without worker 3. The second
        # gradients of workers 0 to 2 (204, 205, 206) and the first of worker 3 (305) still carry
        # step 0: dropped; these four take the four tokens of step 1. Workers 0 to 2 push with
        # step 1 at 306, 307, 308: update. They wait for it, so they start together at 308, read
        # until 309, 310, 311 and push at 410, 411, 412: update.
        steps = self.step_times(result, "sync_replicas with a backup")
        assert steps[:3] == [104.0, 308.0, 412.0]


class TestVariables:
    """The scenarios of variables by hand; see the comments in them."""

    @staticmethod
    def named(stem: str) -> Result[VariablesScenario]:
        (path,) = (path for path in SCENARIOS if path.stem == stem)
        return simulated(path)

    @staticmethod
    def view(result: Result[VariablesScenario], mode: str, variable: str) -> Any:
        trace = result.trace(mode)
        assert isinstance(trace, ProgramTrace)
        return next(view for view in trace.views if view.variable == variable)

    def test_metric_sum(self) -> None:
        result = self.named("metric_sum")
        # 4 B to or from two workers on one link: 50 us + 2 x 32 ns. Reads in 3 steps, save and
        # restore in one.
        assert result.values("on_read", "step_time_mean") == [5 * 50_064 / 1e9 / 3]
        # Three times 4 rounds of 50.032 us, and a restore.
        assert result.values("on_write", "step_time_mean") == [(12 * 50_032 + 50_064) / 1e9 / 3]
        # Three writes and reads of three workers on one link, then five messages alone.
        assert result.values("none", "step_time_mean") == [(6 * 50_096 + 5 * 50_032) / 1e9 / 3]
        for mode in result.strategies:
            outside = self.view(result, mode, "correct").outside
            assert outside is not None
            assert outside.first == (18.0,)
        # 12 / 3 after two steps, and what each counted in the third.
        assert [one.first for one in self.view(result, "on_read", "correct").copies] == [
            (7.0,), (5.0,), (6.0,)
        ]  # fmt: skip

    def test_read_or_write(self) -> None:
        (path,) = (path for path in SWEEPS if path.stem == "read_or_write")
        table = load(path).run()
        times = {(row.strategy, row.candidate.at): row.mean("step_time_mean") for row in table.rows}
        size, rate, latency, n = 4 * 262_144, 1.25e9, 20e-6, 8
        ring = 2 * (n - 1) * (size / n / rate + latency)
        collect = (n - 1) * size / rate + latency
        pushed, pulled = n * size / rate + latency, size / rate + latency
        # The ring's chunks are multiples of 64 bytes, and times of 1 ns: at most one of either more
        # in each round.
        slack = 14 * (64 / rate + 1e-9)
        write = times["on_write", 0]
        assert 8 * ring <= write <= 8 * (ring + slack)
        for at, reads in enumerate((1, 2, 4, 8, 16)):
            assert times["on_read", at] == pytest.approx(reads * collect)
            assert times["none", at] == pytest.approx(8 * pushed + reads * pulled)
            assert times["on_write", at] == write
        (over,) = table.report.headline
        assert (over.code, over.values["best1"], over.values["best2"]) == (
            *("fastest-from", ("on_read",), ("on_write",)),
        )
        assert over.values["until1"].mean == pytest.approx(write / collect)
        (other,) = (note for note in table.report.notes if note.code == "others-cross")
        assert (other.values["first"], other.values["second"]) == ("on_read", "none")
        assert other.values["where"].mean == pytest.approx(8 * pushed / (collect - pulled))

    def test_batch_norm(self) -> None:
        result = self.named("batch_norm")
        read, write = (self.view(result, mode, "moving_mean") for mode in ("on_read", "on_write"))
        # Replicas see statistics of their own, or the same; outside sees their mean in both.
        assert len(set(read.replicas)) == 4
        assert len(set(write.replicas)) == 1
        assert read.outside is not None
        assert write.outside is not None
        assert read.outside.mean == pytest.approx(write.outside.mean, rel=1e-6)
        # 1 % of the way to about 2, a hundred times: 2 (1 - 0.99^100) = 1.268.
        assert read.outside.mean == pytest.approx(2 * (1 - 0.99**100), rel=0.005)
        # Two rings of 6 rounds of 80 B (64 floats in chunks of 64 bytes: 80, 80, 80, 16), less
        # the three collections in the last step.
        (kept,) = result.values("on_read", "step_time_mean")
        (shared,) = result.values("on_write", "step_time_mean")
        chunk = 128 / 1.25e9
        assert 2 * 6 * 20e-6 * 0.99 <= shared - kept + 0.03 * 20e-6 <= 2 * 6 * (20e-6 + chunk)


def test_scale_out_compares_with_one_worker_alone() -> None:
    (path,) = (path for path in SWEEPS if path.stem == "scale_out")
    table = swept(path, slice(0, 4, 3))
    rows = {(row.strategy, row.candidate.at): row for row in table.rows}
    alone, ring = rows["single", 0], rows["on_write", 0]
    # One worker's ring sends nothing: it is as fast as one worker alone.
    same = [row.values("examples_per_s") for row in (ring, alone, rows["single", 1])]
    assert same == same[:1] * 3
    assert {name: found[:3] for name, found in ring.scaling.items()} == {
        "speedup": (1.0, 1.0, 1.0),
        "efficiency": (1.0, 1.0, 1.0),
    }
    of_eight = {name: found.mean for name, found in rows["on_write", 1].scaling.items()}
    assert of_eight["speedup"] == pytest.approx(
        rows["on_write", 1].mean("examples_per_s") / alone.mean("examples_per_s")
    )
    assert of_eight["efficiency"] == pytest.approx(of_eight["speedup"] / 8)
    assert 0.3 < of_eight["efficiency"] < 1


if __name__ == "__main__":
    for scenario in (*SCENARIOS, *SWEEPS):
        if scenario.stem not in sys.argv[1:]:
            continue
        summary = sweep_summary_of if scenario in SWEEPS else summary_of
        with (GOLDEN / f"{scenario.stem}.csv").open("w", newline="") as golden:
            csv.writer(golden, lineterminator="\n").writerows(summary(scenario))
