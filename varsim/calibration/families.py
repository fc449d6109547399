"""Maximum-likelihood fits of distributions of step times, and the choice between them.

A family is refused if its p50, p90 or p99 is more than WORST off, however good its likelihood,
since barriers wait for the tail; of the others the one with the least AIC is chosen. p99.9 is
shown only, as few files have enough steps to know it. If all are refused, the empirical
distribution is left.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.float64]

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
        return [_constant(times)]
    return [fitted for family in _FAMILIES if (fitted := family(times)) is not None]


def _constant(times: Times) -> Fit:
    value = rounded(float(np.median(times)))
    return Fit("constant", {"value": value}, {}, math.inf, lambda share: value)


def _exponential(times: Times) -> Fit:
    mean = rounded(float(times.mean()))
    likelihood = -times.size * math.log(mean) - float(times.sum()) / mean
    return Fit("exponential", {"mean": mean}, {}, likelihood, lambda p: -mean * math.log1p(-p))


def _shifted_exponential(times: Times) -> Fit | None:
    # The minimum is rounded down: above any of the times the likelihood would be 0.
    minimum, mean = _rounded_down(float(times.min())), rounded(float(times.mean()))
    if not 0 < minimum < mean:
        return None
    scale = mean - minimum
    likelihood = -times.size * math.log(scale) - float((times - minimum).sum()) / scale
    given = {"minimum": minimum, "mean": mean}
    return Fit(
        "shifted_exponential",
        given,
        {},
        likelihood,
        lambda p: minimum - scale * math.log1p(-p),
    )


def _uniform(times: Times) -> Fit:
    low, high = _rounded_down(float(times.min())), _rounded_up(float(times.max()))
    likelihood = -times.size * math.log(high - low)
    given = {"low": low, "high": high}
    return Fit("uniform", given, {}, likelihood, lambda p: low + p * (high - low))


def _normal(times: Times) -> Fit | None:
    from scipy.special import ndtri

    mean, std = rounded(float(times.mean())), rounded(float(times.std()))
    if std <= 0 or mean < _CUT * std:
        return None
    scores = (times - mean) / std
    likelihood = -times.size * math.log(std * math.sqrt(2 * math.pi)) - float(scores @ scores) / 2
    given = {"mean": mean, "std": std}
    return Fit("normal", given, {}, likelihood, lambda p: mean + std * float(ndtri(p)))


def _lognormal(times: Times) -> Fit | None:
    from scipy.special import ndtri

    logs = np.log(times)
    sigma = rounded(float(logs.std()))
    if not 0 < sigma <= 10:
        return None
    mean = rounded(math.exp(float(logs.mean()) + sigma**2 / 2))
    centre = math.log(mean) - sigma**2 / 2
    scores = (logs - centre) / sigma
    likelihood = -times.size * math.log(sigma * math.sqrt(2 * math.pi)) - float(logs.sum())
    likelihood -= float(scores @ scores) / 2
    return Fit(
        "lognormal",
        {"mean": mean},
        {"sigma": sigma},
        likelihood,
        lambda p: math.exp(centre + sigma * float(ndtri(p))),
    )


def _gamma(times: Times) -> Fit | None:
    from scipy.special import digamma, gammaincinv

    mean, logs = float(times.mean()), np.log(times)
    gap = math.log(mean) - float(logs.mean())  # log(shape) - digamma(shape) at the maximum
    shape = _root(lambda x: math.log(x) - float(digamma(x)) - gap, 0.05, 1e6)
    if shape is None:
        return None
    mean, shape = rounded(mean), rounded(shape)
    scale = mean / shape
    likelihood = (shape - 1) * float(logs.sum()) - float(times.sum()) / scale
    likelihood -= times.size * (shape * math.log(scale) + math.lgamma(shape))
    return Fit(
        "gamma",
        {"mean": mean},
        {"shape": shape},
        likelihood,
        lambda p: scale * float(gammaincinv(shape, p)),
    )


def _weibull(times: Times) -> Fit | None:
    logs = np.log(times)
    relative = logs - logs.max()  # so that no power overflows

    def slope(shape: float) -> float:
        powers = np.exp(shape * relative)
        return float((powers @ logs) / powers.sum()) - 1 / shape - float(logs.mean())

    found = _root(slope, 0.05, 1e6)
    if found is None:
        return None
    shape = rounded(found)
    scale = math.exp(float(logs.max())) * float(np.exp(shape * relative).mean()) ** (1 / shape)
    mean = rounded(scale * math.gamma(1 + 1 / shape))
    scale = mean / math.gamma(1 + 1 / shape)
    scores = np.exp(shape * (logs - math.log(scale)))
    likelihood = times.size * (math.log(shape) - shape * math.log(scale))
    likelihood += (shape - 1) * float(logs.sum()) - float(scores.sum())
    return Fit(
        "weibull",
        {"mean": mean},
        {"shape": shape},
        likelihood,
        lambda p: scale * (-math.log1p(-p)) ** (1 / shape),
    )


def _pareto(times: Times) -> Fit | None:
    minimum = _rounded_down(float(times.min()))
    excess = float(np.log(times / minimum).sum())
    if excess <= 0:
        return None
    alpha = rounded(times.size / excess)
    if alpha <= 1:
        return None
    likelihood = times.size * (math.log(alpha) - math.log(minimum)) - (alpha + 1) * excess
    given = {"minimum": minimum}
    return Fit(
        "pareto", given, {"alpha": alpha}, likelihood, lambda p: minimum * (1 - p) ** (-1 / alpha)
    )


_FAMILIES: Final[tuple[Callable[[Times], Fit | None], ...]] = (
    *(_exponential, _shifted_exponential, _uniform, _normal),
    *(_lognormal, _gamma, _weibull, _pareto),
)


def _root(function: Callable[[float], float], low: float, high: float) -> float | None:
    """Root of a function, by Brent's method over the logarithm; None without a sign change."""
    from scipy.optimize import brentq

    def of_log(point: float) -> float:
        return function(math.exp(point))

    ends = math.log(low), math.log(high)
    if not of_log(ends[0]) * of_log(ends[1]) < 0:
        return None
    return math.exp(float(brentq(of_log, *ends, xtol=1e-12)))


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
FEWEST: Final = 20  # steps that can tell one family from another
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
