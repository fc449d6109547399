"""Banks of ports: the same times as port by port, also where somebody else comes to use one."""

import random
from functools import partial
from typing import Any

import pytest

from tests.building import assert_same, kill, restart, run
from varsim.cluster.batch import Message
from varsim.cluster.clock import Clock
from varsim.cluster.link import Link
from varsim.cluster.network import FirstComeNetwork
from varsim.cluster.ports import PortBank, PortBanks
from varsim.cluster.topology.star import Star


@pytest.mark.parametrize("seed", range(20))
def test_a_bank_is_its_ports_one_by_one(seed: int) -> None:
    source = random.Random(seed)
    holds = sorted(source.randint(0, 9) for _ in range(source.randint(1, 12)))
    links = [Link(str(number), 1.0) for number in range(len(holds))]
    bank, free, now = PortBank(links, holds), [0] * len(holds), 0
    for _ in range(60):
        now += source.choice([0, 0, 1, 3, 10, 40])
        at = now + source.choice([0, 0, 0, 7])  # held up before, so not in order
        starts = [max(at, time) for time in free]
        free = [start + hold for start, hold in zip(starts, holds, strict=True)]
        first, end, served = bank.serve(at)
        assert (first, end) == (starts[0], free[-1])
        assert (served.links, served.starts.tolist()) == (links, starts)
    bank.close()
    assert [link.free_at for link in links] == free


def test_a_message_of_its_own_is_the_end_of_a_bank() -> None:
    # Ports that are busy for 1 and 2 s from 0 on; a message of 1 s comes to the latter at 1 s and
    # is there at 3 s, and the next batch begins there at 3 s.
    clock = Clock()
    star = Star(bandwidth=1.0, latency=0.0, sharing="first_come")
    network = FirstComeNetwork(clock, star)
    (up, _), (_, first), (_, second) = (network.host(name, 1.0) for name in "abc")
    fast = Link("fast", 1e18)
    batch = network.batch([Message(0, (fast, first), 1.0), Message(0, (fast, second), 2.0)])
    assert batch.bank is not None
    assert batch.hand_over(0) == 2 * 10**9
    seen: list[int] = []
    send = partial(network.pass_on, (up, second), 1.0, lambda: None)
    clock.call_at(10**9, lambda: send(lambda: seen.append(clock.time)))
    clock.run_until_stopped()
    assert seen == [3 * 10**9]
    assert not batch.bank.open
    assert batch.hand_over(clock.time) == 5 * 10**9
    assert first.free_at == 4 * 10**9


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"kind": "none"}, {}),
    ({"kind": "none"}, {"problem": {"kind": "linear_regression"}}),
    ({"kind": "sync_replicas", "replicas_to_aggregate": 3}, {"stop": {"time": 1.7}}),
    ({"kind": "none"}, {"events": (kill(0.43, 1), restart(0.61, 1))}),
    ({"kind": "none"}, {"cluster": {"servers_on": "workers"}}),
    ({"kind": "none", "overlap": True}, {}),
]


@pytest.mark.parametrize(("strategy", "changes"), CASES)
def test_a_run_with_banks_is_one_without(
    strategy: dict[str, Any], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {
        "workers": 4,
        "parameter_servers": 3,
        "placement": "round_robin",
        "compute": {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1},
    }
    settings: dict[str, Any] = {
        "network": {"bandwidth": 1e9, "latency": 1e-6, "sharing": "first_come"},
        "workload": {"model": "mobilenet_v2", "batch_size": 8},
        "stop": {"global_steps": 12},
        **changes,
        "cluster": {**cluster, **changes.get("cluster", {})},
    }
    made: list[object] = []
    bank = PortBanks.bank

    def counted(banks: PortBanks, ports: list[tuple[int, Link]]) -> PortBank | None:
        made.append(found := bank(banks, ports))
        return found

    monkeypatch.setattr(PortBanks, "bank", counted)
    one = run(strategy, **settings)
    # A worker with a server beside it uses the links of the others' one by one.
    assert any(made) == ("servers_on" not in settings["cluster"])
    monkeypatch.setattr(PortBanks, "bank", lambda *_: None)
    assert_same(one, run(strategy, **settings))
