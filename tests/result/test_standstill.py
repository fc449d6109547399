"""What a result says of strategies that deadlocked."""

import json
from pathlib import Path

import pytest

from tests.building import kill, scenario
from tests.handmade import SECOND, a_scenario, a_trace, alone, result_of
from tests.seams import Note, Outcome, Result, Standstill, Trace, simulate

REPORT = "stuck: the run deadlocked at 4 s\n  worker 0: waiting for x\n  to free it: restart it"


def stuck(label: str = "stuck", time: int = 4, replication: int = 0, pace: int = 1) -> Trace:
    """A run of 10 s (times `pace`) that stood still from some second on."""
    standstill = Standstill(time * SECOND, REPORT)
    return a_trace(label, replication, pace, stopped_by="deadlock", standstill=standstill)


def twice(*times: int | None) -> Result:
    """Two strategies; 'stuck' stands still in those of two replications that have a time."""
    runs = [
        a_trace("stuck", number) if time is None else stuck("stuck", time, number)
        for number, time in enumerate(times)
    ]
    fine = [a_trace("fine", number, pace=2) for number in range(2)]
    made = a_scenario(["stuck", "fine"], replications=2)
    return Result(made, runs + fine, [alone(0), alone(1)])


def test_it_is_not_compared_with_the_others() -> None:
    # It would be the fastest: all its times are half of those of the others.
    result = result_of([stuck(), a_trace("b", pace=2), a_trace("c", pace=3)])

    assert list(result.standstills) == ["stuck"]
    assert result.compared == ("b", "c")
    (first,) = result.report.headline
    assert (first.code, first.values["tied"]) == ("too-few", ("b", "c"))
    assert result.report.table.rows == ("b", "c", "stuck")
    assert result.report.notes[0].code == "deadlock"


def test_it_does_not_shorten_the_time_of_the_comparison() -> None:
    result = result_of([stuck(), a_trace("b", pace=2), a_trace("c", pace=3)])

    assert result.common_end == 20 * SECOND
    assert result.estimate("b", "loss_at_100").note.startswith("at 20 s")
    # What it measured last holds.
    assert result.estimate("stuck", "loss_at_100").mean == 0.5


def test_the_table_says_since_when() -> None:
    result = result_of([stuck(), a_trace("b")])
    assert result.table()["deadlocked"].tolist() == ["-", "4 s"]
    assert "deadlocked" not in result_of([a_trace("a"), a_trace("b")]).table()


@pytest.mark.parametrize(
    ("times", "often"),
    [((4, 4), ""), ((6, 4), ""), ((None, 4), ", in 1 of 2 replications")],
)
def test_it_is_said_how_often(times: tuple[int | None, ...], often: str) -> None:
    result = twice(*times)
    (note,) = (note for note in result.report.notes if note.code == "deadlock")
    assert note.values["often"] == often
    assert result.table().loc["stuck", "deadlocked"] == "4 s"


def test_where_all_stand_still_nothing_is_compared() -> None:
    result = result_of([stuck("a"), stuck("b", 7)])
    assert result.report.headline == (Note("none-compared", {"who": ("a", "b")}),)
    assert result.common_end == 10 * SECOND


def test_the_events_are_noted() -> None:
    events = tuple({"at": float(at), "kill": {"worker": at}} for at in (0, 1))
    result = result_of([a_trace()], events=events)
    (note,) = (note for note in result.report.notes if note.code == "events")
    assert note.values["events"] == ("worker 0 is killed at 0 s", "worker 1 is killed at 1 s")


def test_the_error_holds_all_reports() -> None:
    result = result_of([stuck("a"), a_trace("b"), stuck("c")])
    assert str(result.deadlock) == f"{REPORT}\n{REPORT}"
    assert result_of([a_trace()]).deadlock is None
    assert str(twice(None, 4).deadlock) == (
        f"{REPORT}\n  (replication 1; in 'stuck' 1 of 2 replications deadlock)"
    )


def test_it_is_saved(tmp_path: Path) -> None:
    result = result_of([stuck(), a_trace("b")])
    directory = result.save(tmp_path / "run").parent
    facts = json.loads((directory / "summary.json").read_text())
    assert [run["stopped_by"] for run in facts["runs"]] == ["deadlock", "global_steps"]
    assert facts["runs"][0]["standstill"] == {"time": 4 * SECOND, "report": REPORT}
    assert facts["runs"][1]["standstill"] is None


@pytest.fixture(scope="module")
def result() -> Result:
    """Of three workers one dies at 450 ms, with a backup and without."""
    strategies = (
        {"kind": "sync_replicas", "replicas_to_aggregate": 3, "name": "no backup"},
        {"kind": "sync_replicas", "replicas_to_aggregate": 2, "name": "a backup"},
    )
    events = (kill(0.45, 1),)
    return simulate(scenario({}, strategies=strategies, stop={"time": 1.0}, events=events))


class TestOfARealRun:
    def test_one_stands_still_and_the_other_does_not(self, result: Result) -> None:
        assert list(result.standstills) == ["no backup"]
        assert result.runs["stopped_by"].tolist() == ["deadlock", "time"]

    def test_a_lost_gradient_is_wasted_and_counts_as_dropped(self, result: Result) -> None:
        # Updates at 100, 300 and 400; dropped: three at 200, and the one that was lost at 450,
        # after 50 ms. In all three workers computed for 500, one for 450.
        (trace, _) = result.traces
        assert result.estimate("no backup", "gradients_dropped").mean == 4
        wasted = result.estimate("no backup", "wasted_compute").mean
        assert wasted == pytest.approx((3 * 100 + 50) / (2 * 500 + 450))
        assert (trace.gradients[:, 9] == Outcome.LOST).sum() == 1
        lost = result.updates.query("outcome == 'lost' and strategy == 'no backup'")
        assert lost["computed_s"].isna().all()
        assert lost["ended_s"].tolist() == [0.45]

    def test_its_waiting_counts(self, result: Result) -> None:
        # Three updates in a second; one of three workers down for 550 ms, two wait for 500.
        assert result.estimate("no backup", "updates_per_s").mean == 3
        assert result.estimate("no backup", "share_down").mean == pytest.approx(0.55 / 3)
        assert result.estimate("no backup", "share_token").mean == pytest.approx(1.0 / 3)

    def test_the_yardstick_lives(self, result: Result) -> None:
        assert [trace.standstill for trace in result.reference] == [None]
        dead = simulate(scenario({"kind": "none"}, events=(kill(0.15, 0),)))
        assert dead.reference[0].stopped_by == "global_steps"


def test_measures_of_a_lost_gradient_count_until_its_end() -> None:
    trace = a_trace()
    gradients = trace.gradients.copy()
    gradients[2, 5:10] = (-1, -1, 6 * SECOND, 2, Outcome.LOST)  # began at 4 s
    changed = a_trace(gradients=gradients)
    results = [Result(a_scenario(), [one], []) for one in (trace, changed)]
    wasted, dropped = (
        [one.estimate("none", name).mean for one in results]
        for name in ("wasted_compute", "gradients_dropped")
    )
    assert wasted[0] == wasted[1] > 0
    assert dropped == [1, 1]
