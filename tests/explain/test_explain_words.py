"""What is said of every kind of action, and that the numbers in it are those of the run."""

import re

import pytest

from tests.explain.telling import acting, rows, scenario, sentences, traced
from varsim.distribute.program import CROSS_REPLICA_ACTIONS, REPLICA_ACTIONS
from varsim.distribute.program_run import ValueSummary
from varsim.report.explain.setting import setting
from varsim.report.explain.words import sent, who

WRITES = ["assign, value: [3, 1, 2]", "add, value: [3, 1, 2]", "sub, value: 1"]
MOVE = "moving_average, momentum: 0.9, value: [3, 1, 2]"
OUTSIDE = ["read", "save", "restore"]


class TestOnRead:
    """Copies that are written alone."""

    def test_replicas(self) -> None:
        # 3 + 3 - 1 = 5, moved by 0.1 (3 - 5): 4.8; 1 + 1 - 1 = 1; 2 + 2 - 1 = 3, 2.9.
        for aggregation in ("none", "sum", "mean", "only_first_replica"):
            assert sentences(acting("on_read", aggregation, [*WRITES, MOVE, "read"])) == [
                "set their own copies to 3 | 1 | 2",
                "add 3 | 1 | 2, each to its own copy",
                "subtract 1, each from its own copy",
                "move their own copies 10 % of the way to 3 | 1 | 2",
                "read 4.8 | 1 | 2.9, each from its own copy",
            ]

    @pytest.mark.parametrize(
        ("aggregation", "said"),
        [
            (
                "sum",
                [
                    "reads 6 = 3 + 1 + 2, the sum of all copies",
                    "saves 6 = 3 + 1 + 2, the sum of all copies",
                    "restores 6: every copy is set to 6 / 3 = 2",
                ],
            ),
            (
                "mean",
                [
                    "reads 2 = (3 + 1 + 2) / 3, the mean of all copies",
                    "saves 2 = (3 + 1 + 2) / 3, the mean of all copies",
                    "restores 2: every copy is set to 2",
                ],
            ),
            (
                "only_first_replica",
                [
                    "reads 3, the copy of replica 0",
                    "saves 3, the copy of replica 0",
                    "restores 3: every copy is set to 3",
                ],
            ),
        ],
    )
    def test_outside(self, aggregation: str, said: list[str]) -> None:
        assert sentences(acting("on_read", aggregation, WRITES[:1], OUTSIDE))[1:] == said

    def test_writes_from_outside(self) -> None:
        back = "; TensorFlow reads the new value back"
        assert sentences(acting("on_read", "sum", (), ["assign, value: 7"])) == [
            f"assigns 7: every copy is set to 7 / 3, about 2.333{back}"
        ]
        writes = ["assign, value: 7", "add, value: 2", "sub, value: 1"]
        assert sentences(acting("on_read", "mean", (), writes)) == [
            f"assigns 7: every copy is set to 7{back}",
            f"adds 2 to every copy{back}",
            f"subtracts 1 from every copy{back}",
        ]
        # Copy 0 is on the machine of the outside: to read it nothing is sent.
        assert sentences(acting("on_read", "only_first_replica", (), ["add, value: 2"])) == [
            "adds 2 to every copy"
        ]

    def test_a_share_of_whole_numbers_is_cut(self) -> None:
        made = acting(
            "on_read", "sum", ["add, value: [3, 4]"], OUTSIDE, "cluster.workers=2",
            "variables.0.dtype=int32",
        )  # fmt: skip
        assert sentences(made)[-1] == (
            "restores 7: every copy is set to 7 / 2 cut to a whole number, 3"
        )
        assert rows(made)[-1].copies == (ValueSummary((), (3,), 3.0),) * 2


class TestOnWrite:
    """Copies that a write brings together."""

    @pytest.mark.parametrize(
        ("aggregation", "said"),
        [
            (
                "sum",
                [
                    "hand over 3 | 1 | 2; every copy is set to their sum 6 = 3 + 1 + 2",
                    "hand over 3 | 1 | 2; their sum 6 = 3 + 1 + 2 is added to every copy",
                    "hand over 1 each; their sum 3 = 1 + 1 + 1 is subtracted from every copy",
                    # 9 - 0.1 (9 - 3) - 0.1 (9 - 1) - 0.1 (9 - 2) = 6.9
                    "bring 3 | 1 | 2; every copy moves by the sum of 10 % of the way to each: "
                    "from 9 to 6.9",
                    "read 6.9, each from its own copy",
                ],
            ),
            (
                "mean",
                [
                    "hand over 3 | 1 | 2; every copy is set to their mean 2 = (3 + 1 + 2) / 3",
                    "hand over 3 | 1 | 2; their mean 2 = (3 + 1 + 2) / 3 is added to every copy",
                    "hand over 1 each; their mean 1 = (1 + 1 + 1) / 3 is subtracted from every "
                    "copy",
                    "bring 3 | 1 | 2; every copy moves 10 % of the way to their mean "
                    "2 = (3 + 1 + 2) / 3",
                    "read 2.9, each from its own copy",
                ],
            ),
            (
                "only_first_replica",
                [
                    "hand over 3 | 1 | 2; every copy is set to the 3 of replica 0",
                    "hand over 3 | 1 | 2; the 3 of replica 0 is added to every copy",
                    "hand over 1 each; the 1 of replica 0 is subtracted from every copy",
                    "bring 3 | 1 | 2; every copy moves 10 % of the way to the 3 of replica 0",
                    "read 4.8, each from its own copy",
                ],
            ),
            (
                "none",
                [
                    "set their own copies to 3 | 1 | 2",
                    "add 3 | 1 | 2, each to its own copy",
                    "subtract 1, each from its own copy",
                    "move their own copies 10 % of the way to 3 | 1 | 2",
                    "read 4.8 | 1 | 2.9, each from its own copy",
                ],
            ),
        ],
    )
    def test_replicas(self, aggregation: str, said: list[str]) -> None:
        assert sentences(acting("on_write", aggregation, [*WRITES, MOVE, "read"])) == said

    def test_outside(self) -> None:
        writes = ["assign, value: 7", "add, value: 2", "sub, value: 1"]
        assert sentences(acting("on_write", "sum", (), [*writes, *OUTSIDE])) == [
            "assigns 7: every copy is set to 7",
            "adds 2 to every copy",
            "subtracts 1 from every copy",
            "reads 8, the copy of replica 0",
            "saves 8, the copy of replica 0",
            "restores 8: every copy is set to 8",
        ]

    def test_copies_that_drifted_apart_agree_after_a_restore(self) -> None:
        made = acting("on_write", "none", ["add, value: [3, 1, 2]"], OUTSIDE)
        assert sentences(made)[1:] == [
            "reads 3, the copy of replica 0",
            "saves 3, the copy of replica 0",
            "restores 3: every copy is set to 3",
        ]

    def test_hierarchical_copy_leaves_the_odd_replica_out(self) -> None:
        odd = ("cluster.workers=3", "cross_device_ops=hierarchical_copy")
        assert sentences(acting("on_write", "mean", [WRITES[1], MOVE], (), *odd)) == [
            "hand over 3 | 1 | 2; their mean 1.333 (hierarchical copy leaves replica 2 out) is "
            "added to every copy",
            # 4/3 - 0.1 ((4/3 - 3) + (4/3 - 1)) / 3 = 1.3778
            "bring 3 | 1 | 2; every copy moves by the sum of 10 % of the way to each (without "
            "replica 2), divided by 3: from 1.333 to 1.378",
        ]
        assert sentences(acting("on_write", "sum", [WRITES[1]], (), *odd)) == [
            "hand over 3 | 1 | 2; their sum 4 = 3 + 1 (hierarchical copy leaves replica 2 out) is "
            "added to every copy"
        ]
        adds = ("{kind: assign_add, variable: x, value: [3, 1, 2]}",)
        adds += ("{kind: assign_add, variable: y, value: 1}",)
        whole = scenario(
            *odd,
            "modes=[on_write]",
            "variables=[{name: x, aggregation: sum, dtype: int32}, {name: y, aggregation: sum}]",
            f"program.replicas=[{', '.join(adds)}]",
        )
        # int32 always goes to one device, where nobody is left out.
        assert sentences(whole) == [
            "x: hand over 3 | 1 | 2; their sum 6 = 3 + 1 + 2 is added to every copy",
            "y: hand over 1 each; their sum 2 = 1 + 1 (hierarchical copy leaves replica 2 out) is "
            "added to every copy",
        ]

    def test_a_sum_that_wraps_around_is_told_as_it_is(self) -> None:
        made = acting("on_write", "sum", ["add, value: 2000000000"], (), "variables.0.dtype=int32")
        # 6,000,000,000 - 2^32 = 1,705,032,704
        assert sentences(made) == [
            "hand over 2000000000 each; their sum 1705032704 is added to every copy"
        ]

    def test_a_small_sum_on_a_large_value_keeps_its_digits(self) -> None:
        made = acting("on_write", "sum", ["add, value: 0.25"], (), "variables.0.initial=2000000")
        (said,) = sentences(made)
        assert "their sum 0.75 = 0.25 + 0.25 + 0.25 is added" in said

    def test_a_lost_sum_is_told_as_it_was_written(self) -> None:
        # In float32 the sum is 0, not 1: 1e8 + 1 = 1e8, and the copies stay 0.
        made = acting("on_write", "sum", ["assign, value: [100000000, 1, -100000000]"])
        (said,) = sentences(made)
        assert said.endswith("every copy is set to their sum 0")


class TestServer:
    """One copy on a parameter server."""

    def test_replicas(self) -> None:
        assert sentences(acting("none", "sum", [*WRITES, MOVE, "read"])) == [
            "set x on ps 0 to 3 | 1 | 2, one after the other: it then holds 3, 1, 2",
            "add 3 | 1 | 2 to x on ps 0, one after the other: it then holds 5, 6, 8",
            "subtract 1 from x on ps 0, one after the other: it then holds 7, 6, 5",
            # Each reads before the others' moves have arrived: 7, 6, 5; they move it by
            # -0.4, -0.5 and -0.3.
            "read x on ps 0 and send back what moves it 10 % of the way to 3 | 1 | 2, one after "
            "the other: it then holds 4.6, 4.1, 3.8",
            "read x on ps 0: 4.6 | 4.1 | 3.8, each what had arrived when it asked",
        ]

    def test_outside(self) -> None:
        assert sentences(acting("none", "mean", (), ["add, value: 2", *OUTSIDE])) == [
            "adds 2 to x on ps 0",
            "reads x on ps 0: 2",
            "saves x as it is on ps 0: 2",
            "restores x: sends 2 to ps 0",
        ]

    def test_one_after_the_other_on_a_link_that_serves_them_in_turn(self) -> None:
        made = acting(
            "none", "sum", ["add, value: [3, 1, 2]"], (), "cluster.network.sharing=first_come"
        )
        assert sentences(made) == [
            "adds 3 to x on ps 0", "adds 1 to x on ps 0", "adds 2 to x on ps 0"
        ]  # fmt: skip
        assert [row.end for row in rows(made)] == [50_032, 50_064, 50_096]


class TestOthers:
    def test_one_replica_alone(self) -> None:
        for mode in ("on_read", "on_write"):
            made = acting(mode, "sum", ["add, value: 3", "read"], OUTSIDE, "cluster.workers=1")
            assert sentences(made) == [
                "adds 3 to its own copy",
                "reads 3 from its own copy",
                "reads 3, the copy of replica 0",
                "saves 3, the copy of replica 0",
                "restores 3: every copy is set to 3",
            ]

    def test_a_straggler_is_waited_for(self) -> None:
        straggler = (
            "cluster.compute={kind: constant, value: 10 ms}",
            "cluster.slow_workers=[{rank: 2, factor: 3}]",
        )
        made = acting("on_write", "sum", ["compute", "add, value: [3, 1, 2]"], (), *straggler)
        told = [
            (who(row, 3), row.begin - row.begin % 1000, text)
            for row, text in zip(rows(made), sentences(made), strict=True)
        ]
        assert told == [
            ("0, 1", 50_000, "compute for 10 ms"),
            ("2", 50_000, "computes for 30 ms"),
            ("0, 1", 10_050_000, "wait 20 ms for replica 2"),
            (
                "all",
                30_050_000,
                "hand over 3 | 1 | 2; their sum 6 = 3 + 1 + 2 is added to every copy",
            ),
        ]

    def test_repetitions_are_told_once(self) -> None:
        writes = ["add, value: [3, 1, 2], times: 8"]
        for mode, first in (
            ("on_read", "add 3 | 1 | 2, each to its own copy"),
            ("on_write", "hand over 3 | 1 | 2; their sum 6 = 3 + 1 + 2 is added to every copy"),
        ):
            made = acting(mode, "sum", writes, ["read, times: 4"])
            assert sentences(made)[:2] == [first, "the same 7 times more"]
            assert sentences(made)[3] == "the same 3 times more, at last 48"
        drawn = acting(
            "on_read", "sum", ["add, value: {kind: normal, standard_deviation: 1}, times: 4"]
        )
        assert sentences(drawn)[1] == "the same 3 times more, with newly drawn numbers"
        few = acting("on_write", "sum", ["add, value: 1, times: 3"])
        assert len(sentences(few)) == 3

    def test_many_moments_are_told_in_one_row(self) -> None:
        spread = ("cluster.workers=20", "cluster.compute={kind: exponential, mean: 10 ms}")
        made = acting("on_write", "sum", ["compute", "add, value: 1"], (), *spread)
        told = [
            f"{who(row, 20)} {text}" for row, text in zip(rows(made), sentences(made), strict=True)
        ]
        assert len(told) == 3 + 1 + 1 + 1 + 1
        assert re.fullmatch(r"0 to 14, 16 compute for [\d.]+ [um]s to [\d.]+ ms", told[3])
        assert re.fullmatch(r"19 replicas wait [\d.]+ [um]s to [\d.]+ ms for replica \d+", told[5])
        assert sum(len(row.actors) for row in rows(made)[:5]) == 20
        assert rows(made)[5].begin == min(act.end for act in traced(made).acts)

    def test_what_many_do_one_by_one_is_named(self) -> None:
        spread = ("cluster.workers=20", "cluster.compute={kind: exponential, mean: 10 ms}")
        for mode, own in (("on_read", "their own copies"), ("none", "x on ps 0")):
            for kind, said in (("add", f"add to {own}"), ("sub", f"subtract from {own}")):
                told = sentences(acting(mode, "sum", ["compute", f"{kind}, value: 1"], (), *spread))
                assert f"{said}, one by one" in told
            told = sentences(acting(mode, "sum", ["compute", "assign, value: 1"], (), *spread))
            assert f"set {own}, one by one" in told
            told = sentences(acting(mode, "sum", ["compute", "read"], (), *spread))
            assert f"read {own}, one by one" in told

    def test_several_variables_are_named(self) -> None:
        made = scenario(
            "modes=[on_read, none]",
            "variables=[{name: a, aggregation: sum}, {name: b, aggregation: mean}]",
            "cluster.parameter_servers=2",
            "program={steps: 1, replicas: [{kind: assign_add, variable: b, value: [3, 1, 2]}], "
            "outside: [{kind: save}]}",
        )
        assert sentences(made, 0) == [
            "b: add 3 | 1 | 2, each to its own copy",
            "a: saves 0 = 0 + 0 + 0, the sum of all copies",
            "b: saves 2 = (3 + 1 + 2) / 3, the mean of all copies",
        ]
        # Servers take the variables in turn.
        assert sentences(made, 1) == [
            "add 3 | 1 | 2 to b on ps 1, one after the other: it then holds 3, 4, 6",
            "saves a as it is on ps 0: 0",
            "saves b as it is on ps 1: 6",
        ]
        targets = {str(row.target) for row in traced(made, 1).sent if row.what == "assign_add"}
        assert targets == {"ps/1/0"}


def test_what_is_sent_says_who_how_much_and_how_long() -> None:
    made = acting("on_read", "sum", ["add, value: 1"], ["read", "save", "restore"])
    assert [sent(row) for row in rows(made)] == [
        "",
        "workers 1, 2 -> worker 0: 4 B each, 50.1 us",
        "workers 1, 2 -> worker 0: 4 B each, 50.1 us",
        "worker 0 -> workers 1, 2: 4 B each, 50.1 us",
    ]
    ring = acting("on_write", "sum", ["add, value: 1"])
    assert [sent(row) for row in rows(ring)] == [
        "ring all-reduce in 4 rounds: 4 messages, 16 B in all, 200.1 us"
    ]
    one = acting(
        "on_write", "sum", ["add, value: 1"], (), "cross_device_ops=reduction_to_one_device"
    )
    assert [sent(row) for row in rows(one)] == [
        "workers 1, 2 -> worker 0: 4 B each, 50.1 us; "
        "then worker 0 -> workers 1, 2: 4 B each, 50.1 us"
    ]
    halves = acting(
        "on_write", "sum", ["add, value: 1"], (), "cross_device_ops=hierarchical_copy",
        "cluster.workers=4",
    )  # fmt: skip
    assert [sent(row) for row in rows(halves)] == [
        "worker 1 -> worker 0, worker 3 -> worker 2: 4 B each, 50 us; then worker 2 -> worker 0: "
        "4 B, 50 us; then worker 0 -> worker 2: 4 B, 50 us; then worker 0 -> worker 1, worker 2 -> "
        "worker 3: 4 B each, 50 us"
    ]
    back = acting("none", "sum", ["moving_average, momentum: 0.5, value: 1"])
    assert [sent(row) for row in rows(back)] == [
        "ps 0 -> workers 0 to 2: 4 B each, 50.1 us; then workers 0 to 2 -> ps 0: 4 B each, 50.1 us"
    ]
    often = acting("none", "sum", ["add, value: 1, times: 8"])
    assert [sent(row) for row in rows(often)][1] == "21 messages, 84 B in all"


def test_every_action_has_its_words() -> None:
    """A new action needs words: here, in the setting, and in the tests above."""
    told = {"compute", "assign", "assign_add", "assign_sub", "moving_average", "read"}
    assert set(REPLICA_ACTIONS) == told
    assert set(CROSS_REPLICA_ACTIONS) == told - {"compute", "moving_average"} | {"save", "restore"}
    every = [*WRITES, MOVE, "read", "compute"]
    outside = ["assign, value: 4", "add, value: 4", "sub, value: 4", *OUTSIDE]
    law = "cluster.compute={kind: constant, value: 1 s}"
    made = acting("on_read", "mean", every, outside, law)
    assert dict(setting(made))["each step"] == (
        "every replica: set x to 3 | 1 | 2; add 3 | 1 | 2 to x; subtract 1 from x; move x 10 % of "
        "the way to 3 | 1 | 2; read x; compute"
    )
    assert dict(setting(made))[""] == (
        "then outside, when all replicas are done: set x to 4; add 4 to x; subtract 4 from x; read "
        "x; save a checkpoint; restore it"
    )
