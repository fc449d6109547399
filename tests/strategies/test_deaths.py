"""Deaths, restarts and orderly ends, by hand: 100 ms a step unless a comment says otherwise."""

from time import monotonic
from typing import Any

import numpy as np
import pytest

from tests.building import (
    APPLIED,
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

    def test_what_frees_it_counts_the_living_and_not_the_gradients_that_have_come(self) -> None:
        # Worker 0 dies with its gradient there: a step of two would end once, and no other would.
        events = (kill(0.05, 1), kill(0.06, 2), kill(0.12, 0))
        trace = run(self.SETTINGS, stop={"global_steps": 4}, events=events)

        assert report(trace)[-1] == "to free it: restart 2 of workers 0, 1, 2"
