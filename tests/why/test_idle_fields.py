"""Fields of a scenario that change nothing are found, and no others."""

import pytest

from tests.building import scenario, slow
from tests.why.hand import saturated
from varsim.study.why.idle import idle_fields


def test_a_slow_spell_after_the_end_changes_nothing() -> None:
    entries = (slow(0, 2.0, after=100.0), slow(1, 2.0))
    found = idle_fields(scenario({"kind": "on_write"}, cluster={"slow_workers": entries}))
    assert "cluster.slow_workers.0" in found.fields
    assert "cluster.slow_workers" not in found.fields
    assert "cluster.slow_workers.1" not in found.fields
    assert found.whole


def test_a_spell_late_in_the_run_does_although_its_first_rounds_are_the_same() -> None:
    entries = (slow(0, 2.0, after=20.0),)
    changed = {"cluster": {"slow_workers": entries}, "stop": {"global_steps": 300}}
    found = idle_fields(scenario({"kind": "on_write"}, **changed))
    assert not [field for field in found.fields if "slow_workers" in field]


def test_an_entry_of_a_list_that_needs_two_is_left() -> None:
    constant = {"kind": "constant", "value": 0.1}
    parts = tuple({"weight": weight, "law": constant} for weight in (1.0, 2.0))
    law = {"kind": "mixture", "components": parts}
    found = idle_fields(scenario({"kind": "on_write"}, cluster={"compute": law}))
    assert not [field for field in found.fields if "components" in field]


def test_how_links_are_shared_does_not_matter_to_who_sends_nothing() -> None:
    alone = idle_fields(scenario({"kind": "single"}))
    assert "cluster.network.sharing" in alone.fields
    assert "cluster.network.sharing" not in idle_fields(saturated()).fields


def test_a_field_of_a_strategy_is_tried_on_that_strategy() -> None:
    # There are as many workers as it says, which is the default; every second read is not.
    strategies = (
        {"kind": "sync_replicas", "replicas_to_aggregate": 3, "total_num_replicas": 3},
        {"kind": "on_read", "read_every": 2},
    )
    found = idle_fields(scenario({}, strategies=strategies, stop={"global_steps": 12}))
    assert found.fields == ("strategies.0.total_num_replicas",)


def test_a_stop_rule_that_never_holds_changes_nothing() -> None:
    stop = {"global_steps": 3, "time": 20.0}
    assert "stop.time" in idle_fields(scenario({"kind": "on_write"}, stop=stop)).fields
    assert "stop.global_steps" not in idle_fields(scenario({"kind": "on_write"}, stop=stop)).fields


def test_what_has_to_be_given_is_tried_as_nothing() -> None:
    network = {"bandwidth": 1e9, "latency": 0.01}
    alone = idle_fields(scenario({"kind": "single"}, network=network))
    assert "cluster.network.latency" in alone.fields
    together = idle_fields(scenario({"kind": "on_write"}, network=network))
    assert "cluster.network.latency" not in together.fields


@pytest.mark.parametrize("uplink", [{"oversubscription": 4.0}, {"uplink_bandwidth": 1e8}])
def test_uplinks_that_nobody_uses_are_named(uplink: dict[str, float]) -> None:
    def found(hosts_per_rack: int) -> tuple[str, ...]:
        racks = {"kind": "racks", "hosts_per_rack": hosts_per_rack, **uplink}
        network = {"bandwidth": 1e9, "latency": 0.0, **racks}
        return idle_fields(scenario({"kind": "on_write"}, network=network)).fields

    (name,) = uplink
    assert f"cluster.network.{name}" in found(64)
    assert f"cluster.network.{name}" not in found(1)


def test_nothing_is_tried_where_nothing_is_set() -> None:
    network = {"bandwidth": 1e9, "latency": 0.0}
    plain = scenario({"kind": "on_write"}, network=network, workload={"batch_size": 32})
    found = idle_fields(plain)
    assert (found.fields, found.tried, found.left) == ((), 0, 0)


def test_fields_that_need_each_other_are_tried_together() -> None:
    def found(flow_bandwidth: float) -> tuple[str, ...]:
        flows = {"flows": 2, "flow_bandwidth": flow_bandwidth}
        network = {"bandwidth": 1e6, "latency": 0.0, **flows}
        return idle_fields(scenario({"kind": "on_write"}, network=network)).fields

    both = ("cluster.network.flows", "cluster.network.flow_bandwidth")
    assert set(both) <= set(found(5e6))
    assert not set(both) & set(found(1e5))


@pytest.mark.slow
def test_a_run_that_only_its_time_ends_is_not_tried_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The chief dies after every 0.5 s, and takes the model back to the start: 45 updates that are
    # kept never come.
    monkeypatch.setattr("varsim.cluster.interruptions.MOST", 100)
    chief = {"kind": "trace", "seconds": ((0.5,), (1e6,), (1e6,))}
    found = idle_fields(
        scenario(
            {"kind": "none"},
            failures={"of": ({"domain": "worker", "law": chief},)},
            checkpoint={"every": 5.0, "write": 0.1},
            stop={"global_steps": 45, "time": 6.0},
        )
    )

    assert "stop.time" not in found.fields
