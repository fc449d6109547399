"""Moving averages of variables, by hand."""

import numpy as np
import pytest
from pydantic import ValidationError

from varsim.values.optimizer import MovingAverages, VariableAverages

START = (np.array([1.0, -1.0]), np.array(2.0))
LATER = (np.array([0.0, 0.0]), np.array(4.0))


def averages(decay: float, num_updates: bool = False) -> MovingAverages:
    return MovingAverages(VariableAverages(decay=decay, num_updates=num_updates), START)


def test_they_begin_as_the_variables_do() -> None:
    assert averages(0.5).values is START


def test_they_follow_the_variables() -> None:
    # Half of the way each time: 1, 0.5, 0.25 towards 0; 2, 3, 3.5 towards 4.
    made = averages(0.5)
    made.update(1, LATER)
    assert [value.tolist() for value in made.values] == [[0.5, -0.5], 3.0]
    made.update(2, LATER)
    assert [value.tolist() for value in made.values] == [[0.25, -0.25], 3.5]


def test_a_step_is_taken_in_once() -> None:
    made = averages(0.5)
    made.update(0, LATER)
    assert made.values is START
    for _ in range(3):
        made.update(1, LATER)
    assert made.values[1] == 3.0


def test_the_first_updates_count_for_more() -> None:
    # Decay 2/11 after the first, 3/12 after the second, ...; 0.5 from step 8 on.
    decays = [VariableAverages(decay=0.5, num_updates=True).at(step) for step in range(1, 11)]
    assert decays[:2] == [2 / 11, 3 / 12]
    assert decays[6:] == [8 / 17, 0.5, 0.5, 0.5]
    assert VariableAverages(decay=0.5).at(1) == 0.5
    made = averages(0.5, num_updates=True)
    made.update(1, LATER)
    assert made.values[1] == pytest.approx(4 - 2 * 2 / 11)


def test_nothing_given_is_changed() -> None:
    made = averages(0.5)
    made.update(1, LATER)
    assert START[0].tolist() == [1.0, -1.0]
    assert LATER[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.1, 1.5])
def test_a_decay_is_between_0_and_1(decay: float) -> None:
    with pytest.raises(ValidationError):
        VariableAverages(decay=decay)
