"""Sums that a dtype does not hold are told as they are, with what became of them."""

from tests.explain.telling import acting, rows_and_looks, scenario
from varsim.distribute.program_run import ValueSummary
from varsim.report.explain.numbers import reduced
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


def test_the_sum_is_taken_in_the_order_that_explains_the_copies() -> None:
    # From rank 0 on 1e8 + 1 - 1e8 = 0 in float32; from rank 2 on -1e8 + 1e8 + 1 = 1.
    parts = scalars(1e8, 1.0, -1e8)
    zero, one = scalars(0.0, 1.0)
    assert reduced(parts, 1, zero, zero, 1, "float32").first == (0.0,)
    assert reduced(parts, 1, zero, one, 1, "float32").first == (1.0,)
    assert reduced(parts, 1, zero, scalar(-1.0), -1, "float32").first == (1.0,)


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
