"""Local SGD by hand: 100 ms a step, 40 bytes of parameters that take 100 ms on a link."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    NO_TIME,
    assert_same,
    gradient_rows,
    kill,
    life,
    losses,
    milliseconds,
    report,
    restart,
    run,
    scenario,
    slow,
)

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
FAIR = {**WIRE, "sharing": "fair"}
NOISY = {"noise": 1.0}
BOTH = pytest.mark.parametrize("network", [WIRE, FAIR], ids=["first_come", "fair"])


def local(**settings: Any) -> dict[str, Any]:
    return {"kind": "local_sgd", **settings}


@BOTH
class TestTimes:
    def test_two_steps_then_an_all_reduce(self, network: dict[str, Any]) -> None:
        # Two workers: half the vector there, half of the sum back, 50 ms each.
        trace = run(
            local(period=2), cluster={"workers": 2}, network=network, stop={"global_steps": 5}
        )

        assert life(trace, 0) == life(trace, 1)
        assert life(trace, 0) == [
            *(("compute", 0, 100), ("compute", 100, 200), ("write", 200, 300)),
            *(("compute", 300, 400), ("compute", 400, 500), ("write", 500, 600)),
            ("compute", 600, 700),
        ]
        assert milliseconds(trace.steps) == [100, 200, 400, 500, 700]
        assert [row.global_step for row in trace.evaluations] == [0, 2, 4, 5]

    def test_another_all_reduce(self, network: dict[str, Any]) -> None:
        # Up the tree and down again: the whole vector twice.
        strategy = local(period=2, collective="binomial_tree")
        trace = run(strategy, cluster={"workers": 2}, network=network, stop={"global_steps": 3})

        assert milliseconds(trace.steps) == [100, 200, 500]

    def test_an_average_is_a_barrier(self, network: dict[str, Any]) -> None:
        # Worker 1 takes 300 ms a step: worker 0 is at its second at 200 and waits until 600.
        cluster = {"workers": 2, "slow_workers": (slow(1, 3.0),)}
        trace = run(local(period=2), cluster=cluster, network=network, stop={"global_steps": 3})

        assert life(trace, 0) == [
            *(("compute", 0, 100), ("compute", 100, 200), ("barrier", 200, 600)),
            *(("write", 600, 700), ("compute", 700, 800), ("compute", 800, 900)),
            ("barrier", 900, 1000),
        ]
        assert life(trace, 1)[-1] == ("compute", 700, 1000)

    def test_the_first_step_after_warm_up_as_pytorch_counts(self, network: dict[str, Any]) -> None:
        # Steps 0 and 1 all-reduce gradients, steps 2 and 4 copies, step 3 nothing.
        strategy = local(period=2, warmup_steps=2, convention="pytorch")
        trace = run(strategy, cluster={"workers": 2}, network=network, stop={"global_steps": 5})

        assert milliseconds(trace.steps) == [200, 400, 500, 700, 800]
        none = run(
            {**strategy, "before_warmup": "none"},
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 5},
        )
        assert milliseconds(none.steps) == [100, 200, 300, 500, 600]


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
    def test_one_who_begins_again_has_the_latest_average(self) -> None:
        # Steps 1 and 2 until 200, averaged at 300. Worker 1 dies at 350 and is back at 500: it has
        # the average at 600, its third and fourth step at 800; worker 0 waits from 500 on.
        events = (kill(0.35, 1), restart(0.5, 1))
        trace = run(
            local(period=2),
            cluster={"workers": 2},
            network=WIRE,
            events=events,
            stop={"global_steps": 6},
        )

        assert life(trace, 1)[3:] == [
            *(("compute", 300, 350), ("down", 350, 500), ("read", 500, 600)),
            *(("compute", 600, 700), ("compute", 700, 800), ("write", 800, 900)),
            *(("compute", 900, 1000), ("compute", 1000, 1100)),
        ]
        assert milliseconds(trace.steps) == [100, 200, 700, 800, 1000, 1100]
        assert sum(row.outcome == APPLIED for row in gradient_rows(trace)) == 12

    def test_one_who_dies_in_an_all_reduce_comes_back_to_it(self) -> None:
        events = (kill(0.25, 1), restart(0.5, 1))
        trace = run(
            local(period=2),
            cluster={"workers": 2},
            network=WIRE,
            events=events,
            stop={"global_steps": 4},
        )

        assert life(trace, 1)[2:6] == [
            *(("write", 200, 250), ("down", 250, 500), ("read", 500, 600), ("write", 600, 700)),
        ]
        assert milliseconds(trace.steps) == [100, 200, 800, 900]

    def test_a_copy_from_before_the_first_average_has_missed_all(self) -> None:
        # Worker 1 dies in its third step and is back at 450, with the initial model: it has missed
        # the 4 updates of worker 0, and 2 of its own; worker 0, at 500, those 2 and no more.
        trace = run(
            local(period=9),
            cluster={"workers": 2},
            network=NO_TIME,
            events=(kill(0.25, 1), restart(0.45, 1)),
            stop={"time": 0.52},
        )

        assert trace.copy_staleness.tolist() == [0, 0, *(0, 1, 1, 2), *(2, 2), 6, 2]

    def test_without_a_restart_all_wait(self) -> None:
        trace = run(local(period=2), cluster={"workers": 2}, network=WIRE, events=(kill(0.35, 1),))

        assert trace.stopped_by == "deadlock"
        assert report(trace)[0] == "worker 0: waiting for an all-reduce that 1 of 2 have joined"

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
        (local(period=2, collective="hierarchical"), "hierarchical is of on_write and diloco"),
        (local(period=2, collective="push_pull"), "local_sgd has none"),
        ({"kind": "diloco", "collective": "push_pull"}, "diloco has none"),
        ({"kind": "diloco", "collective": "hierarchical"}, "needs ranks_per_group"),
        (local(period=2, segment_size=8.0), "segment_size has no effect"),
    ],
)
def test_all_reduces_that_do_not_fit(strategy: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        scenario(strategy)
