"""Numbers as JSON has them."""

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from varsim.study.statistics import Estimate

T = TypeVar("T")


def plain(cell: T) -> T | None:
    """A cell of JSON: no number, or one without end, is none."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def plain_estimate(found: "Estimate") -> dict[str, float | None]:
    """A mean and its interval for JSON."""
    return {name: plain(getattr(found, name)) for name in ("mean", "low", "high")}
