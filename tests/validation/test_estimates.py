"""Means with 99 % intervals: with controls, and until they are narrow enough."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tests.seams import stream
from validation.points.estimate import (
    Estimate,
    Measured,
    columns,
    controlled,
    inverse,
    mean,
    student_t,
    times,
    until_sure,
)

NORMAL = stream(7, 0, "noise").standard_normal((400, 20, 2))


def test_the_interval_of_a_mean() -> None:
    # Mean 3, variance 2.5, 5 values; t of 4 degrees at 99.5 % is 4.604095.
    found = mean([1.0, 2.0, 3.0, 4.0, 5.0])

    assert found.value == 3.0
    assert found.half_width == pytest.approx(4.604094871 * math.sqrt(2.5 / 5), rel=1e-9)
    assert student_t(10**6) == pytest.approx(2.5758, abs=1e-4)


def test_intervals_cover_99_in_100() -> None:
    covered = [
        abs(found.value) <= found.half_width
        for rows in NORMAL[:, :, 0].tolist()
        if (found := mean(rows)).half_width is not None
    ]
    assert 0.975 <= sum(covered) / len(covered) <= 1.0


def test_a_control_takes_off_what_it_explains_and_still_covers() -> None:
    # y = 1 + x + noise / 10, where x is known to have mean 0.
    plain, held, covered = [], [], []
    for rows in NORMAL:
        y = 1 + rows[:, 0] + rows[:, 1] / 10
        found = controlled(y.tolist(), [[x] for x in rows[:, 0].tolist()], [0.0])
        assert found.half_width is not None
        plain.append(float(y.mean()))
        held.append(found.value)
        covered.append(abs(found.value - 1) <= found.half_width)

    assert np.std(held) < 0.15 * np.std(plain)
    assert 0.975 <= np.mean(covered) <= 1.0


def test_inverses_and_multiples() -> None:
    assert inverse(Estimate(4.0, 0.1)) == Estimate(0.25, 0.1 / 16)
    assert times(3.0, Estimate(2.0, 0.5)) == Estimate(6.0, 1.5)
    assert Estimate(-2.0, 0.5).share == 0.25
    assert Estimate(0.1, 0.5, scale=10.0).share == 0.05
    assert Estimate(0.1).share == 0.0


class TestUntilSure:
    def measured(self, spread: float, most: int = 100_000) -> tuple[Measured, int]:
        drawn: list[int] = []
        draws = (1 + spread * stream(3, 0, "noise").standard_normal(200_000)).tolist()

        def replication(number: int) -> Sequence[float]:
            drawn.append(number)
            return [draws[number]]

        found = until_sure(replication, columns(""), most)
        assert drawn == list(range(len(drawn))), "each replication once, in order"
        return found, len(drawn)

    def test_what_hardly_varies_needs_the_pilot_only(self) -> None:
        found, number = self.measured(0.001)
        assert number == 20
        assert found[""].share <= 0.005

    def test_what_varies_gets_as_many_as_it_needs(self) -> None:
        found, number = self.measured(0.1)
        # (2.58 * 0.1 / 0.0048)^2 = 2,880
        assert 2_500 < number < 3_500
        assert 0.004 < found[""].share <= 0.005

    def test_there_is_an_end(self) -> None:
        found, number = self.measured(1.0, most=600)
        assert number == 100
        assert found[""].share > 0.005
