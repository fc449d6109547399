"""One variable's accumulator: what is stale, when a take is served, and with what."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varsim.values.accumulator import ConditionalAccumulator, GradientAccumulator, Take
from varsim.values.gradient import Gradient
from varsim.values.gradient_form import DenseForm, IndexedSlices, SparseForm
from varsim.values.operation import InvalidArgumentError, RefusedValueError


def gradient(number: int) -> Gradient:
    return Gradient(number, 0, None, np.empty(0), 0, 1)


class Script:
    """An accumulator, and what its takes were served, as numbers of gradients."""

    def __init__(self) -> None:
        self.accumulator = GradientAccumulator()
        self.served: list[tuple[str, list[int]]] = []

    def add(self, number: int, local_step: int) -> bool:
        return self.accumulator.add(gradient(number), local_step)

    def take(self, name: str, required: int) -> Take[Gradient]:
        def then(gradients: Sequence[Gradient]) -> None:
            self.served.append((name, [one.worker for one in gradients]))

        return self.accumulator.take(required, then)


def test_a_stale_gradient_is_dropped() -> None:
    script = Script()
    script.take("a", 1)
    assert script.add(0, 0)
    assert script.accumulator.step == 1
    assert not script.add(1, 0)
    assert script.add(2, 1)
    assert len(script.accumulator) == 1
    assert script.served == [("a", [0])]


def test_a_gradient_ahead_of_the_step_is_fresh() -> None:
    script = Script()
    assert script.add(0, 5)
    script.take("a", 1)
    assert script.served == [("a", [0])]
    assert script.accumulator.step == 1


def test_a_take_waits_until_there_are_enough() -> None:
    script = Script()
    script.take("a", 3)
    for number in range(3):
        assert script.served == []
        script.add(number, 0)
    assert script.served == [("a", [0, 1, 2])]
    assert len(script.accumulator) == 0


def test_a_take_gets_all_that_are_inside() -> None:
    script = Script()
    for number in range(4):
        script.add(number, 0)
    script.take("a", 2)
    assert script.served == [("a", [0, 1, 2, 3])]


def test_a_small_take_does_not_overtake_a_large_one() -> None:
    script = Script()
    script.take("large", 3)
    script.take("small", 1)
    script.add(0, 0)
    script.add(1, 0)
    assert script.served == []
    script.add(2, 0)
    assert script.served == [("large", [0, 1, 2])]
    # What comes now must be of step 1; it serves the small one.
    assert not script.add(3, 0)
    assert script.add(4, 1)
    assert script.served[1:] == [("small", [4])]


def test_one_gradient_serves_at_most_one_take() -> None:
    script = Script()
    script.take("a", 1)
    script.take("b", 1)
    script.add(0, 9)
    assert script.served == [("a", [0])]
    script.add(1, 9)
    assert script.served == [("a", [0]), ("b", [1])]
    assert script.accumulator.step == 2


def test_taking_again_while_being_served() -> None:
    # As the chief does; what came in between is not lost.
    accumulator = GradientAccumulator()
    served: list[list[int]] = []

    def again(gradients: Sequence[Gradient]) -> None:
        served.append([one.worker for one in gradients])
        if len(served) < 3:
            accumulator.take(1, again)

    accumulator.take(2, again)
    for number, step in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]:
        accumulator.add(gradient(number), step)
    assert served == [[0, 1], [3], [4]]
    assert len(accumulator) == 1


@pytest.mark.parametrize("required", [0, -1])
def test_a_take_of_nothing_is_refused(required: int) -> None:
    script = Script()
    with pytest.raises(InvalidArgumentError, match=f"at least 1 gradient, not {required}"):
        script.take("a", required)
    assert not script.accumulator.waiting


def test_a_cancelled_take_leaves_the_list_and_the_next_may_be_served_at_once() -> None:
    script = Script()
    large = script.take("large", 3)
    script.take("small", 2)
    script.add(0, 0)
    script.add(1, 0)
    assert script.served == []
    script.accumulator.cancel(large)
    assert script.served == [("small", [0, 1])]
    assert script.accumulator.step == 1
    assert not script.accumulator.waiting


def test_cancelling_touches_neither_gradients_nor_step_nor_takes_before_it() -> None:
    script = Script()
    script.take("first", 3)
    second = script.take("second", 1)
    script.add(0, 0)
    script.accumulator.cancel(second)
    assert (len(script.accumulator), script.accumulator.step) == (1, 0)
    script.add(1, 0)
    script.add(2, 0)
    assert script.served == [("first", [0, 1, 2])]


def test_cancelling_a_take_that_was_served_changes_nothing() -> None:
    script = Script()
    served = script.take("a", 1)
    script.take("b", 1)
    script.add(0, 0)
    script.accumulator.cancel(served)
    assert script.served == [("a", [0])]
    assert script.accumulator.waiting


@pytest.mark.parametrize("step", [5, -2])
def test_a_step_set_from_outside_leaves_what_is_inside(step: int) -> None:
    script = Script()
    script.add(0, 0)
    script.accumulator.set_global_step(step)
    assert not script.add(1, step - 1)
    assert script.add(2, step)
    script.take("a", 1)
    assert script.served == [("a", [0, 2])]
    assert script.accumulator.step == step + 1


class TestGradientsAsValues:
    """ConditionalAccumulator: what is refused, and that nothing has changed then."""

    def test_a_gradient_of_another_shape_is_refused(self) -> None:
        accumulator = ConditionalAccumulator(DenseForm(np.float32, (2,)))
        accumulator.add(np.ones(2, np.float32), 0)
        with pytest.raises(InvalidArgumentError, match=r"shape \(2,\), got \(3,\)"):
            accumulator.add(np.ones(3, np.float32), 0)
        assert (len(accumulator), accumulator.step) == (1, 0)

    def test_a_gradient_of_another_dtype_is_refused(self) -> None:
        accumulator = ConditionalAccumulator(DenseForm(np.float32, (2,)))
        with pytest.raises(RefusedValueError, match="float64 where float32"):
            accumulator.add(np.ones(2), 0)
        assert len(accumulator) == 0

    def test_nobody_looks_at_the_shape_of_a_stale_one(self) -> None:
        accumulator = ConditionalAccumulator(SparseForm(shape=(4, 2)))
        accumulator.set_global_step(1)
        wrong = IndexedSlices(np.array([9]), np.ones((1, 3)))
        assert not accumulator.add(wrong, 0)
        with pytest.raises(InvalidArgumentError, match="rows below 4, got 9"):
            accumulator.add(wrong, 1)

    def test_a_round_that_was_taken_fixes_no_shape_for_the_next(self) -> None:
        served: list[int] = []
        accumulator = ConditionalAccumulator(DenseForm())
        for length in (2, 5):
            accumulator.add(np.ones(length), 9)
            accumulator.take(1, lambda gradients: served.append(len(gradients[0])))
        assert served == [2, 5]


def test_it_says_what_it_waits_for() -> None:
    script = Script()
    assert str(script.accumulator) == "0 gradients, no take"
    script.take("a", 2)
    script.add(0, 0)
    assert str(script.accumulator) == "2 gradients of step 0 (1 have come)"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.just("add"), st.integers(0, 6))
        | st.tuples(st.just("take"), st.integers(1, 3))
        | st.tuples(st.just("cancel"), st.integers(0, 9))
        | st.tuples(st.just("set"), st.integers(0, 6)),
        max_size=40,
    )
)
def test_any_order_of_calls_follows_the_rules(calls: list[tuple[str, int]]) -> None:
    # The rules once more, written as a table: step, inside, takes waiting (number, required).
    script = Script()
    step, inside, waiting, served = 0, list[int](), list[tuple[int, int]](), list[list[int]]()
    takes: list[Take[Gradient]] = []
    for number, (call, value) in enumerate(calls):
        if call == "take":
            waiting.append((len(takes), value))
            takes.append(script.take("", value))
        elif call == "cancel":
            if value < len(takes):
                script.accumulator.cancel(takes[value])
                waiting = [take for take in waiting if take[0] != value]
        elif call == "set":
            script.accumulator.set_global_step(value)
            step = value
        else:
            assert script.add(number, value) == (value >= step)
            if value >= step:
                inside.append(number)
        if waiting and len(inside) >= waiting[0][1]:
            served.append(inside)
            step, inside, waiting = step + 1, [], waiting[1:]
        assert script.accumulator.step == step
        assert len(script.accumulator) == len(inside)
        assert [numbers for _, numbers in script.served] == served
