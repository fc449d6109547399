"""Overheads on constant times, by hand; all times in ms."""

from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    LOST,
    assert_same,
    fates,
    gradient_rows,
    life,
    milliseconds,
    run,
    scenario,
    staleness,
)
from tests.seams import Phase
from varsim.cluster.overheads import Overheads, broadcast_overhead, collective_overhead
from varsim.report.words.scenario import describe

ASYNC = {"kind": "none"}
SYNC = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}
SERVED = {"pull": 10e-3, "push": 5e-3, "wake": 1e-3}


def cluster(workers: int = 2, **overheads: float) -> dict[str, Any]:
    return {"workers": workers, "overheads": overheads}


class TestServers:
    """100 ms of computing, one variable, links that take no time."""

    def test_one_request_is_handled_after_the_other(self) -> None:
        # Worker 0 reads until 10, worker 1 until 20. Worker 0 pushes at 110, is done at 115, told
        # so until 116, and reads until 126; so the push of worker 1, there at 120, waits for it.
        trace = run(ASYNC, cluster=cluster(**SERVED), stop={"global_steps": 4})

        assert milliseconds(trace.steps) == [115, 131, 231, 247]
        assert life(trace, 0)[:6] == [
            ("read", 0, 10),
            ("compute", 10, 110),
            ("write", 110, 116),
            ("read", 116, 126),
            ("compute", 126, 226),
            ("write", 226, 232),
        ]
        assert life(trace, 1) == [
            ("queue", 0, 10),
            ("read", 10, 20),
            ("compute", 20, 120),
            ("queue", 120, 126),
            ("write", 126, 132),
            ("read", 132, 142),
            ("compute", 142, 242),
            ("write", 242, 247),
        ]
        assert staleness(trace) == [0, 1, 1, 1]

    def test_tokens_are_handed_out_one_by_one_once_the_update_is_committed(self) -> None:
        # The second gradient is handled at 125, the step is over at 128. Worker 0 has its token at
        # 129, worker 1 at 130; only then are their reads handled, until 140 and 150.
        overheads = {**SERVED, "commit": 3e-3}
        trace = run(SYNC, cluster=cluster(**overheads), stop={"global_steps": 2})

        assert milliseconds(trace.steps) == [128, 258]
        assert life(trace, 0)[2:7] == [
            ("write", 110, 115),
            ("token", 115, 129),
            ("queue", 129, 130),
            ("read", 130, 140),
            ("compute", 140, 240),
        ]
        assert life(trace, 1)[3:9] == [
            ("write", 120, 125),
            ("token", 125, 128),
            ("queue", 128, 129),
            ("token", 129, 130),
            ("queue", 130, 140),
            ("read", 140, 150),
        ]

    @pytest.mark.parametrize(("servers", "step"), [(1, 180), (2, 140), (4, 120)])
    def test_servers_copy_their_share_side_by_side(self, servers: int, step: float) -> None:
        # 40 bytes at 1000 bytes/s, read and pushed.
        described = {**cluster(1, payload=1e3), "parameter_servers": servers}
        trace = run(ASYNC, cluster=described, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [step]

    @pytest.mark.parametrize(("servers", "step"), [(1, 112), (2, 107)])
    def test_every_variable_is_a_request_of_the_server_that_holds_it(
        self, servers: int, step: float
    ) -> None:
        # Two variables: two pushes of 5 ms, after each other on one server; a read asks each once.
        described = {**cluster(1, pull=2e-3, push=5e-3), "parameter_servers": servers}
        described["placement"] = "round_robin" if servers > 1 else "partitioned"
        problem = {"kind": "linear_regression"}
        trace = run(ASYNC, cluster=described, problem=problem, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [step]

    def test_a_gradient_that_is_not_handled_yet_dies_with_its_worker(self) -> None:
        # Both push at 100; worker 0's gradient would be handled at 150, worker 1's at 200.
        events = ({"at": 0.12, "kill": {"worker": 0}},)
        trace = run(ASYNC, cluster=cluster(push=50e-3), events=events, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [200]
        assert [(fate.worker, fate.outcome) for fate in fates(trace)] == [(0, LOST), (1, APPLIED)]

    def test_a_gradient_that_waits_as_its_step_ends_is_in_no_later_one(self) -> None:
        # Worker 0's gradient, handled at 150, ends the step; worker 1's is still waiting then. The
        # server is at that until 200, and reads come after it. Then worker 1 is the first.
        textbook = {"kind": "backup_workers", "replicas_to_aggregate": 1}
        trace = run(textbook, cluster=cluster(push=50e-3), stop={"global_steps": 3})

        assert milliseconds(trace.steps) == [150, 350, 550]
        assert staleness(trace) == [0, 0, 0]


class TestCollectives:
    def test_messages_take_turns_after_the_last_worker_has_come(self) -> None:
        # 3 workers: 4 rounds of 3 messages.
        trace = run("on_write", cluster=cluster(3, message=1e-3), stop={"global_steps": 2})

        assert milliseconds(trace.steps) == [112, 224]
        assert life(trace, 2)[:2] == [("compute", 0, 100), ("write", 100, 112)]

    def test_copies_count_where_they_take_longer(self) -> None:
        # 4 rounds of 40 bytes at 10 kB/s are 16 ms, more than 12 messages of 1 ms.
        described = cluster(3, message=1e-3, payload=1e4)
        trace = run("on_write", cluster=described, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [116]

    def test_one_parameter_is_one_message_a_round(self) -> None:
        described = cluster(3, message=1e-3)
        trace = run(
            "on_write", cluster=described, problem={"dimension": 1}, stop={"global_steps": 1}
        )

        assert milliseconds(trace.steps) == [104]

    def test_a_worker_alone_sends_none(self) -> None:
        described = cluster(1, message=1e-3)
        trace = run("on_write", cluster=described, stop={"global_steps": 1})

        assert milliseconds(trace.steps) == [100]

    def test_a_broadcast_is_a_message_to_each_of_the_others(self) -> None:
        first = {
            "kind": "on_read",
            "read_every": 1,
            "aggregation": "only_first_replica",
            "write_back": True,
        }
        trace = run(first, cluster=cluster(3, message=1e-3), stop={"global_steps": 2})

        begun = {row.compute_start for row in gradient_rows(trace) if row.iteration == 1}
        assert milliseconds(begun) == [102]

    def test_formulas(self) -> None:
        both = Overheads(message=1e-3, payload=1e6)
        # A ring of 4: 6 rounds of 4 messages.
        assert collective_overhead(both, 24, 6 * 1000.0) == pytest.approx(24e-3)
        assert collective_overhead(both, 24, 6 * 1e6) == pytest.approx(6.0)
        assert collective_overhead(both, 0, 0.0) == 0
        assert broadcast_overhead(both, 4, 1000.0) == pytest.approx(3e-3)
        assert broadcast_overhead(both, 4, 1e6) == pytest.approx(3.0)


class TestFirstIteration:
    @pytest.mark.parametrize("kind", ["single", "on_write", "on_read", "none"])
    def test_every_worker_begins_later(self, kind: str) -> None:
        trace = run(kind, cluster=cluster(2, first_iteration=50e-3), stop={"global_steps": 2})

        rows = gradient_rows(trace)
        begun = {(row.worker, row.compute_start / 1e6) for row in rows if row.iteration == 0}
        assert begun == {(rank, 50) for rank in range(trace.workers)}
        assert life(trace, 0)[:2] == [("down", 0, 50), ("compute", 50, 150)]

    def test_a_worker_that_begins_again_sets_up_again(self) -> None:
        events = (
            {"at": 0.06, "kill": {"worker": 1}},
            {"at": 0.07, "restart": {"worker": 1}},
        )
        trace = run(
            ASYNC,
            cluster=cluster(2, first_iteration=50e-3),
            events=events,
            stop={"global_steps": 3},
        )
        assert [span for span in life(trace, 1) if span[1] >= 60][:2] == [
            ("down", 60, 120),
            ("compute", 120, 220),
        ]


class TestTheWhole:
    @pytest.mark.parametrize(
        "strategy", [ASYNC, SYNC, {"kind": "on_write"}, {"kind": "on_read", "read_every": 2}]
    )
    def test_overheads_of_nothing_change_nothing(self, strategy: dict[str, Any]) -> None:
        wire = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"}
        one, other = (
            run(strategy, cluster={"overheads": overheads}, network=wire, stop={"global_steps": 6})
            for overheads in (None, {})
        )
        assert_same(one, other, but=["heap_events"])

    def test_the_time_of_a_worker_is_told_without_gaps(self) -> None:
        overheads = {**SERVED, "commit": 3e-3, "first_iteration": 0.02, "payload": 1e4}
        wire = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "fair"}
        trace = run(
            SYNC,
            cluster=cluster(5, **overheads),
            network=wire,
            stop={"global_steps": 20},
        )
        for rank in range(5):
            spans = life(trace, rank)
            assert spans[0][1] == 0
            assert spans[-1][2] == trace.end / 1e6
            assert all(one[2] == other[1] for one, other in pairwise(spans))
        assert {Phase(span) for span in trace.spans[:, 1]} >= {Phase.QUEUE, Phase.TOKEN, Phase.DOWN}

    @pytest.mark.parametrize(
        ("strategy", "overheads"),
        [
            (ASYNC, SERVED),
            (SYNC, {**SERVED, "commit": 3e-3}),
            ({"kind": "on_write"}, {"message": 1e-3}),
        ],
    )
    def test_what_is_said_of_them(
        self, strategy: dict[str, Any], overheads: dict[str, float]
    ) -> None:
        described = scenario(strategy, cluster=cluster(**overheads))
        (line,) = [line for line in describe(described) if "overheads" in line]
        assert all(name in line for name in overheads)

    def test_stretched_and_chosen(self) -> None:
        some = Overheads(pull=1e-3, message=2e-3, payload=1e6)

        assert some.given == ["pull", "message", "payload"]
        assert some.stretched(2.0) == Overheads(pull=2e-3, message=4e-3, payload=5e5)
        assert some.only(frozenset({"pull", "wake"})) == Overheads(pull=1e-3)
        assert Overheads().given == []

    @pytest.mark.parametrize("wrong", [{"payload": 0.0}, {"pull": -1e-3}, {"token": 1e-3}])
    def test_what_cannot_be_is_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValidationError):
            Overheads.model_validate(wrong)
