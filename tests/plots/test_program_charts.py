"""The charts of a run of variables: their data by hand, and that it is drawn.

A byte takes 1 us, the latency is 100 us (see `programs`).
"""

from typing import Any

import numpy as np
import pytest

from tests.programs import MODES, WIRE, add, read, scenario, variable
from varsim.report.charts.marks import drawn
from varsim.report.charts.spans import ACTS, MARKERS
from varsim.report.products.variables import WAITING, last_whole, shown_steps, step_chart
from varsim.report.told import Chart
from varsim.study.program import VariablesResult, simulate_variables

LARGE = variable(shape=(1000,), aggregation="mean")
COMPUTE = {"kind": "compute"}
RING, SERVED, COLLECTED = 5776, 12100, 8100


def result(*replicas: Any, **changes: Any) -> VariablesResult:
    whole = {"outside": (read(),), "variables": (LARGE,), **changes}
    return simulate_variables(scenario(replicas, **whole))


def apart(**changes: Any) -> VariablesResult:
    """Worker 1 computes for 3 ms, the others for 1 ms; under on_read nobody waits for it."""
    cluster = {
        "compute": {"kind": "constant", "value": 1e-3},
        "network": WIRE,
        "slow_workers": ({"rank": 1, "factor": 3.0},),
    }
    return result(COMPUTE, add(1.0), cluster=cluster, **changes)


def rows(found: Chart, who: str, activity: str, row: str = "") -> list[dict[str, Any]]:
    """What is drawn of a mode."""
    return [
        one
        for one in found.rows()
        if one["who"] == who and one["activity"] == activity and row in one["row"]
    ]


def us(one: dict[str, Any]) -> tuple[int, int]:
    return round(one["start"] * 1e6), round(one["end"] * 1e6)


class TestWhichSteps:
    def test_the_one_in_which_most_happens(self) -> None:
        outside = (read(), {"kind": "save", "every": 2})
        assert shown_steps(result(add(1.0), outside=outside, steps=3)) == range(2, 3)

    def test_where_all_meet_in_every_step_one_is_shown(self) -> None:
        assert shown_steps(apart(steps=3)) == range(1, 2)

    def test_steps_that_overlap_are_shown_together(self) -> None:
        found = apart(outside=(read(every=3),), steps=6, modes=("on_read", "on_write"))
        assert shown_steps(found) == range(1, 4)
        boxes = rows(step_chart(found), "on_read", "compute", "replica 0")
        assert [(one["step"], *us(one)) for one in boxes] == [
            (step, 1000 * (step - 1), 1000 * step) for step in (1, 2, 3)
        ]

    def test_of_many_that_overlap_one_is_shown_with_what_the_others_do(self) -> None:
        found = apart(outside=(), steps=12)
        assert shown_steps(found) == range(1, 2)
        # Step 1 of replica 1 takes until 3 ms, when the others are through three.
        boxes = rows(step_chart(found), "on_read", "compute", "replica 0")
        assert [one["step"] for one in boxes] == [1, 2, 3]

    def test_of_a_run_that_is_cut_a_whole_step_is_shown(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("varsim.study.program.MOST_ACTS", 30)
        found = result(add(1.0), steps=9)
        assert [last_whole(found, mode) for mode in MODES] == [1, 1, 1]
        assert shown_steps(found) == range(1, 2)
        monkeypatch.setattr("varsim.study.program.MOST_SENT", 3)
        assert "not all is kept" in step_chart(result(add(1.0), steps=9)).remarks["on_write"]


class TestStep:
    def test_boxes_by_hand(self) -> None:
        found = step_chart(apart())
        assert [us(one) for one in rows(found, "on_write", "compute", "replica 0")] == [(0, 1000)]
        assert [us(one) for one in rows(found, "on_write", WAITING)] == [(1000, 3000)] * 2
        writes = rows(found, "on_write", "assign_add")
        assert [us(one) for one in writes] == [(3000, 3000 + RING)] * 3
        assert rows(found, "on_read", WAITING) == []
        (collected,) = rows(found, "on_read", "read", "outside")
        assert us(collected) == (3000, 3000 + COLLECTED)

    def test_what_takes_no_time_is_counted_at_its_moment(self) -> None:
        (own,) = rows(step_chart(result(add(1.0, times=4))), "on_read", "assign_add", "replica 2")
        assert (us(own), own["often"]) == ((0, 0), 4)

    def test_messages_go_between_rows(self) -> None:
        found = step_chart(result(add(1.0)))
        sent = rows(found, "on_read", "message")
        assert [(one["row"], one["to"]) for one in sent] == [
            ("replica 1", "outside"), ("replica 2", "outside"),
        ]  # fmt: skip
        assert {one["to"] for one in rows(found, "none", "message")} == {"ps 0", "outside"}
        assert found.remarks["on_read"].endswith("2 messages")

    @pytest.mark.parametrize(
        ("replica", "why"),
        [(add(1.0, times=9), "too many to draw"), (COMPUTE, "too short to draw")],
    )
    def test_where_they_cannot_be_told_apart_they_are_counted(self, replica: Any, why: str) -> None:
        cluster = {"compute": {"kind": "constant", "value": 10.0}, "network": WIRE}
        cluster = cluster if replica is COMPUTE else {"network": WIRE}
        found = step_chart(result(replica, add(1.0), cluster=cluster, modes=("on_write",)))
        assert found.remarks["on_write"].endswith(why)
        assert rows(found, "on_write", "message") == []

    def test_of_many_replicas_the_slow_ones_are_shown(self) -> None:
        cluster = {
            "workers": 30,
            "compute": {"kind": "constant", "value": 1e-3},
            "slow_workers": ({"rank": 20, "factor": 2.0},),
            "network": WIRE,
        }
        found = step_chart(result(COMPUTE, cluster=cluster, modes=("on_read",)))
        names = list(dict.fromkeys(one["row"] for one in found.rows()))
        assert names == [*(f"replica {rank}" for rank in (*range(11), 20)), "outside"]
        assert found.remarks["on_read"].endswith("12 of 30 replicas")

    def test_all_of_it_is_drawn(self) -> None:
        found = apart()
        figure, axes = drawn([step_chart(found)], found.families)
        assert [one.get_title(loc="left") for one in axes] == list(MODES)
        boxes = [one for one in step_chart(found).rows() if one["activity"] in ACTS]
        lasting = [one for one in boxes if one["end"] > one["start"]]
        paths = [patch.get_path() for one in axes for patch in one.patches]
        assert sum(len(np.asarray(path.vertices)) // 5 for path in paths) == len(lasting)
        (legend,) = figure.legends
        said = {text.get_text() for text in legend.get_texts()}
        assert said == {
            *("compute", WAITING, "assign_add", "assign_add, no time", "read", "read, no time"),
            "message",
        }

    def test_what_takes_no_time_at_all_is_drawn(self) -> None:
        found = result(read(), outside=(), modes=("on_read",))
        assert step_chart(found).remarks["on_read"].endswith("; nothing is sent")
        drawn([step_chart(found)], found.families)

    def test_actions_differ_by_hatch_and_by_mark(self) -> None:
        looks = [look for kind, look in ACTS.items() if kind != WAITING]
        assert len({look.mark for look in looks}) == len(looks)
        assert len({*MARKERS.values()}) == len(ACTS)


def test_modes_over_reads_per_write_with_a_ring_where_two_cross() -> None:
    found = result(add(3.0, 1.0, 2.0, times=4), vary={"reads_per_write": (0, 0.5, 1, 4)})
    (crossover,) = found.report.charts
    every = [one for one in crossover.rows() if one["who"] == "on_read"]
    places = [one["x"] for one in every]
    assert places == pytest.approx([0, 0.5, RING / COLLECTED, 1, SERVED / 4000, 4])
    times = [one["mean"] for one in every]
    assert times == pytest.approx([4e-6 * COLLECTED * ratio for ratio in places])
    assert [one["ring"] for one in every] == [False, False, True, False, True, False]
    (axes,) = drawn([crossover], found.families)[1]
    assert axes.get_ylabel() == "time per step (ms)"
    low, high = axes.get_ylim()
    assert low <= 0 < 4 * 4 * COLLECTED / 1000 <= high
    # What was run has a mark, on the frame, too; what was read off the line has none.
    own = axes.get_lines()[0]
    assert list(own.get_markevery()) == [0, 1, 3, 5]
    assert not own.get_clip_on()
