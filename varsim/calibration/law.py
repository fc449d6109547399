"""Which law step times follow: by AIC among those whose quantiles are right.

A family whose p99 is more than WORST off is refused, however good its likelihood: it is the tail
that barriers wait for. So is one that has its p50 or p90 wrong: a uniform law meets any p99 of
times that are rarely, but much, longer. p99.9 is shown, and refuses nothing: few files have enough
steps to know it. If every family is refused the empirical law (`kind: trace`) is left.
"""

from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.families import Fit, Times, fits

WORST: Final = 0.10
SHARES: Final = (0.5, 0.9, 0.99, 0.999)
FEWEST: Final = 20  # steps that can tell one family from another
_CHECKED: Final = SHARES[:3]


class Candidate(NamedTuple):
    """A fitted family, and its quantiles over those that were measured (at SHARES)."""

    fit: Fit
    ratios: tuple[float, ...]

    @property
    def refused(self) -> bool:
        """Is one of the quantiles up to p99 too far off?"""
        return self.farthest[1] > WORST

    @property
    def farthest(self) -> tuple[float, float]:
        """Of the quantiles up to p99 the one that is farthest off, and by how much."""
        off = [abs(ratio - 1) for ratio in self.ratios[: len(_CHECKED)]]
        return _CHECKED[off.index(max(off))], max(off)


class Choice(NamedTuple):
    """All families, the best first; `best` is None where the empirical law is left."""

    candidates: tuple[Candidate, ...]
    best: Candidate | None
    quantiles: tuple[float, ...]


def choose(times: Times) -> Choice:
    """The law of times (s) that do not depend on each other."""
    measured = tuple(float(value) for value in np.quantile(times, SHARES))
    candidates = []
    for fit in fits(times):
        pairs = zip(SHARES, measured, strict=True)
        candidates.append(Candidate(fit, tuple(fit.quantile(p) / value for p, value in pairs)))
    candidates.sort(key=lambda one: one.fit.aic)
    fine = [one for one in candidates if not one.refused]
    constant = bool(candidates) and candidates[0].fit.kind == "constant"
    best = fine[0] if fine and (constant or times.size >= FEWEST) else None
    return Choice(tuple(candidates), best, measured)
