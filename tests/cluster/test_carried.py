"""The bytes on a link are those that have passed it when the run ends, and never more than can."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import MS, run, slow
from tests.seams import Trace, forget
from validation.networks import Ring
from varsim import register

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

    @both
    @settings(max_examples=40, deadline=None)
    @given(
        factors=st.lists(st.sampled_from([1.0, 1.01, 1.1, 1.3]), min_size=2, max_size=7),
        latency=st.sampled_from([0, 1, 20]),
        overhead=st.sampled_from([0, 2]),
        end=st.integers(100, 300),
    )
    def test_a_ring_by_its_formula_as_by_message(
        self, sharing: str, factors: list[float], latency: int, overhead: int, end: int
    ) -> None:
        changes: Case = {
            "cluster": {
                "workers": len(factors),
                "slow_workers": tuple(slow(*each) for each in enumerate(factors)),
            },
            "network": {
                "sharing": sharing,
                "latency": latency / 1e3,
                "message_overhead": overhead / 1e3,
            },
            "stop": {"time": end / 1e3},
        }
        almost = {**changes["network"], "slow_links": (slow(0, 1 + 1e-9),)}  # goes by message
        trace, one_by_one = (
            timing("on_write", **{**changes, "network": network})
            for network in (changes["network"], almost)
        )
        assert moved(trace) == {link.name: link.moved for link in one_by_one.links}


class TestStandingStill:
    """Who is dead and not back: what is carried is that of the moment of the death."""

    @both
    def test_with_a_push_under_way(self, sharing: str) -> None:
        # Worker 0 pushes from 140 on and is killed at 150.
        changes: Case = {
            "cluster": {"workers": 1},
            "network": {"sharing": sharing},
            "events": ({"at": 0.150, "kill": {"worker": 0}},),
        }
        still = timing("none", **changes, stop={"global_steps": 9})
        assert (still.stopped_by, still.end) == ("deadlock", 150 * MS)
        assert moved(still)["worker 0 up"] == moved(still)["ps 0 down"] == 10
        check(still)

    @both
    def test_in_a_collective(self, sharing: str) -> None:
        # Chunks of 20: all come at 100; worker 0 dies at 110, in the middle of the first one.
        changes: Case = {
            "cluster": {"workers": 2},
            "network": {"sharing": sharing},
            "events": ({"at": 0.110, "kill": {"worker": 0}},),
        }
        still = timing("on_write", **changes, stop={"global_steps": 9})
        assert moved(still) == dict.fromkeys(moved(still), 10)


@both
def test_what_a_host_passes_on_is_sent_once_also_on_its_way(sharing: str) -> None:
    """In a ring of four the server, after worker 2, reaches worker 1 by way of worker 0.

    At 50 ms of the 80 that both take, 50 bytes have left it for workers 0 and 1: first 40 and then
    10, or 25 each. Those for worker 1 are on worker 0's link, too. Worker 2 has all of its own 40.
    """
    register(Ring)
    try:
        trace = timing(
            "none",
            cluster={"workers": 3},
            network={"kind": "ring", "sharing": sharing},
            stop={"time": 0.05},
        )
    finally:
        forget()
    passed_on = 10 if sharing == "first_come" else 25
    carried = {name: bytes_ for name, bytes_ in moved(trace).items() if bytes_ != 0}
    assert carried == {"ps 0 clockwise": 50, "worker 0 clockwise": passed_on, "ps 0 back": 40}
    assert trace.sent == pytest.approx(50 + 40, abs=1e-6)


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
