"""Step times made fewer, such that what is left has their mean and their quantiles."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.families import Times
from varsim.calibration.law import SHARES

Rows = Mapping[int, Sequence[float]]

_TELLING: Final = 200  # times of a worker in which its p99 can be seen


class Thinned(NamedTuple):
    """What is left, a row per worker or (`pooled`) one for all; and what was done, in words."""

    rows: tuple[Times, ...]
    pooled: bool
    words: tuple[str, ...]


def thinned(rows: Rows, alike: Rows, most: int, *, in_order: bool) -> Thinned:
    """At most so many of the times (s) of all workers.

    `in_order`: their order counts, and of every so many steps one is kept. Otherwise a worker's
    times in order of size are cut into equal groups, of each of which the mean is kept: the mean of
    all stays, and the tail is not lost. Where a worker had too few of them, `alike`, times that are
    divided by the factors of slow workers, are taken together.
    """
    whole = [np.array(row) for row in rows.values()]
    if sum(row.size for row in whole) <= most:
        return Thinned(tuple(whole), False, ())
    if in_order:
        return _strided(whole, most)
    each = most // len(whole)
    pooled = len(whole) > 1 and each < _TELLING
    if pooled:
        whole, each = [np.concatenate([np.array(row) for row in alike.values()])], most
    kept = tuple(_grouped(row, each) for row in whole)
    steps = sum(row.size for row in whole)
    groups = max(row.size for row in kept)
    who = (
        "steps of all workers" if pooled else "steps" if len(whole) == 1 else "steps, each worker's"
    )
    words = f"{steps} {who}, in order of size, in {groups} groups; of each stands its mean"
    return Thinned(kept, pooled, (words, _quality(kept, whole)))


def _strided(whole: Sequence[Times], most: int) -> Thinned:
    stride = -(-sum(row.size for row in whole) // most)
    while sum(-(-row.size // stride) for row in whole) > most and stride < max(
        row.size for row in whole
    ):
        stride += 1
    kept = tuple(row[::stride] for row in whole)
    words = f"of every {stride} steps one is kept, so that they are less like the one before"
    return Thinned(kept, False, (words, _quality(kept, whole)))


def _grouped(row: Times, number: int) -> Times:
    """The means of so many equal groups of times in order of size; two groups may share one."""
    if row.size <= number:
        return row
    sums = np.concatenate([[0.0], np.cumsum(np.sort(row))])
    bounds = np.linspace(0, row.size, number + 1)
    means: Times = np.diff(np.interp(bounds, np.arange(row.size + 1), sums)) * number / row.size
    return means


def _quality(kept: Sequence[Times], whole: Sequence[Times]) -> str:
    """Mean and quantiles of what is left over those of all."""
    left, everything = np.concatenate(kept), np.concatenate(whole)
    ratios = [f"mean {left.mean() / everything.mean():.3f}"]
    for share, now, was in zip(
        SHARES, np.quantile(left, SHARES), np.quantile(everything, SHARES), strict=True
    ):
        ratios.append(f"p{100 * share:g} {now / was:.3f}")
    return f"what is kept / measured: {', '.join(ratios)}"
