"""One verdict for all comparisons: paired, and only where it is sure and matters."""

import math

import pytest

from varsim.result.statistics import ratio
from varsim.result.verdict import CLOSE, EQUAL, SAME, verdict


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        ([2.0, 2.1, 2.2], [1.0, 1.0, 1.0], "faster"),
        ([1.0, 1.0, 1.0], [2.0, 2.1, 2.2], "slower"),
        ([0.9, 1.0, 1.2], [1.0, 1.0, 1.0], CLOSE),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], SAME),
        ([0.1 + 0.2, 0.3], [0.3, 0.3], SAME),  # but for rounding
        ([2.0], [1.0], "one replication: no interval"),
        ([0.3], [0.3], SAME),
        ([0.1 + 0.2], [0.3], SAME),  # but for rounding
        ([2.0, math.nan], [1.0, 1.0], "in 1 of 2 replications"),
        ([1.009, 1.010, 1.011], [1.0, 1.0, 1.0], EQUAL),  # surely more, but not by 2 %
        ([1.02, 1.02], [1.0, 1.0], EQUAL),
        ([1.021, 1.021], [1.0, 1.0], "faster"),
        ([1.0, 1.0], [1.021, 1.021], "slower"),
        ([1.000, 1.015, 1.030], [1.0, 1.0, 1.0], CLOSE),  # on average less, perhaps more
        ([1.010, 1.015, 1.020], [1.0, 1.0, 1.0], CLOSE),  # surely more, perhaps by enough
    ],
)
def test_the_verdict_of_a_ratio(above: list[float], below: list[float], said: str) -> None:
    assert verdict(ratio(above, below), "faster", "slower", 0.02) == said


def test_how_little_is_practically_equal_can_be_said() -> None:
    exact = ratio([1.05, 1.05], [1.0, 1.0])
    assert verdict(exact, "faster", "slower", 0.02) == "faster"
    assert verdict(exact, "faster", "slower", 0.05) == EQUAL
    assert verdict(ratio([1.001, 1.001], [1.0, 1.0]), "faster", "slower", 0.0) == "faster"
