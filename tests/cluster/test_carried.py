"""The bytes on a link are those that have passed it when the run ends, and never more than can."""

from typing import Any

import pytest

from tests.building import MS, life, run, slow
from tests.seams import Trace

Case = dict[str, Any]

both = pytest.mark.parametrize("sharing", ["first_come", "fair"])
WIRE: Case = {"bandwidth": 1e3, "latency": 0.0}


def timing(strategy: Any, size: float = 40.0, **changes: Any) -> Trace:
    """A run of 100 ms of compute a step, of so many bytes at 1 byte/ms."""
    workload = {"problem": {"kind": "timing", "size": size}, "optimizer": None, "batch_size": 1}
    changes["workload"] = {**workload, **changes.get("workload", {})}
    changes["network"] = {**WIRE, **changes.get("network", {})}
    return run(strategy, **changes)


def moved(trace: Trace) -> dict[str, float]:
    return {link.name: pytest.approx(link.moved, abs=1e-6) for link in trace.links}


def check(trace: Trace) -> None:
    for link in trace.links:
        assert 0 <= link.moved <= link.bandwidth * trace.end / 1e9, link


class TestAtTheEnd:
    @both
    def test_half_a_message_has_passed(self, sharing: str) -> None:
        # Read 0 to 40, compute 100 ms, push from 140 on; the end is 10 ms later.
        trace = timing(
            "none",
            cluster={"workers": 1},
            network={"sharing": sharing},
            stop={"time": 0.150},
        )
        assert moved(trace) == {
            "worker 0 up": 10,
            "worker 0 down": 40,
            "ps 0 up": 40,
            "ps 0 down": 10,
        }
        assert trace.sent == pytest.approx(50)

    @both
    def test_two_that_share_a_link(self, sharing: str) -> None:
        # Both read from 0 on: by 60 ms the port has sent 60 bytes. First come, worker 0 has all 40
        # and worker 1 half of them; shared, each has 30.
        trace = timing(
            "none",
            cluster={"workers": 2},
            network={"sharing": sharing},
            stop={"time": 0.060},
        )
        first = 40 if sharing == "first_come" else 30
        assert moved(trace)["ps 0 up"] == 60
        assert moved(trace)["worker 0 down"] == first
        assert moved(trace)["worker 1 down"] == 60 - first

    @both
    def test_what_overhead_takes_carries_nothing(self, sharing: str) -> None:
        # 5 ms before each message, then 1 byte/ms.
        trace = timing(
            "none",
            cluster={"workers": 1},
            network={"sharing": sharing, "message_overhead": 5e-3},
            stop={"time": 0.020},
        )
        assert moved(trace)["ps 0 up"] == 15

    def test_a_message_whose_arrival_ends_the_run_counts(self) -> None:
        for sharing in ("first_come", "fair"):
            trace = timing(
                "none",
                cluster={"workers": 1},
                network={"sharing": sharing},
                stop={"global_steps": 1},
            )
            assert trace.end == 180 * MS
            assert moved(trace)["worker 0 up"] == moved(trace)["ps 0 down"] == 40

    def test_messages_of_a_collective(self) -> None:
        # 2 workers, chunks of 20: two rounds, 100 to 120 and 120 to 140 ms; the end is at 130.
        for sharing in ("first_come", "fair"):
            trace = timing(
                "on_write",
                cluster={"workers": 2},
                network={"sharing": sharing},
                stop={"time": 0.130},
            )
            assert moved(trace) == dict.fromkeys(moved(trace), 30)

    @both
    @pytest.mark.parametrize("kind", ["ring", "halving_doubling", "binomial_tree"])
    def test_by_the_recurrence_as_by_message(self, kind: str, sharing: str) -> None:
        """Whenever the run ends, also while some have come and others have not."""
        strategy = {"kind": "on_write", "collective": kind}
        changes: Case = {
            "cluster": {"workers": 4, "slow_workers": (slow(2, 1.1), slow(3, 1.25))},
            "network": {"sharing": sharing, "latency": 1e-3},
        }
        almost = {**changes["network"], "slow_links": (slow(0, 1 + 1e-9),)}  # goes by message
        for end in (101, 104, 111, 115, 123, 126, 131, 138, 147, 158, 229, 270):
            without = timing(strategy, **changes, stop={"time": end * 1e-3})
            one_by_one = timing(
                strategy, **{**changes, "network": almost}, stop={"time": end / 1e3}
            )
            assert moved(without) == {link.name: link.moved for link in one_by_one.links}
            check(without)


class TestAfterADeath:
    @both
    def test_what_the_dead_had_handed_over_is_carried_to_the_end(self, sharing: str) -> None:
        # Worker 0 pushes from 140 on and is killed at 150: all is through at 180, in the bin.
        changes: Case = {
            "cluster": {"workers": 1},
            "network": {"sharing": sharing},
            "events": ({"at": 0.150, "kill": {"worker": 0}},),
        }
        stopped = {end: timing("none", **changes, stop={"time": end}) for end in (0.165, 0.3)}
        assert moved(stopped[0.165])["worker 0 up"] == 25
        assert moved(stopped[0.3])["worker 0 up"] == 40
        # Where it stands still, that is at 150.
        still = timing("none", **changes, stop={"global_steps": 9})
        assert (still.stopped_by, still.end) == ("deadlock", 150 * MS)
        assert moved(still)["worker 0 up"] == moved(still)["ps 0 down"] == 10
        check(still)

    @both
    def test_what_is_sent_again_counts_again_as_it_passes(self, sharing: str) -> None:
        # Killed at 10 while it reads, back at 20: the rest of the first read, 20 bytes, has the
        # link to itself until 40, or shares it until 60; both are through at 80.
        trace = timing(
            "none",
            cluster={"workers": 1},
            network={"sharing": sharing},
            events=({"at": 0.010, "kill": {"worker": 0}}, {"at": 0.020, "restart": {"worker": 0}}),
            stop={"time": 0.070},
        )
        assert moved(trace)["ps 0 up"] == moved(trace)["worker 0 down"] == 70

    @both
    def test_a_collective_that_lost_a_member(self, sharing: str) -> None:
        # Chunks of 20: all come at 100; worker 0 dies at 110, in the middle of the first one, which
        # goes to its end.
        changes: Case = {
            "cluster": {"workers": 2},
            "network": {"sharing": sharing},
            "events": ({"at": 0.110, "kill": {"worker": 0}},),
        }
        trace = timing("on_write", **changes, stop={"time": 0.2})
        assert moved(trace) == dict.fromkeys(moved(trace), 20)
        still = timing("on_write", **changes, stop={"global_steps": 9})
        assert moved(still) == dict.fromkeys(moved(still), 10)

    @both
    def test_who_comes_back_gets_the_model_over_links_that_others_use(self, sharing: str) -> None:
        # Chunks of 100 bytes. Worker 1 dies at 50. Worker 0 comes at 100 and sends it the first
        # chunk, until 200. From 150 on worker 1 is sent the model, 200 bytes, over the same links:
        # from 200 to 400, or with half of them while the chunk is there (until 250), until 400.
        trace = timing(
            "on_write",
            200.0,
            cluster={"workers": 2},
            network={"sharing": sharing},
            events=({"at": 0.050, "kill": {"worker": 1}}, {"at": 0.150, "restart": {"worker": 1}}),
            stop={"global_steps": 1},
        )
        assert life(trace, 1)[:4] == [
            ("compute", 0, 50),
            ("down", 50, 150),
            ("read", 150, 400),
            ("compute", 400, 500),
        ]
        check(trace)


def test_a_worker_that_never_gets_to_read_all_fills_its_link_and_no_more() -> None:
    """As found: behind a link of a tenth it gives reads up, and tries again."""
    trace = run(
        {"kind": "backup_workers", "replicas_to_aggregate": 1},
        cluster={"workers": 4, "compute": {"kind": "exponential", "mean": 0.05}},
        network={"bandwidth": 3.3e6, "latency": 1e-3, "slow_links": (slow(2, 10.0),)},
        problem={"kind": "timing", "size": 33e3},
        workload={"batch_size": 8, "optimizer": None},
        stop={"global_steps": 21},
    )
    check(trace)
    (down,) = (link for link in trace.links if link.name == "worker 2 down")
    assert down.moved > 0.9 * down.bandwidth * trace.end / 1e9
