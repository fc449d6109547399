"""The laws of closed forms in the words of a scenario."""

import math
from typing import Any, TypeAlias

LawOf: TypeAlias = dict[str, Any]


def constant(value: float) -> LawOf:
    """Always the same time."""
    return {"kind": "constant", "value": value}


def exponential(mean: float) -> LawOf:
    """Memoryless."""
    return {"kind": "exponential", "mean": mean}


def shifted(delta: float, mu: float) -> LawOf:
    """`delta`, and an exponential of rate `mu` on top."""
    if delta == 0:
        return exponential(1 / mu)
    return {"kind": "shifted_exponential", "minimum": delta, "mean": delta + 1 / mu}


def two_point(base: float, slow: float, p: float) -> LawOf:
    """`base`, but with probability `p` `slow` times that."""
    if p in (0, 1):
        return constant(base * slow if p else base)
    return {
        "kind": "mixture",
        "components": (
            {"weight": 1 - p, "distribution": constant(base)},
            {"weight": p, "distribution": constant(base * slow)},
        ),
    }


def named(law: str, mean: float = 1.0) -> LawOf:
    """By the names of the families: `lognormal1` has a log-sd of 1, `uniform` is half as wide.

    `shifted_exponential` is half the mean, and an exponential on top.
    """
    laws: dict[str, LawOf] = {
        "exponential": exponential(mean),
        "shifted_exponential": shifted(0.5 * mean, 2 / mean),
        "uniform": {"kind": "uniform", "low": 0.5 * mean, "high": 1.5 * mean},
        "lognormal1": {"kind": "lognormal", "mean": mean, "sigma": 1.0},
        "deterministic": constant(mean),
    }
    return laws[law]


def weibull(scale: float, shape: float) -> LawOf:
    """By scale and shape."""
    return {"kind": "weibull", "mean": scale * math.gamma(1 + 1 / shape), "shape": shape}


def lognormal(median: float, sigma: float) -> LawOf:
    """By median and log-sd."""
    return {"kind": "lognormal", "mean": median * math.exp(sigma**2 / 2), "sigma": sigma}
