"""Updates with sparse gradients: which rows change, and how."""

import numpy as np
import pytest

from varsim.values.gradient_form import IndexedSlices
from varsim.values.optimizer import OPTIMIZERS, Adam, Momentum, Optimizer, RmsProp

EVERY_KIND: list[Optimizer] = [
    *(kind.model_validate({"learning_rate": 0.1}) for kind in OPTIMIZERS.values()),
    Momentum(learning_rate=0.1, nesterov=True),
    RmsProp(learning_rate=0.1, momentum=0.5),
]


def some_rows() -> IndexedSlices:
    """Of a variable (5, 2), rows 3 and 1, row 3 in two parts."""
    return IndexedSlices(np.array([3, 1, 3]), np.array([[0.5, 1.0], [2.0, -1.0], [0.25, 0.5]]))


@pytest.mark.parametrize("optimizer", EVERY_KIND, ids=repr)
def test_of_a_sparse_gradient_only_its_rows_change_but_adam_moves_all(
    optimizer: Optimizer,
) -> None:
    # Two updates: rows 1 and 3 as by a dense gradient; the others not at all, unless it is Adam.
    value = np.arange(10.0).reshape(5, 2)
    state = optimizer.init(value)
    dense_value, dense_state = value, state
    for _ in range(2):
        before = [array.copy() for array in (value, *state)]
        new, new_state = optimizer.update_rows(some_rows(), state, value)
        for array, copy in zip((value, *state), before, strict=True):
            np.testing.assert_array_equal(array, copy)
        value, state = new, new_state
        dense_value, dense_state = optimizer.update(
            np.array([[0.0, 0.0], [2.0, -1.0], [0.0, 0.0], [0.75, 1.5], [0.0, 0.0]]),
            dense_state,
            dense_value,
        )
    for name, found, dense in zip(
        ("value", *optimizer.slots), (value, *state), (dense_value, *dense_state), strict=True
    ):
        rows = ... if optimizer.kind == "adam" else [1, 3]
        np.testing.assert_array_equal(found[rows], dense[rows], err_msg=name)
    if optimizer.kind != "adam":
        start = optimizer.init(np.arange(10.0).reshape(5, 2))
        untouched = [0, 2, 4]
        np.testing.assert_array_equal(value[untouched], np.arange(10.0).reshape(5, 2)[untouched])
        for found, slot in zip(state, start, strict=True):
            np.testing.assert_array_equal(found[untouched], slot[untouched])


def test_adam_decays_and_moves_rows_without_a_gradient() -> None:
    optimizer = Adam(learning_rate=0.1)
    value = np.zeros((2, 1))
    state = optimizer.init(value)
    value, state = optimizer.update_rows(
        IndexedSlices(np.array([0, 1]), np.ones((2, 1))), state, value
    )
    after, slots = optimizer.update_rows(
        IndexedSlices(np.array([0]), np.ones((1, 1))), state, value
    )
    assert slots[0][1, 0] == 0.9 * state[0][1, 0]
    assert slots[1][1, 0] == 0.999 * state[1][1, 0]
    assert after[1, 0] < value[1, 0]


@pytest.mark.parametrize("optimizer", EVERY_KIND, ids=repr)
def test_a_sparse_gradient_may_have_no_rows(optimizer: Optimizer) -> None:
    value = np.ones((3, 2))
    empty = IndexedSlices(np.empty(0, np.int64), np.empty((0, 2)))
    new, _ = optimizer.update_rows(empty, optimizer.init(value), value)
    np.testing.assert_array_equal(new, value)
