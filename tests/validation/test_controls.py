"""Control variates of steps: draws found again, chances of a draw, unbiased and narrower means."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from tests.seams import stream
from validation.points import laws
from validation.points.controls import Lateness, Steps, beyond, draws, refined
from validation.points.estimate import mean
from validation.points.laws import LawOf
from validation.points.order_statistics import barrier, slowed
from validation.points.scenario import ran, scenario, step_seconds
from varsim import Scenario

NOISE = stream(7, 0, "noise").standard_normal((300, 20, 50, 2))
SLOWED = slowed([1.0, 1.0, 1.0, 0.5])
DISTRIBUTIONS = [
    laws.constant(2.0),
    laws.exponential(2.0),
    laws.shifted(0.5, 2.0),
    laws.weibull(1.0, 0.7),
    laws.lognormal(1.0, 0.5),
    laws.two_point(1.0, 5.0, 0.2),
    {"kind": "uniform", "low": 1.0, "high": 2.0},
    {"kind": "pareto", "minimum": 1.0, "alpha": 2.5},
    {"kind": "gumbel", "location": 1.0, "scale": 0.2},
    {"kind": "normal", "mean": 1.0, "std": 0.6},
]


def steps_of(law: LawOf, n: int, k: int, steps: int = 60, **cluster: Any) -> Scenario:
    return scenario(barrier(n, k), n, law, {"global_steps": steps}, **cluster)


@pytest.mark.parametrize("law", DISTRIBUTIONS, ids=lambda law: law["kind"])
def test_the_chance_of_a_longer_draw(law: LawOf) -> None:
    """Its integral is the mean; and it is the share of the draws of a law."""
    described = steps_of(law, 2, 2)
    drawn = described.cluster.compute_distribution(described.workload)
    parts = [0.0, 1.0, 2.0, 5.0, 50.0, math.inf]
    pieces = itertools.pairwise(parts)
    whole = sum(quad(lambda t: beyond(drawn, t), low, high)[0] for low, high in pieces)
    assert whole == pytest.approx(drawn.expectation(), rel=1e-3)

    blocks = drawn.blocks(0, lambda block: stream(3, 0, "noise", block))
    sample = np.concatenate(list(itertools.islice(blocks, 100)))
    for time in (0.5, 1.2, 2.5):
        share = beyond(drawn, time)
        error = math.sqrt(share * (1 - share) / len(sample))
        assert abs((sample > time).mean() - share) <= 4 * error


@pytest.mark.parametrize("k", [1, 3, 4])
@pytest.mark.parametrize("law", DISTRIBUTIONS[1:], ids=lambda law: law["kind"])
def test_draws_are_those_that_a_run_was_made_of(law: LawOf, k: int) -> None:
    """A step took as long as the k-th shortest of them, to the nanosecond."""
    described = steps_of(law, 4, k, steps=150, **SLOWED)
    trace = ran(described, 3)
    kth = np.sort(draws(described, trace), axis=1)[:, k - 1]

    assert np.abs(kth - step_seconds(trace)).max() <= 1.1e-9


def test_draws_of_another_run_are_noticed() -> None:
    described = steps_of(laws.exponential(1.0), 4, 3)
    other = dataclasses.replace(ran(described, 3), replication=4)
    with pytest.raises(AssertionError, match="not the one drawn"):
        draws(described, other)


@pytest.mark.parametrize("k", [1, 3, 4])
def test_controls_are_0_on_average(k: int) -> None:
    described = steps_of(laws.two_point(1.0, 5.0, 0.2), 4, k, **SLOWED)
    lateness = Lateness(described, k)
    each = [lateness.controls(ran(described, number)).mean(axis=0) for number in range(1, 60)]

    for column in np.array(each).T:
        found = mean(column.tolist())
        assert found.half_width is not None
        assert abs(found.value) <= 1.6 * found.half_width + 1e-12


def test_what_is_explained_is_taken_off_and_the_interval_still_covers() -> None:
    """y = 1 + x + noise / 10, where x is known to have mean 0; 20 replications of 50 steps."""
    plain, held, covered = [], [], []
    for rows in NOISE:
        found = refined([Steps(1 + row[:, 0] + row[:, 1] / 10, row[:, :1]) for row in rows])
        assert found.half_width is not None
        plain.append(float((1 + rows[:, :, 0] + rows[:, :, 1] / 10).mean()))
        held.append(found.value)
        covered.append(abs(found.value - 1) <= found.half_width)

    assert np.std(held) < 0.15 * np.std(plain)
    assert 0.97 <= np.mean(covered) <= 1.0


def test_controls_that_are_off_hide_nothing() -> None:
    """Draws that are 0.5 too long: the mean is what was simulated, not what should have been."""
    rows = [Steps(1.5 + row[:, 0], row[:, :1] + 0.5) for row in NOISE[0]]

    assert refined(rows) == mean([float(row.values.mean()) for row in rows])
    assert refined(rows).value == pytest.approx(1.5, abs=0.15)
