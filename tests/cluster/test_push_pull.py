"""Gradients that servers add up: by hand, against closed forms, over every network."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import NEEDED, losses, milliseconds, run
from tests.pushing import FAIR, FIRST_COME, PUSH_PULL, cut, pushed, whole

Case = dict[str, Any]

every_sharing = pytest.mark.parametrize("network", [FAIR, FIRST_COME], ids=["fair", "first_come"])


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
