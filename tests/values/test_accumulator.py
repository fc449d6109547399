"""One variable's accumulator: what is stale, when a take is served, and with what."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varsim.values.accumulator import GradientAccumulator
from varsim.values.gradient import Gradient


def gradient(number: int) -> Gradient:
    return Gradient(number, 0, None, np.empty(0), 0, 1)


class Script:
    """An accumulator, and what its takes were served, as numbers of gradients."""

    def __init__(self) -> None:
        self.accumulator = GradientAccumulator()
        self.served: list[tuple[str, list[int]]] = []

    def add(self, number: int, local_step: int) -> bool:
        return self.accumulator.add(gradient(number), local_step)

    def take(self, name: str, required: int) -> None:
        def then(gradients: Sequence[Gradient]) -> None:
            self.served.append((name, [one.worker for one in gradients]))

        self.accumulator.take(required, then)


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
    with pytest.raises(ValueError, match=f"at least 1 gradient, not {required}"):
        script.take("a", required)


def test_it_says_what_it_waits_for() -> None:
    script = Script()
    assert str(script.accumulator) == "0 gradients, no take"
    script.take("a", 2)
    script.add(0, 0)
    assert str(script.accumulator) == "2 gradients of step 0 (1 have come)"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.integers(-3, -1), st.integers(0, 6)), max_size=40))
def test_any_order_of_calls_follows_the_rules(calls: list[int]) -> None:
    # A number from 0 up adds a gradient of that local step, -n asks for n. The rules once more,
    # written as a table: step, inside, takes waiting.
    script = Script()
    step, inside, takes, served = 0, list[int](), list[int](), list[list[int]]()
    for number, call in enumerate(calls):
        if call < 0:
            script.take("", -call)
            takes.append(-call)
        else:
            assert script.add(number, call) == (call >= step)
            if call >= step:
                inside.append(number)
        if takes and len(inside) >= takes[0]:
            served.append(inside)
            step, inside, takes = step + 1, [], takes[1:]
        assert script.accumulator.step == step
        assert len(script.accumulator) == len(inside)
        assert [numbers for _, numbers in script.served] == served
