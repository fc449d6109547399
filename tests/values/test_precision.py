"""Rounding to fewer bits, number by number."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import pytest

from varsim.learning.gradient_form import BYTES, Precision, Quantized, rounded


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


class TestOneScale:
    # How many numbers each has: codes less those of nan, infinity and the second zero.
    NUMBERS: Final[Mapping[Quantized, int]] = {
        "fp8_e4m3": 253,
        "fp8_e5m2": 247,
        "int8": 255,
        "fp4_e2m1": 15,
        "fp4_e3m0": 15,
    }
    LARGEST: Final[Mapping[Quantized, float]] = {
        "fp8_e4m3": 448.0,
        "fp8_e5m2": 57344.0,
        "int8": 127.0,
        "fp4_e2m1": 6.0,
        "fp4_e3m0": 16.0,
    }

    @pytest.mark.parametrize("precision", NUMBERS)
    def test_all_numbers_of_a_format(self, precision: Quantized) -> None:
        most = self.LARGEST[precision]
        fine = np.linspace(-1, 1, 4001)
        values = np.concatenate([fine * most / 2**power for power in range(32)])
        found = rounded(values, precision)
        assert len(set(np.abs(found))) == (self.NUMBERS[precision] + 1) // 2
        assert np.array_equal(rounded(found, precision), found)

    def test_by_hand(self) -> None:
        # The largest is 6, so that nothing is scaled: steps of 0.5, from 2 on of 1, from 4 of 2.
        values = np.array([6.0, 5.1, 5.0, 2.6, 2.5, -1.3, 0.2, 0.25, 0.75, 0.0])
        assert rounded(values, "fp4_e2m1").tolist() == [6, 6, 4, 3, 2, -1.5, 0, 0, 1, 0]
        values = np.array([16.0, 11.9, 12.1, 3.1, -1.0, 0.3, 0.1, 0.13])
        assert rounded(values, "fp4_e3m0").tolist() == [16, 8, 16, 4, -1, 0.25, 0, 0.25]
        assert rounded(np.array([127.0, 0.4, 0.6, -2.5]), "int8").tolist() == [127, 0, 1, -2]
        assert rounded(np.array([448.0, 17.0, 0.002]), "fp8_e4m3").tolist() == [448, 16, 2**-9]

    @pytest.mark.parametrize("precision", NUMBERS)
    def test_a_scale_changes_nothing_else(self, precision: Quantized) -> None:
        values = np.array([1.0, -0.7, 0.3, 0.01])
        found = rounded(values, precision)
        assert np.array_equal(rounded(values * 2**-40, precision), found * 2**-40)
        assert np.array_equal(rounded(0 * values, precision), 0 * values)
        assert np.isnan(rounded(np.array([math.inf, 1.0]), precision)).all()
        assert rounded(np.zeros(0), precision).size == 0
