"""What is kept of a value: all of a small one, the first elements and the mean of a large one."""

import numpy as np

from varsim.distribute.program_run import ValueSummary


def test_of_a_small_value_all_is_kept() -> None:
    glance = ValueSummary.at(np.array([[1.5, 2.5], [3.5, 4.5]], dtype=np.float32))
    assert glance == ((2, 2), (1.5, 2.5, 3.5, 4.5), 3.0)
    assert glance.whole


def test_of_a_number_too() -> None:
    assert ValueSummary.at(np.array(7.0)) == ((), (7.0,), 7.0)


def test_of_a_large_value_the_first_three_and_the_mean() -> None:
    glance = ValueSummary.at(np.arange(9, dtype=np.float64))
    assert glance == ((9,), (0.0, 1.0, 2.0), 4.0)
    assert not glance.whole
    assert ValueSummary.at(np.arange(8, dtype=np.float64)).whole


def test_whole_numbers_keep_their_last_digit() -> None:
    large = 2**62 + 1
    assert ValueSummary.at(np.array(large, dtype=np.int64)).first == (large,)


def test_the_mean_is_not_rounded_on_the_way() -> None:
    # Added in float32, 2^24 and 1 would be 2^24 again and again.
    value = np.full(1000, 1.0, dtype=np.float32)
    value[0] = 2.0**24
    assert ValueSummary.at(value).mean == (2.0**24 + 999) / 1000


def test_what_overflows_gives_no_warning() -> None:
    assert np.isinf(ValueSummary.at(np.full(20, 1e308)).mean) is np.True_
    assert np.isnan(ValueSummary.at(np.array([np.inf, -np.inf])).mean) is np.True_


def test_filled_is_as_if_looked_at() -> None:
    for shape in ((), (3,), (4, 5)):
        assert ValueSummary.filled(shape, 2.0) == ValueSummary.at(np.full(shape, 2.0))
