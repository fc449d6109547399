"""Renewal function of a Weibull law: how many failures are expected of a member that is new."""

import math

import numpy as np
import pytest

from varsim.core.distribution import Weibull


@pytest.mark.parametrize("time", [0.01, 1.0, 30.0])
def test_without_memory_it_is_time_by_mean(time: float) -> None:
    assert Weibull(mean=2.0, shape=1.0).renewals(time) == pytest.approx(time / 2.0, rel=1e-4)


@pytest.mark.parametrize("shape", [0.5, 0.7, 3.0])
def test_at_first_it_is_that_one_has_failed(shape: float) -> None:
    # Two failures of a member are too rare to matter: F <= M <= F / (1 - F).
    law, time = Weibull(mean=1.0, shape=shape), 1e-4
    failed = -math.expm1(-((time * math.gamma(1 + 1 / shape)) ** shape))

    assert failed <= law.renewals(time) * (1 + 1e-9)
    assert law.renewals(time) <= failed / (1 - failed)


@pytest.mark.parametrize("shape", [0.7, 2.0])
def test_in_the_end_it_is_ahead_by_what_the_first_ones_are(shape: float) -> None:
    # M(t) - t / mean -> (c^2 - 1) / 2, with c the coefficient of variation (Feller, 1949).
    law = Weibull(mean=1.0, shape=shape)
    square = math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1

    assert law.renewals(30.0) - 30.0 == pytest.approx((square - 1) / 2, abs=0.01)


def test_as_many_as_are_counted() -> None:
    law, generator = Weibull(mean=1.0, shape=0.7), np.random.Generator(np.random.PCG64(3))
    draws = np.stack([law.draw(generator) for _ in range(4000)])[:, :40]
    counted = (draws.cumsum(axis=1) <= 2.5).sum(axis=1)

    assert counted.max() < 40
    error = counted.std() / math.sqrt(len(counted))
    assert law.renewals(2.5) == pytest.approx(counted.mean(), abs=3.5 * error)
