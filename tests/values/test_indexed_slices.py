"""Gradients of a few rows: added up row by row, in order, as TensorFlow adds them."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varsim.values.gradient_form import IndexedSlices, mean_of_slices, sum_of_slices


def slices(*rows: tuple[int, float]) -> IndexedSlices:
    """Rows of one number each."""
    values = np.array([value for _, value in rows], np.float64)
    return IndexedSlices(np.array([row for row, _ in rows], np.int64), values.reshape(-1, 1))


def listed(gradient: IndexedSlices) -> list[tuple[int, float]]:
    values = gradient.values.reshape(len(gradient.indices)).tolist()
    return list(zip(gradient.indices.tolist(), values, strict=True))


def test_a_mean_by_row_divides_each_row_by_those_that_held_it() -> None:
    # Row 0: (1 + 5) / 2; row 2: 4; row 3: 7, each of one.
    gradients = [slices((0, 1.0), (2, 4.0)), slices((0, 5.0)), slices((3, 7.0))]
    assert listed(mean_of_slices(gradients, by_row=True)) == [(0, 3.0), (2, 4.0), (3, 7.0)]


def test_a_plain_mean_divides_every_row_by_all() -> None:
    gradients = [slices((0, 1.0), (2, 4.0)), slices((0, 5.0))]
    assert listed(mean_of_slices(gradients, by_row=False)) == [(0, 3.0), (2, 2.0)]


def test_a_gradient_without_rows_counts_in_a_plain_mean_only() -> None:
    gradients = [slices((1, 3.0)), slices()]
    assert listed(mean_of_slices(gradients, by_row=True)) == [(1, 3.0)]
    assert listed(mean_of_slices(gradients, by_row=False)) == [(1, 1.5)]


def test_a_sum_counts_how_many_held_each_row() -> None:
    total, held = sum_of_slices([slices((1, 1.0)), slices((0, 2.0), (1, 4.0))])
    assert listed(total) == [(0, 2.0), (1, 5.0)]
    assert held.tolist() == [1, 2]


def test_nothing_that_is_given_is_changed() -> None:
    gradients = [slices((1, 1.0), (1, 2.0)), slices((0, 2.0))]
    before = [listed(gradient) for gradient in gradients]
    mean_of_slices(gradients, by_row=True)
    gradients[0].summed()
    gradients[0].dense((2, 1))
    assert [listed(gradient) for gradient in gradients] == before


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("by_row", [True, False])
def test_the_dtype_is_kept(dtype: type, by_row: bool) -> None:
    one = IndexedSlices(np.array([0, 1]), np.ones((2, 3), dtype))
    assert mean_of_slices([one, one, one], by_row).values.dtype == dtype
    assert one.dense((4, 3)).dtype == dtype


def test_rows_named_twice_add_up_where_the_gradient_is_used() -> None:
    twice = slices((2, 1.0), (0, 5.0), (2, 10.0))
    assert listed(twice.summed()) == [(0, 5.0), (2, 11.0)]
    assert twice.dense((4, 1)).tolist() == [[5.0], [0.0], [11.0], [0.0]]


def merged(gradients: Sequence[IndexedSlices]) -> list[tuple[int, float, int]]:
    """TensorFlow's merge written down once more: (row, sum, count), two lists walked in step."""
    sums = [(row, value, 1) for row, value in listed(gradients[0])]
    for gradient in gradients[1:]:
        old, new, sums = sums, listed(gradient), []
        while old and new:
            if old[0][0] < new[0][0]:
                sums.append(old.pop(0))
            elif old[0][0] > new[0][0]:
                sums.append((*new.pop(0), 1))
            else:
                row, total, count = old.pop(0)
                sums.append((row, total + new.pop(0)[1], count + 1))
        sums += old + [(*entry, 1) for entry in new]
    return sums


ROWS = st.lists(st.integers(0, 6), max_size=5)


@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5), st.booleans())
def test_any_rows_are_merged_as_tensorflow_merges_them(named: list[list[int]], sort: bool) -> None:
    # Ascending rows, the usual case, take a shorter way; others may be left standing twice.
    value = iter(range(1, 100))
    gradients = [
        slices(*((row, 0.1 * next(value)) for row in (sorted(set(rows)) if sort else rows)))
        for rows in named
    ]
    total, held = sum_of_slices(gradients)
    found = [(*entry, count) for entry, count in zip(listed(total), held.tolist(), strict=True)]
    assert found == merged(gradients)
    if sort:
        assert total.indices.tolist() == sorted({row for rows in named for row in rows})
