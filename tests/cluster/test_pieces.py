"""Pieces on a port of their own: the same as message by message, with few events."""

import random
from typing import Any

import pytest

from tests.building import assert_same, run, slow
from varsim.cluster.trace import Trace
from varsim.cluster.wait_free import WaitFreePush


def drawn(seed: int) -> dict[str, Any]:
    """A push that overlaps; every other one of whole milliseconds, so that much is at once."""
    source = random.Random(seed)
    even, workers = seed % 2 == 0, source.randint(1, 6)
    law = {"kind": "constant", "value": 0.1}
    if not even:
        law = {"kind": "shifted_exponential", "minimum": 0.1, "mean": 0.13}
    cluster: dict[str, Any] = {"workers": workers, "compute": law}
    if source.random() < 0.5:
        cluster["slow_workers"] = (slow(0, source.choice([1.5, 2.0])),)
    if source.random() < 0.3:
        cluster["server_update"] = {"time": {"kind": "constant", "value": 2e-3}}
    network = {
        "bandwidth": source.choice([2e8, 5e8, 1e9, 4e9] if even else [3e8, 1.23e9]),
        "latency": source.choice([0.0, 1e-3]),
        "sharing": "fair",
    }
    if source.random() < 0.4:
        network["slow_links"] = (slow(workers - 1, 3.0),)
    layers = tuple(
        {"backward": source.choice([1.0, 2.0]), "size": source.choice([1e6, 2e6, 5e6])}
        for _ in range(source.randint(2, 9))
    )
    strategy: dict[str, Any] = {"kind": "none", "overlap": True}
    if source.random() < 0.5:
        quorum = source.randint(1, workers)
        strategy = {"kind": "sync_replicas", "replicas_to_aggregate": quorum, "overlap": True}
    workload: dict[str, Any] = {"layers": layers}
    problem: dict[str, Any] = {"kind": "linear_regression"}  # two variables
    if source.random() < 0.5:
        problem, workload = {"kind": "timing"}, {"layers": layers, "optimizer": None}
    stop = {"time": 0.7} if source.random() < 0.4 else {"global_steps": 2 * workers}
    return {
        "strategy": strategy,
        "cluster": cluster,
        "network": network,
        "problem": problem,
        "workload": workload,
        "stop": stop,
    }


def both(monkeypatch: pytest.MonkeyPatch, **scenario: Any) -> tuple[Trace, Trace]:
    """A run with a port of its own for the pieces, and one message by message."""
    ports: list[object] = []
    meets_in = WaitFreePush._meets_in

    def noted(push: WaitFreePush) -> object:
        ports.append(found := meets_in(push))
        return found

    strategy = scenario.pop("strategy")
    monkeypatch.setattr(WaitFreePush, "_meets_in", noted)
    one = run(strategy, **scenario)
    assert [port is not None for port in ports] == [True]
    monkeypatch.setattr(WaitFreePush, "_meets_in", lambda _: None)
    return one, run(strategy, **scenario)


@pytest.mark.parametrize("seed", range(40))
def test_pieces_pass_as_messages_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = both(monkeypatch, **drawn(seed))
    assert_same(one, other, but=("heap_events",))


@pytest.mark.parametrize("kind", ["none", "sync_replicas"])
def test_a_worker_step_with_160_tensors_takes_few_events(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ResNet-50 and 8 workers: a port that is busy half of the time.
    strategy: dict[str, Any] = {"kind": kind, "overlap": True}
    if kind == "sync_replicas":
        strategy["replicas_to_aggregate"] = 7
    law = {"kind": "shifted_exponential", "minimum": 0.1, "mean": 0.12}
    one, other = both(
        monkeypatch,
        strategy=strategy,
        cluster={"workers": 8, "compute": law},
        network={"bandwidth": 12.5e9, "latency": 20e-6, "sharing": "fair"},
        problem={"kind": "timing"},
        workload={"model": "resnet50", "optimizer": None},
        stop={"global_steps": 40 if kind == "none" else 5},
    )
    assert one.heap_events / len(one.gradients) <= 20
    assert other.heap_events / len(one.gradients) > 300
