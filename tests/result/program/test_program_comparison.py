"""Which mode is the cheapest, and by how much: on paired differences."""

import pytest

from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE, Estimate, lead_of, verdict


def said(longer: list[float], shorter: list[float], within: float = 0.0) -> str:
    exact = len(longer) == 1
    return verdict(lead_of(longer, shorter, exact=exact, additive=True), WORSE, "less", within)


@pytest.mark.parametrize(
    ("longer", "shorter", "found"),
    [
        ([2.0], [1.0], WORSE),
        ([1.0], [2.0], "less"),
        ([1.0], [1.0], SAME),
        ([1.0, 5.0], [1.0, 5.0], SAME),
        ([1.0, 5.0], [1.0 + 1e-12, 5.0], SAME),
        ([1.1, 5.1, 9.1], [1.0, 5.0, 9.0], WORSE),  # always by 0.1, whatever the ratio
        ([1.0, 5.0, 9.0], [1.1, 5.1, 9.1], "less"),
        ([1.0, 5.0, 9.0], [2.0, 4.0, 9.5], CLOSE),
        ([0.0], [0.0], SAME),
        ([1.0], [0.0], WORSE),
    ],
)
def test_judged_by_differences(longer: list[float], shorter: list[float], found: str) -> None:
    assert said(longer, shorter) == found


def test_a_sure_difference_may_be_too_small_to_matter() -> None:
    assert said([1.1, 5.1, 9.1], [1.0, 5.0, 9.0], 0.01) == WORSE  # by 2 % of the mean, 5
    assert said([1.1, 5.1, 9.1], [1.0, 5.0, 9.0], 0.021) == EQUAL


def test_one_replication_of_what_is_random_says_nothing() -> None:
    assert verdict(lead_of([2.0], [1.0], additive=True), WORSE, "less", 0.0) == UNTOLD


def test_beside_no_time_there_is_no_factor() -> None:
    found = lead_of([1.0, 2.0], [0.0, 0.0], additive=True)
    assert isinstance(found, Estimate)
    assert found.note == "no ratio"
