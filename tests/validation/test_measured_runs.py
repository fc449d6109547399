"""The real runs that come with varsim: what is promised of predicting them."""

import re
from pathlib import Path

import pytest

from validation.command import RUNS
from varsim.calibration.recorded.comparison import HALVES, Comparison, Half, Totals, compare, spread
from varsim.calibration.recorded.runs import Run, read_runs

PAGE = Path(__file__).parent.parent.parent / "reports" / "validation" / "measured.md"
SERVERS, COLLECTIVES = "parameter servers", "collectives"


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return read_runs(RUNS)


@pytest.fixture(scope="module")
def comparison(runs: list[Run]) -> Comparison:
    return compare(runs)


def errors(
    comparison: Comparison, family: str, half: Half, number: str, of: str = "calibrated"
) -> tuple[float, float]:
    """Median and worst error over one half of a family."""

    def value(totals: Totals | None) -> float | None:
        return None if totals is None else getattr(totals, number)

    found = spread(
        (value(getattr(one, of)), value(one.measured))
        for one in comparison.predictions
        if (one.family, one.half) == (family, half)
    )
    assert found is not None
    return found.median, found.worst


def test_all_runs_are_there(runs: list[Run], comparison: Comparison) -> None:
    assert len(runs) == 55
    assert len(comparison.predictions) == 45, "in ten nothing is computed"
    for one in comparison.predictions:
        assert one.calibrated is not None
        source = next(
            half_calibrations.calibration
            for half_calibrations in comparison.half_calibrations
            if half_calibrations.family == one.family and half_calibrations.half != one.half
        )
        assert source is not None
        assert one.run not in source.runs


@pytest.mark.parametrize("half", HALVES)
class TestServers:
    """SyncReplicasOptimizer and the asynchronous server, each half predicted from the other."""

    def test_total_time(self, comparison: Comparison, half: Half) -> None:
        median, worst = errors(comparison, SERVERS, half, "total")

        assert median <= 0.01
        assert worst <= 0.04

    def test_step_time(self, comparison: Comparison, half: Half) -> None:
        assert errors(comparison, SERVERS, half, "p90_step")[0] <= 0.03

    def test_dropped_gradients(self, comparison: Comparison, half: Half) -> None:
        assert errors(comparison, SERVERS, half, "dropped")[1] <= 0.01

    def test_staleness(self, comparison: Comparison, half: Half) -> None:
        assert errors(comparison, SERVERS, half, "staleness")[1] <= 0.03

    def test_without_overheads(self, comparison: Comparison, half: Half) -> None:
        # More in the runs of which overheads are a larger part: short iterations, large payloads.
        assert errors(comparison, SERVERS, half, "total", "ideal")[0] <= 0.07


@pytest.mark.parametrize("half", HALVES)
def test_collectives(comparison: Comparison, half: Half) -> None:
    median, worst = errors(comparison, COLLECTIVES, half, "total")

    assert median <= 0.02
    assert worst <= 0.04
    assert errors(comparison, COLLECTIVES, half, "total", "ideal")[1] > 0.05


def test_a_run_that_came_to_a_standstill(comparison: Comparison) -> None:
    (dead,) = [one for one in comparison.predictions if one.measured.updates < one.planned_updates]

    assert dead.run == "sync_t3_a3_kill_computing"
    assert dead.calibrated is not None
    assert dead.calibrated.updates == dead.ideal.updates == dead.measured.updates == 2


def test_the_page_is_that_of_these_runs(comparison: Comparison) -> None:
    # Another processor may calculate a last digit otherwise.
    text = PAGE.read_text(encoding="utf-8")
    for one in comparison.predictions:
        assert one.calibrated is not None
        (row,) = re.findall(rf"^\| {re.escape(one.run)} \|.*$", text.split("## Farthest")[0], re.M)
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[2] == one.half
        assert float(cells[3]) == pytest.approx(one.measured.total, abs=6e-4)
        assert float(cells[4]) == pytest.approx(one.calibrated.total, rel=2e-3)
