"""Warm-up, slow workers and steps that depend on each other."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from varsim.calibration.steps import dependence, slow_workers, warm_up
from varsim.core.stream import stream


def row(worker: int, steps: int = 200, factor: float = 1.0) -> list[float]:
    """Lognormal times around 0.1 s."""
    draw = stream(5, 0, "compute", worker).standard_normal(steps)
    times: list[float] = (factor * 0.1 * np.exp(0.1 * draw)).tolist()
    return times


class TestSlowWorkers:
    def test_a_slow_worker_is_found_with_its_factor(self) -> None:
        (found,) = slow_workers({0: row(0), 1: row(1), 2: row(2, factor=1.5), 3: row(3)})

        assert found.worker == 2
        assert found.low < 1.5 < found.high
        assert found.high - found.low < 0.15
        assert found.tail == pytest.approx(1.5, rel=0.05)

    def test_of_two_workers_the_slower_one_is_slow(self) -> None:
        assert [one.worker for one in slow_workers({0: row(0, factor=2.0), 1: row(1)})] == [0]

    def test_several_slow_ones_are_compared_with_the_others_alone(self) -> None:
        rows = {w: row(w, factor=3.0 if w in (1, 4) else 1.0) for w in range(6)}

        assert [one.factor for one in slow_workers(rows)] == pytest.approx([3.0, 3.0], rel=0.05)

    def test_equal_workers_are_not_slow(self) -> None:
        for first in range(0, 80, 8):
            assert slow_workers({w: row(first + w) for w in range(8)}) == []

    def test_one_fast_worker_makes_no_others_slow(self) -> None:
        assert slow_workers({w: row(w, factor=0.5 if w == 0 else 1.0) for w in range(4)}) == []

    def test_the_interval_holds_the_factor_nearly_always(self) -> None:
        held = 0
        for sample in range(200):
            rows = {w: row(1000 + 4 * sample + w, 60, 1.4 if w == 0 else 1.0) for w in range(4)}
            held += any(one.low <= 1.4 <= one.high for one in slow_workers(rows))

        # 99 % of 200; 193 or fewer would be met once in 2,000 times.
        assert held >= 193

    def test_few_steps_say_nothing(self) -> None:
        assert slow_workers({0: row(0, 7, 3.0), 1: row(1, 7)}) == []

    def test_rare_late_steps_make_no_worker_slow_but_are_told(self) -> None:
        late = row(1, factor=1.3)
        late[::5] = [5 * time for time in late[::5]]
        (found,) = slow_workers({0: row(0), 1: late, 2: row(2)})

        assert found.tail > 3


class TestWarmUp:
    def test_first_steps_that_are_long(self) -> None:
        rows: dict[int, Sequence[float]] = {w: [1.0, 0.4, *row(w)] for w in range(3)}
        found = warm_up(rows)

        assert found is not None
        assert found.steps == 2
        assert found.excess == pytest.approx(0.9, abs=0.02)

    def test_a_late_first_step_of_one_worker_is_an_accident(self) -> None:
        assert warm_up({0: [1.0, *row(0)], 1: row(1), 2: row(2)}) is None

    def test_steps_that_are_usual_later_are_no_warm_up(self) -> None:
        times = row(0)
        times[::20] = [0.5] * 10

        assert warm_up({0: times}) is None

    def test_too_few_steps_say_nothing(self) -> None:
        assert warm_up({0: [1.0, 0.1, 0.1]}) is None


class TestAutocorrelation:
    def test_independent_steps(self) -> None:
        assert dependence({w: row(w) for w in range(4)}) is None

    def test_fast_and_slow_spells(self) -> None:
        spells = ([0.1] * 20 + [0.3] * 20) * 10
        # Of 400 steps 19 differ from the one before: r = 1 - 2 * 19 / 400, but for the two ends.
        assert dependence({0: spells}) == pytest.approx(1 - 38 / 400, abs=0.01)

    def test_constant_or_single_steps(self) -> None:
        assert dependence({0: [0.1] * 10}) is None
        assert dependence({0: [0.1]}) is None

    def test_equal_steps_are_not_called_like_the_one_before(self) -> None:
        rounded = [0.095] * 5 + [math.nextafter(0.095, 1)] * 25
        assert dependence({0: rounded}) is None
