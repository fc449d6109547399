"""Long tables as text, fast: columns of numbers through one template, chunk by chunk."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 50_000
_SECOND = 1_000_000_000


def filled(template: str, columns: Sequence[NDArray[Any] | list[str]]) -> Iterator[str]:
    """The template filled once per row, in chunks; one `%` field per column, equally long."""
    count = len(columns[0])
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        parts = [
            part if isinstance(part, list) else part.tolist()
            for part in (column[start:stop] for column in columns)
        ]
        yield template * (stop - start) % tuple(chain.from_iterable(zip(*parts, strict=True)))


def seconds_text(times: NDArray[np.int64]) -> list[str]:
    """Times in ns as exact seconds, `1.250000000`; empty for -1, which says never."""
    columns = [times // _SECOND, times % _SECOND]
    texts = "".join(filled("%d.%09d\n", columns)).splitlines()
    for index in np.flatnonzero(times < 0).tolist():
        texts[index] = ""
    return texts


def fair_shares(wanted: Sequence[int], available: int) -> list[int]:
    """How many each gets: what it wants, or an equal part of what the modest ones leave."""
    given = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for place, index in enumerate(order):
        given[index] = min(wanted[index], available // (len(wanted) - place))
        available -= given[index]
    return given
