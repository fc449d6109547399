"""What a run costs, by hand; what is sent counts once, however many links it passes."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import run, scenario
from tests.seams import Phase, Trace, simulate
from validation.networks import Ring
from varsim.cluster.network.topologies import NETWORKS
from varsim.report.products.training import document
from varsim.scenario.targets import Prices
from varsim.study.result import costs

WIRE = {"bandwidth": 1e6, "latency": 0.0, "sharing": "first_come"}
PRICES = {"device_hour": 3.0, "server_hour": 0.5, "gigabyte": 0.02}
TIMED: dict[str, Any] = {
    "network": WIRE,
    "problem": {"kind": "timing", "size": 8000.0},
    "workload": {"optimizer": None, "batch_size": 4},
}


def served(**changes: Any) -> dict[str, Any]:
    return {**TIMED, "cluster": {"workers": 4, "parameter_servers": 2}, **changes}


def transfers(trace: Trace) -> int:
    """How many models were read, and gradients written."""
    reads = int((trace.spans[:, 1] == Phase.READ).sum())
    return reads + int((trace.gradients[:, 6] >= 0).sum())


class TestCosts:
    def test_of_machines_and_what_they_send_by_hand(self) -> None:
        described = scenario({"kind": "none"}, **served(prices=PRICES, stop={"time": 10.0}))
        result = simulate(described)
        # Every worker reads 8 kB and pushes 8 kB: half of each to and from either server.
        trace = result.trace("none")
        assert transfers(trace) > 600
        assert trace.sent == pytest.approx(8000 * transfers(trace), abs=8 * 8000)
        per_hour = 4 * 3.0 + 2 * 0.5 + 0.02 * (trace.sent / 1e9) * 3600 / 10
        found = {name: values[0] for name, values in costs(result, "none").items()}
        assert found["cost_per_hour"] == pytest.approx(per_hour, rel=1e-12)
        million = 1e6 / result.values("none", "examples_per_s")[0] / 3600
        assert found["cost_per_million_examples"] == pytest.approx(per_hour * million, rel=1e-12)

    def test_of_the_time_to_a_loss(self) -> None:
        described = scenario(
            {"kind": "on_write"},
            targets={"loss": 0.2},
            prices={"device_hour": 3.0},
            stop={"global_steps": 40},
        )
        result = simulate(described)
        (reached,) = result.values("on_write", "time_to_target")
        assert reached > 0
        (found,) = costs(result, "on_write")["cost_to_target"]
        assert found == pytest.approx(3 * 3.0 * reached / 3600, rel=1e-12)

    def test_servers_on_the_workers_machines_cost_nothing(self) -> None:
        cluster = {"workers": 4, "parameter_servers": 2, "servers_on": "workers"}
        described = scenario(
            {"kind": "none"}, **served(cluster=cluster, prices={"device_hour": 3.0})
        )
        assert costs(simulate(described), "none")["cost_per_hour"] == [12.0]

    def test_a_strategy_without_servers_does_not_pay_for_them(self) -> None:
        both = scenario(
            {"kind": "none"},
            **served(prices=PRICES),
            strategies=({"kind": "none"}, {"kind": "single"}),
        )
        assert costs(simulate(both), "single")["cost_per_hour"] == [3.0]
        alone = both.with_only((both.strategies[1],))
        assert alone.prices is not None
        assert (alone.prices.server_hour, alone.prices.gigabyte) == (0.0, 0.0)

    def test_what_is_free_is_told(self) -> None:
        both = scenario(
            {"kind": "none"},
            **served(prices={"device_hour": 3.0}, stop={"global_steps": 20}),
            strategies=({"kind": "none"}, {"kind": "single"}),
        )
        told = simulate(both)
        # Nothing in these runs is random; the one worker never waits for the network.
        costs = told.table()["USD per million examples"]
        assert costs.to_dict() == {"async PS": "24.7", "one worker": "20.8"}
        (free,) = (note for note in told.report.notes if note.code == "no-price")
        assert free.values == {"what": "parameter servers", "key": "server_hour"}
        priced = both.model_copy(update={"prices": Prices(device_hour=3.0, server_hour=1e-9)})
        assert "no-price" not in [note.code for note in simulate(priced).report.notes]

    def test_they_are_shown(self) -> None:
        described = scenario({"kind": "none"}, **served(prices=PRICES, stop={"time": 2.0}))
        result = simulate(described)
        (dollars,) = result.table()["USD/h"]
        assert dollars.startswith("13.0")
        found = {row["cost"]: row for row in document(result)["costs"]}
        assert found["cost_per_hour"]["unit"] == "USD/h"


class TestSent:
    """One all-reduce of 3 workers by a ring: 2 (3 - 1) rounds of 3 messages, a third each."""

    @pytest.mark.parametrize(
        "network",
        [
            {**WIRE},
            {**WIRE, "sharing": "fair"},
            {**WIRE, "kind": "full_mesh"},
            {**WIRE, "kind": "racks", "hosts_per_rack": 2, "oversubscription": 2.0},
            {**WIRE, "slow_links": ({"rank": 1, "factor": 2.0},)},
        ],
        ids=lambda network: "-".join(map(str, network.get("kind", "star").split())),
    )
    def test_once_on_any_network(self, network: dict[str, Any]) -> None:
        trace = run("on_write", **{**TIMED, "network": network}, stop={"global_steps": 5})
        # The last round of all is over when the fifth update is made.
        assert trace.sent == pytest.approx(5 * 4 * 8000.0)

    def test_what_hosts_on_the_way_pass_on_counts_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a ring of 5 places workers 1 and 2 reach the one server, number 4, by others."""
        monkeypatch.setitem(NETWORKS.registered, "ring", Ring)
        ring = {**WIRE, "kind": "ring"}
        cluster = {"workers": 4, "parameter_servers": 1}
        changes: dict[str, Any] = {**TIMED, "cluster": cluster, "stop": {"time": 3.0}}
        for sharing in ("first_come", "fair"):
            trace = run("none", **{**changes, "network": {**ring, "sharing": sharing}})
            moved = sum(link.moved for link in trace.links)
            # Distances to the server: 1, 2, 2, 1 hops.
            assert trace.sent < 0.7 * moved
            assert trace.sent == pytest.approx(8000 * transfers(trace), abs=8 * 8000)

    def test_what_stays_in_a_node_is_not_sent(self) -> None:
        inside = {"bandwidth": 1e9, "latency": 0.0}
        nodes = {**WIRE, "kind": "nodes", "workers_per_node": 4, "inside": inside}
        changes: dict[str, Any] = {**TIMED, "cluster": {"workers": 4}, "network": nodes}
        assert run("on_write", **changes).sent == 0
        two = {**changes, "network": {**nodes, "workers_per_node": 2}}
        # Of the ring's four connections two go from node to node.
        assert run("on_write", **two).sent == pytest.approx(3 * 2 * 6 * 8000 / 4)

    def test_one_worker_alone_sends_nothing(self) -> None:
        assert run("single", **TIMED).sent == 0


class TestRefused:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"prices": {}}, "give a price"),
            ({"prices": {"device_hour": -1.0}}, "greater than or equal to 0"),
            ({"prices": {"device_hour": 1.0, "currency": "dollars"}}, "currency"),
            ({"prices": {"server_hour": 1.0}}, "prices.server_hour has no effect: none of the"),
        ],
    )
    def test_prices_that_nobody_pays(self, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(ValidationError, match=said):
            scenario({"kind": "on_write"}, **TIMED, **changes)

    def test_of_gigabytes_where_nothing_is_sent(self) -> None:
        with pytest.raises(ValidationError, match="gigabyte has no effect: none of the strategies"):
            scenario({"kind": "single"}, **TIMED, prices={"gigabyte": 1.0})

    def test_of_servers_on_the_workers_machines(self) -> None:
        cluster = {"workers": 4, "servers_on": "workers"}
        with pytest.raises(ValidationError, match="server_hour has no effect"):
            scenario({"kind": "none"}, **{**TIMED, "cluster": cluster}, prices={"server_hour": 1.0})
