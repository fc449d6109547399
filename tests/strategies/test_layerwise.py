"""Overlap with the next forward pass, and sharding, by hand.

Two workers on 1 GB/s: a reduce-scatter or an all-gather of n bytes takes n / 2 ns. Three layers of
5, 10 and 30 MB, 2.5, 5 and 15 ms each way; forward 15, 10 and 5 ms, backward 30, 20 and 10 ms.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import life, losses, milliseconds, phase_time, run, slow
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


class TestOverlapWithTheForwardPass:
    def test_gathers_go_on_beside_it(self) -> None:
        # Scattered at 40 - 55, 60 - 65 and 90 - 92.5; layer 1 gathered by 95, 2 by 100, 3 by 115:
        # the forward pass gets to layer 2 at 110, to 3 at 120. So a step takes 95 ms.
        trace = sharded({"overlap": "forward"})

        assert milliseconds(trace.steps) == [115, 210, 305]
        assert life(trace, 0) == life(trace, 1)
        assert life(trace, 0)[:3] == [("compute", 0, 90), ("write", 90, 95), ("compute", 95, 185)]
        assert trace.hidden == trace.sending - 2 * 3 * 5e6

    def test_a_layer_that_is_late_holds_up_the_forward_pass_there(self) -> None:
        # At half the bandwidth 40 - 70, 70 - 80, 90 - 95, then 100, 110 and 140; layer 2 begins at
        # 115, and layer 3, at 125, waits for 15 ms.
        trace = sharded({"overlap": "forward"}, network={**WIRE, "bandwidth": 0.5e9})

        waits = [span for span in life(trace, 0) if span[0] == "write"]
        assert waits[:2] == [("write", 90, 100), ("write", 125, 140)]
        assert milliseconds(trace.steps)[0] == 140

    def test_all_reduces_alone_end_with_what_is_needed_first(self) -> None:
        # Layer 1's is the last: 90 - 95, and all the others are there before.
        assert moments({"overlap": True}) == [95, 190, 285]

    def test_a_layer_is_updated_before_its_forward_pass(self) -> None:
        # 9 ms for all: 1, 2 and 6 ms of layers 1, 2 and 3. So layer 3 is up to date at 95 + 1 + 15
        # + 2 + 10 + 6, and the next step has 9 ms more.
        cluster = {"optimizer_time": 0.009}
        assert moments({"overlap": "forward"}, cluster=cluster) == [129, 233, 337]


class TestShards:
    def test_of_the_optimizer_parameters_are_gathered_after_the_update(self) -> None:
        # 90 + 22.5 of reduce-scatters, 4 ms for half of the update, 22.5 of all-gathers.
        trace = sharded({"sharding": "optimizer"}, cluster={"optimizer_time": 0.008})

        assert milliseconds(trace.steps) == [139, 278, 417]
        assert life(trace, 0)[:4] == [
            *(("compute", 0, 90), ("write", 90, 112.5)),
            *(("compute", 112.5, 116.5), ("read", 116.5, 139)),
        ]

    def test_of_gradients_they_are_scattered_in_the_backward_pass(self) -> None:
        # 40 - 55, 60 - 65, 90 - 92.5; then 22.5 of all-gathers.
        assert moments({"sharding": "gradients", "overlap": True}) == [115, 230, 345]

    def test_gathers_beside_the_next_forward_pass(self) -> None:
        # As without shards, but for one update before them all: here in no time.
        assert moments({"sharding": "optimizer", "overlap": "forward"}) == [115, 210, 305]

    def test_of_parameters_one_by_one(self) -> None:
        # Gathers and passes in turn: 3 x 22.5 ms beside 90.
        trace = sharded({"sharding": "parameters"})

        assert milliseconds(trace.steps) == [157.5, 315, 472.5]
        assert life(trace, 1)[:10] == [
            *(("read", 0, 2.5), ("compute", 2.5, 17.5), ("read", 17.5, 22.5)),
            *(("compute", 22.5, 32.5), ("read", 32.5, 47.5), ("compute", 47.5, 52.5)),
            *(("read", 52.5, 67.5), ("compute", 67.5, 77.5), ("write", 77.5, 92.5)),
            ("read", 92.5, 97.5),
        ]

    def test_of_parameters_the_next_is_gathered_meanwhile(self) -> None:
        # Forward: layer 1 0 - 2.5; 2 by 7.5 behind layer 1, until 17.5; 3 17.5 - 32.5, after layer
        # 2, which ends at 27.5. Backward: layer 3 again 37.5 - 52.5; 2 52.5 - 57.5 behind it; its
        # gradients from 62.5 to 77.5, then layer 1 by 80; gradients 82.5 - 87.5, 112.5 - 115.
        trace = sharded({"sharding": "parameters", "overlap": True})

        assert milliseconds(trace.steps) == [115, 230, 345]
        assert life(trace, 0)[:6] == [
            *(("read", 0, 2.5), ("compute", 2.5, 27.5), ("read", 27.5, 32.5)),
            *(("compute", 32.5, 37.5), ("read", 37.5, 52.5), ("compute", 52.5, 112.5)),
        ]

    def test_latency_is_one_of_each_collective(self) -> None:
        # Two workers: one round each, nine collectives of them one by one.
        network = {**WIRE, "latency": 1e-3}
        assert moments({"sharding": "parameters"}, network=network, steps=1) == [157.5 + 9]

    def test_the_slowest_is_waited_for(self) -> None:
        # Worker 1 takes twice as long: its passes, and nine collectives that nothing hides.
        cluster = {"slow_workers": (slow(1, 2.0),)}
        trace = sharded({"sharding": "parameters"}, cluster=cluster, steps=1)

        assert milliseconds(trace.steps) == [180 + 67.5]
        # Worker 0 waits for it six times, for 90 ms in all.
        assert phase_time(trace, Phase.BARRIER) == 90e6

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

    def test_shards_of_parameters_are_gathered_for_each(self) -> None:
        assert self.moments(sharding="parameters") == [315, 630, 945]
        assert self.moments(sharding="parameters", overlap=True) == [230, 460, 690]

    def test_shards_of_gradients_are_scattered_for_each(self) -> None:
        # 22.5 ms after each, and 22.5 of all-gathers; with overlap 2.5 of layer 1 are left of it,
        # before the next begins.
        assert self.moments(sharding="gradients") == [247.5, 495, 742.5]
        assert self.moments(sharding="gradients", overlap=True) == [207.5, 415, 622.5]

    def test_whole_gradients_are_added_up_first(self) -> None:
        assert self.moments(sharding="optimizer") == [225, 450, 675]
        assert self.moments(sharding="optimizer", overlap=True) == [205, 410, 615]

    @pytest.mark.parametrize("sharding", [None, "optimizer"])
    def test_gathers_beside_the_first_of_the_next_step(self, sharding: str | None) -> None:
        # Scattered at 182.5; gathered by 185, 190 and 205. So the next step begins at 185.
        assert self.moments(sharding=sharding, overlap="forward") == [205, 390, 575]

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

    def test_one_by_one(self) -> None:
        assert self.moments() == [180, 360, 540]
        assert self.moments(sharding="gradients") == self.moments(sharding="optimizer")
        # Scattered by 105, 110 and 112.5, while sums are added up, by 120, 125 and 127.5.
        assert self.moments(sharding="gradients") == [150, 300, 450]

    def test_groups_add_up_on_a_stream_of_their_own(self) -> None:
        # Scattered as two workers do, at 62.5 - 77.5, 82.5 - 87.5 and 112.5 - 115; added up at
        # 77.5 - 92.5, while layer 1 is gathered, 92.5 - 97.5 and 115 - 117.5.
        assert self.moments(overlap=True) == [117.5, 235, 352.5]

    def test_a_node_is_a_group(self) -> None:
        assert self.moments(overlap=True, shard_group="node") == [117.5, 235, 352.5]

    def test_on_a_star_all_share_a_port(self) -> None:
        # The sums of layer 3 and the gather of layer 1 share it from 77.5: the gather ends at 82.5,
        # when layer 1 needs it, and layer 2 is scattered beside the sums, by 92.5. First come, it
        # would wait for a message of 7.5 ms.
        fair = {**WIRE, "sharing": "fair"}
        assert self.moments(fair, overlap=True) == [117.5, 235, 352.5]
        assert self.moments(WIRE, overlap=True)[0] > 117.5
        assert self.moments(WIRE) == self.moments(fair) == [180, 360, 540]

    def test_one_card_for_two_takes_twice_as_long_between_groups(self) -> None:
        assert self.moments({**NODES, "nics": 1}) == [202.5, 405, 607.5]

    @pytest.mark.parametrize("cards", [1, 2])
    def test_groups_over_nodes_share_their_cards_with_what_is_between(self, cards: int) -> None:
        # Inside no time. A ring of four: 3 rounds of n / 4 over all cards. Between: two of n / 8,
        # of each of the two workers of a node.
        network = {**NODES, "nics": cards, "inside": {"bandwidth": 1e18, "latency": 0.0}}
        found = moments(
            {"sharding": "parameters", "shard_group": 4},
            cluster={"workers": 8},
            network={**network, "sharing": "fair"},
            steps=1,
        )
        assert found == [90 + (3 * 3 / 4 * 45 + 2 * 2 / 8 * 45) / cards]

    def test_a_slow_worker_holds_up_its_own_group_first(self) -> None:
        # Worker 3 takes twice as long: its group's forward pass ends at 60 + 22.5, the other's at
        # 52.5. Then 30 of gathers and scatters, 20 of their all-reduce, after which it is behind.
        cluster = {"workers": 4, "slow_workers": (slow(3, 2.0),)}
        settings = {"sharding": "parameters", "shard_group": 2}
        trace = sharded(settings, cluster=cluster, network=NODES, steps=1)
        assert [span[2] for span in life(trace, 0) if span[0] == "compute"][:3] == [
            17.5,
            32.5,
            52.5,
        ]
        assert milliseconds(trace.steps) == [180 + 90]

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


def test_hierarchical_halves_have_fewer_rounds() -> None:
    # Of four workers 3 n / 4 ns either way, in 3 rounds around a ring, in 1 + 1 in two levels; nine
    # collectives of a latency of 1 ms for each.
    network, cluster = {**WIRE, "latency": 1e-3}, {"workers": 4}
    settings = {"sharding": "parameters"}
    ring = moments(settings, network=network, cluster=cluster, steps=1)
    levels = {**settings, "collective": "hierarchical", "ranks_per_group": 2}
    assert ring == [90 + 3 * 33.75 + 27]
    assert moments(levels, network=network, cluster=cluster, steps=1) == [90 + 3 * 33.75 + 18]


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
            ({"collective": "push_pull"}, "goes with collective ring"),
            ({"collective": "halving_doubling"}, "goes with collective ring"),
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
    with pytest.raises(ValidationError, match="beside both passes with overlap: true"):
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
