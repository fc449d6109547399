"""Deaths where every worker has a copy of the model, by hand: 100 ms a step."""

from typing import Any

import pytest

from tests.building import (
    APPLIED,
    MS,
    gradient_rows,
    kill,
    life,
    milliseconds,
    report,
    restart,
    run,
    slow,
)

# 40 bytes of parameters take 100 ms on a link, half of them 50 ms.
WIRE = {"bandwidth": 400.0, "latency": 0.0}

# Rings of 2 workers, all links equal or not: 50 ms for a chunk, 100 ms for an all-reduce.
RINGS = pytest.mark.parametrize(
    "network",
    [
        {**WIRE, "sharing": "first_come"},
        {**WIRE, "sharing": "fair"},
        # Both at half the bandwidth again, chunk by chunk.
        {"bandwidth": 800.0, "latency": 0.0, "sharing": "fair", "slow_links": (slow(1, 2.0),)},
    ],
    ids=["first_come", "fair", "chunk by chunk"],
)


@RINGS
class TestOnWrite:
    def test_one_who_dies_computing_is_waited_for(self, network: dict[str, Any]) -> None:
        # Computed at 100, all-reduced at 200; worker 1 dies at 250. Back at 500, it has the model
        # at 600 and its gradient at 700: all-reduced at 800.
        events = (kill(0.25, 1), restart(0.5, 1))
        trace = run("on_write", cluster={"workers": 2}, network=network, events=events)

        assert milliseconds(trace.steps) == [200, 800, 1000]
        assert life(trace, 1)[2:7] == [
            *(("compute", 200, 250), ("down", 250, 500), ("read", 500, 600)),
            *(("compute", 600, 700), ("write", 700, 800)),
        ]
        stuck = run("on_write", cluster={"workers": 2}, network=network, events=events[:1])
        assert stuck.end == 300 * MS
        assert report(stuck) == [
            "worker 0: waiting for an all-reduce that 1 of 2 have joined",
            "because worker 1 was killed at 0.25 s while computing",
            "to free it: restart worker 1",
        ]

    def test_an_all_reduce_with_a_dead_member_begins_anew(self, network: dict[str, Any]) -> None:
        # In the second all-reduce, from 300 to 400, worker 1 dies. What it had offered counts: it
        # has the model at 600, and all chunks are sent again until 700.
        events = (kill(0.35, 1), restart(0.5, 1))
        trace = run("on_write", cluster={"workers": 2}, network=network, events=events)

        assert milliseconds(trace.steps) == [200, 700, 900]
        assert life(trace, 0)[3:6] == [("write", 300, 350), ("barrier", 350, 600), WRITE_AGAIN]
        stuck = run("on_write", cluster={"workers": 2}, network=network, events=events[:1])
        assert report(stuck)[0] == (
            "worker 0: waiting for an all-reduce that lost a member on the way"
        )

    def test_one_who_waits_has_offered_its_gradient(self, network: dict[str, Any]) -> None:
        # Worker 0 takes 300 ms; worker 1 waits from 100, dies at 200, is back at 250 and has the
        # model at 350: its gradient is still there, so the all-reduce is from 350 to 450.
        trace = run(
            "on_write",
            cluster={"workers": 2, "slow_workers": (slow(0, 3.0),)},
            network=network,
            events=(kill(0.2, 1), restart(0.25, 1)),
        )

        assert milliseconds(trace.steps) == [450, 850, 1250]
        assert [row.outcome for row in gradient_rows(trace)] == [APPLIED] * 6

    def test_the_copies_learn_what_they_would_have_learnt(self, network: dict[str, Any]) -> None:
        # Worker 1 loses no gradient: the same batches, later.
        settings: dict[str, Any] = {
            "cluster": {"workers": 2},
            "network": network,
            "problem": {"noise": 1.0},
        }
        whole = run("on_write", **settings)
        trace = run("on_write", **settings, events=(kill(0.35, 1), restart(0.5, 1)))

        assert [row.loss for row in trace.evaluations] == [row.loss for row in whole.evaluations]


WRITE_AGAIN = ("write", 600, 700)


def test_who_is_back_reads_on_when_another_dies() -> None:
    # Worker 1 dies in the all-reduce, is back at 160 and gets the model until 260; at 200 worker 3
    # dies in the same all-reduce, in which worker 1 is not again.
    trace = run(
        "on_write",
        cluster={"workers": 4},
        network={**WIRE, "sharing": "fair"},
        stop={"time": 1.0},
        events=(kill(0.15, 1), restart(0.16, 1), kill(0.2, 3)),
    )

    assert life(trace, 1)[2:] == [
        *(("down", 150, 160), ("read", 160, 260), ("barrier", 260, 1000)),
    ]


def test_two_may_die_in_one_all_reduce() -> None:
    # 4 workers: 6 rounds of 25 ms from 100 to 250. Two die, one is back at 500, has the model at
    # 600 and waits; the other is back at 800 and has it at 900: all chunks until 1050.
    trace = run(
        "on_write",
        cluster={"workers": 4},
        network={**WIRE, "sharing": "fair"},
        stop={"global_steps": 2},
        events=(kill(0.15, 1), kill(0.2, 3), restart(0.5, 3), restart(0.8, 1)),
    )

    assert milliseconds(trace.steps) == [1050, 1300]
    assert life(trace, 3)[4:6] == [("read", 500, 600), ("barrier", 600, 900)]


def test_a_model_that_nobody_has_is_lost() -> None:
    # Worker 0, the only one that has it, dies while worker 1 gets it.
    events = (kill(0.25, 1), restart(0.5, 1), kill(0.55, 0))
    network = {**WIRE, "sharing": "fair"}
    trace = run("on_write", cluster={"workers": 2}, network=network, events=events)

    assert trace.end == 600 * MS
    assert report(trace) == [
        "worker 1: waiting for the model, which no running worker has",
        "because worker 0 was killed at 0.55 s while waiting for an all-reduce that 1 of 2 have "
        "joined",
        "to free it: nothing can, as no running worker has the model any more",
    ]
    # Of three workers, worker 2 has it, too, and sends it then: from 600 to 700.
    more = run("on_write", cluster={"workers": 3}, network=network, events=events)
    assert ("read", 500, 700) in life(more, 1)


class TestSingle:
    def test_its_model_dies_with_it(self) -> None:
        trace = run("single", events=(kill(0.15, 0), restart(0.2, 0)))

        assert report(trace) == [
            "worker 0: waiting for the model, which no running worker has",
            "to free it: nothing can, as no running worker has the model any more",
        ]


class TestOnRead:
    NETWORK = {**WIRE, "sharing": "fair"}

    def test_one_who_comes_back_has_what_was_read_last(self) -> None:
        # Read every 2 steps: met at 200, all-reduced at 300. Worker 1 dies in its third step. Back
        # at 500, it has the model at 600 and makes steps 3 and 4 until 800: met, read at 900.
        trace = run(
            {"kind": "on_read", "read_every": 2},
            cluster={"workers": 2},
            network=self.NETWORK,
            stop={"global_steps": 5},
            events=(kill(0.35, 1), restart(0.5, 1)),
        )

        assert milliseconds(trace.steps) == [100, 200, 700, 800, 1000]
        assert [row.time // MS for row in trace.evaluations] == [0, 300, 900, 1000]
        assert life(trace, 0)[2:6] == [
            *(("write", 200, 300), ("compute", 300, 400), ("compute", 400, 500)),
            ("barrier", 500, 800),
        ]

    def test_what_a_copy_had_learnt_since_is_lost(self) -> None:
        # Without noise, the distance to the optimum shrinks by the same factors at every step: the
        # copy that died has made one step less, counted from the start, as nobody has read yet.
        trace = run(
            {"kind": "on_read", "read_every": 4},
            cluster={"workers": 2},
            stop={"global_steps": 3},
            events=(kill(0.15, 1), restart(0.2, 1)),
        )
        whole = run({"kind": "on_read", "read_every": 4}, cluster={"workers": 2})

        # Worker 1 made step 1 at 100, and again makes steps 2 and 3 by 400, from the start.
        assert milliseconds(trace.steps) == [100, 300, 400]
        assert trace.evaluations[-1].divergence > 0
        assert whole.evaluations[-1].divergence == 0

    @pytest.mark.parametrize("aggregation", ["mean", "sum", "only_first_replica"])
    @pytest.mark.parametrize("victim", [0, 1])
    @pytest.mark.parametrize("at", [0.25, 0.3, 0.35])
    def test_a_read_that_lost_a_member_is_finished_with_it(
        self, aggregation: str, victim: int, at: float
    ) -> None:
        # Met at 100, all-reduced (or sent to the other) until 200, and again from 300 to 400.
        trace = run(
            {
                "kind": "on_read",
                "read_every": 1,
                "write_back": True,
                "aggregation": aggregation,
            },
            cluster={"workers": 2},
            network=self.NETWORK,
            stop={"global_steps": 4},
            events=(kill(at, victim), restart(0.5, victim)),
        )

        assert trace.stopped_by == "global_steps"
        # Back at 500, with the model at 600: it computes until 700 if that is what it died at.
        assert milliseconds(trace.steps)[1] == (700 if at <= 0.3 else 300)


@pytest.mark.parametrize(
    "strategy",
    [{"kind": "on_read", "read_every": 3}, {"kind": "local_sgd", "period": 3}, {"kind": "easgd"}],
    ids=lambda one: one["kind"],
)
def test_a_copy_that_died_is_not_measured(strategy: dict[str, Any]) -> None:
    # Worker 1 dies in its second step, and begins again at 400 where it is to.
    settings: dict[str, Any] = {
        "problem": {"kind": "linear_regression"},
        "cluster": {"workers": 2},
        "stop": {"time": 0.55},
    }
    dead, back = (
        run(strategy, events=(kill(0.15, 1), *more), **settings).evaluations[-1]
        for more in ((), (restart(0.4, 1),))
    )

    assert dead.divergence == 0
    assert back.divergence > 0


def test_a_mean_is_of_the_copies_that_are_there() -> None:
    # Two steps of worker 0 by 250: the model is what these make of it.
    alone = run("single", problem={"kind": "quadratic"}, stop={"global_steps": 2})
    left = run(
        {"kind": "on_read", "read_every": 3},
        problem={"kind": "quadratic"},
        events=(kill(0.15, 1),),
        stop={"time": 0.25},
    )

    assert left.evaluations[-1].loss == alone.evaluations[-1].loss
