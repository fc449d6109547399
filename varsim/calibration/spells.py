"""Steps that are like the one before as spells of fast and of slow ones: the law `markov`.

Times are cut in two where the logarithms within the parts differ least (Otsu 1979); how often one
follows the other gives the probabilities, and each part has a law of its own.
"""

from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.families import WORST, Fit, Times, choose, rounded
from varsim.calibration.steps import Rows

SHARES: Final = (0.5, 0.9, 0.99)
_FEWEST: Final = 3  # changes each way that tell how often there is one
_ENOUGH: Final = 0.5  # of the measured autocorrelation, that the law has to keep
_POINTS: Final = (np.arange(1000) + 0.5) / 1000


class MarkovFit(NamedTuple):
    """The law, its autocorrelation (lag 1), and its quantiles over the measured ones (at SHARES).

    `border` (s): from there on a step is slow.
    """

    fast: Fit
    slow: Fit
    to_slow: float
    to_fast: float
    border: float
    autocorrelation: float
    ratios: tuple[float, ...]

    @property
    def share_slow(self) -> float:
        """Share of the steps that are slow, in the long run."""
        return self.to_slow / (self.to_slow + self.to_fast)

    def fits(self, measured: float) -> bool:
        """Does it keep enough of the measured autocorrelation, and all quantiles?"""
        near = all(abs(ratio - 1) <= WORST for ratio in self.ratios)
        return near and self.autocorrelation >= _ENOUGH * measured


def fit_markov(rows: Rows) -> MarkovFit | None:
    """The law of all rows together; None where the steps hardly ever change from fast to slow."""
    times = np.concatenate([np.array(row) for row in rows.values()])
    border = _border(times)
    before = np.concatenate([np.array(row[:-1]) >= border for row in rows.values()])
    after = np.concatenate([np.array(row[1:]) >= border for row in rows.values()])
    slower, faster = int((~before & after).sum()), int((before & ~after).sum())
    if min(slower, faster) < _FEWEST:
        return None
    to_slow, to_fast = rounded(slower / (~before).sum()), rounded(faster / before.sum())
    fast, slow = _law(times[times < border]), _law(times[times >= border])
    points = np.concatenate(
        [[distribution.quantile(p) for p in _POINTS] for distribution in (fast, slow)]
    )
    share = to_slow / (to_slow + to_fast)
    weights = np.repeat([1 - share, share], len(_POINTS))
    between = share * (1 - share) * (points[len(_POINTS) :].mean() - points[: len(_POINTS)].mean())
    mean = np.average(points, weights=weights)
    variance = np.average((points - mean) ** 2, weights=weights)
    gap = points[len(_POINTS) :].mean() - points[: len(_POINTS)].mean()
    return MarkovFit(
        fast,
        slow,
        to_slow,
        to_fast,
        border,
        float((1 - to_slow - to_fast) * between * gap / variance),
        tuple(
            float(_quantile(points, weights, share) / np.quantile(times, share)) for share in SHARES
        ),
    )


def _border(times: Times) -> float:
    """Where to cut, so that the variance between both parts is largest."""
    values = np.unique(times)
    logs = np.log(np.sort(times))
    counts = np.searchsorted(np.sort(times), values[1:])
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    low, high = sums[counts] / counts, (sums[-1] - sums[counts]) / (logs.size - counts)
    between = counts * (logs.size - counts) * (high - low) ** 2
    return float(values[1 + int(np.argmax(between))])


def _law(times: Times) -> Fit:
    choice = choose(times)
    return (choice.best or choice.candidates[0]).fit


def _quantile(points: Times, weights: Times, share: float) -> float:
    order = np.argsort(points)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(points[order][np.searchsorted(reached, share)])
