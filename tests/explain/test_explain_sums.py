"""Sums that a dtype does not hold are told as they are, with what became of them."""

import re

import pytest

from tests.explain.telling import acting, rows_and_looks, scenario, sentences
from varsim.distribute.program_run import ValueSummary
from varsim.report.explain.numbers import reduced, remark
from varsim.report.explain.report import explanation
from varsim.report.terminal import terminal
from varsim.scenario.variables import VariablesScenario


def scalar(value: float) -> ValueSummary:
    return ValueSummary((), (value,), float(value))


def scalars(*values: float) -> list[ValueSummary]:
    return list(map(scalar, values))


def large(mode: str, aggregation: str, add: str, dtype: str, initial: str) -> VariablesScenario:
    """What is added to a large value, then read from outside."""
    first = (f"variables.0.dtype={dtype}", f"variables.0.initial={initial}")
    return acting(mode, aggregation, [f"add, value: {add}"], ["read"], *first)


class TestInt32:
    def test_on_write(self) -> None:
        assert sentences(large("on_write", "sum", "[1, 2, 3]", "int32", "2147483647")) == [
            "hand over 1 | 2 | 3; their sum 6 = 1 + 2 + 3 is added to every copy; int32 overflows",
            "reads -2147483643, the copy of replica 0",
        ]

    def test_on_read(self) -> None:
        # 3 x 2^31 - 6 copies and all: the sum of the copies wraps too.
        assert sentences(large("on_read", "sum", "[1, 2, 3]", "int32", "2147483647")) == [
            "add 1 | 2 | 3, each to its own copy; int32 overflows",
            "reads -2147483645, the sum of all copies; int32 overflows",
        ]

    def test_on_a_server(self) -> None:
        (added, _) = sentences(large("none", "sum", "[1, 2, 3]", "int32", "2147483645"))
        assert added.endswith("it then holds 2147483646, -2147483648, -2147483645; int32 overflows")

    def test_from_outside_and_repeated(self) -> None:
        near = ("variables.0.dtype=int32", "variables.0.initial=2147483640")
        made = acting("on_write", "sum", (), ["add, value: 2, times: 9"], *near)
        assert sentences(made)[-1] == "the same 8 times more; int32 overflows"
        made = acting("on_write", "sum", (), ["add, value: 9"], *near)
        assert sentences(made) == ["adds 9 to every copy; int32 overflows"]

    def test_nothing_is_said_of_what_fits(self) -> None:
        for mode in ("on_read", "on_write", "none"):
            told = sentences(large(mode, "sum", "[1, 2, 3]", "int32", "100"))
            assert not re.search("overflow|round", " ".join(told))


class TestFloat32:
    def test_overflow_is_told_in_every_step(self) -> None:
        made = acting("on_write", "sum", ["add, value: 3e+38"], (), "program.steps=2")
        said = "their sum inf is added to every copy; float32 overflows to inf"
        assert sentences(made) == [f"hand over 3e+38 each; {said}"] * 2

    def test_overflow_of_a_read(self) -> None:
        assert sentences(large("on_read", "sum", "3e+38", "float32", "0")) == [
            "add 3e+38, each to its own copy",
            "reads inf, the sum of all copies; float32 overflows to inf",
        ]

    @pytest.mark.parametrize("mode", ["on_read", "on_write", "none"])
    def test_what_is_lost_in_rounding(self, mode: str) -> None:
        told = sentences(large(mode, "mean", "1", "float32", "16777216"))
        assert told[0].endswith("; it is lost in rounding to float32")
        assert "16777216" in told[1]
        # float64 holds it.
        told = sentences(large(mode, "mean", "1", "float64", "16777216"))
        assert "round" not in told[0]
        assert "16777217" in told[1] or "16777219" in told[1]

    def test_what_is_left_after_rounding(self) -> None:
        assert sentences(large("on_write", "sum", "[0.1, 0.2, 0.3]", "float32", "1000000")) == [
            "hand over 0.1 | 0.2 | 0.3; their sum 0.6 = 0.1 + 0.2 + 0.3 is added to every copy; "
            "rounding to float32 makes it 0.625",
            "reads 1000000.6, the copy of replica 0",
        ]


def test_the_sum_is_taken_in_the_order_that_explains_the_copies() -> None:
    # From rank 0 on 1e8 + 1 - 1e8 = 0 in float32; from rank 2 on -1e8 + 1e8 + 1 = 1.
    parts = scalars(1e8, 1.0, -1e8)
    zero, one = scalars(0.0, 1.0)
    assert reduced(parts, 1, zero, zero, 1, "float32").first == (0.0,)
    assert reduced(parts, 1, zero, one, 1, "float32").first == (1.0,)
    assert reduced(parts, 1, zero, scalar(-1.0), -1, "float32").first == (1.0,)


def test_nothing_is_said_where_others_wrote_in_between() -> None:
    assert remark(scalars(1, 2), 1, scalar(5), scalar(9), 1, "int32") == ""
    assert remark(scalars(1.0), 1, scalar(5.0), scalar(9.0), 1, "float32") == ""


class TestDigits:
    """What changes is seen to change, and a value is written in one way on the whole page."""

    def page(self, dtype: str, initial: str, add: str) -> str:
        made = scenario(
            "modes=[on_read, on_write, none]",
            f"variables=[{{name: x, aggregation: sum, dtype: {dtype}, initial: {initial}}}]",
            "program={steps: 2, replicas: [{kind: assign_add, variable: x, value: "
            f"{add}}}], outside: [{{kind: read, variable: x}}]}}",
        )
        return terminal(explanation(made, "file.yaml"), 200)

    def test_a_small_change_of_a_large_number(self) -> None:
        text = self.page("float32", "1000000", "[0.1, 0.2, 0.3]")
        assert "starts as 1000000;" in text
        assert "1e+06" not in text
        assert "1000000.1 | 1000000.2 | 1000000.3" in text
        assert "1000000.6 | 1000000.6 | 1000000.6" in text
        assert "1000001.2 | 1000001.2 | 1000001.2" in text
        assert "add 0.1 | 0.2 | 0.3 to x" in text

    def test_up_to_seventeen_digits(self) -> None:
        text = self.page("float64", "1", "[1e-13, 0, 0]")
        assert "1.0000000000001" in text

    def test_whole_numbers_in_full(self) -> None:
        assert "starts as 2147483647;" in self.page("int32", "2147483647", "0")
        assert "starts as 16777216;" in self.page("float32", "16777216", "1")

    def test_four_are_enough_elsewhere(self) -> None:
        _, looks = rows_and_looks(acting("on_read", "mean", ["add, value: [0.12345, 1, 2]"]))
        assert looks["x"].spelling.digits == 4


def test_rows_of_steps_that_overlap_stand_in_the_order_of_their_ends() -> None:
    said = "Steps overlap here: rows stand in the order in which they end."
    slow = "cluster.slow_workers=[{rank: 1, factor: 3}]"
    compute = "cluster.compute={kind: constant, value: 10 ms}"
    apart = acting("on_read", "sum", ["compute", "read"], ["read"], slow, compute)
    ahead = acting("on_read", "sum", ["compute", "read"], (), slow, compute, "program.steps=2")
    assert said not in terminal(explanation(apart, "file.yaml"), 80).splitlines()
    assert terminal(explanation(ahead, "file.yaml"), 80).splitlines().count(said) == 1
