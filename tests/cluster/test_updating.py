"""Servers that take time to apply a gradient, by hand and against closed queues; times in ms."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    DROPPED,
    LOST,
    assert_same,
    fates,
    life,
    milliseconds,
    run,
    scenario,
    span_rows,
    staleness,
)
from tests.statistical import assert_mean_in_time, step_times
from varsim import Scenario
from varsim.cluster.updating import ServerUpdate
from varsim.report.words.scenario import describe
from varsim.values.stream import stream

ASYNC = {"kind": "none"}
LOCKED = {"kind": "none", "use_locking": True}
SYNC = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}
TEXTBOOK = {"kind": "backup_workers", "replicas_to_aggregate": 2}
TWO_VARIABLES = {"kind": "linear_regression"}  # of 40 and of 4 bytes
UPDATE = {"time": {"kind": "constant", "value": 0.03}}


CURVE = {"kind": "batch_curve", "fixed": 0.1, "per_example": 0.1}


def constant(seconds: float) -> dict[str, Any]:
    return {"kind": "constant", "value": seconds}


def exponential(mean: float) -> dict[str, Any]:
    return {"kind": "exponential", "mean": mean}


def cluster(workers: int = 2, **update: Any) -> dict[str, Any]:
    return {"workers": workers, "server_update": update}


class TestByHand:
    """100 ms of computing, links that take no time, 30 ms for a gradient."""

    def test_gradients_are_applied_one_after_the_other(self) -> None:
        # Both are there at 100. Worker 0 goes on at 130, worker 1 at 160; each keeps its turn.
        trace = run(ASYNC, cluster=cluster(**UPDATE), stop={"global_steps": 4})

        assert milliseconds(trace.steps) == [130, 160, 260, 290]
        assert life(trace, 0) == [
            ("compute", 0, 100),
            ("write", 100, 130),
            ("compute", 130, 230),
            ("write", 230, 260),
            ("compute", 260, 290),
        ]
        assert life(trace, 1) == [
            ("compute", 0, 100),
            ("queue", 100, 130),
            ("write", 130, 160),
            ("compute", 160, 260),
            ("write", 260, 290),
        ]
        assert staleness(trace) == [0, 1, 1, 1]

    @pytest.mark.parametrize(
        ("threads", "steps"), [(1, [130, 160, 190]), (2, [130, 130, 160]), (3, [130, 130, 130])]
    )
    def test_threads_are_at_them_side_by_side(self, threads: int, steps: list[float]) -> None:
        described = cluster(3, **UPDATE, threads=threads)
        trace = run(ASYNC, cluster=described, stop={"global_steps": 3})

        assert milliseconds(trace.steps) == steps

    @pytest.mark.parametrize(("servers", "step"), [(1, 140), (2, 120), (4, 110)])
    def test_bytes_are_shared_by_the_servers(self, servers: int, step: float) -> None:
        # 40 bytes at 1000 bytes/s.
        described = {**cluster(1, rate=1e3), "parameter_servers": servers}
        trace = run(ASYNC, cluster=described, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [step]

    @pytest.mark.parametrize(
        ("servers", "threads", "step"), [(1, 1, 204), (1, 2, 170), (2, 1, 170)]
    )
    def test_every_variable_is_worked_at_on_its_own(
        self, servers: int, threads: int, step: float
    ) -> None:
        # 30 ms and a byte per ms: 70 ms for one, 34 ms for the other, which is elsewhere, or not.
        described = {
            **cluster(1, **UPDATE, rate=1e3, threads=threads),
            "parameter_servers": servers,
            "placement": "round_robin" if servers > 1 else "partitioned",
        }
        trace = run(ASYNC, cluster=described, problem=TWO_VARIABLES, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [step]
        # Nobody else is there, so nothing of it is queueing.
        assert life(trace, 0) == [("compute", 0, 100), ("write", 100, step)]

    def test_a_request_is_handled_before_its_gradient_is_applied(self) -> None:
        # Handled at 105 and 110 by the one queue, applied at 135 and 165.
        described = {**cluster(**UPDATE), "overheads": {"push": 5e-3}}
        trace = run(ASYNC, cluster=described, stop={"global_steps": 2})

        assert milliseconds(trace.steps) == [135, 165]

    def test_reads_do_not_wait(self) -> None:
        # Worker 0 reads at 130, while the server is at worker 1's gradient.
        described = {**cluster(**UPDATE), "overheads": {"pull": 10e-3}}
        trace = run(ASYNC, cluster=described, stop={"global_steps": 3})

        # Read until 10 and 20; there at 110 and 120; applied at 140 and 170.
        assert milliseconds(trace.steps) == [140, 170, 280]
        assert life(trace, 0)[3:5] == [("read", 140, 150), ("compute", 150, 250)]

    def test_the_lock_is_held_for_it(self) -> None:
        # What has come is only kept; worker 0 has the lock until 135, worker 1 until 170.
        described = {**cluster(**UPDATE, threads=2), "overheads": {"commit": 5e-3}}
        trace = run(LOCKED, cluster=described, stop={"global_steps": 2})

        assert milliseconds(trace.steps) == [135, 170]
        assert life(trace, 1) == [
            ("compute", 0, 100),
            ("lock", 100, 135),
            ("write", 135, 170),
        ]

    @pytest.mark.parametrize("threads", [1, 2])
    def test_under_the_lock_threads_share_the_variables(self, threads: int) -> None:
        trace = run(
            LOCKED,
            cluster=cluster(1, **UPDATE, threads=threads),
            problem=TWO_VARIABLES,
            stop={"global_steps": 1},
        )

        assert milliseconds(trace.steps) == [160 if threads == 1 else 130]

    @pytest.mark.parametrize("strategy", [SYNC, TEXTBOOK])
    @pytest.mark.parametrize(("threads", "step"), [(1, 160), (2, 130)])
    def test_a_synchronous_step_ends_with_the_last_that_it_needs(
        self, strategy: dict[str, Any], threads: int, step: float
    ) -> None:
        described = cluster(**UPDATE, threads=threads)
        trace = run(strategy, cluster=described, stop={"global_steps": 3})

        assert milliseconds(trace.steps) == [step, 2 * step, 3 * step]

    def test_one_that_comes_too_late_takes_as_long(self) -> None:
        # Of 3 gradients there at 20, 2 make the update at 80. The server is at the third until 110,
        # and only then at those of the other two, there at 100.
        described = {**cluster(3, **UPDATE), "compute": constant(0.02)}
        trace = run(SYNC, cluster=described, stop={"global_steps": 2})

        assert milliseconds(trace.steps) == [80, 170]
        assert [(fate.worker, fate.time, fate.outcome) for fate in fates(trace)][:3] == [
            (0, 80, APPLIED),
            (1, 80, APPLIED),
            (2, 110, DROPPED),
        ]

    def test_one_that_waits_dies_with_its_worker(self) -> None:
        # The server is at it all the same: worker 1's is done at 160.
        events = ({"at": 0.12, "kill": {"worker": 0}},)
        trace = run(ASYNC, cluster=cluster(**UPDATE), events=events, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [160]
        assert [(fate.worker, fate.outcome) for fate in fates(trace)] == [(0, LOST), (1, APPLIED)]

    def test_servers_draw_times_of_their_own(self) -> None:
        # A variable cut over two servers is done when the slower of them is.
        described = {**cluster(1, time=exponential(0.1)), "parameter_servers": 2}
        trace = run(ASYNC, cluster=described, stop={"global_steps": 3})

        drawn = [
            0.1 * stream(0, 0, "server update", server, 0).standard_exponential(128)
            for server in (0, 1)
        ]
        slower = np.maximum(*drawn)[:3]
        assert step_times(trace) == pytest.approx(0.1 + slower, abs=1e-8)

    @pytest.mark.parametrize("strategy", [ASYNC, SYNC, TEXTBOOK])
    def test_equal_servers_are_as_one(self, strategy: dict[str, Any]) -> None:
        # Of a constant law equal servers are merged; of a law that happens to be, they are not.
        wire = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"}
        mixture = {
            "kind": "mixture",
            "components": ({"weight": 1.0, "law": constant(0.03)},) * 2,
        }
        one, other = (
            run(
                strategy,
                cluster={**cluster(time=time, rate=1e4), "parameter_servers": 3},
                network=wire,
                stop={"global_steps": 5},
            )
            for time in (constant(0.03), mixture)
        )
        assert_same(one, other)


class TestClosedQueues:
    """Workers that compute, queue at one server, and compute again; expected values by theory."""

    @pytest.mark.parametrize(
        ("workers", "threads", "time", "expected"),
        [
            # Machine repairman (ps-mm1n-02), its c servers (ps-mmcn-01), constant service
            # (ps-md1n-01), gamma of shape 4 (ps-mg1n-gamma4-01).
            (16, 1, exponential(0.1), 9.776981279596363),
            (16, 2, exponential(0.2), 9.706806279051454),
            (4, 1, constant(0.1), 3.579066163766531),
            (8, 1, {"kind": "gamma", "mean": 0.1, "shape": 4.0}, 6.784596018201624),
        ],
    )
    def test_throughput(
        self, workers: int, threads: int, time: dict[str, Any], expected: float
    ) -> None:
        trace = run(
            ASYNC,
            cluster={**cluster(workers, time=time, threads=threads), "compute": exponential(1.0)},
            problem={"kind": "timing", "size": 1.0},
            optimizer={},
            workload={"optimizer": None},
            stop={"global_steps": 12_000},
        )
        assert_mean_in_time(step_times(trace)[500:], 1 / expected)

    def test_staleness_is_one_less_than_the_workers_whatever_the_load(self) -> None:
        # ps-stale-saturated: a worker reads as its own update is applied.
        trace = run(
            ASYNC,
            cluster={**cluster(8, time=exponential(0.2)), "compute": exponential(1.0)},
            stop={"global_steps": 4000},
        )
        found = np.array(staleness(trace)[100:], dtype=float)

        assert_mean_in_time(found, 7.0)
        assert found.std() > 1

    @pytest.mark.parametrize(("workers", "threads", "step"), [(8, 1, 1400), (16, 4, 1200)])
    def test_a_synchronous_step_of_constant_times(
        self, workers: int, threads: int, step: float
    ) -> None:
        # sync-serial-ps-det: Z + ceil(N / c) S.
        trace = run(
            {**SYNC, "replicas_to_aggregate": workers},
            cluster={
                **cluster(workers, time=constant(0.05), threads=threads),
                "compute": constant(1.0),
            },
            stop={"global_steps": 3},
        )
        assert milliseconds(trace.steps) == [step, 2 * step, 3 * step]


class TestTheWhole:
    def test_what_is_said_of_it(self) -> None:
        described = scenario(ASYNC, cluster=cluster(**UPDATE, rate=2e9, threads=4))

        (line,) = [line for line in describe(described) if line.startswith("  updates")]
        assert line.split(maxsplit=1)[1] == (
            "constant (value 30 ms) + its bytes at 2 GB/s per gradient of a variable, threads 4"
        )

    def test_it_leaves_with_the_strategies_that_use_servers(self) -> None:
        both = scenario(ASYNC, cluster=cluster(**UPDATE))
        mirrored = Scenario.model_validate(
            {
                **dict(both),
                "strategies": ({"kind": "on_write"}, {"kind": "none"}),
            }
        )
        assert mirrored.with_only(mirrored.strategies[:1]).cluster.server_update is None
        assert mirrored.with_only(mirrored.strategies[1:]).cluster == mirrored.cluster

    @pytest.mark.parametrize(
        "wrong",
        [
            {},
            {"threads": 2},
            {"rate": 0.0},
            {**UPDATE, "threads": 0},
            {"time": constant(-1.0)},
            {"time": CURVE},
        ],
    )
    def test_what_cannot_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            ServerUpdate.model_validate(wrong)

    def test_a_rate_may_be_as_low_as_one_likes(self) -> None:
        assert ServerUpdate(rate=0.5).expectation(3.0) == 6.0

    @pytest.mark.parametrize("seed", range(20))
    def test_a_random_cluster_loses_nothing_and_tells_time_without_gaps(self, seed: int) -> None:
        chance = random.Random(seed)
        workers = chance.randint(1, 5)
        described = chance.choice([ASYNC, LOCKED, SYNC, TEXTBOOK])
        if "replicas_to_aggregate" in described:
            described = {**described, "replicas_to_aggregate": chance.randint(1, workers)}
            described.pop("initial_tokens", None)
        who, at = {"worker": chance.randrange(workers)}, 0.3 * chance.random()
        settings: dict[str, Any] = {
            "cluster": {
                "workers": workers,
                "compute": exponential(0.1),
                "parameter_servers": chance.randint(1, 3),
                "server_update": {
                    "time": chance.choice([exponential(0.03), constant(0.02)]),
                    "threads": chance.randint(1, 3),
                },
                "overheads": chance.choice([None, {"push": 2e-3, "wake": 1e-3}]),
            },
            "network": {
                "bandwidth": chance.choice([1e4, 1e18]),
                "latency": chance.choice([0.0, 1e-3]),
                "sharing": chance.choice(["fair", "first_come"]),
            },
            "events": chance.choice(
                [(), ({"at": at, "kill": who}, {"at": at + 0.1, "restart": who})]
            ),
            "problem": {"kind": chance.choice(["quadratic", "linear_regression"])},
            "stop": {"global_steps": 15, "time": 20.0},
        }
        trace = run(described, **settings)

        for rank in range(trace.workers):
            spans = span_rows(trace, rank)
            assert (spans[0].start, spans[-1].end) == (0, trace.end)
            assert all(one.end == other.start for one, other in pairwise(spans))
        assert_same(trace, run(described, **settings))
