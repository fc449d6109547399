"""Values as people read them."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from varsim.distribute.program import VariableDescription
from varsim.distribute.program_run import ValueSummary
from varsim.report.words.program.table import described, number, shown, side_by_side
from varsim.study.program.tables import exact


def one(value: float) -> ValueSummary:
    return ValueSummary.at(np.array(value))


def many(*values: float) -> ValueSummary:
    return ValueSummary.at(np.array(values))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (0.0, "0"),
        (-12345678.0, "-12345678"),
        (0.1, "0.1"),
        (1 / 3, "0.333333"),
        (1e15, "1e+15"),
        (123456.789, "123457"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_values() -> None:
    assert shown(None) == "-"
    assert shown(one(6.0)) == "6"
    assert shown(many(1.0, 2.5)) == "[1, 2.5]"
    assert shown(many(*range(9))) == "[0, 1, 2, ...] (mean 4)"
    assert shown(many(1 / 3, 2.0)) == "[0.3333, 2]"


LARGE = [many(*([value] * 10)) for value in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]


@pytest.mark.parametrize(
    ("glances", "text"),
    [
        ([one(6.0)], "6"),
        ([one(6.0)] * 3, "6 each"),
        ([one(3.0), one(1.0), one(2.0)], "3, 1, 2"),
        ([None, None], "-"),
        ([None, one(1.0)], "-, 1"),
        ([one(float(n)) for n in range(8)], "0, 1, 2, 3, 4, 5, 6, 7"),
        ([one(float(n)) for n in range(12)], "0, 1, 2, 3, 4, 5, 6, 7, ... (12 in all)"),
        ([one(1.0)] * 10 + [one(2.0)], "0..9: 1\n10: 2"),
        (LARGE[:1] * 2, "[1, 1, 1, ...] (mean 1) each"),
        (
            [LARGE[0], LARGE[0], LARGE[1]],
            "0..1: [1, 1, 1, ...] (mean 1)\n2: [2, 2, 2, ...] (mean 2)",
        ),
        (
            LARGE,
            "0: [1, 1, 1, ...] (mean 1)\n1: [2, 2, 2, ...] (mean 2)\n"
            "2: [3, 3, 3, ...] (mean 3)\n3: [4, 4, 4, ...] (mean 4)\n... 2 more",
        ),
    ],
)
def test_side_by_side(glances: Sequence[ValueSummary | None], text: str) -> None:
    assert side_by_side(glances) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "float32, no aggregation"),
        ({"shape": (3, 4), "aggregation": "mean"}, "float32, shape [3, 4], mean"),
        (
            {"dtype": "int64", "aggregation": "sum", "synchronization": "on_read"},
            "int64, sum, on_read",
        ),
    ],
)
def test_a_variable_in_words(changes: dict[str, object], text: str) -> None:
    assert described(VariableDescription.model_validate({"name": "v", **changes})) == text


def test_exact_text_holds_every_digit() -> None:
    assert exact(one(0.1)) == "0.1"
    assert exact(ValueSummary.at(np.array(2**62 + 1))) == "4611686018427387905"
    assert exact(many(1.0, 2.0)) == "1.0 2.0"
    assert exact(ValueSummary.at(np.arange(9.0))) == "0.0 1.0 2.0 ... mean 4.0"
