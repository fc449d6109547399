"""The back of an envelope: by hand where times are constant, near the simulation elsewhere."""

from typing import Any

import pytest
from building import run, scenario

from varsim.cluster.envelope import Envelope
from varsim.study.estimate import describe, estimates

# 1,000 parameters of 4 bytes: 4 ms on a link of 1 MB/s.
WIRE = {"bandwidth": 1e6, "latency": 1e-3, "sharing": "fair"}
CHANGES: dict[str, Any] = {
    "cluster": {
        "workers": 4,
        "parameter_servers": 2,
        "slow_workers": ({"rank": 3, "factor": 3.0},),
    },
    "network": WIRE,
    "problem": {"dimension": 1000},
}
MIRRORED: dict[str, Any] = {**CHANGES, "cluster": {**CHANGES["cluster"], "parameter_servers": 1}}


def step_time(strategy: dict[str, Any], **changes: Any) -> float:
    (estimate,) = estimates(scenario(strategy, **changes))
    return estimate.step_time


class TestByHand:
    def test_single(self) -> None:
        assert step_time({"kind": "single"}, **MIRRORED) == pytest.approx(0.1)

    def test_on_write(self) -> None:
        # 300 ms, then 6 rounds of 1 ms latency and a quarter of 4 ms.
        assert step_time({"kind": "on_write"}, **MIRRORED) == pytest.approx(0.3 + 6 * 0.002)

    def test_on_read(self) -> None:
        strategy = {"kind": "on_read", "read_every": 4}
        assert step_time(strategy, **MIRRORED) == pytest.approx(0.3 + 6 * 0.002 / 4)
        first = {**strategy, "aggregation": "only_first_replica"}
        assert step_time(first, **MIRRORED) == pytest.approx(0.3)
        assert step_time({**first, "write_back": True}, **MIRRORED) > 0.3

    def test_none(self) -> None:
        # 5 ms each way besides compute: three workers make 1 / 110 ms each, one 1 / 310 ms.
        updates = 3 / 0.11 + 1 / 0.31
        assert step_time({"kind": "none"}, **CHANGES) == pytest.approx(1 / updates)

    def test_none_with_one_server_fuller_than_the_other(self) -> None:
        # One tensor, whole on one of two servers: its port alone takes 4 ms, as the workers' do.
        whole = {**CHANGES, "cluster": {**CHANGES["cluster"], "placement": "round_robin"}}
        busy = {**whole, "network": {**WIRE, "server_bandwidth": 2e4}}
        assert step_time({"kind": "none"}, **busy) == pytest.approx(4000 / 2e4)

    @pytest.mark.parametrize("kind", ["star", "full_mesh"])
    def test_a_slow_link_counts_for_its_worker_alone(self, kind: str) -> None:
        # Worker 0's link takes twice as long: in a star 1 + 8 ms each way, in a mesh, where it has
        # one to each of the two servers, 1 + 4 ms; all others 5 and 3 ms.
        network = {**WIRE, "kind": kind, "slow_links": ({"rank": 0, "factor": 2},)}
        slow = {**CHANGES, "network": network}
        usual, late = (0.010, 0.018) if kind == "star" else (0.006, 0.010)
        updates = 2 / (0.1 + usual) + 1 / (0.1 + late) + 1 / (0.3 + usual)
        assert step_time({"kind": "none"}, **slow) == pytest.approx(1 / updates)
        together = {"kind": "backup_workers", "replicas_to_aggregate": 4}
        assert step_time(together, **slow) == pytest.approx(0.3 + late)
        # Of the other three, four reads of 2 ms and three pushes meet at a port of the star.
        others = {**together, "replicas_to_aggregate": 3}
        met = 0.008 + 0.006 if kind == "star" else usual
        assert step_time(others, **slow) == pytest.approx(0.1 + met)

    def test_messages_of_layers_cost_their_overhead(self) -> None:
        # A read is one message of 10 + 4 ms, two layers are two of 10 + 2, with 1 ms of latency
        # each way. Of 25 ms of sending half is for either layer: the first one is left at the end.
        layers = ({"backward": 1.0, "size": 2e3}, {"backward": 1.0, "size": 2e3})
        layered = {
            "cluster": {"workers": 1, "backward_share": 1.0},
            "network": {**WIRE, "message_overhead": 10e-3},
            "problem": {"kind": "timing"},
            "workload": {"optimizer": None, "layers": layers},
        }
        found = step_time({"kind": "none", "overlap": True}, **layered)
        assert found == pytest.approx(0.015 + 0.1 + 0.0125)

    def test_none_at_a_busy_port(self) -> None:
        busy = {**CHANGES, "network": {**WIRE, "server_bandwidth": 2e4}}
        assert step_time({"kind": "none"}, **busy) == pytest.approx(4000 / 4e4)

    def test_none_locked(self) -> None:
        # 5 ms each way and 10 ms under the lock; then 40 ms, more than all workers leave for it.
        locked = {"kind": "none", "use_locking": True}
        some = {**CHANGES, "cluster": {**CHANGES["cluster"], "overheads": {"commit": 0.01}}}
        assert step_time(locked, **some) == pytest.approx(1 / (3 / 0.12 + 1 / 0.32))
        much = {**CHANGES, "cluster": {**CHANGES["cluster"], "overheads": {"commit": 0.06}}}
        assert step_time(locked, **much) == pytest.approx(0.06)
        assert step_time(locked, **CHANGES) == step_time({"kind": "none"}, **CHANGES)

    def test_sync_replicas(self) -> None:
        # All four: the slowest; both ways 2 ports of 1 MB/s carry 16 kB in 8 ms.
        all_four = {"kind": "sync_replicas", "replicas_to_aggregate": 4}
        assert step_time(all_four, **CHANGES) == pytest.approx(0.3 + 2 * 0.008)
        # One backup: three gradients are there after 100 ms, but an update takes 4 iterations,
        # which the workers make at 3 / 0.1 s + 1 / 0.3 s.
        backup = {"kind": "sync_replicas", "replicas_to_aggregate": 3}
        assert step_time(backup, **CHANGES) == pytest.approx(4 / (30 + 10 / 3) + 2 * 0.008)

    def test_backup_workers(self) -> None:
        # All four read, in 4 ports' time of 2 ms each; the slowest 300 ms; four push.
        all_four = {"kind": "backup_workers", "replicas_to_aggregate": 4}
        assert step_time(all_four, **CHANGES) == pytest.approx(0.3 + 2 * 0.008)
        # Of three, who push in 6 ms, and nobody waits for the slow one.
        three = {"kind": "backup_workers", "replicas_to_aggregate": 3}
        assert step_time(three, **CHANGES) == pytest.approx(0.1 + 0.008 + 0.006)

    def test_the_kth_of_more_gradients_than_workers(self) -> None:
        more = {"kind": "sync_replicas", "replicas_to_aggregate": 8}
        # Two rounds: a mean one, and one until all four have come; everything moves twice.
        assert step_time(more, **CHANGES) == pytest.approx(0.15 + 0.3 + 2 * 2 * 0.008)


@pytest.mark.parametrize(
    "strategy",
    [
        {"kind": "on_write"},
        {"kind": "on_read", "read_every": 5},
        {"kind": "none"},
        {"kind": "sync_replicas", "replicas_to_aggregate": 8},
        {"kind": "sync_replicas", "replicas_to_aggregate": 7},
        {"kind": "backup_workers", "replicas_to_aggregate": 7},
    ],
    ids=lambda strategy: f"{strategy['kind']} {strategy.get('replicas_to_aggregate', '')}",
)
def test_it_is_near_what_a_run_takes(strategy: dict[str, Any]) -> None:
    changes: dict[str, Any] = {
        "cluster": {
            "workers": 8,
            "compute": {"kind": "shifted_exponential", "minimum": 0.09, "mean": 0.1},
        },
        "network": {"bandwidth": 1e9, "latency": 2e-5, "sharing": "fair"},
        "problem": {"dimension": 10_000},
        "stop": {"time": 60.0},
    }
    trace = run(strategy, **changes)
    assert step_time(strategy, **changes) == pytest.approx(60 / trace.global_step, rel=0.12)


def test_the_envelope_knows_order_statistics() -> None:
    exponential = {"compute": {"kind": "exponential", "mean": 1.0}, "workers": 64}
    what = scenario({"kind": "on_write"}, cluster=exponential)
    envelope = Envelope(what.cluster, what.workload, what.seed)
    # Mean of the largest of 64: H_64 = 4.744, standard error of 128 rounds about 0.11.
    assert envelope.kth(64) == pytest.approx(4.744, abs=0.45)
    assert envelope.kth(1) == pytest.approx(1 / 64, rel=0.4)
    assert envelope.compute() == pytest.approx(1.0, abs=0.05)
    assert envelope.slowest_worker() >= envelope.compute()


def test_the_envelope_knows_how_many_gradients_there_are_per_second() -> None:
    what = scenario({"kind": "none"})  # 3 workers of 0.1 s
    envelope = Envelope(what.cluster, what.workload, what.seed)
    assert envelope.rate() == pytest.approx(30.0)
    assert envelope.rate(0.1) == pytest.approx(15.0)
    assert envelope.rate([0.0, 0.1, 0.4]) == pytest.approx(10.0 + 5.0 + 2.0)


def test_a_scenario_in_plain_words() -> None:
    lines = "\n".join(
        describe(
            scenario(
                {"kind": "sync_replicas", "replicas_to_aggregate": 3, "name": "backup"},
                **{
                    **CHANGES,
                    "cluster": {
                        **CHANGES["cluster"],
                        "slow_workers": ({"rank": 3, "factor": 3.0, "after": 2.0, "until": 5.0},),
                    },
                },
            )
        )
    )
    for words in (
        "100 ms per batch on average, law constant",
        "worker 3 takes 3 times as long from 2 s to 5 s",
        "8 Mbit/s per worker each way, latency 1 ms, fair links",
        "2 at 8 Mbit/s, variables placed partitioned",
        "backup: sync_replicas (replicas_to_aggregate 3)",
        "sgd (learning_rate 0.1)",
        "stop         global_steps 3",
    ):
        assert words in lines


def test_a_device_in_plain_words() -> None:
    lines = "\n".join(
        describe(
            scenario(
                {"kind": "on_write"},
                cluster={"compute": None, "device": {"peak": 1e13, "efficiency": 0.5}},
                workload={"model": "resnet50", "batch_size": 32},
            )
        )
    )
    # 32 x 24.5 GFLOP at 5 TFLOP/s.
    assert "157 ms per batch: 785.1 GFLOP at 5 TFLOP/s (peak 10 TFLOP/s x efficiency 0.5)" in lines


def test_what_was_measured_on_a_device_in_plain_words() -> None:
    device = {"preset": "a100_sxm_80gb", "precision": "bf16", "measured": True, "efficiency": 0.5}
    lines = "\n".join(
        describe(
            scenario(
                {"kind": "on_write"},
                cluster={"compute": None, "device": device},
                workload={"model": "resnet50", "batch_size": 32},
            )
        )
    )
    # 32 x 24.5 GFLOP at half of 271.2 TFLOP/s.
    assert "5.79 ms per batch: 785.1 GFLOP at 135.6 TFLOP/s (a100_sxm_80gb bf16, measured" in lines


def test_a_batch_curve_in_plain_words() -> None:
    compute = {"kind": "batch_curve", "fixed": 12e-3, "per_example": 1.4e-3}
    lines = "\n".join(
        describe(
            scenario(
                {"kind": "on_write"}, cluster={"compute": compute}, workload={"batch_size": 32}
            )
        )
    )
    assert "56.8 ms per batch on average, law batch_curve (fixed 12 ms, per_example 1.4" in lines
