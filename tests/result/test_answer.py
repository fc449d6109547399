"""What a result says of the best of its strategies, in sentences."""

from dataclasses import replace
from typing import Any

from tests.handmade import a_result, a_scenario
from varsim.report.words.cost import CHEAPEST
from varsim.report.words.notes import notes
from varsim.report.words.phrases import told
from varsim.report.words.rates import caveat
from varsim.study.result import Result
from varsim.study.verdict import ranked

ALL_ALIKE = (
    "All strategies trained at learning rate 0.1. At another rate, another may learn best; to "
    "compare each at its best: varsim tune FILE."
)


def test_the_answer_names_the_fastest_and_by_how_much() -> None:
    lines = a_result({"a": (2, 4), "b": (1, 2), "c": (3, 6)}, targets={"loss": 1.0}).answer()
    first, price, apart, target, rate = lines.splitlines()
    assert first.startswith("The fastest is 'b': ")
    assert "that is 2.00 times as fast as 'a', the next fastest." in first
    assert "0.354 times" in first  # against one worker alone: 0.5 and 0.25
    assert "0.3333 updates old on average when it was applied, 1 at most" in price
    assert "30.77 % of the compute time was wasted" in price
    assert "had missed 2 updates" in price
    assert apart == (
        "Largest measured distance between two copies: 0.500 in 'a', 0.500 in 'b', 0.500 in 'c'."
    )
    assert target == (
        "Loss 1 at learning rate 0.1 is reached soonest by 'b': after 7.500 ± ? s; next is 'a' "
        "after 15 ± ? s, 2.00 times as long."
    )
    assert rate == ALL_ALIKE


def test_final_losses_are_compared_where_no_target_is_reached() -> None:
    for targets in ({}, {"loss": 0.01}):
        lines = a_result({"a": (2, 2, 2), "b": (1, 2, 2)}, targets=targets).answer()
        _, _, _, final, common, *_ = lines.splitlines()
        assert final == (
            "'a' and 'b' have the same final loss at learning rate 0.1 in every replication: "
            "0.5000 (their settings are the same)."
        )
        assert "at 10 s (the end of the shortest run) at learning rate 0.1 is too close" in common


def test_ends_a_moment_apart_are_one_end() -> None:
    for pace, told_of in ((104, False), (106, True)):
        lines = a_result({"a": (100, 100), "b": (pace, pace)}).answer()
        assert "final loss" in lines
        assert ("the end of the shortest run" in lines) == told_of


def test_no_loss_is_the_lowest_where_none_was_measured_after_the_start() -> None:
    result = a_result({"a": (2, 4), "b": (1, 2)})
    first, *others = result.traces
    begun = replace(first, evaluations=first.evaluations[:1])
    assert first.evaluations[0].time == 0
    assert "final loss" in result.answer()
    assert "final loss" not in Result(result.scenario, (begun, *others), result.reference).answer()


def test_costs_that_are_practically_equal() -> None:
    ranking = ranked({"a": (100.0, 101.0), "b": (100.1, 101.2)}, equal_within=0.05)
    assert ranking is not None
    assert told(ranking, CHEAPEST, str, lambda name: "1 EUR").endswith(
        "are practically equal: their cost of a million examples surely differs by less than 5 %"
    )


def test_the_answer_compares_with_the_first_strategy_too() -> None:
    result = a_result({"a": (8, 8), "b": (4, 4), "c": (2, 2)})
    assert "'c' is 4.00 times as fast as 'a', the first strategy." in result.answer()


def test_the_answer_may_be_that_it_is_too_close_to_call() -> None:
    answer = a_result({"a": (3, 3, 3), "b": (2, 3, 4)}, targets={"loss": 1.0}).answer()
    first, *_, target, _ = answer.splitlines()
    assert first == (
        "Which strategy is fastest is too close to call: 'b' (0.90 ± 0.79 examples/s) and 'a' "
        "(0.8333 "
        "examples/s); apart by a factor of 1.04 (95 % interval 0.438 to 2.47)."
    )
    assert target == (
        "Which reaches loss 1 at learning rate 0.1 soonest is too close to call: 'b' "
        "(15 ± 12 s) and 'a' (15 s); apart by a factor of 1.04 (95 % interval 0.438 to 2.47)."
    )


def test_the_answer_may_be_that_they_are_the_same() -> None:
    answer = a_result({"a": (1, 2), "b": (1, 2), "c": (2, 4)}).answer()
    assert answer.startswith("'a' and 'b' are equally fast in every replication, the best of 3: ")


def test_one_replication_of_what_is_random_names_no_winner() -> None:
    result = a_result({"a": (1,), "b": (1,), "c": (2,)}, targets={"loss": 1.0})
    first, _, _, target, _ = result.answer().splitlines()
    assert first == (
        "One replication is not enough to tell which strategy is fastest: "
        "'a' (2.500 examples/s), 'b' "
        "(2.500 examples/s) and 'c' (1.250 examples/s)."
    )
    assert target.startswith("One replication is not enough to tell which reaches loss 1 ")
    assert "learning rate 0.1 soonest: " in target
    assert result.estimate("b", "throughput_ratio").note == "the same"


def test_one_replication_of_what_is_not_random_is_exact() -> None:
    law = {"kind": "constant", "value": 2.0}
    network = {"kind": "star", "bandwidth": 100.0, "latency": 0.001}
    cluster = {"workers": 2, "compute": law, "network": network}
    result = a_result({"a": (1,), "b": (2,)}, cluster=cluster)
    assert result.answer().startswith("The fastest is 'a': 2.500 examples/s, ")
    found = result.estimate("b", "throughput_ratio")
    assert found[:3] == (0.5, 0.5, 0.5)
    assert found.note == "slower"
    assert "\nWhich has the lowest final loss" not in result.answer()  # both are at 0.5


class TestRates:
    """Every sentence on losses says at which learning rate."""

    @staticmethod
    def trained(*rates: float | None, loss: float = 1.0) -> Result:
        """Two strategies with optimizers of these rates of their own, or none."""
        result = a_result({"a": (2, 4), "b": (1, 2)}, targets={"loss": 1.0, "time_to_loss": 20.0})
        strategies: tuple[dict[str, Any], ...] = tuple(
            {"kind": "none", "name": label}
            | ({"optimizer": {"kind": "adam", "learning_rate": rate}} if rate else {})
            for label, rate in zip("ab", rates, strict=True)
        )
        workload = dict(result.scenario.workload)
        changes: dict[str, Any] = (
            {"workload": workload}
            if None in rates
            else {"workload": {**workload, "optimizer": None}}
        )
        changes |= {"targets": {"loss": loss, "time_to_loss": 20.0}, "replications": 2}
        scenario = a_scenario(strategies=strategies, **changes)
        return Result(scenario, result.traces, result.reference)

    def test_where_each_has_its_own_it_stands_behind_its_name(self) -> None:
        lines = self.trained(0.5, 0.01).answer().splitlines()
        of_losses = [line for line in lines if "loss" in line.lower()]
        assert len(of_losses) > 2
        for line in of_losses:
            assert "learning rate 0.01 (adam)" in line or "learning rate 0.5 (adam)" in line
        assert "reached soonest by 'b' at learning rate 0.01 (adam)" in "\n".join(lines)
        assert "tune" not in "\n".join(lines)

    def test_a_final_loss_is_the_lowest_at_these_rates_only(self) -> None:
        lines = self.trained(0.5, 0.01, loss=0.01).answer().splitlines()
        (final,) = [line for line in lines if "final loss" in line]
        assert "have the same final loss at these learning rates in every replication" in final

    def test_where_all_share_one_the_ranking_is_said_to_hold_there_alone(self) -> None:
        assert caveat(self.trained(None, None)) == ALL_ALIKE

    def test_where_all_were_given_the_same_nothing_is_said_against_it(self) -> None:
        result = self.trained(0.5, 0.5)
        assert caveat(result) == ""
        assert "Loss 1 at learning rate 0.5 (adam) is reached soonest" in result.answer()

    def test_one_with_its_own_is_not_counted_among_those_that_share(self) -> None:
        assert caveat(self.trained(0.5, None)) == ""

    def test_the_table_says_it(self) -> None:
        assert list(self.trained(0.5, None).table()["learning rate"]) == ["0.5 (adam)", "0.1"]

    def test_a_note_on_sizes_of_updates_is_about_a_shared_rate(self) -> None:
        assert not any("at one learning rate" in note for note in notes(self.trained(0.5, 0.01)))
