"""Intervals, ratios, spreads and step functions against numbers worked out by hand."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as some
from scipy.special import stdtrit

from varsim.study.verdict import difference, interval, latest, one_sided, ratio, spread, student_t

# From printed tables of Student's t, two-sided 95 %.
T_1, T_2, T_9 = 12.7062, 4.3027, 2.2622


@pytest.mark.skipif(scipy.__version__.startswith("1.13."), reason="off by more than 1e-14 there")
@pytest.mark.parametrize("comparisons", [1, 2, 5, 8, 9])
def test_student_t_is_that_of_scipy(comparisons: int) -> None:
    for degrees in (1, 2, 4, 9, 30, 31, 99):
        theirs = stdtrit(degrees, 1 - 0.025 / comparisons)
        assert student_t(degrees, comparisons) == pytest.approx(theirs, rel=1e-14)


@pytest.mark.parametrize(("degrees", "t"), [(1, T_1), (2, T_2), (9, T_9), (120, 1.9799)])
def test_student_t_is_that_of_printed_tables(degrees: int, t: float) -> None:
    assert student_t(degrees) == pytest.approx(t, abs=5e-5)


def test_an_interval_by_hand() -> None:
    # Mean 2, standard deviation 1, standard error 1 / sqrt(3).
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(T_2 / math.sqrt(3), rel=1e-4)
    assert found.high - found.mean == pytest.approx(found.mean - found.low)
    assert found.replications == 3


def test_one_replication_has_a_mean_and_no_interval() -> None:
    found = interval([2.5])
    assert found.mean == 2.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert interval([0.1] * 3)[:3] == (0.1, 0.1, 0.1)


@pytest.mark.parametrize("missing", [math.nan, math.inf])
def test_a_value_that_is_missing_in_some_replications_has_no_mean(missing: float) -> None:
    found = interval([1.0, missing, 2.0])
    assert math.isnan(found.mean)
    assert found.replications == 2
    assert found.note == "in 2 of 3 replications"
    assert interval([missing]).replications == 0


def test_the_interval_covers_the_mean_95_times_in_100() -> None:
    draws = np.random.default_rng(1).normal(3.0, 2.0, size=(4000, 5)).tolist()
    covered = sum(found.low <= 3.0 <= found.high for found in map(interval, draws))
    assert covered / 4000 == pytest.approx(0.95, abs=0.011)  # three standard errors


def test_a_ratio_is_the_geometric_mean_of_pairs() -> None:
    # Ratios 2 and 8: logarithms ln 2 and ln 8, mean ln 4, standard error (ln 8 - ln 2) / 2 = ln 2.
    found = ratio([2.0, 80.0], [1.0, 10.0])
    assert found.mean == pytest.approx(4.0)
    assert found.high == pytest.approx(4.0 * 2.0**T_1, rel=1e-3)
    assert found.low == pytest.approx(4.0 / 2.0**T_1, rel=1e-3)


def test_pairing_removes_what_replications_have_in_common() -> None:
    found = ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
    assert found[:3] == (2.0, 2.0, 2.0)


def test_the_end_of_an_interval_of_a_ratio_is_a_number_however_wide_it_is() -> None:
    # ln 100 / 2 either side of the middle, times a t of 1,273 for 100 intervals that hold together.
    found = ratio([1.0, 100.0], [1.0, 1.0], comparisons=100)
    assert found.mean == pytest.approx(10)
    assert found.low < 1e-300
    assert 1e300 < found.high < math.inf


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_a_pair_with_a_missing_number_has_no_ratio(bad: float) -> None:
    assert math.isnan(ratio([1.0, 2.0], [1.0, bad]).mean)
    assert math.isnan(ratio([1.0, bad], [1.0, 2.0]).mean)


def test_a_difference_is_paired() -> None:
    assert difference([5.0, 50.0], [4.0, 49.0])[:3] == (1.0, 1.0, 1.0)


def test_a_spread_by_hand() -> None:
    # Of 0, 1, ..., 100 the p-th percentile is p.
    found = spread(np.arange(101))
    assert found == (50.0, 50.0, 95.0, 99.0, 100.0)


def test_values_stay_as_they_are() -> None:
    values = np.array([3.0, 1.0, 2.0] * 50)
    spread(values)

    assert values.tolist() == [3.0, 1.0, 2.0] * 50


def test_nothing_has_no_spread() -> None:
    assert all(math.isnan(part) for part in spread(np.array([], dtype=np.int64)))


def test_latest_holds_the_value_until_the_next() -> None:
    found = latest(np.array([1, 3, 3]), np.array([10.0, 20.0, 30.0]), np.array([0.5, 1, 2.9, 3, 9]))
    assert math.isnan(found[0])
    assert found[1:].tolist() == [10.0, 10.0, 30.0, 30.0]
    assert np.isnan(latest(np.array([], dtype=np.int64), np.array([]), np.array([1.0]))).all()


@given(some.lists(some.integers(0, 20), min_size=1), some.lists(some.integers(-1, 21)))
def test_latest_is_what_a_search_by_hand_finds(moments: list[int], grid: list[int]) -> None:
    moments = sorted(moments)
    values = np.arange(len(moments), dtype=np.float64)
    found = latest(np.array(moments), values, np.array(grid, dtype=np.float64))
    for point, value in zip(grid, found.tolist(), strict=True):
        before = [index for index, moment in enumerate(moments) if moment <= point]
        assert value == before[-1] if before else math.isnan(value)


def test_the_interval_of_losses_whose_squares_no_float_can_hold() -> None:
    # A power of two scales a float exactly, so nothing else may change.
    scale = 2.0**1000
    small, large = interval([1.0, 2.0, 3.0]), interval([1.0 * scale, 2.0 * scale, 3.0 * scale])
    assert large == (*(part * scale for part in small[:3]), 3, "")
    assert large.half_width == pytest.approx(T_2 / math.sqrt(3) * scale, rel=1e-4)


def test_one_sided_interval() -> None:
    # Mean 3, standard error sqrt(2.5 / 5); t of 95 % with 4 degrees of freedom is 2.13185.
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert one_sided(values, lower=True) == pytest.approx(3 - 2.13185 * math.sqrt(0.5), abs=1e-5)
    assert one_sided(values, lower=False) == pytest.approx(3 + 2.13185 * math.sqrt(0.5), abs=1e-5)
    assert one_sided([2.5], lower=True) == 2.5
    assert one_sided([2.0, 2.0], lower=False) == 2.0
    assert math.isnan(one_sided([1.0, math.nan], lower=True))
