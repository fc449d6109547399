"""Optimizers against numbers recorded from TensorFlow, and against steps worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from varsim.values.optimizer import (
    OPTIMIZERS,
    Adagrad,
    Adam,
    AnyOptimizer,
    Momentum,
    Optimizer,
    RmsProp,
    Sgd,
)

ADAPTER: TypeAdapter[Optimizer] = TypeAdapter(AnyOptimizer)


def every_kind() -> list[Optimizer]:
    return [
        Sgd(learning_rate=0.1),
        Momentum(learning_rate=0.1),
        Momentum(learning_rate=0.1, nesterov=True),
        Adam(),
        Adagrad(learning_rate=0.1),
        RmsProp(learning_rate=0.1, momentum=0.5),
    ]


def test_sgd_by_hand() -> None:
    # 3 - 0.5 * 4 = 1
    value, state = Sgd(learning_rate=0.5).update(np.array([4.0]), (), np.array([3.0]))
    assert value == [1.0]
    assert state == ()


def test_momentum_by_hand() -> None:
    # velocity 1, then 0.5 + 1 = 1.5; x = 0 - 0.1 - 0.15
    optimizer = Momentum(learning_rate=0.1, momentum=0.5)
    value, gradient = np.zeros(1), np.ones(1)
    state = optimizer.init(value)
    for _ in range(2):
        value, state = optimizer.update(gradient, state, value)
    assert value[0] == pytest.approx(-0.25)
    assert state[0][0] == 1.5


def test_nesterov_looks_one_step_ahead() -> None:
    # velocity 1; step 1 + 0.5 * 1 = 1.5
    optimizer = Momentum(learning_rate=0.1, momentum=0.5, nesterov=True)
    value, _ = optimizer.update(np.ones(1), (np.zeros(1),), np.zeros(1))
    assert value[0] == pytest.approx(-0.15)


def test_the_first_step_of_adam_is_the_learning_rate_whatever_the_gradient() -> None:
    # m / sqrt(v) = (1 - b1) g / (sqrt(1 - b2) |g|), which the correction turns into the sign of g
    value = np.zeros(3)
    optimizer = Adam(learning_rate=0.01)
    gradient = np.array([1e-3, -1.0, 1e3])
    new, state = optimizer.update(gradient, optimizer.init(value), value)
    # epsilon is small beside sqrt(v) = sqrt(0.001) 1e-3 = 3e-5
    np.testing.assert_allclose(new, [-0.01, 0.01, -0.01], rtol=1e-3)
    assert state[2] == 1.0


def test_adam_counts_updates_from_one() -> None:
    optimizer = Adam()
    value = np.zeros(2)
    state = optimizer.init(value)
    for expected in (1.0, 2.0, 3.0):
        value, state = optimizer.update(np.ones(2), state, value)
        assert dict(zip(optimizer.slots, state, strict=True))["t"] == expected


def test_adagrad_by_hand() -> None:
    # accumulator 0.1 + 9 = 9.1
    optimizer = Adagrad(learning_rate=1.0)
    value = np.zeros(1)
    new, state = optimizer.update(np.array([3.0]), optimizer.init(value), value)
    assert state[0][0] == pytest.approx(9.1)
    assert new[0] == pytest.approx(-3 / math.sqrt(9.1))


def test_rmsprop_by_hand() -> None:
    # mean square 0.9 * 1 + 0.1 * 4 = 1.3
    optimizer = RmsProp(learning_rate=0.5)
    value = np.zeros(1)
    new, state = optimizer.update(np.array([2.0]), optimizer.init(value), value)
    assert state[0][0] == pytest.approx(1.3)
    assert new[0] == pytest.approx(-0.5 * 2 / math.sqrt(1.3))


def test_defaults_are_tensorflows() -> None:
    adam = Adam()
    assert (adam.learning_rate, adam.beta1, adam.beta2, adam.epsilon) == (0.001, 0.9, 0.999, 1e-8)
    assert Adagrad(learning_rate=1.0).initial_accumulator == 0.1
    rmsprop = RmsProp(learning_rate=1.0)
    assert (rmsprop.decay, rmsprop.momentum, rmsprop.epsilon) == (0.9, 0.0, 1e-10)


@pytest.mark.parametrize("kind", sorted(set(OPTIMIZERS) - {"adam"}))
def test_the_learning_rate_must_be_given_except_to_adam(kind: str) -> None:
    with pytest.raises(ValidationError, match="learning_rate"):
        ADAPTER.validate_python({"kind": kind})


@pytest.mark.parametrize("optimizer", every_kind(), ids=repr)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_update_changes_no_argument_and_keeps_shape_and_dtype(
    optimizer: Optimizer, shape: tuple[int, ...], dtype: type
) -> None:
    value, gradient = np.full(shape, 2.0, dtype), np.full(shape, 0.5, dtype)
    state = optimizer.init(value)
    assert len(state) == len(optimizer.slots)
    for _ in range(2):
        before = [array.copy() for array in (value, gradient, *state)]
        for array in (value, gradient, *state):
            if isinstance(array, np.ndarray):  # a scalar cannot be changed
                array.setflags(write=False)
        new, new_state = optimizer.update(gradient, state, value)
        for array, copy in zip((value, gradient, *state), before, strict=True):
            np.testing.assert_array_equal(array, copy)
        assert new.shape == shape
        assert new.dtype == dtype
        assert np.all(new < value)  # downhill
        for slot, old in zip(new_state, state, strict=True):
            assert slot.shape == old.shape
            assert slot.dtype == old.dtype
        value, state = new, new_state


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "sgd", "learning_rate": 0},
        {"kind": "sgd", "learning_rate": float("nan")},
        {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9},
        {"kind": "momentum", "learning_rate": 0.1, "momentum": 1.0},
        {"kind": "momentum", "learning_rate": 0.1, "momentum": 0.0},
        {"kind": "adam", "beta1": 1.0},
        {"kind": "adam", "beta2": -0.1},
        {"kind": "adam", "epsilon": 0.0},
        {"kind": "adagrad", "learning_rate": 0.1, "initial_accumulator": 0.0},
        {"kind": "rmsprop", "learning_rate": 0.1, "decay": 1.5},
        {"kind": "adadelta", "learning_rate": 0.1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(wrong)


def test_the_table_is_complete() -> None:
    for kind, optimizer in OPTIMIZERS.items():
        assert optimizer.model_fields["kind"].default == kind
        assert optimizer.about
    assert {optimizer.kind for optimizer in every_kind()} == set(OPTIMIZERS)
