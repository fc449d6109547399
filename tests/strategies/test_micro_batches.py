"""Gradient accumulation and DropCompute by hand: 100 ms a micro-batch, 40 bytes of parameters."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    gradient_rows,
    losses,
    run,
    scenario,
    slow,
)

NOISY = {"noise": 1.0}


def accumulating(number: int = 3, **settings: Any) -> dict[str, Any]:
    return {"kind": "on_write", "micro_batches": number, **settings}


def dropping(threshold: float, number: int = 3, **settings: Any) -> dict[str, Any]:
    drop = {"threshold": threshold, **settings}
    return accumulating(number, drop_compute=drop)


class TestAccumulation:
    def test_values_are_those_of_as_many_workers(self) -> None:
        # Without noise all gradients are equal, but for rounding: one update is one of any size.
        one, other = run("on_write"), run(accumulating(4))
        assert losses(one) == pytest.approx(losses(other), rel=1e-13)

    def test_noise_falls_with_the_batch(self) -> None:
        noisy = {"noise": 1.0}
        steps = {"stop": {"global_steps": 200}, "seed": 3}
        alone = run("on_write", problem=noisy, **steps)
        sixteen = run(accumulating(16), problem=noisy, **steps)
        # Gradients of variance 1: the loss hovers 16 times lower.
        assert np.mean(losses(sixteen)[-10:]) < np.mean(losses(alone)[-10:]) / 4

    def test_what_is_sent_is_rounded_once(self) -> None:
        sent = {"gradient_precision": "bf16", "round_gradients": True}
        rounded = run(accumulating(3), workload={"batch_size": 1, **sent}, problem=NOISY)
        exact = run(accumulating(3), problem=NOISY)
        assert losses(rounded) != losses(exact)
        assert losses(rounded) == pytest.approx(losses(exact), rel=0.02)

    def test_sparse_rows_are_added_up(self) -> None:
        made: dict[str, Any] = {"problem": {"kind": "embedding", "ratings": 50}}
        made |= {"stop": {"global_steps": 30}, "optimizer": {"learning_rate": 1.0}}
        trace = run(accumulating(2), **made)
        assert losses(trace)[-1] < 0.99 * losses(trace)[0]


class TestDropCompute:
    # Worker 1 takes 200 ms a micro-batch.
    CLUSTER: dict[str, Any] = {"workers": 2, "slow_workers": (slow(1, 2.0),)}

    def test_over_all_or_over_those_computed(self) -> None:
        # One worker whose micro-batches have one gradient: of two of three it is two thirds.
        alone: dict[str, Any] = {"cluster": {"workers": 1}, "stop": {"global_steps": 1}}
        full = run("on_write", **alone)
        computed = run(dropping(0.2), **alone)
        over_all = run(dropping(0.2, divide_by="all"), **alone)
        assert losses(computed) == pytest.approx(losses(full), rel=1e-13)
        slower = run("on_write", **alone, optimizer={"learning_rate": 0.1 * 2 / 3})
        assert losses(over_all) == pytest.approx(losses(slower), rel=1e-13)

    def test_later_steps_meet_the_same_micro_batches(self) -> None:
        law = {"kind": "exponential", "mean": 0.1}
        changes: dict[str, Any] = {"cluster": {"workers": 2, "compute": law}, "seed": 5}

        def first_of_each_step(strategy: dict[str, Any]) -> list[int]:
            found: dict[int, int] = {}
            for row in gradient_rows(run(strategy, **changes)):
                if row.worker == 0 and row.computed >= 0 and row.compute_start == row.read:
                    found[row.read_step] = row.computed - row.compute_start
            return list(found.values())

        assert first_of_each_step(dropping(0.15)) == first_of_each_step(accumulating())


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (dropping(0.05, number=1), "drop_compute has no effect with micro_batches 1"),
        (dropping(-1.0), "threshold"),
        (accumulating(0), "micro_batches"),
    ],
)
def test_what_is_refused(strategy: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        scenario(strategy)
