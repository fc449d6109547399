"""Deaths, restarts and orderly ends, by hand: 100 ms a step unless a comment says otherwise."""

from time import monotonic
from typing import Any

import numpy as np
import pytest

from tests.building import (
    APPLIED,
    DROPPED,
    LOST,
    MS,
    PARTLY,
    PENDING,
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
BOTH = pytest.mark.parametrize("sharing", ["first_come", "fair"])


def sync(needed: int, **settings: Any) -> dict[str, Any]:
    return {"kind": "sync_replicas", "replicas_to_aggregate": needed, **settings}


class TestSyncReplicas:
    def test_without_a_backup_a_death_while_computing_stops_all(self) -> None:
        # N = T = 4. All push at 100: update. Their second gradients, on tokens of step 0, are
        # stale at 200. Updates at 300 and 400. At 500 three push, and wait for the fourth.
        trace = run(
            sync(4), cluster={"workers": 4}, stop={"global_steps": 9}, events=(kill(0.45, 3),)
        )

        assert milliseconds(trace.steps) == [100, 300, 400]
        assert trace.end == 500 * MS
        assert report(trace) == [
            "workers 0, 1, 2: waiting for a token (queue empty, 3 waiting)",
            "chief: waiting for 4 gradients of step 3 (3 have come)",
            "because worker 3 was killed at 0.45 s while computing",
            "to free it: restart worker 3, whose first gradient needs no token; with "
            "replicas_to_aggregate: 3 it would have gone on",
        ]
        assert life(trace, 3)[-2:] == [("compute", 400, 450), ("down", 450, 500)]
        lost = gradient_rows(trace)[-4]
        assert (lost.worker, lost.outcome) == (3, LOST)
        assert (lost.compute_start, lost.computed, lost.arrived) == (400 * MS, -1, -1)
        assert lost.applied == 450 * MS

    @pytest.mark.parametrize(
        ("needed", "at", "stopped_by"),
        [(8, 5.05, "deadlock"), (7, 5.05, "global_steps"), (8, 5.15, "global_steps")],
        ids=["computing", "with a backup", "waiting"],
    )
    def test_a_death_among_eight_is_told_in_no_time(
        self, needed: int, at: float, stopped_by: str
    ) -> None:
        # N = T = 8; worker 0 takes 200 ms, so that the others, from the first update at 200 on,
        # compute for 100 ms and wait for 100 ms. Worker 3 dies at one or the other.
        begun = monotonic()
        trace = run(
            sync(needed, initial_tokens=0),
            cluster={"workers": 8, "slow_workers": (slow(0, 2.0),)},
            stop={"global_steps": 100},
            events=(kill(at, 3),),
        )
        assert monotonic() - begun < 1
        assert trace.stopped_by == stopped_by
        assert (trace.standstill is None) == (stopped_by == "global_steps")

    def test_with_a_backup_the_others_go_on_and_do_its_iterations(self) -> None:
        # Every update costs 4 iterations. Say that all three begin on tokens of step s, and one
        # such token is left. 100 ms later they push: update. They take the token of s and two of
        # the four of s + 1: another 100 ms later two gradients are fresh, and there are but two
        # tokens. The two who got them push after 100 ms more: the first makes the update, and the
        # other is late. They take three of four tokens of s + 2, and one is left.
        trace = run(
            sync(3), cluster={"workers": 4}, stop={"global_steps": 303}, events=(kill(0.45, 3),)
        )

        assert milliseconds(trace.steps)[5:9] == [800, 900, 1100, 1200]
        gaps = np.diff(trace.steps[4:]) // MS
        assert gaps.tolist() == [200, 100] * 149
        # Even at best, three workers would need 4/3 of their 100 ms for an update.
        assert gaps.mean() == 150 >= 100 * 4 / 3

    def test_one_who_dies_waiting_leaves_gradient_and_token_to_the_others(self) -> None:
        # N = T = 3 without initial tokens; worker 0 takes 300 ms. Workers 1 and 2 push at 100 and
        # wait; 2 dies. Its gradient is in the update at 300, and its token is left: worker 1
        # pushes at 400 and 500, worker 0 at 600: update. And so on, two of worker 1 to one of 0.
        trace = run(
            sync(3, initial_tokens=0),
            cluster={"slow_workers": (slow(0, 3.0),)},
            stop={"global_steps": 5},
            events=(kill(0.2, 2),),
        )

        assert milliseconds(trace.steps) == [300, 600, 900, 1200, 1500]
        assert life(trace, 2) == [("compute", 0, 100), ("token", 100, 200), ("down", 200, 1500)]
        assert all(row.outcome in (APPLIED, PENDING) for row in gradient_rows(trace))
        applied = [row.worker for row in gradient_rows(trace) if row.outcome == APPLIED]
        assert [applied.count(worker) for worker in range(3)] == [5, 9, 1]

    def test_one_who_comes_back_needs_no_token(self) -> None:
        # Workers 0 and 1 wait from 200 for the gradient that worker 2 lost at 150. Back at 1000,
        # it reads step 1 and pushes at 1100: update.
        trace = run(
            sync(3, initial_tokens=0),
            stop={"global_steps": 4},
            events=(kill(0.15, 2), restart(1.0, 2)),
        )

        assert milliseconds(trace.steps) == [100, 1100, 1200, 1300]
        assert life(trace, 2)[:4] == [
            *(("compute", 0, 100), ("compute", 100, 150)),
            *(("down", 150, 1000), ("compute", 1000, 1100)),
        ]
        assert life(trace, 0)[1:3] == [("compute", 100, 200), ("token", 200, 1100)]
        rows = [row for row in gradient_rows(trace) if row.worker == 2]
        assert [row.iteration for row in rows] == [0, 1, 2, 3, 4]
        assert [row.outcome for row in rows] == [APPLIED, LOST, APPLIED, APPLIED, APPLIED]

    def test_without_the_chief_nothing_is_updated(self) -> None:
        # N = T = 2 of 2 workers: updates at 100 and 300, tokens of step 2. The chief dies at 350,
        # worker 1 pushes at 400 and waits. Back at 1000 the chief puts in 2 tokens: worker 1
        # goes on. Worker 0 pushes at 1100: with what had piled up these are two. It takes the
        # other token of step 2; what both push on those is stale, at 1100 and at 1200. Worker 1,
        # on a token of step 3, pushes at 1200, worker 0 at 1300.
        events = ({"at": 0.35, "kill": "chief"}, {"at": 1.0, "restart": "chief"})
        settings: dict[str, Any] = {"cluster": {"workers": 2}, "stop": {"global_steps": 4}}
        alone = run(sync(2), **settings, events=events[:1])
        assert milliseconds(alone.steps) == [100, 300]
        assert alone.end == 400 * MS
        assert report(alone) == [
            "worker 1: waiting for a token (queue empty, 1 waiting)",
            "because worker 0 and the chief were killed at 0.35 s while computing",
            "to free it: restart the chief: it takes what has piled up, and hands out tokens again",
        ]

        back = run(sync(2), **settings, events=events)
        assert milliseconds(back.steps) == [100, 300, 1100, 1300]
        ends = [(row.worker, row.applied // MS, row.outcome) for row in gradient_rows(back)]
        assert ends[6:] == [
            *((0, 350, LOST), (1, 1100, APPLIED), (0, 1100, APPLIED), (1, 1100, DROPPED)),
            *((0, 1200, DROPPED), (1, 1300, APPLIED), (0, 1300, APPLIED)),
        ]

    def test_the_chief_takes_all_that_has_piled_up(self) -> None:
        # N = 2 of 3 workers, no initial tokens, 9 at each update (T = 9). The update at 100 takes
        # workers 0 and 1. All take a token; the chief dies at 150. Workers 1 and 2 push at 200, 300
        # and 400 and take the other six; they push once more at 500 and wait. Back at 1000, one
        # take gets all eight of their gradients.
        trace = run(
            sync(2, total_num_replicas=9, initial_tokens=0),
            stop={"global_steps": 2},
            events=(kill(0.15, 0), restart(1.0, 0)),
        )

        assert milliseconds(trace.steps) == [100, 1000]
        applied = [row for row in gradient_rows(trace) if row.applied == 1000 * MS]
        assert [row.outcome for row in applied] == [APPLIED] * 8
        assert [row.worker for row in applied].count(0) == 0

    def test_an_orderly_end_of_the_chief_ends_all(self) -> None:
        # N = T = 3. The chief ends at 450; the others push at 500, find no token and end: the run
        # is over, whenever it would have been.
        for stop in ({"global_steps": 99}, {"time": 9.0}):
            trace = run(sync(3), stop=stop, events=({"at": 0.45, "stop": "chief"},))

            assert (trace.stopped_by, trace.standstill) == ("chief", None)
            assert milliseconds(trace.steps) == [100, 300, 400]
            assert trace.end == 500 * MS
            assert life(trace, 0)[-1] == ("down", 450, 500)
            outcomes = {row.worker: row.outcome for row in gradient_rows(trace)}
            assert outcomes == {0: LOST, 1: PENDING, 2: PENDING}

    def test_who_waits_as_the_chief_ends_ends_at_once(self) -> None:
        # Worker 2 takes 300 ms: the others wait from 100; the chief ends at 200. Worker 2 pushes
        # at 300 and ends.
        trace = run(
            sync(3, initial_tokens=0),
            cluster={"slow_workers": (slow(2, 3.0),)},
            events=({"at": 0.2, "stop": "chief"},),
        )

        assert life(trace, 1) == [("compute", 0, 100), ("token", 100, 200), ("down", 200, 300)]
        assert life(trace, 2) == [("compute", 0, 300)]
        assert trace.end == 300 * MS


class TestNone:
    def test_nobody_notices(self) -> None:
        # 10 steps a second of each; worker 1 dies at 450 and is back at 750: 3 and a half are
        # missing, of which one had begun.
        whole = run("none", stop={"time": 1.06})
        trace = run("none", stop={"time": 1.06}, events=(kill(0.45, 1), restart(0.75, 1)))

        assert whole.global_step - trace.global_step == 3
        assert life(trace, 1)[3:] == [
            *(("compute", 300, 400), ("compute", 400, 450), ("down", 450, 750)),
            *(("compute", 750, 850), ("compute", 850, 950), ("compute", 950, 1050)),
            ("compute", 1050, 1060),
        ]
        for worker in (0, 2):
            assert life(trace, worker) == life(whole, worker)

    def test_what_has_arrived_stays_and_the_rest_is_lost(self) -> None:
        # 10 weights and an intercept: 40 and 4 bytes. Read until 110, compute until 210; the
        # weights are there at 310, the intercept would be at 320. The worker dies at 315.
        trace = run(
            "none",
            cluster={"workers": 1},
            network={**WIRE, "sharing": "first_come"},
            problem={"kind": "linear_regression", "features": 10},
            stop={"time": 1.0},
            events=(kill(0.315, 0), restart(0.5, 0)),
        )

        first, *others = gradient_rows(trace)
        assert (first.outcome, first.parts_applied) == (PARTLY, 1)
        assert (first.computed, first.arrived, first.applied) == (210 * MS, 310 * MS, 315 * MS)
        # Read at 500, applied at 820: the only step that counts.
        assert milliseconds(trace.steps) == [820]
        assert [row.applied_step for row in others] == [0]
        assert life(trace, 0)[2:5] == [
            *(("write", 210, 315), ("down", 315, 500), ("read", 500, 610)),
        ]

    @BOTH
    def test_one_who_reads_has_nothing_to_lose(self, sharing: str) -> None:
        # It reads until 100, dies at 50 and is back at 200: its first gradient is the first.
        law = {"kind": "exponential", "mean": 0.1}
        settings: dict[str, Any] = {
            "cluster": {"workers": 1, "compute": law},
            "network": {**WIRE, "sharing": sharing},
            "stop": {"global_steps": 3},
        }
        whole = run("none", **settings)
        trace = run("none", **settings, events=(kill(0.05, 0), restart(0.2, 0)))

        assert (trace.steps - whole.steps == 200 * MS).all()
        assert life(trace, 0)[:2] == [("read", 0, 50), ("down", 50, 200)]
        assert all(row.outcome in (APPLIED, PENDING) for row in gradient_rows(trace))

    def test_it_ends_when_nobody_is_left(self) -> None:
        events = (kill(0.25, 0), kill(0.25, 1), kill(0.35, 2))
        trace = run("none", stop={"global_steps": 99}, events=events)

        assert trace.global_step == 7
        assert report(trace) == [
            "because workers 0, 1 were killed at 0.25 s while computing",
            "because worker 2 was killed at 0.35 s while computing",
            "to free it: restart any of workers 0, 1, 2",
        ]


class TestBackupWorkers:
    SETTINGS = {"kind": "backup_workers", "replicas_to_aggregate": 2}

    def test_two_are_too_many(self) -> None:
        events = (kill(0.15, 1), kill(0.25, 2))
        trace = run(self.SETTINGS, stop={"global_steps": 4}, events=events)

        assert milliseconds(trace.steps) == [100, 200]
        assert report(trace) == [
            "worker 0: waiting for the end of a step to which 1 have come",
            "because worker 1 was killed at 0.15 s while computing",
            "because worker 2 was killed at 0.25 s while computing",
            "to free it: restart 1 of workers 1, 2; with replicas_to_aggregate: 1 it would have "
            "gone on",
        ]

    def test_what_frees_it_counts_the_living_and_not_the_gradients_that_have_come(self) -> None:
        # Worker 0 dies with its gradient there: a step of two would end once, and no other would.
        events = (kill(0.05, 1), kill(0.06, 2), kill(0.12, 0))
        trace = run(self.SETTINGS, stop={"global_steps": 4}, events=events)

        assert report(trace)[-1] == "to free it: restart 2 of workers 0, 1, 2"
