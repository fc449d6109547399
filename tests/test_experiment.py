"""Experiments from Python: a path, a text or a dict of any kind, and what the verbs return."""

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import varsim
from tests.seams import Result, load_scenario

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios"
SMALL = HERE / "small.yaml"


def said() -> dict[str, Any]:
    return {
        "name": "said",
        "replications": 2,
        "cluster": {
            "workers": 2,
            "compute": {"kind": "shifted_exponential", "minimum": "8 ms", "mean": "10 ms"},
            "parameter_servers": 1,
            "network": {"kind": "star", "bandwidth": "1 Gbit/s", "latency": "20 us"},
        },
        "workload": {
            "problem": {"kind": "quadratic", "dimension": 3},
            "batch_size": 4,
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "strategies": [{"kind": "none"}, {"kind": "on_write"}],
        "stop": {"examples": 160},
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("quickstart", "training"),
        ("metric_sum", "variables"),
        ("scale_out", "sweep"),
        ("plan_resnet50", "plan"),
    ],
)
def test_a_file_of_every_kind_is_loaded(name: str, kind: str) -> None:
    assert varsim.load(SCENARIOS / f"{name}.yaml").kind == kind
    assert varsim.load(str(SCENARIOS / f"{name}.yaml")).kind == kind


def test_a_text_and_a_path_are_the_same_scenario() -> None:
    of_text, of_path = varsim.load(SMALL.read_text()), varsim.load(SMALL)
    assert of_text == of_path == load_scenario(SMALL)


def test_what_is_loaded_is_the_scenario_itself() -> None:
    scenario = varsim.load(SMALL)
    assert (scenario.kind, scenario.cluster.workers) == ("training", 3)
    assert varsim.load(scenario) is scenario
    assert scenario == load_scenario(SMALL)


def test_what_is_loaded_is_loaded_again_with_changes_and_strategies() -> None:
    given = varsim.load(SMALL)
    changed = varsim.load(given, "seed=3", "on_write")
    assert (changed.seed, [s.kind for s in changed.strategies]) == (3, ["on_write"])
    assert changed.cluster == given.cluster
    with pytest.raises(varsim.ScenarioError, match=r"^sed=3: error: .*did you mean 'seed'"):
        varsim.run(given, ["sed=3"])


def test_values_are_changed_by_their_paths_with_numbers_in_si() -> None:
    scenario = varsim.load(SMALL)
    paths = {"cluster.network.bandwidth": 2.5e8, "cluster.network.latency": "9 us"}
    changed = scenario.replace(paths, seed=3)
    assert (changed.seed, changed.cluster.network.worker_rate) == (3, 2.5e8)
    assert changed.cluster.network.delay == 9e-6
    assert changed == varsim.load(SMALL, ["cluster.network.bandwidth=2 Gbit/s", *TWO])
    assert scenario.replace({"cluster.slow_workers": []}).cluster.slow_workers == ()
    alone = scenario.replace(strategies=[{"kind": "on_write"}])
    assert [one.kind for one in alone.strategies] == ["on_write"]
    with pytest.raises(varsim.ScenarioError, match=r"did you mean 'seed'"):
        scenario.replace(sed=3)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("path", ["stop.time", "cluster.network.bandwidth"])
def test_a_number_that_is_none_is_an_error_at_its_path(path: str, value: float) -> None:
    with pytest.raises(varsim.ScenarioError, match=f"{path}: infinity and nan are not possible"):
        varsim.load(SMALL).replace({path: value})


def test_an_engine_that_is_not_there_is_an_error_of_the_argument() -> None:
    wrong: Any = "foo"
    with pytest.raises(ValueError, match=r"^engine is auto, simpy or fast, not 'foo'"):
        varsim.run(SMALL, engine=wrong)


@pytest.mark.parametrize("who", ["rank: 1", "ranks: 0-1", "ranks: [0, 2]"])
def test_who_is_slow_is_written_as_it_was_given(who: str) -> None:
    given = varsim.load(SMALL, [f"cluster.slow_workers=[{{{who}, factor: 2}}]"])
    assert f"- {who}\n" in repr(given)
    assert varsim.load(repr(given)) == given


def test_an_explanation_and_a_check_have_the_numbers_of_their_tables_as_frames() -> None:
    why, checked = varsim.explain(said()).frame(), varsim.check(said()).frame()
    for frame in (why, checked):
        assert list(frame["strategy"]) == ["none", "on_write"]
        assert frame["compute"].between(0, 1).all()
    assert why["step_time_half_width"].gt(0).all()
    assert checked["step_s"].gt(0).all()
    assert checked["write"].max() > 0
    space = {**said(), "sweep": {"cluster.workers": [1, 2]}}
    assert varsim.check(space).frame()["count"].tolist() == [2]


def test_who_is_slow_is_swept() -> None:
    changes = ["cluster.slow_workers=[{ranks: 0-0, factor: 2}]", "replications=1"]
    paths = ["cluster.slow_workers.0.ranks=0-0,0-2,[0, 1, 2]"]
    table = varsim.sweep(varsim.load(SMALL, changes), paths, strategies="on_write")
    one, every, listed = (row.estimate("step_time_mean").mean for row in table.rows)
    assert one < every == listed


TWO = ("cluster.network.latency=9 us", "seed=3")


def test_what_was_loaded_stands_inside_a_change() -> None:
    scenario = varsim.load(SCENARIOS / "quickstart.yaml")
    ssp = {"kind": "ssp", "staleness": 3, "optimizer": scenario.strategies[1].optimizer}
    (changed,) = scenario.replace(strategies=[ssp]).strategies
    assert changed.optimizer == scenario.strategies[1].optimizer
    with pytest.raises(TypeError, match=r"holds numbers, texts, lists and dicts, not \{1\}"):
        scenario.replace(strategies=[{**ssp, "staleness": {1}}])


def test_verbs_take_the_same_changes() -> None:
    base = {"stop.examples": 80}
    result = varsim.run(said(), base, replications=1, engine="simpy")
    assert (result.replications, result.scenario.stop.examples) == (1, 80)
    assert varsim.check(said(), base)[0].strategy.label == "none"
    table = varsim.sweep(said(), {"cluster.network.bandwidth": [1e8, 2e8], **base})
    assert sorted({*table.frame()["cluster.network.bandwidth_bytes_per_s"]}) == [1e8, 2e8]


def test_every_result_has_a_frame_runs_a_ranking_and_plots(tmp_path: Path) -> None:
    table = varsim.sweep(said(), {"cluster.workers": [1, 2]}, most_replications=2)
    assert len(table.runs) == table.frame()["replications"].sum()
    ranking = table.ranking("examples_per_s", highest=True)
    assert ranking is not None
    assert ranking.best[0] in ("none", "on_write")
    with pytest.raises(ValueError, match="did you mean examples_per_s"):
        table.ranking("examples_per")
    result = varsim.run(said())
    assert result.frame().equals(result.summary)
    found = varsim.tune(said(), {"targets.loss": 0.5}, rates=[0.1, 0.2])
    assert [one.label for one in found.tuned] == ["none", "on_write"]
    assert set(found.frame()["learning_rate"]) == {0.1, 0.2}
    assert len(found.runs) == found.frame()["replications"].sum()
    for tuned in (found.ranking(), found.ranking(found.goal.metric)):
        assert tuned is None or tuned.best in ("none", "on_write")
    asked = {"minimize": "workers", "space": {"cluster.workers": [1, 2]}}
    plan = varsim.plan({**said(), "targets": {"throughput": "1 examples/s"}, "plan": asked})
    cheapest = plan.ranking("workers")
    assert cheapest is not None
    assert set(plan.runs.query(f"configuration == {cheapest.best}")["workers"]) == {1}
    assert list(plan.frame()["configuration"]) == sorted({*plan.runs["configuration"]})
    modes = varsim.run(SCENARIOS / "metric_sum.yaml").ranking("step_time_mean")
    assert modes.best in ("none", "on_read", "on_write")
    with pytest.raises(ValueError, match="no loss"):
        varsim.tune(SCENARIOS / "metric_sum.yaml")


def test_a_sweep_that_is_loaded_keeps_its_strategies() -> None:
    some = varsim.load(SCENARIOS / "scale_out.yaml", strategies=["none"])
    again = varsim.load(some, ["replications=1"])
    assert again.strategies == ("none",)
    assert {point.scenario.replications for point in again.points} == {1}


def test_a_dict_is_run_with_changes_and_strategies() -> None:
    result = varsim.run(said(), ["replications=3"], strategies=["on_write"])
    assert isinstance(result, Result)
    assert result.strategies == ("on_write",)
    assert result.replications == 3


def test_a_dict_that_is_wrong_is_told_by_its_keys_without_lines() -> None:
    wrong = said()
    wrong["cluster"]["wrokers"] = wrong["cluster"].pop("workers")
    wrong["stop"] = {"examples": "5 s"}
    with pytest.raises(varsim.ScenarioError) as caught:
        varsim.load(wrong)
    assert str(caught.value).splitlines() == [
        "scenario: error: cluster: unknown key 'wrokers'; did you mean 'workers'?",
        "scenario: error: stop.examples must be a whole number above 0, not '5 s'; it has no unit",
    ]


@pytest.mark.parametrize("wrong", [{"name": {1, 2}}, {"seed": float("nan")}, {"seed": object()}])
def test_a_dict_of_anything_else_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(varsim.ScenarioError, match="not made of mappings, lists, texts and numb"):
        varsim.load(wrong)


def test_a_sweep_gives_the_same_table_in_any_directory_and_number_of_processes(
    tmp_path: Path,
) -> None:
    done: list[tuple[int, int]] = []
    sets = ["cluster.workers=2,4"]
    table = varsim.sweep(said(), sets, most_replications=2, progress=lambda *now: done.append(now))
    assert done[-1] == (8, 8)
    kept = varsim.sweep(said(), sets, most_replications=2, jobs=2, directory=tmp_path / "a")
    assert kept.sha256 == table.sha256
    assert (tmp_path / "a" / "runs.jsonl").exists()
    again: list[tuple[int, int]] = []
    varsim.sweep(
        said(),
        sets,
        most_replications=2,
        directory=tmp_path / "a",
        progress=lambda *now: again.append(now),
    )
    assert again == []
    assert list(table.frame()["strategy"]) == ["none", "on_write"] * 2


def test_a_sweep_of_strategies_that_are_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no strategy 'nonee' in this scenario; it has: none, "):
        varsim.sweep(said(), ["cluster.workers=2,4"], strategies=["nonee"])


def test_a_plan_gives_its_answer() -> None:
    asked = said() | {
        "targets": {"throughput": "300 examples/s"},
        "plan": {"minimize": "workers", "space": {"cluster.workers": [1, 2, 4]}},
    }
    found = varsim.plan(asked)
    assert found.best is not None
    assert found.scenario is not None
    assert found.scenario.cluster.workers == 1
    assert varsim.run(asked).sha256 == found.sha256
    assert found.answer()


def test_a_plan_shows_what_it_asks_and_the_scenario_that_its_space_lies_around() -> None:
    asked = {"minimize": "workers", "space": {"cluster.workers": [1, 2, 4]}}
    plan = varsim.load({**said(), "targets": {"throughput": "1 examples/s"}, "plan": asked})
    head = "# the least workers over\n# cluster.workers: 1, 2, 4\nname: said\n"
    assert head in repr(plan)


def test_a_sweep_of_one_point_has_its_share_that_does_not_matter() -> None:
    sweep = {**said(), "report": {"equal_within": 0.05}, "sweep": {"cluster.workers": [2]}}
    assert varsim.sweep(sweep).equal_within == 0.05


def test_training_and_variables_are_checked_by_how_they_begin() -> None:
    training = varsim.load(said())
    assert training.kind == "training"
    assert [one.strategy.label for one in training.check()] == ["none", "on_write"]
    none, on_write = (one.update for one in training.check())
    assert 0.004 < none < 0.008 < on_write < 0.02  # two workers, 10 ms each on average
    program = varsim.load(SCENARIOS / "metric_sum.yaml")
    assert len(program.check()) == len(program.all_modes)


def test_training_is_explained_and_a_sweep_is_not() -> None:
    why = varsim.explain(said(), strategies=["on_write"])
    assert [one.label for one in why.accounts] == ["on_write"]
    with pytest.raises(ValueError, match="explain one of them"):
        varsim.explain(SCENARIOS / "scale_out.yaml")


def test_the_first_steps_of_variables_are_told() -> None:
    steps = varsim.explain(SCENARIOS / "metric_sum.yaml")
    assert isinstance(steps, list)
    assert all(one.rows for one in steps)
    assert [note.code for note in steps.report.headline] == ["steps-shown"]
    assert "\non_write: " in repr(steps)
    assert max(map(len, repr(steps).splitlines())) <= 100


def test_measured_files_become_a_part_of_a_scenario() -> None:
    file = HERE / "data" / "calibration" / "all_reduce_16.txt"
    found = varsim.calibrate([file])
    assert varsim.calibrate(file) == varsim.calibrate(str(file)) == found
    assert "cluster:" in found.lines
    assert any(line.strip().startswith("network:") for line in found.lines)


def test_sweeps_and_plans_are_checked_from_python_too() -> None:
    sweep = varsim.load({**said(), "sweep": {"cluster.workers": [1, 2]}})
    (valid,) = sweep.check().report.headline
    assert (valid.code, valid.values["points"], valid.values["rows"]) == ("valid-sweep", 2, 4)
    asked = {"minimize": "workers", "space": {"cluster.workers": [1, 2]}}
    targets = {"throughput": "1 examples/s"}
    plan = varsim.load({**said(), "targets": targets, "plan": asked})
    assert [note.code for note in plan.check().report.headline] == ["valid-plan", "asked"]


def test_one_change_or_strategy_may_stand_alone() -> None:
    alone = varsim.load(said(), "seed=5", "on_write")
    assert alone == varsim.load(said(), ["seed=5"], ["on_write"])
    table = varsim.sweep(said(), "cluster.workers=2,3", strategies="none")
    assert len(table.rows) == 2


def test_what_was_loaded_is_swept_and_planned_like_its_file() -> None:
    sets = ["cluster.workers=2,3"]
    table = varsim.sweep(said(), sets, strategies="none")
    loaded = varsim.load(said())
    for given in (loaded, loaded.replace()):
        assert varsim.sweep(given, sets, strategies="none").frame().equals(table.frame())
    of_two = varsim.load({**said(), "sweep": {"cluster.workers": [2, 3]}}, strategies=["none"])
    assert varsim.sweep(of_two).frame().equals(table.frame())
    with pytest.raises(varsim.ScenarioError, match=r"no 'workerz'; did you mean 'cluster.workers'"):
        varsim.sweep(loaded, ["cluster.workerz=2,3"])
    with pytest.raises(varsim.ScenarioError, match=r"^scenario: error: nothing to sweep"):
        varsim.sweep(loaded)

    asked = {"minimize": "workers", "space": {"cluster.workers": [1, 2]}}
    plan = {**said(), "targets": {"throughput": "1 examples/s"}, "plan": asked}
    answer = varsim.plan(plan).answer()
    assert varsim.plan(varsim.load(plan)).answer() == answer
    with pytest.raises(ValueError, match="asked as it is"):
        varsim.plan(varsim.load(plan), minimize="workers")
    with pytest.raises(varsim.ScenarioError, match="nothing is asked"):
        varsim.plan(loaded)


def test_a_metric_of_ones_own_is_a_number() -> None:
    result = varsim.run(said())
    assert result.measure(lambda trace: trace.end > 0)["none"].mean == 1
    with pytest.raises(TypeError, match="a metric gives a number for each trace, not 'soon'"):
        result.measure(lambda trace: "soon")


@pytest.mark.parametrize("nothing", [42, None])
def test_what_is_no_scenario_is_refused(nothing: Any) -> None:
    with pytest.raises(TypeError, match=f"a path, a text or a dict, not {nothing}"):
        varsim.load(nothing)
    with pytest.raises(TypeError, match=r"not a Result$"):
        varsim.sweep(varsim.run(said()))


def test_names_that_are_not_ours_are_not_offered() -> None:
    offered = {name for name in dir(varsim) if not name.startswith("_")}
    assert set(varsim.__all__) - {"__version__"} <= offered
    assert not offered & {"TYPE_CHECKING", "import_module"}


def test_a_run_is_shown_in_a_line_and_asked_for_by_its_strategy() -> None:
    result = varsim.run(said())
    trace = result.trace("on_write")
    made = f"{trace.global_step} updates in {trace.end / 1e9:g} s, {len(trace.gradient_rows)}"
    assert repr(trace) == f"<Trace of on_write, replication 0: {made} gradients>"
    with pytest.raises(ValueError, match="did you mean on_write"):
        result.trace("on_wriet")


def test_a_place_that_cannot_be_written_is_the_only_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = varsim.run(said())
    missing = tmp_path / ("a" * 300)
    with pytest.raises(OSError, match="too long") as caught:
        result.save(missing)
    assert str(caught.value).endswith(f": {str(missing)!r}")


@pytest.mark.slow
def test_the_page_about_python_is_typed(tmp_path: Path) -> None:
    page = (HERE.parent / "docs/how_to/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "user.py").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "Success" in done.stdout, done.stdout


def test_a_plan_says_that_workers_without_a_price_were_taken_for_nothing() -> None:
    asked = {"minimize": "cost_per_hour", "space": {"cluster.workers": [1, 2]}}
    priced = {"prices": {"server_hour": 1.0}, "targets": {"throughput": "600 examples/s"}}
    assert "give prices.device_hour" in str(varsim.plan({**said(), **priced, "plan": asked}))
