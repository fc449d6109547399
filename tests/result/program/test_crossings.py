"""Where two lines cross, by hand."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from varsim.study.program import crossings


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # From below to above, half way between 1 and 2.
        ([0, 1, 3], [2, 2, 2], [(1.5, 2.0, True)]),
        ([2, 2, 2], [0, 1, 3], [(1.5, 2.0, False)]),
        # At a point that was run.
        ([0, 2, 4], [2, 2, 2], [(1.0, 2.0, True)]),
        # Never, or only touching.
        ([0, 1, 1], [2, 2, 2], []),
        ([0, 2, 1], [2, 2, 2], []),
        ([2, 2, 2], [2, 2, 2], []),
        ([2, 1, 0], [2, 2, 2], []),
        # There and back.
        ([0, 4, 0], [2, 2, 2], [(0.5, 2.0, True), (1.5, 2.0, False)]),
        # The gaps are 1 and 3: a quarter of the way.
        ([1, 5, 5], [2, 2, 2], [(0.25, 2.0, True)]),
        ([1, 9, 9], [2, 6, 6], [(0.25, 3.0, True)]),
    ],
)
def test_by_hand(
    first: Sequence[float], second: Sequence[float], expected: list[tuple[float, float, bool]]
) -> None:
    assert crossings([0, 1, 2], first, second) == expected


def test_lines_that_lie_on_one_another_cross_where_they_meet() -> None:
    # They differ before 1 and after 3, on different sides; between, they are the same.
    assert crossings([0, 1, 2, 3, 4], [0, 2, 2, 2, 5], [1, 2, 2, 2, 2]) == [(1, 2, True)]


HEIGHTS = some.lists(some.integers(-5, 5), min_size=6, max_size=6)


@given(HEIGHTS, HEIGHTS)
def test_they_change_places_as_often_as_their_difference_changes_sign(
    first: list[int], second: list[int]
) -> None:
    places = [0, 1, 3, 4, 7, 9]
    found = crossings(places, first, second)
    signs = [a - b for a, b in zip(first, second, strict=True) if a != b]
    changes = [a < 0 for a, b in pairwise(signs) if a * b < 0]
    assert [crossing.rises for crossing in found] == changes
    assert sorted(crossing.place for crossing in found) == [crossing.place for crossing in found]
    # The other way round it is the same, the other way up.
    turned = crossings(places, second, first)
    assert [crossing.place for crossing in turned] == pytest.approx(
        [crossing.place for crossing in found]
    )
