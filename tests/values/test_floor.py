"""Bounds of a loss from below: never above the loss, and near where they were taken close to it."""

from typing import Any

import numpy as np
import pytest

from tests.building import problem_of
from tests.seams import Parameters

BOUNDED: dict[str, dict[str, Any]] = {
    "softmax": {"kind": "digits"},
    "linear_regression": {"kind": "linear_regression", "features": 4, "examples": 50},
    "embedding": {"kind": "embedding", "users": 30, "items": 20, "dimension": 3, "ratings": 200},
}


def problem(settings: dict[str, Any]) -> Any:
    return problem_of(**settings)


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


@pytest.mark.parametrize("name", BOUNDED)
def test_while_a_parameter_is_no_number_the_loss_need_not_be_measured(name: str) -> None:
    task = problem(BOUNDED[name]).task(3, 1)
    for number in range(len(task.initial())):
        wild = [part.copy() for part in task.initial()]
        wild[number].flat[0] = np.nan  # of an item or a user that somebody rated
        loss = task.loss(tuple(wild))
        floor = task.floor(tuple(wild), loss)
        assert floor is not None
        assert np.isnan(loss)
        assert floor(tuple(wild)) == np.inf
        assert floor(task.initial()) == -np.inf, "it came back from somewhere: look"


def test_a_row_that_nobody_rated_tells_nothing() -> None:
    task = problem({**BOUNDED["embedding"], "items": 2000}).task(3, 1)
    here = task.initial()
    alone = [
        row for row in range(2000) if np.isfinite(task.loss((here[0], _without(here[1], row))))
    ]
    wild = here[0], _without(here[1], alone[0])
    floor = task.floor((np.full_like(here[0], np.inf), wild[1]), np.nan)
    assert floor is not None
    assert floor(wild) == -np.inf


def _without(table: np.ndarray[Any, Any], row: int) -> np.ndarray[Any, Any]:
    found = table.copy()
    found[row] = np.nan
    return found
