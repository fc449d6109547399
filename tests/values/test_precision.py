"""Rounding to fewer bits, number by number."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from varsim.values.embedding import Embedding
from varsim.values.gradient import Gradient, Gradients, Parameters, Value
from varsim.values.gradient_form import BYTES, IndexedSlices, Precision, rounded
from varsim.values.problem import LinearRegression, Quadratic, Task


def one(value: float, precision: Precision) -> float:
    return float(rounded(np.array([value]), precision)[0])


@pytest.mark.parametrize(
    ("value", "precision", "expected"),
    [
        # 10 bits after the point in fp16, 7 in bf16, 23 in fp32.
        (0.1, "fp16", 0.0999755859375),
        (0.1, "bf16", 0.10009765625),
        (0.1, "fp32", 0.100000001490116119384765625),
        (-1 / 3, "bf16", -0.333984375),
        (math.pi, "bf16", 3.140625),
        (math.pi, "fp16", 3.140625),
        # Half-way between two: the even one.
        (1 + 2**-8, "bf16", 1.0),
        (1 + 3 * 2**-8, "bf16", 1 + 2**-6),
        (1 + 2**-11, "fp16", 1.0),
        (1 + 3 * 2**-11, "fp16", 1 + 2**-9),
        (1 + 2**-8 + 2**-20, "bf16", 1 + 2**-7),
        # The largest number of fp16, and what is nearer to the next, which does not exist.
        (65_519.0, "fp16", 65_504.0),
        (65_520.0, "fp16", math.inf),
        (-1e6, "fp16", -math.inf),
        (1e6, "bf16", 999_424.0),
        (3.4e38, "bf16", math.inf),
        (3.39e38, "bf16", (2 - 2**-7) * 2.0**127),
        (1e39, "fp32", math.inf),
        # The smallest of fp16 is 2^-24.
        (2.0**-24, "fp16", 2.0**-24),
        (2e-8, "fp16", 0.0),
        (2.0**-30, "bf16", 2.0**-30),
        (math.inf, "bf16", math.inf),
        (0.0, "bf16", 0.0),
    ],
)
def test_to_the_nearest(value: float, precision: Precision, expected: float) -> None:
    assert one(value, precision) == expected


@pytest.mark.parametrize("precision", BYTES)
def test_what_is_no_number_stays_none(precision: Precision) -> None:
    for bits in (0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
        value = np.array([bits], dtype=np.uint64).view(np.float64)
        assert math.isnan(rounded(value, precision)[0])
    assert math.copysign(1, one(-0.0, precision)) == -1


@pytest.mark.parametrize("precision", BYTES)
def test_it_is_as_near_as_its_bits_allow_and_stays_there(precision: Precision) -> None:
    values = np.random.default_rng(0).standard_normal((50, 7))
    found = rounded(values, precision)
    bits = {"fp32": 24, "fp16": 11, "bf16": 8}[precision]

    assert found.dtype == np.float64
    assert found.shape == values.shape
    assert np.all(np.abs(found - values) <= np.abs(values) * 2.0**-bits * (1 + 1e-6) + 2**-25)
    assert np.array_equal(rounded(found, precision), found)
    assert not np.array_equal(found, values)


def test_rows_are_rounded_and_keep_their_numbers() -> None:
    rows = IndexedSlices(np.array([1, 4]), np.array([[0.1, 1.0], [2.0, math.pi]]), (5, 2))
    found = rows.rounded("bf16")

    assert found.indices.tolist() == [1, 4]
    assert found.values.tolist() == [[0.10009765625, 1.0], [2.0, 3.140625]]
    assert found.dense_shape == (5, 2)


class Read(NamedTuple):
    parameters: Parameters


def some(task: Task) -> list[Gradient]:
    batches = task.batches(0, 0, 4)
    return [Gradient(0, index, Read(task.initial()), batches[index], 0, 1) for index in range(3)]


def numbers(value: Value) -> NDArray[np.float64]:
    return np.asarray(value.values if isinstance(value, IndexedSlices) else value)


@pytest.mark.parametrize("problem", [Quadratic(noise=1.0), Embedding(users=6, items=4)])
def test_gradients_of_any_kind_are_rounded(problem: Quadratic | Embedding) -> None:
    task = problem.task(0, 0)
    exact, short = Gradients(task), Gradients(task)
    short.round_to("fp16")
    for variable in range(len(task.initial())):
        for left, right in zip(some(task), some(task), strict=True):
            whole, cut = exact.value(left, variable), short.value(right, variable)
            assert type(cut) is type(whole)
            assert np.array_equal(
                numbers(cut), numbers(whole).astype(np.float32).astype(np.float16)
            )
            assert not np.array_equal(numbers(cut), numbers(whole))


def test_only_gradients_of_trained_variables_are() -> None:
    task = LinearRegression().task(0, 0)
    exact, short = Gradients(task), Gradients(task, trained=[0])
    short.round_to("fp16")
    whole, cut = some(task)[0], some(task)[0]

    assert not np.array_equal(numbers(short.value(cut, 0)), numbers(exact.value(whole, 0)))
    assert np.array_equal(numbers(short.value(cut, 1)), numbers(exact.value(whole, 1)))
