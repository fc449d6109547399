"""Bounds of a loss from below: never above the loss, and near where they were taken close to it."""

from typing import Any

import numpy as np
import pytest

from varsim.values.problem import PROBLEMS, Parameters, Problem

BOUNDED: dict[str, dict[str, Any]] = {
    "softmax": {"kind": "digits"},
    "linear_regression": {"kind": "linear_regression", "features": 4, "examples": 50},
    "embedding": {"kind": "embedding", "users": 30, "items": 20, "dimension": 3, "ratings": 200},
}
UNBOUNDED: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "digits", "model": "mlp"},
    "quadratic": {"kind": "quadratic"},
    "timing": {"kind": "timing", "size": 1000.0},
}


def problem(settings: dict[str, Any]) -> Problem:
    return PROBLEMS[settings["kind"]](**settings)


def moved(start: Parameters, source: np.random.Generator, size: float) -> Parameters:
    return tuple(part + size * source.standard_normal(part.shape) for part in start)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_floor_is_never_above_the_loss(name: str) -> None:
    task = problem(BOUNDED[name]).task(3, 1)
    source = np.random.default_rng(1)
    for size in (1e-9, 1e-3, 0.1, 1.0, 30.0):
        for _ in range(10):
            here = moved(task.initial(), source, float(source.choice([0.0, 0.3, 3.0])))
            there = moved(here, source, size)
            floor = task.floor(here, task.loss(here))
            assert floor is not None
            assert floor(there) <= task.loss(there)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_floor_touches_the_loss(name: str) -> None:
    task = problem(BOUNDED[name]).task(3, 1)
    source = np.random.default_rng(2)
    here = moved(task.initial(), source, 0.3)
    floor, loss = task.floor(here, task.loss(here)), task.loss(here)
    assert floor is not None
    assert floor(here) == pytest.approx(loss, rel=2e-6)
    for _ in range(5):
        there = moved(here, source, 1e-3)
        assert floor(there) - loss == pytest.approx(task.loss(there) - loss, rel=0.1, abs=1e-4)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_others_have_none(name: str) -> None:
    task = problem(UNBOUNDED[name]).task(3, 1)
    assert task.floor(task.initial(), task.loss(task.initial())) is None


def test_what_is_no_number_is_never_skipped() -> None:
    task = problem(BOUNDED["softmax"]).task(3, 1)
    wild = tuple(np.full(part.shape, np.nan) for part in task.initial())
    floor, from_wild = (
        task.floor(task.initial(), task.loss(task.initial())),
        task.floor(wild, task.loss(wild)),
    )
    assert floor is not None
    assert from_wild is not None
    assert not floor(wild) > 0.1
    assert not from_wild(task.initial()) > 0.1
