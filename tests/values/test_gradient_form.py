"""What gradients must look like, and that the complaint says what is wrong."""

from typing import Any

import numpy as np
import pytest

from varsim.values.gradient_form import DenseForm, GradientForm, IndexedSlices, SparseForm
from varsim.values.operation import InvalidArgumentError, RefusedValueError

FORMS: list[type[GradientForm[Any]]] = [DenseForm, SparseForm]


def slices(
    indices: list[int], shape: tuple[int, ...], dense_shape: tuple[int, ...] | None = None
) -> IndexedSlices:
    return IndexedSlices(np.array(indices, np.int64), np.ones(shape), dense_shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.bool_, np.complex128])
def test_only_floats_can_be_accumulated(form: type[GradientForm[Any]], dtype: type) -> None:
    with pytest.raises(InvalidArgumentError, match="use a float"):
        form(dtype)


@pytest.mark.parametrize("form", FORMS)
def test_there_are_two_reductions(form: type[GradientForm[Any]]) -> None:
    with pytest.raises(RefusedValueError, match="MEAN or SUM, not MAX"):
        form(reduction="MAX")


@pytest.mark.parametrize(
    ("form", "gradient", "complaint"),
    [
        (DenseForm(), "text", "must be an array, not str"),
        (DenseForm(), slices([0], (1, 2)), "must be an array, not IndexedSlices"),
        (SparseForm(), np.ones(2), "must be indexed slices, not ndarray"),
        (DenseForm(np.float32), np.ones(2), "float64 where float32"),
        (SparseForm(np.float16), slices([0], (1, 2)), "float64 where float16"),
    ],
)
def test_a_gradient_of_another_kind_or_dtype_is_refused(
    form: GradientForm[Any], gradient: object, complaint: str
) -> None:
    with pytest.raises(RefusedValueError, match=complaint):
        form.check(gradient)


@pytest.mark.parametrize(
    ("shape", "good", "bad"),
    [
        ((2,), [(2,)], [(3,), (), (1, 2)]),
        ((None, 2), [(1, 2), (0, 2)], [(2, 3), (2,)]),
        (None, [(), (4,), (1, 2, 3)], []),
        ((), [()], [(1,)]),
    ],
)
def test_a_dense_gradient_fits_the_declared_shape(
    shape: Any, good: list[tuple[int, ...]], bad: list[tuple[int, ...]]
) -> None:
    form = DenseForm(shape=shape)
    for one in good:
        form.check_shape(np.ones(one), [])
    for one in bad:
        with pytest.raises(InvalidArgumentError, match="expected a gradient of shape"):
            form.check_shape(np.ones(one), [])


def test_a_dense_gradient_has_the_shape_of_what_is_inside() -> None:
    form = DenseForm(shape=(None, 2))
    form.check_shape(np.ones((3, 2)), [np.ones((3, 2))])
    with pytest.raises(InvalidArgumentError, match=r"shape \(3, 2\), got \(1, 2\)"):
        form.check_shape(np.ones((1, 2)), [np.ones((3, 2))])


@pytest.mark.parametrize(
    "good",
    [
        slices([0, 3], (2, 2)),
        slices([3, 0, 0], (3, 2), (4, 2)),
        slices([], (0, 2)),
        slices([1], (1, 2), (4, 2, 7)),
    ],
    ids=repr,
)
def test_rows_that_fit(good: IndexedSlices) -> None:
    SparseForm(shape=(4, 2)).check_shape(good, [])


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (slices([0, 1], (1, 2)), "values for the indices"),
        (slices([0], ()), "values for the indices"),
        (slices([4], (1, 2)), "rows below 4, got 4"),
        (slices([-1], (1, 2)), "rows from 0, got -1"),
        (slices([0], (1, 3)), r"rows of shape \(2,\), got \(3,\)"),
        (slices([0], (1,)), r"rows of shape \(2,\), got \(\)"),
        (slices([0], (1, 2), (5, 2)), r"shape \(4, 2\), got \(5, 2\)"),
        (slices([0], (1, 2), (4,)), r"shape \(4, 2\), got \(4,\)"),
    ],
    ids=repr,
)
def test_rows_that_do_not_fit(bad: IndexedSlices, complaint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=complaint):
        SparseForm(shape=(4, 2)).check_shape(bad, [])


@pytest.mark.parametrize("shape", [None, ()])
def test_where_nothing_is_declared_the_first_gradient_says_how_long_rows_are(shape: Any) -> None:
    form = SparseForm(shape=shape)
    first = slices([1000], (1, 2), (9, 9))
    form.check_shape(first, [])
    form.check_shape(slices([], (0, 2)), [first])
    with pytest.raises(InvalidArgumentError, match=r"rows of shape \(2,\), got \(3,\)"):
        form.check_shape(slices([0], (1, 3)), [first])
    assert form.aggregate([first]).dense_shape == (-1, 2)


def test_the_declared_length_is_that_of_the_aggregate() -> None:
    one = slices([1], (1, 3))
    assert SparseForm(shape=(4, None)).aggregate([one, one]).dense_shape == (4, 3)
    assert SparseForm(shape=(None, 3)).aggregate([one, one]).dense_shape == (-1, 3)


def test_a_mean_divides_and_a_sum_does_not() -> None:
    values = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    assert DenseForm().aggregate(values).tolist() == [2.0, 3.0]
    assert DenseForm(reduction="SUM").aggregate(values).tolist() == [4.0, 6.0]
    one, two = slices([0, 1], (2, 1)), slices([1], (1, 1))
    assert SparseForm().aggregate([one, two]).values.tolist() == [[1.0], [1.0]]
    total = SparseForm(reduction="SUM").aggregate([one, two])
    assert total.values.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_is_kept(dtype: type) -> None:
    values = [np.array([0.1, 1000.0], dtype)] * 3
    assert DenseForm(dtype).aggregate(values).dtype == dtype
