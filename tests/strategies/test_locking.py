"""The asynchronous server with and without `use_locking`, by hand; all times in ms."""

from typing import Any

import pytest

from tests.building import (
    APPLIED,
    LOST,
    MS,
    NO_TIME,
    PENDING,
    Model,
    assert_same,
    gradient_rows,
    kill,
    life,
    losses,
    milliseconds,
    phase_time,
    report,
    restart,
    run,
    scenario,
    staleness,
)
from tests.seams import Phase, Trace

UNLOCKED = {"kind": "none"}
LOCKED = {"kind": "none", "use_locking": True}


class TestTornReads:
    """Weights of 96 bytes, a bias of 4; workers have 1 kB/s, the server plenty.

    Worker 0: reads ..100, computes 100 ..200, weights there at 296, bias at 300 (update 2)
              reads ..400, computes 100 ..500, pushes ..600 (update 3, read at 2)
              reads ..700, computes 1000
    Worker 1: reads ..100, computes 98 ..198, weights there at 294, bias at 298 (update 1)
              reads at 298 ..398, computes 500 ..898, pushes ..998 (update 4, read at 1)
    """

    CHANGES: dict[str, Any] = {
        "network": {
            "bandwidth": 1e3,
            "server_bandwidth": 1e15,
            "latency": 0.0,
            "sharing": "first_come",
        },
        "problem": {"kind": "linear_regression", "features": 24},
        "cluster": {
            "workers": 2,
            "compute": {"kind": "trace", "seconds": ((0.1, 0.1, 1.0), (0.098, 0.5))},
        },
        "workload": {"evaluate_every": 1},
        "stop": {"global_steps": 4},
    }

    @pytest.fixture
    def model(self) -> Model:
        return Model(scenario(UNLOCKED, **self.CHANGES))

    def traced(self, strategy: dict[str, Any]) -> Trace:
        trace = run(strategy, **self.CHANGES)
        assert milliseconds(trace.steps) == [298, 300, 600, 998]
        assert staleness(trace) == [0, 1, 0, 2]
        assert gradient_rows(trace)[-1].read == 298 * MS
        return trace

    def test_unlocked_a_read_between_two_variables_is_torn(self, model: Model) -> None:
        # At 298 the weights have both updates, the bias has that of worker 1 alone.
        start = model.start
        of_0, of_1 = model.gradient(start, 0, 0), model.gradient(start, 1, 0)
        half = model.step(start, [of_1[0], None])  # 294
        torn = model.step(model.step(half, [of_0[0], None]), [None, of_1[1]])  # 296, 298
        two = model.step(torn, [None, of_0[1]])  # 300
        three = model.step(two, model.gradient(two, 0, 1))
        four = model.step(three, model.gradient(torn, 1, 1))

        shown = [model.loss(version) for version in (start, torn, two, three, four)]
        assert losses(self.traced(UNLOCKED)) == shown

    def test_locked_it_is_whole(self, model: Model) -> None:
        # At 298 both variables have the update of worker 1 and not that of worker 0.
        start = model.start
        whole = model.step(start, model.gradient(start, 1, 0))  # 298
        two = model.step(whole, model.gradient(start, 0, 0))  # 300
        three = model.step(two, model.gradient(two, 0, 1))
        four = model.step(three, model.gradient(whole, 1, 1))

        trace = self.traced(LOCKED)
        shown = [model.loss(version) for version in (start, whole, two, three, four)]
        assert losses(trace) == shown
        # The same two updates in the end, but another read and so another gradient.
        unlocked = losses(self.traced(UNLOCKED))
        assert [a == b for a, b in zip(shown, unlocked, strict=True)] == [
            *(True, False, True, True, False),
        ]
        assert phase_time(trace, Phase.LOCK) == 0

    @pytest.mark.parametrize("commit", [0.0, 0.02])
    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    @pytest.mark.parametrize("servers", [1, 2])
    def test_locked_every_read_is_of_a_whole_version(
        self, sharing: str, servers: int, commit: float
    ) -> None:
        # All that the run shows follows from which version each gradient was computed from.
        changes = {
            **self.CHANGES,
            "network": {
                "bandwidth": 1e3,
                "server_bandwidth": 1e4,
                "latency": 1e-3,
                "sharing": sharing,
            },
            "cluster": {
                "workers": 5,
                "compute": {"kind": "exponential", "mean": 0.1},
                "parameter_servers": servers,
                "placement": "round_robin" if servers > 1 else "partitioned",
                "overheads": {"commit": commit} if commit else None,
            },
            "stop": {"global_steps": 60},
        }
        trace = run(LOCKED, **changes)
        model = Model(scenario(LOCKED, **changes))
        versions = [model.start]
        for row in gradient_rows(trace):
            if row.outcome == PENDING:
                continue
            gradient = model.gradient(versions[row.read_step], row.worker, row.iteration)
            versions.append(model.step(versions[-1], gradient))

        assert len(versions) == 61
        assert max(staleness(trace)) > 1
        assert losses(trace) == [model.loss(version) for version in versions]
        assert losses(trace) != losses(run(UNLOCKED, **uncommitted(changes)))


def uncommitted(changes: dict[str, Any]) -> dict[str, Any]:
    return {**changes, "cluster": {**changes["cluster"], "overheads": None}}


# 3 workers of 100, links that take no time, 60 under the lock.
HELD: dict[str, Any] = {"cluster": {"overheads": {"commit": 0.06}}}


class TestCommits:
    def test_updates_come_one_after_the_other(self) -> None:
        # All push at 100: updates at 160, 220, 280. Worker 0 computes again from 160 and comes at
        # 260: the lock is free at 280. Worker 1 comes at 320, worker 2 at 380; and so on: the lock
        # is never free again, update k ends at 100 + 60 k.
        trace = run(LOCKED, **HELD, stop={"global_steps": 9})

        assert milliseconds(trace.steps) == [100 + 60 * k for k in range(1, 10)]
        assert [row.worker for row in gradient_rows(trace)[:9]] == [0, 1, 2] * 3
        # Read at 0, 0, 0, then each as its last update ends, two others before its next.
        assert staleness(trace) == [0, 1, 2, 2, 2, 2, 2, 2, 2]
        assert life(trace, 0)[:5] == [
            ("compute", 0, 100),
            ("write", 100, 160),
            ("compute", 160, 260),
            ("lock", 260, 280),
            ("write", 280, 340),
        ]
        assert life(trace, 1)[:6] == [
            ("compute", 0, 100),
            ("lock", 100, 160),
            ("write", 160, 220),
            ("compute", 220, 320),
            ("lock", 320, 340),
            ("write", 340, 400),
        ]
        assert life(trace, 2)[:3] == [("compute", 0, 100), ("lock", 100, 220), ("write", 220, 280)]
        # 60, 120 and then 20 each, from the fourth to the ninth update; and those that wait at the
        # end, 640: worker 0 has come at 620.
        assert phase_time(trace, Phase.LOCK) == (60 + 120 + 6 * 20 + 20) * MS

    @pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
    def test_nobody_gets_more_than_the_lock_lets_through(self, workers: int) -> None:
        # As long as w x 60 is below 160 nobody waits after the first round; the last of that comes
        # when the lock is free again.
        cluster = {"workers": workers, **HELD["cluster"]}
        trace = run(LOCKED, cluster=cluster, stop={"global_steps": 3 * workers})
        expected = [
            100 + 60 * (k + 1) + max(160, 60 * workers) * turn
            for turn in range(3)
            for k in range(workers)
        ]

        assert milliseconds(trace.steps) == expected


class TestDeaths:
    def test_while_waiting_it_leaves_its_place(self) -> None:
        # At 130 worker 0 has the lock until 160; worker 1 would be next, now worker 2 is.
        trace = run(LOCKED, **HELD, stop={"global_steps": 2}, events=(kill(0.13, 1),))

        assert milliseconds(trace.steps) == [160, 220]
        assert life(trace, 1) == [("compute", 0, 100), ("lock", 100, 130), ("down", 130, 220)]
        lost, *others = gradient_rows(trace)
        assert (lost.worker, lost.outcome, lost.parts_applied) == (1, LOST, 0)
        assert (lost.computed, lost.arrived, lost.applied) == (100 * MS, 100 * MS, 130 * MS)
        assert [(row.worker, row.outcome) for row in others] == [(0, APPLIED), (2, APPLIED)]

    def test_while_holding_it_leaves_the_lock_and_may_come_back(self) -> None:
        # At 130 worker 0 leaves the lock to worker 1 (190), then worker 2 (250). Worker 1 comes
        # at 290 (350). Worker 0 is back at 200 and comes at 300 (410), worker 2 at 350 (470).
        events = (kill(0.13, 0), restart(0.2, 0))
        trace = run(LOCKED, **HELD, stop={"global_steps": 5}, events=events)

        assert milliseconds(trace.steps) == [190, 250, 350, 410, 470]
        rows = [(row.worker, row.iteration, row.outcome) for row in gradient_rows(trace)[:6]]
        assert rows[0] == (0, 0, LOST)
        assert rows[1:] == [
            *((1, 0, APPLIED), (2, 0, APPLIED), (1, 1, APPLIED)),
            *((0, 1, APPLIED), (2, 1, APPLIED)),
        ]
        assert life(trace, 0)[:6] == [
            ("compute", 0, 100),
            ("write", 100, 130),
            ("down", 130, 200),
            ("compute", 200, 300),
            ("lock", 300, 350),
            ("write", 350, 410),
        ]

    def test_what_has_arrived_is_lost_with_the_rest(self) -> None:
        # Read until 110, compute until 210; the weights are there at 310, the intercept would be
        # at 320, the worker dies at 315. Unlocked the weights are updated; here nothing is.
        trace = run(
            LOCKED,
            cluster={"workers": 1},
            network={"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"},
            problem={"kind": "linear_regression", "features": 10},
            stop={"time": 1.0},
            events=(kill(0.315, 0), restart(0.5, 0)),
        )

        first = gradient_rows(trace)[0]
        assert (first.outcome, first.parts_applied) == (LOST, 0)
        assert (first.computed, first.arrived, first.applied) == (210 * MS, 310 * MS, 315 * MS)
        assert milliseconds(trace.steps) == [820]

    def test_it_is_told_at_what_they_died(self) -> None:
        events = (kill(0.13, 1), kill(0.14, 0), kill(0.15, 2))
        trace = run(LOCKED, **HELD, events=events)

        assert report(trace) == [
            "because worker 1 was killed at 0.13 s while waiting for a lock (worker 0 has it, 2 "
            "waiting)",
            "because worker 0 was killed at 0.14 s while waiting for the update with its gradient",
            "because worker 2 was killed at 0.15 s while waiting for the update with its gradient",
            "to free it: restart any of workers 0, 1, 2",
        ]


WIRE = {"bandwidth": 1e3, "latency": 1e-3}
CONSTANT = {"kind": "constant", "value": 0.1}
RANDOM = {"kind": "exponential", "mean": 0.1}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize(
    ("network", "law"),
    [
        (NO_TIME, CONSTANT),
        (NO_TIME, RANDOM),
        ({**WIRE, "sharing": "first_come"}, CONSTANT),
        ({**WIRE, "sharing": "first_come"}, RANDOM),
        ({**WIRE, "sharing": "fair"}, RANDOM),
    ],
)
def test_a_lock_on_one_variable_that_takes_no_time_changes_nothing(
    network: dict[str, Any], law: dict[str, Any], workers: int, seed: int
) -> None:
    changes: dict[str, Any] = {
        "network": network,
        "cluster": {"workers": workers, "compute": law},
        "problem": {"noise": 1.0},
        "stop": {"time": 3.05},
        "seed": seed,
    }
    assert_same(run(LOCKED, **changes), run(UNLOCKED, **changes))


def test_equal_workers_on_fair_links_push_at_one_instant() -> None:
    # Three pushes arrive at one moment. Unlocked all are applied before anybody reads again;
    # locked a worker reads as soon as its own is, before the next one's.
    changes: dict[str, Any] = {"network": {**WIRE, "sharing": "fair"}, "stop": {"global_steps": 6}}
    one, other = run(UNLOCKED, **changes), run(LOCKED, **changes)

    assert one.steps.tolist() == other.steps.tolist()
    assert staleness(one) == [0, 1, 2, 0, 1, 2]
    assert staleness(other) == [0, 1, 2, 2, 2, 2]
