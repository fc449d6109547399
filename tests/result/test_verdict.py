"""One verdict for all comparisons: paired, and only where it is sure and matters."""

import math

import numpy as np
import pytest

from varsim.report.words.phrases import (
    Wording,
    margin,
    plus_minus,
    ratio_cell,
    says_nothing,
    times,
    told,
)
from varsim.study.statistics import Estimate, ratio, student_t
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE, ranked, verdict


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


class TestSaysNothing:
    @pytest.mark.parametrize(
        ("found", "shown"),
        [
            (Estimate(0.11, -2.0, 2.2, 2), "0.1100 ± ? s"),
            (Estimate(-0.11, -2.0, 2.2, 2), "-0.1100 ± ? s"),
            (Estimate(0.11, -2.0, 2.2, 3), "0.11 ± 2.1 s"),
            (Estimate(0.11, 0.05, 0.17, 2), "0.110 ± 0.060 s"),
            (Estimate(0.11, 0.0, 1e300, 3), "0.1100 ± ? s"),
        ],
    )
    def test_an_interval_that_exceeds_the_number(self, found: Estimate, shown: str) -> None:
        assert plus_minus(found, unit="s") == shown
        assert says_nothing(found) == ("?" in shown)

    def test_of_a_ratio(self) -> None:
        wide = Estimate(1.2, 0.001, 1440.0, 2)
        assert ratio_cell(wide) == "1.20x ± ?"
        assert times(wide, 3) == "1.20 times"
        assert times(Estimate(1.2, 1.1, 1.3, 2)) == "1.20 times (95 % interval 1.10 to 1.30)"

    def test_two_replications_are_warned_of(self) -> None:
        assert margin(3) == "± is the half-width of a 95 % confidence interval over 3 replications"
        assert margin(2).endswith(
            "2 replications (± ?: it exceeds the number); over five it would "
            "be about 7 times as narrow"
        )
        # 12.706 / sqrt(2) standard deviations of two, 2.776 / sqrt(5) of five.
        two, five = student_t(1) / math.sqrt(2), student_t(4) / math.sqrt(5)
        assert two / five == pytest.approx(7.24, abs=0.01)


class TestSentence:
    WORDING = Wording("The fastest is {name}: {value}", "Which strategy is fastest", "throughput")

    def said(self, values: dict[str, list[float]], wording: Wording = WORDING) -> str:
        found = ranked(values, equal_within=0.02, highest=True)
        assert found is not None
        return told(found, wording, str, lambda key: f"{sum(values[key]) / 2:g}/s")

    def test_of_a_winner(self) -> None:
        assert self.said({"a": [2.0, 2.0], "b": [1.0, 1.0]}) == (
            "The fastest is a: 2/s; next is b: 1/s, 2.00 times as much"
        )

    def test_of_what_is_practically_equal(self) -> None:
        assert self.said({"a": [2.0, 2.0], "b": [1.98, 1.98], "c": [1.0, 1.0]}) == (
            "a (2/s) and b (1.98/s) are practically equal: their throughput surely differs by "
            "less than 2 %; next is c: 1/s, 2.00 times as much"
        )

    def test_who_is_meant_by_that_is_clear(self) -> None:
        asked = self.WORDING._replace(next="", by="; {that} is {times} as fast as {name}")
        winner = {"a; that is it": [2.0, 2.0], "c": [1.0, 1.0]}
        assert self.said(winner, asked) == (
            "The fastest is a; that is it: 2/s; that is 2.00 times as fast as c"
        )
        assert self.said({**winner, "b": [1.98, 1.98]}, asked) == (
            "a; that is it (2/s) and b (1.98/s) are practically equal: their throughput surely "
            "differs by less than 2 %; the first is 2.00 times as fast as c"
        )

    def test_of_what_is_the_same(self) -> None:
        assert self.said({"a": [2.0, 1.0], "b": [2.0, 1.0]}) == (
            "a and b have the same throughput in every replication: 1.5/s"
        )

    def test_of_what_is_too_close_to_call(self) -> None:
        assert self.said({"a": [2.0, 1.0, 1.5], "b": [1.0, 2.0, 1.5]}).startswith(
            "Which strategy is fastest is too close to call: a (2.25/s) and b (2.25/s); apart by a "
            "factor"
        )

    def test_two_replications_far_apart_say_nothing(self) -> None:
        assert self.said({"a": [2.0, 1.0], "b": [1.0, 2.0]}) == (
            "Two replications are not enough to tell which strategy is fastest: a (1.5/s) and b "
            "(1.5/s); apart by a factor of 1.00; --set replications=5 tells more"
        )

    def test_of_many_the_first_few_are_named(self) -> None:
        values = {name: [2.0, 1.0] if name < "d" else [1.0, 2.0] for name in "abcdefg"}
        assert "a (1.5/s), b (1.5/s), c (1.5/s), d (1.5/s) and 3 more" in self.said(values)
