"""`check`: what a scenario is in plain words, and what its beginning shows, times only."""

import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.building import scenario
from tests.reports import cells
from tests.seams import Result as Finding
from tests.seams import app as cli
from tests.seams import load_scenario, simulate
from varsim import Scenario, load
from varsim.learning.problem import Quadratic
from varsim.report.told import Number, Report
from varsim.study import simulation
from varsim.study.beginning import ITERATIONS, Beginning, begin, gradients, rates
from varsim.study.experiment import Checked
from varsim.study.metrics import ACTIVITIES

SCENARIOS = Path(__file__).parent.parent / "scenarios"
QUICKSTART = SCENARIOS / "quickstart.yaml"
# 1,000 parameters of 4 bytes: 4 ms on a link of 1 MB/s.
WIRE = {"bandwidth": 1e6, "latency": 1e-3, "sharing": "fair"}
CHANGES: dict[str, Any] = {
    "cluster": {
        "workers": 4,
        "parameter_servers": 2,
        "slow_workers": ({"rank": 3, "factor": 3.0},),
    },
    "network": WIRE,
    "problem": {"dimension": 1000},
}
MIRRORED: dict[str, Any] = {**CHANGES, "cluster": {**CHANGES["cluster"], "parameter_servers": 1}}
MANY = """\
name: many
cluster:
  workers: 2
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 1 MB/s, latency: 20 us}
workload: {problem: {kind: timing, size: 1 MB}, batch_size: 1}
strategies: [{kind: none}]
stop: {time: 100 s}
"""
PLAN = """\
targets: {throughput: 1 examples/s}
prices: {device_hour: 1.0}
plan: {minimize: cost_per_hour, space: {cluster.workers: [2, 4, 8]}}
"""
LONG: dict[str, Any] = {"stop": {"global_steps": 10_000}}


def check(*arguments: object) -> Result:
    done = CliRunner().invoke(cli.app, ["check", *map(str, arguments)])
    assert "Traceback" not in done.stderr
    return done


def first(made: Scenario, events: int | None = None) -> Beginning:
    (found,) = begin(made, events)
    return found


def told(*begun: Beginning, of: Scenario) -> Report:
    """What is told of these beginnings."""
    report: Report = Checked(of, begun).report
    return report


def codes(report: Report) -> list[str]:
    return [note.code for note in report.notes]


class TestWhatAStepTakes:
    @pytest.mark.parametrize(
        "strategy",
        [
            {"kind": "single"},
            {"kind": "on_write"},
            {"kind": "on_write", "overlap": True, "bucketing": "layers"},
            {"kind": "on_read", "read_every": 4},
            {"kind": "on_read", "read_every": 15},
            {"kind": "none"},
            {"kind": "sync_replicas", "replicas_to_aggregate": 3},
            {"kind": "sync_replicas", "replicas_to_aggregate": 9},
            {"kind": "backup_workers", "replicas_to_aggregate": 3},
        ],
        ids=lambda one: "-".join(str(value) for value in one.values()),
    )
    @pytest.mark.parametrize("after", [None, 0.0])
    def test_it_is_what_a_run_of_as_many_examples_measures(
        self, strategy: dict[str, Any], after: float | None
    ) -> None:
        changes = {key: dict(value) for key, value in MIRRORED.items()}
        changes["cluster"]["compute"] = {"kind": "exponential", "mean": 0.1}
        if "overlap" in strategy:
            changes["cluster"]["compute"] = {"kind": "phases", "forward": 0.04, "backward": 0.06}
            changes["workload"] = {"model": "alexnet"}
        made = scenario(strategy, **changes, **LONG, report={"measure_after": after})
        found = first(made)
        workers = made.strategies[0].workers(made.cluster)
        period = made.strategies[0].round.steps
        rounds = max(math.ceil(ITERATIONS / period), 2) * period
        rounds += made.strategies[0].round.of == "outer step"  # the step after the last meeting
        examples = max(workers * rounds, 8 * strategy.get("replicas_to_aggregate", 1))
        stop = made.stop.model_copy(update={"global_steps": None, "examples": examples})
        result = simulate(made.model_copy(update={"stop": stop}))
        (label,) = result.strategies

        assert found.update == pytest.approx(1 / result.estimate(label, "updates_per_s").mean)
        assert found.shares == pytest.approx(
            {name: result.estimate(label, f"share_{name}").mean for name in ACTIVITIES}
        )
        assert found.gradients == result.estimate(label, "gradients_produced").mean
        assert (found.limit, found.standstill) == (None, None)

    def test_of_a_short_run_it_is_that_run(self) -> None:
        made = scenario({"kind": "on_write"}, stop={"time": 0.75})
        assert (first(made).updates, first(made).lasted) == (7, 0.75)
        assert first(scenario({"kind": "on_write"})).updates == 3

    def test_values_are_never_worked_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Quadratic, "task", None)
        loss = {"stop": {"global_steps": 1000, "loss": 1e-9}}
        assert first(scenario({"kind": "none"}, **loss)).updates == 3 * ITERATIONS


class TestLimits:
    def test_it_ends_after_so_many_events(self) -> None:
        made = scenario({"kind": "none"}, **LONG)
        some = first(made, 96)
        assert some.limit == 96 - 3 * 16
        assert 0 < some.updates < 40
        assert some.update == pytest.approx(0.1 / 3, rel=0.15)
        assert cells(told(first(made), of=made), "compute") == (Number(1.0, unit="part"),)

    def test_too_few_for_an_iteration_of_all_are_told(self) -> None:
        many = {"workers": 50, "compute": {"kind": "exponential", "mean": 0.1}}
        made = scenario({"kind": "none"}, cluster=many, **LONG)
        found = first(made, 920)
        assert found.updates < 50
        report = told(found, of=made)
        assert cells(report, "step_s") == ()
        assert cells(report, "update_s") == (Number(found.update, unit="s"),)
        assert codes(report) == ["few-updates"]

    def test_a_larger_machine_has_more_events(self) -> None:
        large = {"workers": 700}
        found = first(scenario({"kind": "on_write"}, cluster=large, **LONG), None)
        assert (found.updates, found.limit) == (11, 28_000 - 700 * 16)

    def test_too_few_for_one_update_are_told(self) -> None:
        made = scenario({"kind": "on_write"}, cluster={"workers": 50}, **LONG)
        report = told(first(made, 50 * 18), of=made)
        assert cells(report, "step_s") == ()
        assert codes(report) == ["no-update"]

    def test_so_few_updates_that_they_tell_little_are_told(self) -> None:
        made = scenario({"kind": "on_write"}, **LONG)
        (note,) = told(first(made, 3 * 16 + 30), of=made).notes
        assert (note.code, note.values["count"]) == ("few-updates", 4)

    def test_what_one_leaves_over_goes_to_the_next(self) -> None:
        both = ({"kind": "single"}, {"kind": "none"})
        _, second = begin(scenario({}, strategies=both, **LONG), 260)
        assert second.limit is None
        assert first(scenario({"kind": "none"}, **LONG), 75).limit == 27

    def test_it_is_the_same_every_time(self) -> None:
        made = load_scenario(QUICKSTART)
        one, other = ([each._replace(seconds=0.0) for each in begin(made, 3000)] for _ in range(2))
        assert one == other

    def test_reads_that_are_not_reached_are_told(self) -> None:
        made = scenario({"kind": "on_read", "read_every": 1000}, **LONG)
        (note,) = told(first(made, 500), of=made).notes
        assert (note.code, note.values["steps"]) == ("meet-later", 1000)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("cluster.workers=100000", "[not-begun]"),
            ("strategies.sync_replicas.total_num_replicas=1000000000", "dropped"),
            ("strategies.sync_replicas.initial_tokens=1000000000", "dropped"),
        ],
    )
    def test_what_is_huge_is_told_soon(self, change: str, said: str) -> None:
        check(QUICKSTART)
        begun = time.process_time()
        done = check(QUICKSTART, "--set", change)
        assert time.process_time() - begun < 1.5
        assert said in done.stdout

    def test_a_step_beyond_the_end_of_the_clock_is_told(self) -> None:
        law = {"compute": {"kind": "constant", "value": 5e9}}
        made = scenario({"kind": "on_write"}, cluster=law, **LONG)
        assert codes(told(first(made), of=made)) == ["no-update"]


class TestStandstill:
    def test_without_tokens(self) -> None:
        strategy = {
            "kind": "sync_replicas",
            "replicas_to_aggregate": 2,
            "total_num_replicas": 4,
            "initial_tokens": 0,
        }
        made = scenario({**strategy, "total_num_replicas": 2}, cluster={"workers": 1}, **LONG)
        checked = made.check()
        assert cells(checked.report, "step_s") == ("deadlocked",)
        assert "waiting" in str(checked.deadlock)


class TestGradients:
    @pytest.mark.parametrize(
        ("strategy", "each"),
        [
            ({"kind": "single"}, 1),
            ({"kind": "on_write"}, 4),
            ({"kind": "on_read", "read_every": 5}, 4),
            ({"kind": "none"}, 1),
            ({"kind": "sync_replicas", "replicas_to_aggregate": 3}, 4),
            ({"kind": "sync_replicas", "replicas_to_aggregate": 9}, 9),
            ({"kind": "sync_replicas", "replicas_to_aggregate": 2, "total_num_replicas": 20}, 20),
            ({"kind": "backup_workers", "replicas_to_aggregate": 3}, 4),
            ({"kind": "k_batch_sync", "k": 3}, 6),
        ],
        ids=lambda one: one["kind"] if isinstance(one, dict) else "",
    )
    def test_where_updates_or_examples_are_counted_gradients_are_known(
        self, strategy: dict[str, Any], each: int
    ) -> None:
        law = {"compute": {"kind": "uniform", "low": 0.08, "high": 0.12}}
        made = scenario(strategy, cluster={"workers": 4, **law}, stop={"global_steps": 50})
        assert gradients(made) == 50 * each
        (trace,) = simulate(made).traces
        assert len(trace.gradients) == pytest.approx(50 * each, rel=0.1)
        examples = 50 * made.strategies[0].gradients_per_update(made.cluster)
        counted = scenario(strategy, cluster={"workers": 4, **law}, stop={"examples": examples})
        assert gradients(counted) == 50 * each

    @pytest.mark.parametrize(
        "strategy",
        [
            {"kind": "none"},
            {"kind": "k_batch_async", "k": 3},
            {"kind": "none", "staleness_policy": {"kind": "drop_above", "staleness": 1}},
        ],
    )
    def test_an_iteration_is_a_workers_own(self, strategy: dict[str, Any]) -> None:
        """However many of them make an update, and however many are in vain."""
        law = {"compute": {"kind": "uniform", "low": 0.08, "high": 0.12}}
        (one,) = begin(scenario(strategy, cluster={"workers": 4, **law}, stop={"time": 20.0}))
        assert one.update * one.per_iteration == pytest.approx(0.1, rel=0.1)

    @pytest.mark.parametrize("kind", ["sync_replicas", "backup_workers"])
    def test_gradients_in_vain_are_counted_as_well(self, kind: str) -> None:
        """Those of old tokens are computed to their end; who gives up begins the next at once."""
        law = {"compute": {"kind": "exponential", "mean": 0.1}}
        made = scenario(
            {"kind": kind, "replicas_to_aggregate": 2},
            cluster={"workers": 16, **law},
            stop={"time": 20.0},
        )
        computed = len(simulate(made).traces[0].gradients)
        assert gradients(made) == pytest.approx(computed, rel=0.05)
        assert gradients(made, rates(begin(made))) == pytest.approx(computed, rel=0.05)

    def test_where_time_ends_a_run_they_are_bounded_then_measured(self) -> None:
        wires = {**CHANGES, "network": {**WIRE, "bandwidth": 1e4}, "stop": {"time": 500.0}}
        made = scenario({"kind": "none"}, **wires)
        computed = len(simulate(made).traces[0].gradients)
        assert gradients(made) == pytest.approx(500 * (30 + 10 / 3))
        assert gradients(made, rates(begin(made))) == pytest.approx(computed, rel=0.15)


class TestCommand:
    def test_its_answer_is_that_of_the_run(self) -> None:
        made = load_scenario(QUICKSTART, ["replications=2"])
        traces = [
            replace(simulation.run_one(simulation.Run(made, index, number)), evaluations=[])
            for index in range(4)
            for number in range(2)
        ]
        result = Finding(made, traces, [])
        for one in begin(made):
            speed = result.estimate(one.strategy.label, "updates_per_s").mean
            assert 1 / one.update == pytest.approx(speed, rel=0.06)

    @pytest.mark.parametrize(
        "block", ["sweep: {cluster.workers: [2, 4, 8]}", PLAN], ids=["sweep", "plan"]
    )
    def test_the_gradients_of_many_scenarios_are_bounded(self, tmp_path: Path, block: str) -> None:
        """Workers who could compute 10 gradients a second take turns at the server: 2 s each."""
        file = tmp_path / "many.yaml"
        file.write_text(MANY + block)
        (tmp_path / "one.yaml").write_text(MANY)
        done = check(file)
        assert done.exit_code == 0, done.stderr
        (count,) = re.findall(r" ([0-9,]+) gradients", done.stdout)
        (runs,) = re.findall(r" different\), ([0-9]+) (?:runs|to)", done.stdout)
        made = [
            load_scenario(tmp_path / "one.yaml", [f"cluster.workers={number}"])
            for number in (2, 4, 8)
        ]
        computed = sum(len(simulate(one).traces[0].gradients) for one in made)
        wanted = computed * int(runs) / (3 if block != PLAN else 1)
        assert wanted <= int(count.replace(",", "")) < 200 * wanted
        assert check(file).stdout == done.stdout


def test_replications_are_those_of_a_run_where_only_lives_are_random() -> None:
    """The steps are exact there, and made once; failures are drawn in each replication."""
    for name, count in (("one_failure_a_day", 5), ("slow_worker", 1)):
        (valid, *_) = load(SCENARIOS / f"{name}.yaml").check().report.headline
        assert valid.values["replications"] == count
