"""One variable's accumulator: what is stale, when a take is served, and with what."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from varsim.distribute.accumulator import GradientAccumulator, Take
from varsim.learning.gradient import Gradient


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
