"""Optimizers: what is given, and what is refused; their steps are TensorFlow's recorded ones."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario

KINDS = ["sgd", "momentum", "adagrad", "rmsprop"]


def optimizer(**settings: Any) -> Any:
    # None of these is the kind that scenarios of tests have, so that all of it is replaced.
    return scenario({"kind": "none"}, workload={"optimizer": settings}).workload.optimizer


def test_defaults_are_tensorflows() -> None:
    adam = optimizer(kind="adam")
    assert (adam.learning_rate, adam.beta1, adam.beta2, adam.epsilon) == (0.001, 0.9, 0.999, 1e-8)
    assert optimizer(kind="adagrad", learning_rate=1.0).initial_accumulator == 0.1
    rmsprop = optimizer(kind="rmsprop", learning_rate=1.0)
    assert (rmsprop.decay, rmsprop.momentum, rmsprop.epsilon) == (0.9, 0.0, 1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_learning_rate_must_be_given_except_to_adam(kind: str) -> None:
    with pytest.raises(ValidationError, match="learning_rate"):
        optimizer(kind=kind)


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
        optimizer(**wrong)
