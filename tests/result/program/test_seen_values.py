"""Values as people read them."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from varsim.distribute.program_run import ValueSummary
from varsim.report.products.story_rows import beside, number, text
from varsim.study.program import exact


def one(value: float) -> ValueSummary:
    return ValueSummary.at(np.array(value))


def many(*values: float) -> ValueSummary:
    return ValueSummary.at(np.array(values))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3.0, "3"),
        (0.0, "0"),
        (-12345678.0, "-12345678"),
        (0.1, "0.1"),
        (1 / 3, "0.333333"),
        (1e15, "1e+15"),
        (1.00001, "1.00001"),
        (1.0000001, "1.00000"),
        (123456.789, "123456.79"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers(value: float, said: str) -> None:
    assert number(value) == said


def test_values() -> None:
    assert text(None) == "-"
    assert text(one(6.0)) == "6"
    assert text(many(1.0, 2.5)) == "[1, 2.5]"
    assert text(many(*range(9))) == "[mean 4]"
    assert text(many(*[7.0] * 9)) == "7"
    assert text(many(1 / 3, 2.0)) == "[0.3333, 2]"


LARGE = [many(*range(first, first + 10)) for first in (1, 2, 3)]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([one(6.0)], "6"),
        ([one(6.0)] * 3, "6 each"),
        ([one(3.0), one(1.0), one(2.0)], "3 | 1 | 2"),
        ([None, None], "-"),
        ([None, one(1.0)], "- | 1"),
        ([one(float(n)) for n in range(8)], "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7"),
        ([one(float(n)) for n in range(12)], "0 | 1 | 2 | 3 | 4 | ... | 11"),
        (LARGE[:1] * 2, "[mean 5.5] each"),
        ([*LARGE, None], "[means 5.5 | 6.5 | 7.5 | -]"),
    ],
)
def test_beside(values: Sequence[ValueSummary | None], said: str) -> None:
    assert beside(values) == said


def test_exact_text_holds_every_digit() -> None:
    assert exact(one(0.1)) == "0.1"
    assert exact(ValueSummary.at(np.array(2**62 + 1))) == "4611686018427387905"
    assert exact(many(1.0, 2.0)) == "1.0 2.0"
    assert exact(ValueSummary.at(np.arange(9.0))) == "0.0 1.0 2.0 ... mean 4.0"
