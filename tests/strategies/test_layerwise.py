"""Overlap with the next forward pass, and sharding, by hand.

Two workers on 1 GB/s: a reduce-scatter or an all-gather of n bytes takes n / 2 ns. Three layers of
5, 10 and 30 MB, 2.5, 5 and 15 ms each way; forward 15, 10 and 5 ms, backward 30, 20 and 10 ms.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import life, losses, milliseconds, phase_time, run
from tests.seams import Phase, Trace

WIRE = {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"}
FREE = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come"}
LAYERS = tuple(
    {"backward": backward, "size": size}
    for backward, size in ((0.03, 5e6), (0.02, 10e6), (0.01, 30e6))
)
SETTINGS: list[dict[str, Any]] = [
    {"overlap": "forward"},
    {"sharding": "optimizer"},
    {"sharding": "gradients", "overlap": True},
    {"sharding": "optimizer", "overlap": "forward"},
    {"sharding": "parameters"},
    {"sharding": "parameters", "overlap": True},
]
ACCUMULATED = [{**one, "micro_batches": 3} for one in SETTINGS]
GROUPED = [{**one, "shard_group": 2} for one in SETTINGS if "sharding" in one]
HIERARCHICAL = [{**one, "collective": "hierarchical", "ranks_per_group": 2} for one in SETTINGS]
every = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def sharded(settings: dict[str, Any], steps: int = 3, **changes: Any) -> Trace:
    compute = {"kind": "phases", "forward": 0.03, "backward": 0.06}
    return run(
        {"kind": "on_write", "bucketing": "layers", **settings},
        **{
            "cluster": {"workers": 2, "compute": compute, **changes.pop("cluster", {})},
            "network": changes.pop("network", WIRE),
            "workload": {"layers": LAYERS, "optimizer": None},
            "problem": {"kind": "timing"},
            "stop": {"global_steps": steps},
            **changes,
        },
    )


def moments(settings: dict[str, Any], **changes: Any) -> list[float]:
    return milliseconds(sharded(settings, **changes).steps)


class TestShards:
    @pytest.mark.parametrize(("sharding", "times"), [("gradients", 1.0), ("parameters", 1.5)])
    def test_bytes(self, sharding: str, times: float) -> None:
        settings = {"sharding": sharding}
        moved = [sum(link.moved for link in sharded(one).links) for one in (settings, {})]
        assert moved[0] == pytest.approx(times * moved[1], rel=1e-12)


# Nodes of two workers with a card each: 1 GB/s inside and outside, so all as on two workers above.
NODES = {
    **{"kind": "nodes", "workers_per_node": 2, "nics": 2, "sharing": "first_come"},
    **{"bandwidth": 1e9, "latency": 0.0, "inside": {"bandwidth": 1e9, "latency": 0.0}},
}


class TestMicroBatches:
    """Two in a step, of 90 ms each."""

    def moments(self, **settings: Any) -> list[float]:
        return moments({"micro_batches": 2, **settings})

    @pytest.mark.parametrize(
        ("sharding", "times"), [("optimizer", 1.0), ("gradients", 1.5), ("parameters", 3.0)]
    )
    def test_bytes(self, sharding: str, times: float) -> None:
        made = [{"micro_batches": 2, "sharding": sharding}, {}]
        moved = [sum(link.moved for link in sharded(one).links) for one in made]
        assert moved[0] == pytest.approx(times * moved[1], rel=1e-12)


class TestGroups:
    """Two groups of two: of n bytes the sums of a half are all-reduced in n / 2 ns, too."""

    def moments(self, network: dict[str, Any] = NODES, **settings: Any) -> list[float]:
        return moments(
            {"sharding": "parameters", "shard_group": 2, **settings},
            cluster={"workers": 4},
            network=network,
        )

    @pytest.mark.parametrize(
        ("settings", "why"),
        [
            ({"sharding": None}, "shard_group has no effect without sharding"),
            ({"shard_group": 3}, "shard_group 3 does not divide 4 workers evenly"),
            ({"shard_group": 1}, "every worker would have a whole copy"),
            ({"shard_group": "node", "network": WIRE}, "none shares its host"),
            (
                {"shard_group": 2, "collective": "hierarchical", "ranks_per_group": 4},
                "ranks_per_group 4 does not divide 2 workers",
            ),
        ],
    )
    def test_refused(self, settings: dict[str, Any], why: str) -> None:
        with pytest.raises(ValidationError, match=why):
            self.moments(**settings)


@pytest.mark.parametrize("settings", SETTINGS + ACCUMULATED + GROUPED + HIERARCHICAL, ids=str)
def test_values_are_those_of_an_all_reduce(settings: dict[str, Any]) -> None:
    changes: dict[str, Any] = {
        "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
        "network": {"bandwidth": 1e5, "latency": 1e-4, "sharing": "fair"},
        "problem": {"kind": "digits", "model": "mlp"},
        "workload": {"batch_size": 4},
        "optimizer": {"kind": "adam", "learning_rate": 0.01},
        "stop": {"global_steps": 20},
    }
    same = {"micro_batches": settings.get("micro_batches")}
    one, other = (
        run({"kind": "on_write", "bucketing": "layers", **each}, **changes)
        for each in (settings, same)
    )
    assert losses(one) == losses(other)
    assert one.global_step == other.global_step == 20


@every
class TestWhatStays:
    def test_with_free_communication_it_is_an_all_reduce(self, settings: dict[str, Any]) -> None:
        assert moments(settings, network=FREE) == [90, 180, 270]

    def test_a_worker_alone_sends_nothing(self, settings: dict[str, Any]) -> None:
        trace = sharded(settings, cluster={"workers": 1})
        assert milliseconds(trace.steps) == [90, 180, 270]

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"collective": "push_pull"}, "does not go with collective"),
            ({"collective": "halving_doubling"}, "does not go with collective"),
            ({"micro_batches": 2, "drop_compute": {"threshold": 1.0}}, "go with drop_compute"),
        ],
    )
    def test_refused_settings(
        self, settings: dict[str, Any], changes: dict[str, Any], why: str
    ) -> None:
        bucketing = {"bucketing": None} if "collective" in changes else {}
        with pytest.raises(ValidationError, match=why):
            sharded({**settings, **bucketing, **changes})

    def test_refused_of_the_cluster(self, settings: dict[str, Any]) -> None:
        overlap = {"overlap": True} if not settings.get("overlap") else {}
        with pytest.raises(ValidationError, match=r"does not go with cluster\.overlap_pace"):
            sharded({**overlap, **settings}, cluster={"overlap_pace": 0.5})

    def test_deaths(self, settings: dict[str, Any]) -> None:
        death = ({"at": 0.1, "kill": {"worker": 1}},)
        with pytest.raises(ValidationError, match="does not go with events"):
            sharded(settings, events=death)


def test_gathers_of_parameters_have_no_forward_overlap_of_their_own() -> None:
    with pytest.raises(ValidationError, match="overlap: true gathers beside both passes"):
        sharded({"sharding": "parameters", "overlap": "forward"})


def test_waits_within_a_pass_are_no_compute_time() -> None:
    trace = sharded({"sharding": "parameters"}, steps=5)
    assert phase_time(trace, Phase.COMPUTE) == 2 * 5 * 90_000_000


def test_layers_matter_to_sharded_parameters_without_overlap_too() -> None:
    # Half of 90 ms is 45 for the forward pass, of which layer 1 has half.
    changes: dict[str, Any] = {"compute": {"kind": "constant", "value": 0.09}}
    waits = [
        sharded({"sharding": "parameters"}, cluster={**changes, **more}, steps=1)
        for more in ({}, {"backward_share": 0.5})
    ]
    assert life(waits[0], 0)[1] == ("compute", 2.5, 17.5)
    assert life(waits[1], 0)[1] == ("compute", 2.5, 25)
    with pytest.raises(ValidationError, match="backward_share has no effect"):
        sharded({"sharding": "optimizer"}, cluster={**changes, "backward_share": 0.5})
