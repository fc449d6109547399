"""Replayed runs as lines: which errors are bounded, and by what."""

import pytest

from validation.finding import Verdict
from validation.measured import findings
from varsim.calibration.recorded.comparison import Comparison, Prediction, Totals


def totals(total: float, p90_step: float = 0.1, dropped: int | None = None) -> Totals:
    return Totals(10, total, p90_step, dropped, None)


def prediction(name: str, family: str, got: float, ideal: float) -> Prediction:
    measured, best = totals(10.0, dropped=100), totals(got, 0.102, 100)
    half = "first" if name < "c" else "second"
    ideally = totals(ideal, dropped=90)
    return Prediction(name, "a kind", family, half, 10, measured, ideally, best)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    servers = "parameter servers"
    return Comparison(
        (
            prediction("a", servers, 10.05, 9.5),
            prediction("b", servers, 10.5, 9.5),
            prediction("c", servers, 9.98, 9.0),
            prediction("d", "collectives", 10.3, 9.8),
        ),
        (),
    )


def test_sums_and_runs(comparison: Comparison) -> None:
    lines = {(one.group, one.quantity, one.name): one for one in findings(comparison)}
    first = "2 runs of the first half, calibrated on the second"

    median = lines["parameter servers", "median error of total time", first]
    assert median.got == pytest.approx(0.0275)  # between 0.5 % and 5 %
    assert (median.verdict, median.bound) == (Verdict.MISS, "at most 1%")
    worst = lines["parameter servers", "worst error of total time", first]
    assert worst.got == pytest.approx(0.05)
    assert worst.verdict is Verdict.MISS
    steps = lines["parameter servers", "median error of 90th percentile of the step time", first]
    assert steps.got == pytest.approx(0.02)
    assert steps.verdict is Verdict.PASS
    ideal = "median error of total time without overheads"
    one = "1 runs of the second half"
    assert lines["parameter servers", ideal, one].got == pytest.approx(0.10)
    assert lines["parameter servers", ideal, one].verdict is Verdict.MISS

    verdicts = {name: one.verdict for (_, what, name), one in lines.items() if what == "total time"}
    assert verdicts == {
        "a": Verdict.PASS,
        "b": Verdict.MISS,
        "c": Verdict.PASS,
        "d": Verdict.PASS,
    }
    assert all(line.why for line in lines.values() if line.verdict is Verdict.MISS)


def test_what_no_run_has_is_no_line(comparison: Comparison) -> None:
    quantities = {one.quantity for one in findings(comparison)}
    assert "worst error of gradients dropped" in quantities
    assert "worst error of asynchronous staleness" not in quantities
