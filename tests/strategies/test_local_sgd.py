"""Local SGD by hand: 100 ms a step, 40 bytes of parameters that take 100 ms on a link."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    assert_same,
    gradient_rows,
    kill,
    losses,
    milliseconds,
    run,
    scenario,
)

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
FAIR = {**WIRE, "sharing": "fair"}
NOISY = {"noise": 1.0}


def local(**settings: Any) -> dict[str, Any]:
    return {"kind": "local_sgd", **settings}


class TestValues:
    def test_every_step_averaged_is_on_write(self) -> None:
        # Issue: local SGD with H = 1 and plain SGD equals on_write, in times and values.
        changes: dict[str, Any] = {
            "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
            "network": FAIR,
            "problem": NOISY,
            "stop": {"global_steps": 20},
        }
        often = run(local(period=1), **changes)
        mirrored = run("on_write", **changes, workload={"evaluate_every": 4})

        # Read, computed and begun at the same moments, the last step aside: there the run ends
        # before its average.
        begun = [sorted(row[:6] for row in gradient_rows(one)[:76]) for one in (often, mirrored)]
        assert begun[0] == begun[1]
        assert losses(often)[:20] == pytest.approx(losses(mirrored)[:20], rel=1e-12)

    @pytest.mark.parametrize("every", [1, 3])
    def test_counted_as_torchft_it_is_on_read_written_back(self, every: int) -> None:
        changes: dict[str, Any] = {
            "cluster": {"workers": 3, "compute": {"kind": "exponential", "mean": 0.1}},
            "problem": NOISY,
            "optimizer": {"kind": "momentum", "learning_rate": 0.1},
            "stop": {"global_steps": 20},
        }
        one = run(local(period=every), **changes)
        other = run({"kind": "on_read", "read_every": every, "write_back": True}, **changes)

        assert_same(one, other, but=("strategy", "heap_events", "links", "sent", "span_rows"))

    def test_warm_up_is_on_write(self) -> None:
        changes: dict[str, Any] = {
            "cluster": {"workers": 4},
            "network": WIRE,
            "problem": NOISY,
            "optimizer": {"kind": "momentum", "learning_rate": 0.1},
            "stop": {"global_steps": 9},
        }
        warm = run(local(period=2, warmup_steps=9), **changes)
        mirrored = run("on_write", **changes)

        assert milliseconds(warm.steps) == milliseconds(mirrored.steps)
        assert losses(warm)[-1] == pytest.approx(losses(mirrored)[-1], rel=1e-12)
        assert warm.evaluations[-1].divergence == 0.0

    def test_averages_come_sooner_together(self) -> None:
        """The longer replicas are alone, the further their copies drift apart."""
        changes: dict[str, Any] = {
            "cluster": {"workers": 4},
            "problem": NOISY,
            "stop": {"global_steps": 33},
        }
        apart = [
            np.mean([row.divergence for row in run(local(period=h), **changes).evaluations[1:-1]])
            for h in (1, 2, 4, 8)
        ]
        assert apart == sorted(apart)
        assert apart[0] > 0


class TestDeaths:
    def test_warm_up_refuses_them(self) -> None:
        with pytest.raises(ValidationError, match="does not go with events"):
            scenario(local(period=2, warmup_steps=2), events=(kill(0.35, 1),))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, r"period\n *Field required"),
        ({"period": 2, "before_warmup": "none"}, "no effect without warmup_steps"),
        ({"period": 0}, "greater than 0"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        scenario(local(**settings), cluster={"workers": 4})


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (local(period=2, collective="hierarchical"), "that is of on_write and diloco"),
        (local(period=2, collective="push_pull"), "local_sgd has none"),
        ({"kind": "diloco", "collective": "push_pull"}, "diloco has none"),
        ({"kind": "diloco", "collective": "hierarchical"}, "needs ranks_per_group"),
        (local(period=2, segment_size=8.0), "segment_size has no effect"),
    ],
)
def test_all_reduces_that_do_not_fit(strategy: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        scenario(strategy)
