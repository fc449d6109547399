"""Every scenario that comes along answers the question in its first line, as it did before."""

import csv
import math
from pathlib import Path

import pytest

from varsim.load.loading import load_scenario
from varsim.result.result import Result
from varsim.simulation import simulate

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.yaml"))
GOLDEN = Path(__file__).parent / "golden"


def summary_of(path: Path) -> list[list[str]]:
    """The summary of a short version of a scenario, as text."""
    result = simulate(load_scenario(path, ["replications=2"]))
    rows = result.summary[["strategy", "metric", "mean", "low", "high"]]
    return [[str(value) for value in row] for row in rows.itertuples(index=False)]


def agree(a: str, b: str) -> bool:
    """Equal as text, or as numbers but for the last digits, which depend on the CPU's kernels."""
    if a == b:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_gives_its_golden_summary(path: Path) -> None:
    """To change a golden file on purpose: python -m tests.test_scenarios, in its own commit."""
    with (GOLDEN / f"{path.stem}.csv").open(newline="") as file:
        expected = list(csv.reader(file))
    found = summary_of(path)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert all(map(agree, row, other)), f"{row} is not the golden {other}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_begins_with_its_question(path: Path) -> None:
    comment = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line)
    assert "?" in " ".join(comment)
    assert path.stem == load_scenario(path).name


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
        # 30 s / 301.5 ms = 99.5.
        assert self.step_times(result, "on_write") == [301.5 * (i + 1) for i in range(99)]
        assert self.metric(result, "on_write", "updates_per_s") == pytest.approx(99 / 30)
        # Workers 0 to 2 wait 200 of 301.5 ms in 99 rounds; then they have computed 100 ms and
        # wait for the rest of the 30 s: 30,000 - 99 * 301.5 - 100 = 51.5 ms.
        barrier = 3 * (99 * 200 + 51.5) / (4 * 30_000)
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


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for scenario in SCENARIOS:
        with (GOLDEN / f"{scenario.stem}.csv").open("w", newline="") as golden:
            csv.writer(golden, lineterminator="\n").writerows(summary_of(scenario))
