"""One verdict for all comparisons: paired, and only where it is sure and matters."""

import math

import numpy as np
import pytest

from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE, ranked, ratio, verdict


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        ([2.0, 2.1, 2.2], [1.0, 1.0, 1.0], "faster"),
        ([1.0, 1.0, 1.0], [2.0, 2.1, 2.2], "slower"),
        ([0.9, 1.0, 1.2], [1.0, 1.0, 1.0], CLOSE),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], SAME),
        ([0.1 + 0.2, 0.3], [0.3, 0.3], SAME),  # but for rounding
        ([2.0], [1.0], "one replication: no interval"),
        ([0.3], [0.3], SAME),
        ([0.1 + 0.2], [0.3], SAME),  # but for rounding
        ([2.0, math.nan], [1.0, 1.0], "in 1 of 2 replications"),
        ([1.009, 1.010, 1.011], [1.0, 1.0, 1.0], EQUAL),  # surely more, but not by 2 %
        ([1.02, 1.02], [1.0, 1.0], EQUAL),
        ([1.021, 1.021], [1.0, 1.0], "faster"),
        ([1.0, 1.0], [1.021, 1.021], "slower"),
        ([1.000, 1.015, 1.030], [1.0, 1.0, 1.0], CLOSE),  # on average less, perhaps more
        ([1.010, 1.015, 1.020], [1.0, 1.0, 1.0], CLOSE),  # surely more, perhaps by enough
    ],
)
def test_the_verdict_of_a_ratio(above: list[float], below: list[float], said: str) -> None:
    assert verdict(ratio(above, below), "faster", "slower", 0.02) == said


def test_how_little_is_practically_equal_can_be_said() -> None:
    exact = ratio([1.05, 1.05], [1.0, 1.0])
    assert verdict(exact, "faster", "slower", 0.02) == "faster"
    assert verdict(exact, "faster", "slower", 0.05) == EQUAL
    assert verdict(ratio([1.001, 1.001], [1.0, 1.0]), "faster", "slower", 0.0) == "faster"


class TestRanking:
    def test_the_smallest_mean_is_no_winner_by_itself(self) -> None:
        """666 ± 8 s against 668 ± 6 s, with draws of their own."""
        values = {"a": [656.0, 676.0, 664.0, 668.0], "b": [674.0, 663.0, 669.0, 666.0]}
        found = ranked(values, equal_within=0.0)
        assert found is not None
        assert found.best == "a"
        assert [rival.said for rival in found.rivals] == [CLOSE]
        assert found.of(CLOSE, EQUAL, UNTOLD)

    def test_a_lead_that_does_not_matter_is_none(self) -> None:
        """The winner by 1.00 times: sure, and too small to be one."""
        found = ranked({"a": [10.0, 20.0, 30.0], "b": [10.02, 20.05, 30.07]}, equal_within=0.02)
        assert found is not None
        assert [rival.said for rival in found.rivals] == [EQUAL]
        assert found.tied == ["a", "b"]

    def test_the_best_of_many_must_be_surer(self) -> None:
        """Sure of two is not sure of twelve, of which one is the best by luck."""
        one, other = [10.0, 10.4, 10.1, 10.3], [10.4, 10.8, 10.4, 11.0]
        two = ranked({"a": one, "b": other}, equal_within=0.0)
        rest = {f"c{number}": [100.0, 100.0, 101.0, 99.0] for number in range(10)}
        twelve = ranked({"a": one, "b": other, **rest}, equal_within=0.0)
        assert two is not None
        assert not two.of(CLOSE, EQUAL, UNTOLD)
        assert twelve is not None
        assert [rival.key for rival in twelve.of(CLOSE)] == ["b"]
        assert twelve.comparisons == 11
        assert two.rivals[0].lead.half_width < twelve.rivals[0].lead.half_width

    def test_what_is_exact_has_its_number_in_every_replication(self) -> None:
        values = {"exact": [1.0], "random": [2.0, 2.1, 2.2]}
        found = ranked(values, equal_within=0.02, exact=lambda key: key == "exact")
        assert found is not None
        assert not found.of(CLOSE, EQUAL, UNTOLD)
        assert found.rivals[0].lead.replications == 3
        unknown = ranked(values, equal_within=0.02)
        assert unknown is not None
        assert [rival.said for rival in unknown.rivals] == [UNTOLD]

    def test_two_that_are_exact_are_told_from_one_replication(self) -> None:
        found = ranked({"a": [1.0], "b": [1.5]}, equal_within=0.02, exact=lambda key: True)
        assert found is not None
        assert found.rivals[0].said == WORSE
        assert found.rivals[0].lead[:3] == (1.5, 1.5, 1.5)

    def test_a_number_that_is_missing_does_not_compete(self) -> None:
        found = ranked({"a": [1.0, math.nan], "b": [2.0, 2.0]}, equal_within=0.02)
        assert found is not None
        assert (found.best, found.rivals) == ("b", ())
        assert ranked({"a": [math.nan]}, equal_within=0.02) is None

    def test_numbers_of_0_are_ranked_by_differences(self) -> None:
        found = ranked({"a": [0.0, 0.0], "b": [5.0, 5.0]}, equal_within=0.02)
        assert found is not None
        assert found.best == "a"
        assert not found.of(CLOSE, EQUAL, UNTOLD)
        assert found.rivals[0].lead.note == "no ratio"

    def test_the_interval_of_several_covers_as_it_says(self) -> None:
        """Of equal alternatives the best of eight is called better than all in 5 % at most."""
        generator = np.random.default_rng(5)
        wrong = 0
        for _ in range(400):
            draws = generator.normal(10.0, 1.0, (8, 5))
            found = ranked(dict(enumerate(draws.tolist())), equal_within=0.0, highest=True)
            assert found is not None
            wrong += not found.of(CLOSE, EQUAL, UNTOLD)
        assert wrong <= 400 * 0.05
