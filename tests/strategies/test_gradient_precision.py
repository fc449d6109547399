"""Gradients sent in fewer bits: what that saves on links and servers, and does to values."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.building import (
    Model,
    assert_same,
    declared,
    example,
    life,
    losses,
    mean,
    milliseconds,
    run,
    scenario,
)
from tests.seams import STRATEGIES, Run, run_one
from varsim import Scenario

# 10 bytes per ms and 1 ms on the way; a model of 10 parameters, 40 bytes.
WIRE = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"}
HALF = {"gradient_precision": "fp16"}
SYNC = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}
SENDING = [kind for kind in STRATEGIES if declared(example(kind)).sends.what == "gradients"]


def in_bf16(values: Any) -> Any:
    """As another library rounds them."""
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


class TestBytes:
    @pytest.mark.parametrize(
        ("workload", "pushed"),
        [
            ({}, 5),
            ({"gradient_precision": "fp32"}, 5),
            (HALF, 3),
            ({"gradient_precision": "bf16"}, 3),
            ({"gradient_precision": "bf16", "bytes_per_parameter": 8}, 3),
        ],
    )
    def test_reads_stay_whole_and_pushes_shrink(
        self, workload: dict[str, Any], pushed: float
    ) -> None:
        read = 9 if "bytes_per_parameter" in workload else 5
        trace = run(
            "none",
            network=WIRE,
            cluster={"workers": 1},
            workload=workload,
            stop={"global_steps": 1},
        )

        assert life(trace, 0) == [
            ("read", 0, read),
            ("compute", read, read + 100),
            ("write", read + 100, read + 100 + pushed),
        ]
        moved = {link.name: link.moved for link in trace.links}
        assert moved["worker 0 up"] == 10 * (pushed - 1)
        assert moved["worker 0 down"] == 10 * (read - 1)

    @pytest.mark.parametrize(("workload", "step"), [({}, 106), (HALF, 104)])
    def test_an_all_reduce_moves_gradients(self, workload: dict[str, Any], step: float) -> None:
        # Two rounds of 20 or of 10 bytes.
        trace = run(
            "on_write",
            network=WIRE,
            cluster={"workers": 2},
            workload=workload,
            stop={"global_steps": 1},
        )

        assert milliseconds(trace.steps) == [step]

    def test_copies_are_read_whole(self) -> None:
        both = scenario(
            {"kind": "on_read", "read_every": 1, "write_back": True},
            network=WIRE,
            stop={"global_steps": 3},
        )
        mixed = Scenario.model_validate(
            {
                **dict(both),
                "strategies": (*both.strategies, {"kind": "on_write"}),
                "workload": {**dict(both.workload), **HALF},
            }
        )
        assert_same(run_one(Run(mixed, 0, 0)), run_one(Run(both, 0, 0)))

    def test_rows_are_sent_with_their_numbers(self) -> None:
        # 2 rows of 3 numbers: 40 bytes read, 28 bytes sent, of each of two variables.
        trace = run(
            "none",
            network=WIRE,
            cluster={"workers": 1},
            problem={"kind": "embedding", "users": 6, "items": 4, "dimension": 3, "ratings": 60},
            workload={**HALF, "batch_size": 2},
            stop={"global_steps": 1},
        )

        moved = {link.name: link.moved for link in trace.links}
        assert moved["worker 0 down"] == 80
        assert moved["worker 0 up"] == pytest.approx(56)


class TestValues:
    ROUNDED = {"gradient_precision": "bf16", "round_gradients": True}

    @pytest.mark.parametrize("strategy", ["on_write", {**SYNC, "replicas_to_aggregate": 3}])
    def test_each_gradient_is_rounded_and_the_mean_is_not(self, strategy: Any) -> None:
        described = {"kind": strategy} if isinstance(strategy, str) else strategy
        made = scenario(
            described,
            problem={"noise": 1.0},
            workload={**self.ROUNDED, "evaluate_every": 3},
            stop={"global_steps": 5},
        )
        model = Model(made)
        at, expected = model.start, [model.loss(model.start)]
        for step in range(5):
            gradients = [model.gradient(at, worker, step)[0] for worker in range(3)]
            at = model.step(at, [mean([in_bf16(one) for one in gradients])])
            expected.append(model.loss(at))

        assert losses(run_one(Run(made, 0, 0))) == expected

    @pytest.mark.parametrize("kind", SENDING)
    @pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
    def test_laziness_changes_nothing(self, kind: str, precision: str) -> None:
        made = scenario(
            example(kind),
            problem={"kind": "linear_regression"},
            cluster={"compute": {"kind": "exponential", "mean": 0.1}},
            workload={"gradient_precision": precision, "round_gradients": True},
            stop={"global_steps": 20},
        )
        lazy, eager = (run_one(Run(made, 0, 0), lazy=lazy) for lazy in (True, False))

        assert losses(lazy) == losses(eager)
        exact = made.workload.model_copy(update={"round_gradients": False})
        plain = run_one(Run(made.model_copy(update={"workload": exact}), 0, 0))
        assert losses(plain) != losses(lazy)
        assert losses(plain)[-1] == pytest.approx(losses(lazy)[-1], rel=0.05)

    def test_what_is_too_large_for_fp16_is_infinite(self) -> None:
        ends = {
            precision: losses(
                run(
                    "on_write",
                    problem={"distance": 1e6},
                    workload={"gradient_precision": precision, "round_gradients": True},
                )
            )[-1]
            for precision in ("fp32", "bf16", "fp16")
        }
        assert math.isfinite(ends["bf16"])
        assert ends["bf16"] == pytest.approx(ends["fp32"], rel=0.02)
        assert not math.isfinite(ends["fp16"])

    def test_what_is_too_small_for_fp16_is_lost(self) -> None:
        found = losses(
            run(
                "none",
                problem={"distance": 1e-9},
                workload={"gradient_precision": "fp16", "round_gradients": True},
            )
        )
        assert len(set(found)) == 1

    def test_nothing_is_sent_by_a_worker_alone(self) -> None:
        both = scenario({"kind": "single"}, problem={"noise": 1.0})
        mixed = Scenario.model_validate(
            {
                **dict(both),
                "strategies": (*both.strategies, {"kind": "none"}),
                "workload": {**dict(both.workload), **self.ROUNDED},
            }
        )
        assert_same(run_one(Run(mixed, 0, 0)), run_one(Run(both, 0, 0)))
        assert mixed.with_only(mixed.strategies[:1]).workload == both.workload
        assert mixed.with_only(mixed.strategies[1:]).workload == mixed.workload
