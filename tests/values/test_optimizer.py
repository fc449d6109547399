"""Optimizers against numbers recorded from TensorFlow, and against steps worked out by hand."""

import math
from typing import Any, NamedTuple

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


class Recorded(NamedTuple):
    """Updates of variable `a` in one recorded run: gradients taken in, value, slots after it."""

    case: str
    optimizer: dict[str, Any]
    initial: list[float]
    rtol: float
    updates: list[tuple[list[list[float]], list[float], dict[str, list[float]]]]


# From TensorFlow 2.15.1 driving SyncReplicasOptimizer; the first two updates of each case.
RECORDED = [
    Recorded(
        "nobackup_2w",
        {"kind": "sgd", "learning_rate": 0.5},
        [1.0, -1.0],
        1e-09,
        [
            ([[0.62, -0.93], [-1.81, -0.83]], [1.2974999999999999, -0.56], {}),
            ([[0.22, -0.44], [-0.47, 0.32]], [1.3599999999999999, -0.53], {}),
        ],
    ),
    Recorded(
        "nobackup_3w_momentum",
        {"kind": "momentum", "learning_rate": 0.125, "momentum": 0.875},
        [1.0, -1.0],
        1e-09,
        [
            (
                [
                    [0.9487000000000001, -0.11129999999999998],
                    [1.8798000000000001, 0.3198],
                    [0.526, 0.12599999999999997],
                ],
                [0.8602291666666667, -1.0139375],
                {"velocity": [1.1181666666666665, 0.11149999999999999]},
            ),
            (
                [
                    [1.77077875, 0.30892875],
                    [0.8746214583333334, -0.11868687499999996],
                    [0.4980458333333333, 0.1232125],
                ],
                [0.6069527690972223, -1.0391934114583332],
                {"velocity": [2.0262111805555554, 0.20204729166666668]},
            ),
        ],
    ),
    Recorded(
        "nobackup_4w_adam_2ps",
        {
            "kind": "adam",
            "learning_rate": 0.0625,
            "beta1": 0.5,
            "beta2": 0.75,
            "epsilon": 9.5367431640625e-07,
        },
        [1.0, -1.0],
        1e-09,
        [
            (
                [
                    [0.7260000000000001, -0.374],
                    [0.36960000000000004, -0.07039999999999999],
                    [1.3951999999999998, 0.11519999999999997],
                    [0.28600000000000003, -0.8140000000000001],
                ],
                [0.9375001717213512, -0.9375004171045975],
                {
                    "m": [0.3471, -0.14290000000000003],
                    "v": [0.12047841000000001, 0.020420410000000007],
                },
            ),
            (
                [
                    [0.6916250944467432, -0.33962522940752865],
                    [0.3558500377786973, -0.056650091763011445],
                    [1.3552001099016646, 0.15519973305305754],
                    [0.2516250944467432, -0.7796252294075287],
                ],
                [0.8752852878017179, -0.875778566599174],
                {
                    "m": [0.5053375420717311, -0.1990376021906264],
                    "v": [0.20044178057400072, 0.03159390373275354],
                },
            ),
        ],
    ),
    Recorded(
        "nesterov",
        {"kind": "momentum", "learning_rate": 0.125, "momentum": 0.75, "nesterov": True},
        [1.0, -1.0],
        1e-09,
        [
            (
                [[0.8246, 0.06459999999999998], [-0.603, -2.403]],
                [0.9757625, -0.7442375],
                {"velocity": [0.11080000000000001, -1.1692]},
            ),
            (
                [[0.81538975, 0.16178974999999998], [-0.62481375, -2.17281375]],
                [0.9471276249999999, -0.442072375],
                {"velocity": [0.17838800000000005, -1.882412]},
            ),
        ],
    ),
    Recorded(
        "adagrad",
        {"kind": "adagrad", "learning_rate": 0.25, "initial_accumulator": 0.125},
        [1.0, -1.0],
        1e-09,
        [
            (
                [[-0.2548, -2.0748], [1.3301, 0.3901]],
                [0.791116529296149, -0.7694816557020228],
                {"accumulator": [0.41406752249999995, 0.8345535225000003]},
            ),
            (
                [
                    [-0.4448839583405045, -1.8650283066888407],
                    [1.2319247687691899, 0.4984436218200493],
                ],
                [0.6606859452912213, -0.6197429199671344],
                {"accumulator": [0.5689258318200605, 1.3014419477294839]},
            ),
        ],
    ),
    Recorded(
        "rmsprop",
        {
            "kind": "rmsprop",
            "learning_rate": 0.03125,
            "decay": 0.875,
            "momentum": 0.5,
            "epsilon": 9.5367431640625e-07,
        },
        [1.0, -1.0],
        1e-09,
        [
            (
                [[0.325, -0.195], [0.09019999999999999, -1.5498]],
                [0.993085826538335, -0.9723210679615],
                {
                    "mean_square": [0.88038722, 0.97013522],
                    "momentum": [0.006914173461665044, -0.027678932038500057],
                },
            ),
            (
                [[0.3232023148999671, -0.18780347766999], [0.08453037776143468, -1.52710327572843]],
                [0.9823944671670994, -0.9308555886566672],
                {
                    "mean_square": [0.7755340033957787, 0.9407716041516097],
                    "momentum": [0.010691359371235502, -0.04146547930483276],
                },
            ),
        ],
    ),
    Recorded(
        "float32_adam_defaults",
        {"kind": "adam", "learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-08},
        [0.1, 0.2, 0.3],
        1e-05,
        [
            (
                [[-0.13, -0.46, 0.66], [-1.33, -0.54, -0.73]],
                [0.101000004, 0.201000005, 0.300999999],
                {
                    "m": [-0.0730000213, -0.0500000119, -0.00350000057],
                    "v": [0.000532893173, 0.000249996781, 1.22498398e-06],
                },
            ),
            (
                [[-1.17, 0.41, 1.02], [-0.43, -1.2, 0.57]],
                [0.102001339, 0.201987118, 0.300286055],
                {
                    "m": [-0.145700037, -0.0845000222, 0.0763500109],
                    "v": [0.001172352, 0.000405769795, 0.000633240561],
                },
            ),
        ],
    ),
]


def every_kind() -> list[Optimizer]:
    return [
        Sgd(learning_rate=0.1),
        Momentum(learning_rate=0.1),
        Momentum(learning_rate=0.1, nesterov=True),
        Adam(),
        Adagrad(learning_rate=0.1),
        RmsProp(learning_rate=0.1, momentum=0.5),
    ]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.case)
def test_updates_equal_those_recorded_from_tensorflow(recorded: Recorded) -> None:
    optimizer = ADAPTER.validate_python(recorded.optimizer)
    dtype = np.float32 if recorded.case.startswith("float32") else np.float64
    value = np.array(recorded.initial, dtype)
    state = optimizer.init(value)
    for gradients, expected, slots in recorded.updates:
        mean = np.mean(np.array(gradients, dtype), axis=0)
        value, state = optimizer.update(mean, state, value)
        tolerance = {"rtol": recorded.rtol, "atol": recorded.rtol}
        np.testing.assert_allclose(value, expected, **tolerance)
        by_name = dict(zip(optimizer.slots, state, strict=True))
        for name, slot in slots.items():
            np.testing.assert_allclose(by_name[name], slot, **tolerance)


def test_the_recorded_cases_cover_every_optimizer_and_its_slots() -> None:
    assert {recorded.optimizer["kind"] for recorded in RECORDED} == set(OPTIMIZERS)
    for recorded in RECORDED:
        slots = set(OPTIMIZERS[recorded.optimizer["kind"]].slots)
        assert set(recorded.updates[0][2]) == slots - {"t"}


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
    ("kind", "setting", "one", "other"),
    [
        ("sgd", "learning_rate", 0.1, 0.2),
        ("momentum", "learning_rate", 0.1, 0.2),
        ("momentum", "momentum", 0.5, 0.9),
        ("momentum", "nesterov", False, True),
        ("adam", "learning_rate", 0.1, 0.2),
        ("adam", "beta1", 0.5, 0.9),
        ("adam", "beta2", 0.5, 0.9),
        ("adam", "epsilon", 1e-8, 0.1),
        ("adam", "form", "tensorflow", "pytorch"),
        ("adagrad", "learning_rate", 0.1, 0.2),
        ("adagrad", "initial_accumulator", 0.1, 0.2),
        ("rmsprop", "learning_rate", 0.1, 0.2),
        ("rmsprop", "decay", 0.5, 0.9),
        ("rmsprop", "momentum", 0.0, 0.5),
        ("rmsprop", "epsilon", 1e-10, 0.1),
    ],
)
def test_every_setting_changes_the_values(kind: str, setting: str, one: Any, other: Any) -> None:
    def value_after_three_updates(choice: Any) -> float:
        optimizer = ADAPTER.validate_python({"kind": kind, "learning_rate": 0.1, setting: choice})
        value = np.ones(1)
        state = optimizer.init(value)
        for slope in (1.0, 2.0, -0.5):
            value, state = optimizer.update(np.array([slope]), state, value)
        return float(value[0])

    assert value_after_three_updates(one) != value_after_three_updates(other)


def test_every_setting_is_tried_above() -> None:
    tried = test_every_setting_changes_the_values.pytestmark[0].args[1]
    expected = {
        (kind, setting)
        for kind, optimizer in OPTIMIZERS.items()
        for setting in optimizer.model_fields
        if setting != "kind"
    }
    assert {(kind, setting) for kind, setting, *_ in tried} == expected


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
