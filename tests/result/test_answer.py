"""What a result says of the best of its strategies, in sentences."""

from handmade import a_result


def test_the_answer_names_the_fastest_and_by_how_much() -> None:
    lines = a_result({"a": (2, 4), "b": (1, 2), "c": (3, 6)}, targets={"loss": 1.0}).answer()
    first, price, apart, final, common, target = lines.splitlines()
    assert first.startswith("The fastest is 'b': ")
    assert "that is 2.00 times what 'a' does, the next fastest." in first
    assert "0.354 times" in first  # against one worker alone: 0.5 and 0.25
    assert "0.3333 updates old on average, 1 at most" in price
    assert "30.8 % of its compute time was wasted" in price
    assert "had missed 2 updates" in price
    assert final == (
        "'a', 'b' and 'c' have the same loss at the end of its run in every replication: 0.5000 "
        "(they are set alike)."
    )
    assert apart == (
        "When measured, two copies were at most this far apart: 0.500 in 'a', 0.500 in 'b', "
        "0.500 in 'c'."
    )
    assert "measured last in the 10 s that every run lasted is too close to call" in common
    assert target == (
        "Loss 1 is reached soonest by 'b': after 8 ± 32 s; next is 'a' after 15 ± 64 s, 2.00 times "
        "as long."
    )


def test_the_answer_compares_with_the_first_strategy_too() -> None:
    result = a_result({"a": (8, 8), "b": (4, 4), "c": (2, 2)})
    assert "'c' does 4.00 times what 'a' does, the first strategy." in result.answer()


def test_the_answer_may_be_that_it_is_too_close_to_call() -> None:
    answer = a_result({"a": (3, 3, 3), "b": (2, 3, 4)}, targets={"loss": 1.0}).answer()
    first, *_, target = answer.splitlines()
    assert first == (
        "Which is the fastest is too close to call: 'b' (0.90 ± 0.79 examples/s) and 'a' (0.8333 "
        "examples/s); apart by a factor of 1.04 (95 % interval 0.438 to 2.47)."
    )
    assert target == (
        "By which loss 1 is reached soonest is too close to call: 'b' (15 ± 12 s) and 'a' (15 s); "
        "apart by a factor of 1.04 (95 % interval 0.438 to 2.47)."
    )


def test_the_answer_may_be_that_they_are_the_same() -> None:
    answer = a_result({"a": (1, 2), "b": (1, 2), "c": (2, 4)}).answer()
    assert answer.startswith("'a' and 'b' are equally fast in every replication, the best of 3: ")


def test_one_replication_of_what_is_random_names_no_winner() -> None:
    result = a_result({"a": (1,), "b": (1,), "c": (2,)}, targets={"loss": 1.0})
    first, _, _, lowest, _, target = result.answer().splitlines()
    assert first == (
        "Which is the fastest cannot be told from one replication: 'a' (2.500 examples/s), 'b' "
        "(2.500 examples/s) and 'c' (1.250 examples/s)."
    )
    assert lowest.startswith("'a', 'b' and 'c' have the same loss at the end of its run in the one")
    assert target.startswith("By which loss 1 is reached soonest cannot be told from one replicat")
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
    assert "\nWhich has the lowest loss" not in result.answer()  # both are at 0.5
