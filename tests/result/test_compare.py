"""Scenarios side by side: pairs by hand, what is run, what differs, and what is refused."""

import math
from pathlib import Path
from typing import Any

import pytest

import varsim
from tests.reports import cells
from varsim import Scenario

SMALL = Path(__file__).parents[1] / "small.yaml"
FAST: Any = {"cluster.slow_workers": []}
TIMED: Any = {
    "name": "timed",
    "cluster": {
        "workers": 2,
        "compute": {"kind": "constant", "value": "100 ms"},
        "network": {"kind": "star", "bandwidth": "10 Gbit/s", "latency": "0 s"},
    },
    "workload": {"problem": {"kind": "timing", "size": "1 B"}, "batch_size": 4},
    "strategies": [{"kind": "on_write"}],
    "stop": {"global_steps": 10},
}


@pytest.fixture(scope="module")
def small() -> Scenario:
    made: Scenario = varsim.load(SMALL)
    return made


def timed(**changes: Any) -> Scenario:
    made: Scenario = varsim.load(TIMED, changes)
    return made


def test_a_ratio_by_hand() -> None:
    slow = timed(name="slow").replace({"cluster.slow_workers": [{"rank": 1, "factor": 4}]})
    found = varsim.compare(timed(), slow)
    assert found.ratios()["on_write"][:3] == pytest.approx((0.25, 0.25, 0.25), rel=1e-6)
    assert [note.code for note in found.report.headline] == ["compared"]
    assert found.replications == 1
    assert found.exact
    assert {note.code for note in found.report.notes} == {"differs", "exact"}
    assert [one.mean for one in cells(found.report, "ratio slow")] == pytest.approx([0.25])


def test_another_model_and_batch_size_are_told_first() -> None:
    workload = {"model": "resnet50", "problem": {"kind": "timing"}, "batch_size": 8}
    other = timed(name="other").replace({"cluster.workers": 3, "workload": workload})
    told = list(varsim.compare(timed(), other).differences(1))
    assert told[:3] == ["workload.model", "workload.batch_size", "cluster.workers"]


def test_pairs_are_of_the_same_replication(small: Scenario) -> None:
    one, two = small.run(), small.replace(FAST).run()
    found = varsim.compare(one, two)
    assert list(found.ratios()) == ["on_write", "async"]
    for label, times in found.ratios().items():
        above, below = (each.values(label, "examples_per_s") for each in (two, one))
        ratios = [a / b for a, b in zip(above, below, strict=True)]
        assert times.mean == pytest.approx(math.sqrt(math.prod(ratios)))
        assert min(ratios) <= times.mean <= max(ratios)


def test_it_is_the_same_of_files_results_and_directories(small: Scenario, tmp_path: Path) -> None:
    other = small.replace(FAST)
    live = varsim.compare(small.run(), other.run())
    places = [
        each.run().save(tmp_path / name).parent for name, each in (("a", small), ("b", other))
    ]
    for given in ((SMALL, other), (places[0], other), tuple(map(str, places))):
        found = varsim.compare(*given)
        assert found.ratios() == live.ratios()
        assert found.frame()[["mean", "low", "high"]].equals(live.frame()[["mean", "low", "high"]])
        assert found.sha256 == live.sha256
        assert [one.code for one in found.report.notes] == ["differs", "interval"]


def test_what_is_run_gets_the_seed_of_the_first_and_the_most_replications(small: Scenario) -> None:
    other = small.replace(seed=5, replications=3)
    found = varsim.compare(small, other)
    assert [(s.scenario.seed, s.scenario.replications) for s in found.sides] == [(3, 3), (3, 3)]
    assert found.ratios()["async"][:3] == (1, 1, 1)
    after = varsim.compare(other, small.run())
    assert [(s.scenario.seed, s.scenario.replications) for s in after.sides] == [(3, 2), (3, 2)]
    (note,) = [one for one in after.report.notes if one.code == "redrawn"]
    assert note.values["who"] == ("small (1)",)


def test_a_path_and_what_was_loaded_of_one_name_are_numbered() -> None:
    loaded = varsim.load("slow_worker", {"stop.time": 2}, ["single"])
    found = varsim.compare("slow_worker", loaded, sets={"stop.time": 2}, strategies=["single"])
    assert [side.name for side in found.sides] == ["slow_worker (1)", "slow_worker (2)"]


def test_several_are_each_compared_with_the_first() -> None:
    every = [
        timed(name=f"x{factor}").replace({"cluster.slow_workers": [{"rank": 0, "factor": factor}]})
        for factor in (1, 2, 4)
    ]
    found = varsim.compare(*every)
    assert found.ratios(1)["on_write"].mean == pytest.approx(0.5, rel=1e-6)
    assert found.ratios(2)["on_write"].mean == pytest.approx(0.25, rel=1e-6)
    assert [one.values["other"] for one in found.report.headline] == ["x2", "x4"]


def test_a_strategy_by_another_name_is_found_by_its_kind() -> None:
    found = varsim.compare(timed(), timed(name="other", strategies=[{"kind": "ddp"}]))
    assert found.rows == (("on_write", "ddp"),)
    two = [{"kind": "ddp"}, {"kind": "mirrored"}]
    with pytest.raises(ValueError, match="no strategy is in all of them: timed has on_write; o"):
        varsim.compare(timed(), timed(name="other", strategies=two))


def test_what_differs() -> None:
    content = {**TIMED, "name": "other", "seed": 9}
    network = {"kind": "full_mesh", "bandwidth": "10 Gbit/s", "latency": "1 ms"}
    content["cluster"] = {**TIMED["cluster"], "workers": 3, "network": network}
    content["strategies"] = [{"kind": "on_write", "bucket_size": "1 MB"}, {"kind": "none"}]
    found = varsim.compare(timed(), content)
    differ = found.differences(1)
    assert differ["cluster.workers"] == ("2", "3")
    assert differ["strategies.on_write.bucket_size"] == ("none", "1 MB")
    assert [each[:12] for each in differ["cluster.network"]] == ["{kind: star,", "{kind: full_"]
    assert len(differ) == 3
    assert [one.code for one in found.report.notes][:3] == ["differs", "redrawn", "not-in-all"]


def test_another_metric() -> None:
    found = varsim.compare(
        timed(),
        timed(name="b", strategies=[{"kind": "single"}]).replace(
            strategies=[{"kind": "on_write", "micro_batches": 2}]
        ),
        metric="step_time_mean",
    )
    assert found.ratios()["on_write"].mean > 1.5
    assert found.report.headline[0].values["what"] == "step_time_mean"


def test_programs_of_variables() -> None:
    with pytest.raises(ValueError, match="metric_sum: no metric 'examples_per_s'; did"):
        varsim.compare(timed(strategies=[{"kind": "on_write"}]), "metric_sum")
    found = varsim.compare("metric_sum", "metric_sum", names=["a", "b"])
    assert found.metric == "updates_per_s"
    assert {one.mean for one in found.ratios().values()} == {1}


def test_where_failures_undo_work_what_is_kept_counts() -> None:
    calm = "one_failure_a_day"
    asked = varsim.load(calm, replications=1)
    without = varsim.load(
        asked, {"failures": None, "checkpoint": None, "recovery": None, "targets": {}}
    )
    found = varsim.compare(without, asked)
    assert found.metric == "kept_examples_per_s"
    assert max(one.mean for one in found.ratios().values()) < 1


def test_what_deadlocks_has_no_ratio() -> None:
    both = [{"kind": "on_write"}, {"kind": "none"}]
    given = [timed(strategies=both), timed(name="dies", strategies=both)]
    given[1] = given[1].replace(events=[{"at": "350 ms", "kill": {"worker": 1}}])
    found = varsim.compare(*given)
    assert math.isnan(found.ratios()["on_write"].mean)
    assert "deadlocked-there" in {note.code for note in found.report.notes}


def test_what_cannot_be_compared(small: Scenario, tmp_path: Path) -> None:
    one, more, other = (small.replace(c).run() for c in ({}, {"replications": 3}, {"seed": 4}))
    with pytest.raises(ValueError, match="paired by replication: replications is 2 in small"):
        varsim.compare(one, more)
    with pytest.raises(ValueError, match=r"seed is 3 in small .1. and 4 in small .2."):
        varsim.compare(one, other)
    with pytest.raises(ValueError, match=r"small .1.: no metric 'example'"):
        varsim.compare(one, one, metric="example")
    with pytest.raises(ValueError, match="a sweep is not one run"):
        varsim.compare(small, "scale_out")
    with pytest.raises(FileExistsError, match="holds no results"):
        varsim.compare(small, tmp_path)
    with pytest.raises(TypeError, match="a scenario is a path"):
        varsim.compare(small, 3)


def test_it_is_saved_with_its_page_and_picture(small: Scenario, tmp_path: Path) -> None:
    found = varsim.compare(small, small.replace(FAST, name="fast"))
    page = found.save(tmp_path / "made")
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"report.html", "comparison.png", "comparison.csv", "comparison.json"}
    assert dir(found.plot) == ["comparison"]
    axes = found.plot.comparison()
    assert [len(one.patches) for one in axes] == [2, 2]
