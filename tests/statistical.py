"""How random results are compared with what is expected of them."""

import math

import numpy as np
from numpy.typing import NDArray

from tests.seams import Trace

Numbers = NDArray[np.float64]


def assert_mean(values: Numbers, expected: float) -> None:
    """Independent values have this mean."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert error < 0.05 * abs(expected), "too few values to say anything"
    assert abs(values.mean() - expected) <= 4 * error


def assert_mean_in_time(values: Numbers, expected: float, batches: int = 40) -> None:
    """Values that depend on those shortly before have this mean in the long run."""
    size = len(values) // batches
    assert_mean(values[: size * batches].reshape(batches, size).mean(axis=1), expected)


def step_times(trace: Trace) -> Numbers:
    """Seconds from update to update, the first from 0."""
    return np.diff(trace.steps, prepend=0) / 1e9


def harmonic(n: int) -> float:
    return sum(1 / i for i in range(1, n + 1))
