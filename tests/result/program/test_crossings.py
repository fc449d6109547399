"""Where two lines cross, by hand."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from varsim.study.crossings import crossings


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # From below to above, half way between 1 and 2.
        ([0, 1, 3], [2, 2, 2], [(1.5, True)]),
        ([2, 2, 2], [0, 1, 3], [(1.5, False)]),
        # At a point that was run.
        ([0, 2, 4], [2, 2, 2], [(1.0, True)]),
        # Never, or only touching.
        ([0, 1, 1], [2, 2, 2], []),
        ([0, 2, 1], [2, 2, 2], []),
        ([2, 2, 2], [2, 2, 2], []),
        # There and back.
        ([0, 4, 0], [2, 2, 2], [(0.5, True), (1.5, False)]),
        # The gaps are 1 and 3: a quarter of the way.
        ([1, 9, 9], [2, 6, 6], [(0.25, True)]),
    ],
)
def test_crossings_by_hand(
    first: Sequence[float], second: Sequence[float], expected: list[tuple[float, bool]]
) -> None:
    assert crossings([0, 1, 2], first, second) == expected


HEIGHTS = some.lists(some.integers(-5, 5), min_size=6, max_size=6)


@given(HEIGHTS, HEIGHTS)
def test_lines_change_places_as_often_as_their_difference_changes_sign(
    first: list[int], second: list[int]
) -> None:
    found = crossings([0, 1, 3, 4, 7, 9], first, second)
    signs = [a - b for a, b in zip(first, second, strict=True) if a != b]
    assert [rises for _, rises in found] == [a < 0 for a, b in pairwise(signs) if a * b < 0]
    assert sorted(place for place, _ in found) == [place for place, _ in found]
