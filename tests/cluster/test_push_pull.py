"""Gradients that servers add up: by hand, against closed forms, over every network."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import MS, NEEDED, life, losses, milliseconds, phase_time, run, slow
from tests.pushing import FAIR, FIRST_COME, PUSH_PULL, cut, layers, pushed, whole
from tests.seams import Phase

Case = dict[str, Any]

every_sharing = pytest.mark.parametrize("network", [FAIR, FIRST_COME], ids=["fair", "first_come"])


class TestByHand:
    """Layers 3, 2, 1 of 10, 5, 2.5 MB are ready at 50, 70, 100 ms; two share the server's port."""

    OVERLAP: Case = {"strategy": {"overlap": True}}

    @every_sharing
    def test_a_sum_goes_back_while_later_layers_are_pushed(self, network: Case) -> None:
        # Pushed 50 - 70, 70 - 80, 100 - 105; pulled 70 - 90, 90 - 100, 105 - 110.
        trace = pushed(network=network, **self.OVERLAP)
        assert trace.steps[0] == 110 * MS
        assert life(trace, 0)[:1] == [("compute", 0, 100)]
        assert life(trace, 1)[:2] == [("compute", 0, 100), ("write", 100, 110)]

    @every_sharing
    def test_without_overlap_all_is_pushed_last_layers_first(self, network: Case) -> None:
        # Pushed 100 - 120, - 130, - 135; pulled 120 - 140, - 150, - 155.
        trace = pushed(network=network)
        assert trace.steps[0] == 155 * MS
        assert life(trace, 1)[:2] == [("compute", 0, 100), ("write", 100, 155)]

    def test_a_host_is_done_when_it_has_all_sums_itself(self) -> None:
        # First come: the last sum goes to worker 0 first, in 2.5 of these 5 ms.
        trace = pushed(network=FIRST_COME, **self.OVERLAP)
        assert life(trace, 0)[1] == ("write", 100, 107.5)
        # It begins its next gradient then, which is read from its own copy.
        assert life(trace, 0)[2] == ("compute", 107.5, 207.5)

    def test_latency_counts_once_each_way(self) -> None:
        trace = pushed(network={**FAIR, "latency": 1e-3}, **self.OVERLAP)
        # The last layer is on its way 105 - 106, its sum 106 - 111 and a ms more.
        assert trace.steps[0] == 112 * MS

    def test_others_that_compute_are_waited_for_at_a_barrier(self) -> None:
        # Worker 1 is ready at 100, 140, 200: 10 ms for it alone, twice that for both of its sums.
        trace = pushed(cluster={"slow_workers": (slow(1, 2.0),)}, **self.OVERLAP)
        # Its layer 1 is pushed alone, 200 - 202.5, and pulled by both until 207.5.
        assert life(trace, 0)[:3] == [
            ("compute", 0, 100),
            ("barrier", 100, 200),
            ("write", 200, 207.5),
        ]
        assert life(trace, 1)[:2] == [("compute", 0, 200), ("write", 200, 207.5)]

    def test_then_every_replica_updates_its_copy(self) -> None:
        trace = pushed(cluster={"optimizer_time": 0.007}, **self.OVERLAP)
        assert trace.steps[0] == 117 * MS
        assert life(trace, 0)[2] == ("compute", 110, 117)

    def test_servers_with_a_layer_each(self) -> None:
        # In turn: layers 1 and 3 on server 0, layer 2 on server 1. That comes 70 - 80, and goes
        # back 80 - 90, beside the second half of layer 3: either way half of a worker's link.
        two = {"parameter_servers": 2, "placement": "round_robin"}
        trace = pushed(cluster=two, **self.OVERLAP)
        assert trace.steps[0] == 110 * MS
        # Without overlap layers 3 and 1 are pushed 100 - 120 - 125, layer 2 100 - 110; pulled
        # 120 - 140 - 145 and 110 - 120.
        assert pushed(cluster=two).steps[0] == 145 * MS


@every_sharing
@pytest.mark.parametrize("overlap", [False, True])
def test_a_star_is_a_rack_that_holds_everybody(network: Case, overlap: bool) -> None:
    settings = {
        "strategy": {"overlap": overlap},
        "cluster": {"workers": 4, "parameter_servers": 4},
        "workload": {"model": "mobilenet_v2"},
    }
    rack = {**network, "kind": "racks", "hosts_per_rack": 99, "oversubscription": 1.0}
    star, alone = (pushed(network=one, **settings) for one in (network, rack))
    assert star.steps.tolist() == pytest.approx(alone.steps.tolist(), rel=1e-6)


class TestServerUpdate:
    """10 MB of two workers: pushed by 120, pulled within 20."""

    @pytest.mark.parametrize(
        ("update", "end"),
        [
            ({"rate": 1e9}, 160),  # both at 120, one after the other until 140
            ({"rate": 1e9, "threads": 2}, 150),
            ({"time": {"kind": "constant", "value": 0.003}}, 146),
            ({"time": {"kind": "constant", "value": 0.003}, "rate": 2e9, "threads": 2}, 148),
        ],
    )
    def test_adding_takes_its_time(self, update: Case, end: float) -> None:
        trace = pushed(**whole(10e6, server_update=update))
        assert trace.steps[0] == end * MS

    def test_sums_go_back_while_others_are_added_up(self) -> None:
        # Two parts of 5 MB come at 110 and 120 from both; added 110 - 120 and 120 - 130.
        trace = pushed(**whole(10e6, server_update={"rate": 1e9}, **cut(2)))
        assert trace.steps[0] == 140 * MS

    def test_equal_servers_add_up_their_shares_side_by_side(self) -> None:
        # Two have 5 MB each: there at 110 from both workers, added until 120, pulled in 10.
        update = {"server_update": {"rate": 1e9}, "parameter_servers": 2}
        assert pushed(**whole(10e6, **update)).steps[0] == 130 * MS

    def test_equal_servers_draw_for_themselves(self) -> None:
        law = {"kind": "exponential", "mean": 0.05}
        ends = [
            pushed(
                **whole(1e3, server_update={"time": law}, parameter_servers=servers),
                stop={"global_steps": 50},
            ).end
            for servers in (1, 8)
        ]
        # 100 ms and two draws of one server, 50 ms each on average; the slowest of eight has 218.
        assert ends[0] / 50 == pytest.approx(0.2e9, rel=0.15)
        assert ends[1] / 50 == pytest.approx(0.318e9, rel=0.1)


class TestClosedForms:
    @pytest.mark.parametrize(("workers", "servers"), [(4, 2), (6, 3), (8, 1), (5, 5)])
    @pytest.mark.parametrize("parts", [1, 5, 40])
    def test_servers_on_machines_of_their_own(self, workers: int, servers: int, parts: int) -> None:
        """w / k * M / B each way (ps-dedicated-sync); all but one of n parts at the same time."""
        size = 120e3 * parts * servers
        trace = pushed(
            **whole(size, workers=workers, parameter_servers=servers, **cut(parts * servers))
        )
        one_way = workers / servers * size / 1e9
        assert trace.steps[0] / 1e9 == pytest.approx(0.1 + one_way * (1 + 1 / parts), abs=1e-8)

    @pytest.mark.parametrize("workers", [2, 4, 7])
    @pytest.mark.parametrize("parts", [1, 10])
    def test_servers_on_the_machines_of_workers(self, workers: int, parts: int) -> None:
        """2 (w - 1) / w * M / B (ps-colocated-sync), whatever is cut: each way carries both."""
        size = 60e3 * parts * workers
        on = {"servers_on": "workers", "workers": workers, "parameter_servers": workers}
        trace = pushed(**whole(size, **on, **cut(parts * workers)))
        expected = 0.1 + 2 * (workers - 1) / workers * size / 1e9
        assert trace.steps[0] / 1e9 == pytest.approx(expected, abs=1e-8)

    def test_as_a_ring_where_every_worker_has_a_server_beside_it(self) -> None:
        on = {"servers_on": "workers", "workers": 4, "parameter_servers": 4}
        served = pushed(**whole(8e6, **on))
        ring = pushed(strategy={"collective": "ring"}, **whole(8e6, workers=4))
        assert served.steps.tolist() == ring.steps.tolist()

    @every_sharing
    def test_all_bytes_go_over_the_links(self, network: Case) -> None:
        size, steps = 9e6, 3
        trace = pushed(network=network, **whole(size, workers=3, parameter_servers=2, **cut(6)))
        own = {link.name: link.moved for link in trace.links}
        for rank in range(3):
            assert own[f"worker {rank} up"] == pytest.approx(steps * size)
            assert own[f"worker {rank} down"] <= steps * size * (1 + 1e-12)
        assert own["worker 2 down"] == pytest.approx(steps * size)
        on = {"servers_on": "workers", "workers": 3, "parameter_servers": 3}
        trace = pushed(network=network, stop={"global_steps": 1}, **whole(size, **on, **cut(6)))
        moved = [link.moved for link in trace.links]
        # 2 (w - 1) / w * M each way; the run ends when the last copy is updated.
        assert moved == pytest.approx([2 * 2 / 3 * size] * 6)

    def test_gradients_of_half_the_bytes(self) -> None:
        changes: Case = {
            "network": {**FAIR, "bandwidth": 1e4},
            "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 0.1}},
            "problem": {"dimension": 100},
        }
        (full, half) = (
            run(PUSH_PULL, **changes, workload={"gradient_precision": precision}).steps[0]
            for precision in (None, "fp16")
        )
        # 400 bytes of two workers each way: 80 ms; 200: 40.
        assert milliseconds([full, half]) == [260, 180]


class TestValues:
    CHANGES: Case = {
        "problem": {"kind": "digits", "model": "softmax"},
        "workload": {"model": "resnet50", "batch_size": 8},
        "network": {"bandwidth": 1e9, "latency": 1e-5, "sharing": "fair"},
        "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
        "stop": {"global_steps": 5},
    }
    SERVERS: tuple[Case, ...] = (
        {},
        {"parameter_servers": 3, "placement": "by_bytes"},
        {"parameter_servers": 4, "servers_on": "workers"},
        {"partitioner": {"kind": "max_size", "size": 4e6}, "placement": "round_robin"},
    )

    @pytest.mark.parametrize("overlap", [False, True])
    @pytest.mark.parametrize("servers", SERVERS, ids=str)
    def test_who_adds_up_changes_no_value(self, servers: Case, overlap: bool) -> None:
        plain = run("on_write", **self.CHANGES)
        cluster = {**self.CHANGES["cluster"], **servers}
        served = run({**PUSH_PULL, "overlap": overlap}, **{**self.CHANGES, "cluster": cluster})

        assert losses(served) == losses(plain)
        assert served.steps.tolist() != plain.steps.tolist()

    def test_the_same_again(self) -> None:
        one, other = (run({**PUSH_PULL, "overlap": True}, **self.CHANGES) for _ in range(2))
        assert one.spans.tolist() == other.spans.tolist()


SETTINGS: dict[str, tuple[Case, Case]] = {
    "parameter_servers": ({}, {"parameter_servers": 2}),
    "placement": (
        {"parameter_servers": 2},
        {"parameter_servers": 2, "placement": "round_robin"},
    ),
    "partitioner": ({"placement": "round_robin"}, cut(3)),
    "servers_on": ({}, {"servers_on": "workers"}),
    "server_update": ({}, {"server_update": {"rate": 1e9}}),
    "first_iteration": ({}, {"overheads": {"first_iteration": 0.01}}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_said_of_servers_matters(name: str) -> None:
    one, other = (pushed(cluster=settings) for settings in SETTINGS[name])
    assert one.steps.tolist() != other.steps.tolist()


DEATH = ({"at": 0.1, "kill": {"worker": 1}},)
REFUSED: dict[str, tuple[Case, str]] = {
    "groups": ({"strategy": {"ranks_per_group": 2}}, "ranks_per_group has no effect"),
    "segments": ({"strategy": {"segment_size": 1e6}}, "segment_size has no effect"),
    "bucketing": ({"strategy": {"bucketing": "layers"}}, "bucketing has no effect"),
    "buckets": ({"strategy": {"bucket_size": 4e6}}, "bucket_size has no effect"),
    "first": ({"strategy": {"first_bucket_size": 1e6}}, "first_bucket_size has no effect"),
    "deaths": ({"events": DEATH}, "push_pull does not go with events"),
    "deaths in a backward pass": (
        {"strategy": {"overlap": True}, "events": DEATH},
        "push_pull does not go with events",
    ),
    "pull": ({"cluster": {"overheads": {"pull": 1e-3}}}, "pull has no effect"),
    "push": ({"cluster": {"overheads": {"push": 1e-3}}}, "push has no effect"),
    "wake": ({"cluster": {"overheads": {"wake": 1e-3}}}, "wake has no effect"),
    "message": ({"cluster": {"overheads": {"message": 1e-3}}}, "message has no effect"),
    "payload": ({"cluster": {"overheads": {"payload": 1e9}}}, "payload has no effect"),
    "reduction": ({"cluster": {"overheads": {"reduction": 1e9}}}, "reduction has no effect"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_it_is_refused(name: str) -> None:
    changes, why = REFUSED[name]
    with pytest.raises(ValidationError, match=why):
        pushed(**changes)


class TestNetworks:
    @pytest.mark.parametrize("sharing", ["fair", "first_come"])
    @pytest.mark.parametrize("on", ["dedicated", "workers"])
    @pytest.mark.parametrize("kind", NEEDED)
    def test_over_every_network(self, kind: str, on: str, sharing: str) -> None:
        described = {"kind": kind, **NEEDED[kind], "sharing": sharing, "bandwidth": 1e8}
        for slower in {"inside", "host"} & described.keys():
            described[slower] = {"bandwidth": 4e8, "latency": 1e-6}
        changes: Case = {
            "network": {**described, "latency": 1e-5},
            "cluster": {
                "workers": 6,
                "parameter_servers": 3,
                "servers_on": on,
                "compute": {"kind": "constant", "value": 0.3},
                "placement": "round_robin",
                "partitioner": {"kind": "max_size", "size": 4e6},
            },
            "problem": {"kind": "timing"},
            "workload": {"optimizer": None, "model": "resnet50"},
            "stop": {"global_steps": 2},
        }
        trace = run(PUSH_PULL, **changes)
        # All that a link has carried it has carried since the first gradient was there.
        busiest = max(link.moved / link.bandwidth for link in trace.links)
        assert trace.end / 1e9 > 0.3 + 0.999 * busiest

    def test_a_message_costs_its_overhead(self) -> None:
        # One part of two workers pushed and pulled, each 1 ms on the way in: 20 + 20 and those.
        trace = pushed(network={**FIRST_COME, "message_overhead": 1e-3}, **whole(10e6))
        # Up links 100 - 111, the server's port 101 - 111 - 121; two messages hold its other one.
        assert trace.steps[0] == (121 + 22) * MS


class TestTwoWorkers:
    @pytest.mark.parametrize(
        ("cluster", "seconds"),
        [
            ({}, 0.140),
            (cut(10), 0.122),
            ({"parameter_servers": 2, "servers_on": "workers"}, 0.110),
            ({"server_update": {"rate": 1e9}}, 0.160),
        ],
    )
    def test_a_whole_tensor(self, cluster: Case, seconds: float) -> None:
        assert run(PUSH_PULL, network=FAIR, **self.settings(cluster)).steps[0] / 1e9 == (
            pytest.approx(seconds)
        )

    @pytest.mark.parametrize(
        ("sizes", "seconds"),
        [
            ([10e6, 2.5e6], 0.145),  # pushed 100 - 105 - 125, the last pulled until 145
            ([2.5e6, 10e6], 0.145),  # the first pushed until 120, pulled 120 - 140 - 145
        ],
    )
    def test_the_larger_of_two_layers(self, sizes: list[float], seconds: float) -> None:
        settings: Case = {
            **self.settings({}),
            "problem": {"kind": "timing"},
            "network": FAIR,
            "workload": {"optimizer": None, "layers": layers([1.0, 1.0], sizes)},
        }
        assert run(PUSH_PULL, **settings).steps[0] / 1e9 == pytest.approx(seconds)

    def test_what_is_hidden_behind_the_backward_pass(self) -> None:
        trace = run(
            {**PUSH_PULL, "overlap": True},
            network=FAIR,
            cluster={"workers": 2, "compute": {"kind": "phases", "forward": 0.04, "backward": 0.06}}
            | {"optimizer_time": 0.007},
            problem={"kind": "timing"},
            workload={"optimizer": None}
            | {"layers": layers([0.03, 0.02, 0.01], [2.5e6, 5e6, 10e6])},
        )
        # At least the last layer's way there and back is left: 10 of 55 ms.
        assert trace.steps[0] / 1e9 == pytest.approx(0.117)

    @staticmethod
    def settings(cluster: Case) -> Case:
        made = whole(10e6, workers=2, **cluster)
        return {**made, "workload": {"optimizer": None}}


def test_waiting_is_the_barrier_or_writing_and_nothing_else() -> None:
    trace = pushed(strategy={"overlap": True}, cluster={"slow_workers": (slow(1, 2.0),)})
    phases = {Phase(phase) for phase in trace.spans[:, 1].tolist()}
    assert phases == {Phase.COMPUTE, Phase.BARRIER, Phase.WRITE}
    assert phase_time(trace, Phase.BARRIER) > 0
