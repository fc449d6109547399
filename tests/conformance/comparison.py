"""Comparing what was seen with what was recorded."""

from collections.abc import Mapping, Set
from typing import Any

import numpy as np


def assert_close(
    seen: Any, expected: Any, rtol: float, where: str, left_out: Set[str] = frozenset()
) -> None:
    """Numbers with a fraction within the tolerance, all else exactly.

    Of a mapping every entry that was recorded is compared, but those left out; of a sequence, all.
    """
    if isinstance(expected, Mapping):
        for key in expected.keys() - left_out:
            assert key in seen, f"{where}: {key}: nothing seen"
            assert_close(seen[key], expected[key], rtol, f"{where}: {key}", left_out)
    elif _is_array(expected):
        values = np.asarray(seen)
        assert values.shape == np.shape(expected), f"{where}: {values} instead of {expected}"
        near = np.allclose(values, expected, rtol=rtol, atol=rtol)
        assert near, f"{where}: {values} instead of {expected}"
    elif isinstance(expected, list):
        assert len(seen) == len(expected), f"{where}: {seen} instead of {expected}"
        for index, (one, other) in enumerate(zip(seen, expected, strict=True)):
            assert_close(one, other, rtol, f"{where}: {index}", left_out)
    else:
        assert type(seen) is type(expected), f"{where}: {seen!r} instead of {expected!r}"
        assert seen == expected, f"{where}: {seen!r} instead of {expected!r}"


def _is_array(value: Any) -> bool:
    """A number with a fraction, or nested lists of them."""
    if isinstance(value, list):
        return bool(value) and all(_is_array(part) for part in value)
    return isinstance(value, float)
