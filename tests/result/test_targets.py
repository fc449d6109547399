"""Targets: which strategies meet them, and what is said of those that do not."""

import pytest

from tests.building import scenario
from tests.seams import Note, Result, simulate

EXPONENTIAL = {"compute": {"kind": "exponential", "mean": 0.1}}


def result(strategies: tuple[dict[str, object], ...], **changes: object) -> Result:
    return simulate(scenario({}, **{"strategies": strategies, **changes}))


def told(found: Result) -> Note:
    """The sentence of its headline on targets."""
    note: Note
    (note,) = (note for note in found.report.headline if note.code == "target")
    return note


def met(found: Result) -> dict[tuple[str, str], bool]:
    return {(one.target, one.strategy): one.met for one in found.judgements}


def test_each_strategy_meets_or_misses_each() -> None:
    # Three workers of 100 ms: mirrored 30 examples/s; alone 10. Nothing is wasted or stale.
    targets = {
        "throughput": 20.0,
        "wasted_compute": 0.0,
        "staleness_p99": 0.0,
        "step_time_p99": 0.1,
    }
    found = result(({"kind": "on_write"}, {"kind": "single"}), targets=targets)
    assert met(found) == {
        ("throughput", "on_write"): True,
        ("throughput", "single"): False,
        ("wasted_compute", "on_write"): True,
        ("wasted_compute", "single"): True,
        ("staleness_p99", "on_write"): True,
        ("staleness_p99", "single"): True,
        ("step_time_p99", "on_write"): True,
        ("step_time_p99", "single"): True,
    }
    assert told(found).values == {
        "target": "All 4 targets",
        "met": ("all-reduce",),
        "missed": ("one worker",),
    }


def test_a_bound_inside_the_interval_is_undecided() -> None:
    settings = {"cluster": EXPONENTIAL, "replications": 4, "stop": {"global_steps": 50}}
    rate = result(({"kind": "on_write"},), **settings).estimate("on_write", "examples_per_s")
    for bound, verdict in (
        (rate.low, "met"),
        (rate.mean - 1e-3, "unsure"),
        (rate.mean + 1e-3, "unsure"),
        (rate.high, "missed"),
    ):
        found = result(({"kind": "on_write"},), targets={"throughput": bound}, **settings)
        (one,) = found.judgements
        assert told(found).values[verdict] == ("all-reduce",)
        assert (one.met, one.missed) == (verdict == "met", verdict == "missed")
        codes = [note.code for note in found.report.notes]
        assert ("undecided-interval" in codes) is bool(one.doubt)


def test_one_replication_of_something_random_decides_nothing() -> None:
    targets = {"throughput": 1.0, "wasted_compute": 0.5}
    found = result(({"kind": "on_write"},), cluster=EXPONENTIAL, targets=targets)
    assert [(one.met, one.missed, one.doubt) for one in found.judgements] == [
        (False, False, "once")
    ] * 2
    assert told(found).values["unsure"] == ("all-reduce",)
    assert "undecided-once" in [note.code for note in found.report.notes]
    assert all(one.met for one in result(({"kind": "on_write"},), targets=targets).judgements)


def test_runs_that_are_too_short_decide_nothing() -> None:
    # A step of all workers is one gradient of each; two are the least that says anything.
    targets = {"throughput": 20.0, "loss": 1e-3, "time_to_target": 0.05}
    found = result(({"kind": "on_write"},), stop={"global_steps": 1}, targets=targets)
    of_rate, of_loss = found.judgements
    assert of_rate.doubt == "short"
    assert "undecided-short" in [note.code for note in found.report.notes]
    assert of_loss.missed  # the run ends after 100 ms, later than these 50


def test_a_loss_that_is_not_reached_is_missed_once_its_time_is_over() -> None:
    # Three updates, 100 ms each.
    for bound, verdict in ((10.0, "unsure"), (0.2, "missed")):
        targets = {"loss": 1e-9, "time_to_target": bound}
        found = result(({"kind": "on_write"},), targets=targets)
        assert not met(found)["time_to_target", "on_write"]
        assert told(found).values[verdict] == ("all-reduce",)


def test_who_stands_still_misses() -> None:
    events = ({"at": 0.25, "kill": {"worker": 0}},)
    found = result(({"kind": "on_write"},), events=events, targets={"wasted_compute": 0.5})
    assert not met(found)["wasted_compute", "on_write"]
    assert told(found).values["missed"] == ("all-reduce",)


def test_a_time_to_no_loss_is_refused() -> None:
    with pytest.raises(ValueError, match=r"targets\.time_to_target needs targets\.loss"):
        scenario({"kind": "on_write"}, targets={"time_to_target": 10.0})
    with pytest.raises(ValueError, match="problem timing has no loss"):
        scenario(
            {"kind": "on_write"},
            problem={"kind": "timing", "size": 1e6},
            workload={"optimizer": None},
            targets={"time_to_target": 10.0},
        )
