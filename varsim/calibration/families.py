"""Maximum-likelihood fits of distributions of step times, and the choice between them.

A family is refused if its p50, p90 or p99 is more than WORST off, however good its likelihood,
since barriers wait for the tail; of the others the one with the least AIC is chosen. p99.9 is
shown only, as few files have enough steps to know it. If all are refused, the empirical
distribution is left.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from varsim.calibration.steps import FEWEST, Times

_DIGITS: Final = 6
_STEADY: Final = 1e-3  # half a per mille either way is no variation worth a law
_CUT: Final = 4.0  # standard deviations above 0 from which the cut of a normal law is nothing


class Fit(NamedTuple):
    """Fitted distribution: parameters in seconds and `plain` ones, log likelihood, quantiles."""

    kind: str
    seconds: Mapping[str, float]
    plain: Mapping[str, float]
    likelihood: float
    quantile: Callable[[float], float]

    @property
    def aic(self) -> float:
        """Akaike's criterion: 2 parameters - 2 log likelihood."""
        return 2 * (len(self.seconds) + len(self.plain)) - 2 * self.likelihood


def rounded(value: float) -> float:
    """As it is printed."""
    return float(f"{value:.{_DIGITS}g}")


def fits(times: Times) -> list[Fit]:
    """Every family that can be fitted; only `constant` where times hardly differ."""
    middle = float(np.median(times))
    if float(times.max()) - float(times.min()) <= _STEADY * middle:
        value = rounded(middle)
        return [Fit("constant", {"value": value}, {}, math.inf, lambda share: value)]
    return [
        Fit(kind, seconds, plain, float(law.logpdf(times).sum()), law.ppf)
        for kind, family in _FAMILIES.items()
        for seconds, plain, law in family(times)
    ]


# Parameters in seconds, plain ones, and scipy's law with them.
_Law: TypeAlias = tuple[dict[str, float], dict[str, float], Any]


def _exponential(times: Times) -> Iterator[_Law]:
    mean = rounded(float(times.mean()))
    yield {"mean": mean}, {}, stats.expon(scale=mean)


def _shifted_exponential(times: Times) -> Iterator[_Law]:
    # The minimum is rounded down: above any of the times the likelihood would be 0.
    minimum, mean = _rounded_down(float(times.min())), rounded(float(times.mean()))
    if 0 < minimum < mean:
        yield {"minimum": minimum, "mean": mean}, {}, stats.expon(minimum, mean - minimum)


def _uniform(times: Times) -> Iterator[_Law]:
    low, high = _rounded_down(float(times.min())), _rounded_up(float(times.max()))
    yield {"low": low, "high": high}, {}, stats.uniform(low, high - low)


def _normal(times: Times) -> Iterator[_Law]:
    mean, std = rounded(float(times.mean())), rounded(float(times.std()))
    if 0 < _CUT * std <= mean:
        yield {"mean": mean, "std": std}, {}, stats.norm(mean, std)


def _lognormal(times: Times) -> Iterator[_Law]:
    logs = np.log(times)
    sigma = rounded(float(logs.std()))
    if 0 < sigma <= 10:
        mean = rounded(math.exp(float(logs.mean()) + sigma**2 / 2))
        yield (
            {"mean": mean},
            {"sigma": sigma},
            stats.lognorm(sigma, scale=mean / math.exp(sigma**2 / 2)),
        )


def _gamma(times: Times) -> Iterator[_Law]:
    mean, shape = rounded(float(times.mean())), rounded(float(stats.gamma.fit(times, floc=0)[0]))
    yield {"mean": mean}, {"shape": shape}, stats.gamma(shape, scale=mean / shape)


def _weibull(times: Times) -> Iterator[_Law]:
    logs = np.log(times)
    relative = logs - logs.max()  # so that no power overflows

    def slope(log_shape: float) -> float:
        powers = np.exp(math.exp(log_shape) * relative)
        return float((powers @ logs) / powers.sum()) - math.exp(-log_shape) - float(logs.mean())

    ends = math.log(0.05), math.log(1e6)
    if not slope(ends[0]) * slope(ends[1]) < 0:
        return
    shape = rounded(math.exp(float(brentq(slope, *ends, xtol=1e-12))))
    scale = math.exp(float(logs.max())) * float(np.exp(shape * relative).mean()) ** (1 / shape)
    of_one = math.gamma(1 + 1 / shape)
    mean = rounded(scale * of_one)
    yield {"mean": mean}, {"shape": shape}, stats.weibull_min(shape, scale=mean / of_one)


def _pareto(times: Times) -> Iterator[_Law]:
    minimum = _rounded_down(float(times.min()))
    excess = float(np.log(times / minimum).sum())
    alpha = rounded(times.size / excess) if excess > 0 else 0.0
    if alpha > 1:
        yield {"minimum": minimum}, {"alpha": alpha}, stats.pareto(alpha, scale=minimum)


_FAMILIES: Final[Mapping[str, Callable[[Times], Iterator[_Law]]]] = {
    "exponential": _exponential,
    "shifted_exponential": _shifted_exponential,
    "uniform": _uniform,
    "normal": _normal,
    "lognormal": _lognormal,
    "gamma": _gamma,
    "weibull": _weibull,
    "pareto": _pareto,
}


def _rounded_down(value: float) -> float:
    near = rounded(value)
    return near if near <= value else rounded(near - _last_digit(value))


def _rounded_up(value: float) -> float:
    near = rounded(value)
    return near if near >= value else rounded(near + _last_digit(value))


def _last_digit(value: float) -> float:
    return 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)


WORST: Final = 0.10
SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_CHECKED: Final = SHARES[:3]


class Candidate(NamedTuple):
    """Fitted family with the ratios of its quantiles to the measured ones (at SHARES)."""

    fit: Fit
    ratios: tuple[float, ...]

    @property
    def refused(self) -> bool:
        """Is one of the quantiles up to p99 too far off?"""
        return self.farthest[1] > WORST

    @property
    def farthest(self) -> tuple[float, float]:
        """Probability and relative error of the worst quantile up to p99."""
        off = [abs(ratio - 1) for ratio in self.ratios[: len(_CHECKED)]]
        return _CHECKED[off.index(max(off))], max(off)


class Choice(NamedTuple):
    """All families by AIC; `best` is None where only the empirical distribution is left."""

    candidates: tuple[Candidate, ...]
    best: Candidate | None
    quantiles: tuple[float, ...]


def choose(times: Times) -> Choice:
    """Choice of a distribution for independent times (s)."""
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
