"""What misleads about compute times is said: guesses with other answers, workers in step."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.building import scenario
from tests.seams import Note, Number, simulate
from varsim import Scenario
from varsim.cli import app as cli
from varsim.core.presets import measured_shares
from varsim.report.products.cautions import contradicted, guess, lockstep
from varsim.report.wording import written

SERVED = {"bandwidth": 25e9 / 8, "latency": 2e-5}
K80 = {"preset": "k80", "efficiency": 0.4}


def serving(device: Any, *, kind: str = "none", stop: Any = None, **cluster: Any) -> Scenario:
    """Eight workers that train ResNet-50 by way of one server of 25 Gbit/s."""
    parts = {"workers": 8, "compute": None, "device": device, **cluster}
    return scenario(
        {"kind": kind},
        cluster=parts,
        network=SERVED,
        workload={"model": "resnet50", "batch_size": 32, "optimizer": None},
        problem={"kind": "timing"},
        stop=stop or {"time": 60.0},
    )


def speed(made: Scenario) -> float:
    return simulate(made).estimate(made.strategies[0].label, "examples_per_s").mean


def noted(printed: str) -> list[str]:
    """The codes of the notes in the JSON that a command printed."""
    return [note["code"] for note in json.loads(printed)["notes"]]


def varsim(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout


class TestConvoys:
    def test_a_device_is_out_of_step_by_default(self) -> None:
        """All eight read at once, compute 449 ms at once and push at once, again and again."""
        size, compute = 102_228_128, 32 * 24_535_105_536 / (0.4 * 4.37e12)
        together = 2 * (8 * size / SERVED["bandwidth"] + SERVED["latency"]) + compute
        constant = speed(serving({**K80, "sigma": 0.0}))
        assert constant == pytest.approx(8 * 32 / together, rel=0.02)
        by_default, more = speed(serving(K80)), speed(serving({**K80, "sigma": 0.1}))
        assert by_default > 1.5 * constant
        assert by_default == pytest.approx(more, rel=0.1)

    @pytest.mark.parametrize(
        "compute",
        [
            None,
            {"kind": "constant", "value": 0.1},
            {"kind": "phases", "forward": 0.1, "backward": 0.2},
            {"kind": "batch_curve", "fixed": 0.1, "per_example": 0.01},
        ],
    )
    def test_workers_in_step_are_told_of(self, compute: Any) -> None:
        device = {**K80, "sigma": 0.0} if compute is None else None
        (note,) = lockstep(serving(device, compute=compute))
        assert note.values["who"] == ("async PS",)

    @pytest.mark.parametrize(
        "made",
        [
            serving(K80),
            serving(None, compute={"kind": "exponential", "mean": 0.1}),
            serving({**K80, "sigma": 0.0}, kind="on_write"),
            serving({**K80, "sigma": 0.0}, workers=1),
            serving(
                {**K80, "sigma": 0.0},
                server_update={"time": {"kind": "exponential", "mean": 1e-3}},
            ),
        ],
        ids=["spread", "random", "nobody queues", "one worker", "random server"],
    )
    def test_others_are_not(self, made: Scenario) -> None:
        assert not list(lockstep(made))

    def test_workers_that_still_fall_out_of_step_are_told_of(self) -> None:
        def said(made: Scenario) -> list[Note]:
            return [note for note in simulate(made).report.notes if note.code == "not-settled"]

        device = {"preset": "a100_sxm_80gb", "efficiency": 0.15}
        (note,) = said(serving(device, stop={"time": 20.0}))
        times = note.values["times"]
        assert isinstance(times, Number)
        assert 1.1 < times.mean < 2.0
        assert said(serving({**device, "sigma": 0.1}, stop={"time": 200.0})) == []
        assert said(serving(device, stop={"time": 20.0}, kind="on_write")) == []
        assert said(serving({**device, "sigma": 0.0}, stop={"time": 20.0})) == []

    def test_run_check_and_explain_say_so(self, tmp_path: Path) -> None:
        file = tmp_path / "convoy.yaml"
        file.write_text(CONSTANT)
        assert "lockstep" in noted(varsim("check", file, "--format", "json"))
        out = ("--out", tmp_path / "out", "--quiet", "--format", "json")
        assert "lockstep" in noted(varsim("run", file, *out))
        assert "lockstep" in noted(varsim("explain", file, "--format", "json"))


CONSTANT = """\
# Are they in step?
name: convoy
replications: 1
cluster:
  workers: 3
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload:
  problem: {kind: timing}
  model: resnet50
strategies: [{kind: none}, {kind: on_write}]
stop: {global_steps: 30}
"""
DOUBTFUL = """\
# How fast?
name: doubtful
seed: 2
replications: 2
cluster:
  workers: 4
  device: {preset: t4}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload:
  problem: {kind: timing}
  model: resnet50
  batch_size: 32
strategies: [{kind: on_write}, {kind: none}]
stop: {time: 20 s}
targets: {throughput: 250 examples/s}
"""


class TestGuesses:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "doubtful.yaml"
        path.write_text(DOUBTFUL)
        return path

    def test_what_was_measured_or_is_insisted_on_is_none(self) -> None:
        assert not list(guess(serving("v100_sxm2")))
        assert not list(guess(serving({"preset": "t4", "efficiency": 0.3})))
        (note,) = guess(serving("t4"))
        assert written(note.values["mean"]) == "241\N{NO-BREAK SPACE}ms"
        low, high = (share / 0.4 for share in measured_shares())
        assert note.values["low"] == Number(low)
        assert note.values["high"] == Number(high)
        assert low < 0.5
        assert high > 1.5

    def test_an_efficiency_that_contradicts_a_measurement_is_told_of(
        self, file: Path, tmp_path: Path
    ) -> None:
        device = {"preset": "v100_sxm2", "precision": "fp16"}
        made = serving({**device, "efficiency": 0.4})
        (note,) = contradicted(made)
        said = str(note.values["reason"])
        assert said.startswith("efficiency 0.4 makes 2,0")
        assert (
            "examples/s of resnet50 on v100_sxm2 in fp16 at batch 32; measured were 1,200 at batch "
            "256 (PyTorch, NVIDIA DGX-1 16GB (8x V100 16GB); others: 1,156, 1,270, 1,300), which"
        ) in said
        share = float(said.partition("which is an efficiency of ")[2].split()[0].rstrip("."))
        assert said.endswith(" To use what was measured leave efficiency out.")
        # At the efficiency that it names it is as fast as measured.
        agreed = serving({**device, "efficiency": share})
        assert not list(contradicted(agreed))
        by, measured = (
            one.cluster.device.step_time(one.workload).seconds for one in (agreed, serving(device))
        )
        assert by == pytest.approx(measured, rel=0.05)
        assert not list(contradicted(serving(device)))
        assert not list(contradicted(serving({"preset": "t4", "efficiency": 0.4})))
        option = "cluster.device={preset: v100_sxm2, precision: fp16, efficiency: 0.4}"
        planned = file.with_name("planned.yaml")
        planned.write_text(file.read_text() + TestPlans.BLOCK)
        more = ("--set", option, "--quiet", "--out", tmp_path / "out")
        checked = varsim("check", file, "--set", option, "--format", "json")
        assert "contradicted" in noted(checked)
        assert "contradicted" in noted(varsim("run", file, *more, "--format", "json", code=3))
        (tmp_path / "out").rename(tmp_path / "run")
        assert "contradicted" in noted(varsim("plan", planned, *more, "--format", "json"))

    def test_commands_say_so(self, file: Path, tmp_path: Path) -> None:
        planned = file.with_name("planned.yaml")
        planned.write_text(file.read_text() + TestPlans.BLOCK)
        out = ("--quiet", "--out")
        assert "guess" in noted(varsim("check", file, "--format", "json"))
        run = varsim("run", file, *out, tmp_path / "run", "--format", "json", code=3)
        assert "guess" in noted(run)
        plan = varsim("plan", planned, *out, tmp_path / "plan", "--format", "json")
        assert "guess" in noted(plan)

    def test_explain_and_sweeps_say_so(self, file: Path, tmp_path: Path) -> None:
        assert "guess" in noted(varsim("explain", file, "--format", "json"))
        swept = varsim(
            "sweep", file, "--set", "cluster.workers=2,3", "--set", "stop.time=2 s", "--quiet",
            "--out", tmp_path / "sweep", "--format", "json",
        )  # fmt: skip
        assert "guess" in noted(swept)


class TestLosses:
    TEXT = (
        DOUBTFUL.replace("  problem: {kind: timing}\n", "  problem: {kind: quadratic}\n")
        .replace("batch_size: 32", "batch_size: 32\n  optimizer: {kind: sgd, learning_rate: 0.1}")
        .replace("targets: {throughput: 250 examples/s}", "targets: {loss: 0.2}")
        .replace("time: 20 s", "time: 60 s")
    )

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "learning.yaml"
        path.write_text(self.TEXT)
        return path

    def test_tuning_says_that_it_is_a_guess(self, file: Path, tmp_path: Path) -> None:
        rates = ("--rates", "0.05,0.1", "--set", "stop.time=5 s", "--set", "targets.loss=0.9")
        out = ("--out", tmp_path / "tuned", "--quiet", "--format", "json")
        assert "guess" in noted(varsim("tune", file, *out, *rates))


class TestPlans:
    BLOCK = """\
prices: {device_hour: 2.0}
plan:
  minimize: cost_per_hour
  space: {cluster.workers: [2, 4, 6]}
"""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "planned.yaml"
        path.write_text(DOUBTFUL.replace("name: doubtful", "name: planned") + self.BLOCK)
        return path

    def test_other_speeds_are_tried(self, file: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        options = ("plan", file, "--quiet", "--format", "json")
        told = json.loads(varsim(*options, "--out", out, "--jobs", 1))
        assert told["headline"][0]["where"] == "workers = 4"
        notes = {note["code"]: note for note in reversed(told["notes"])}
        assert {"guess", "other-speed"} <= set(notes)
        assert notes["margin"]["guess"] == 1
        half, more = (note for note in told["notes"] if note["code"] == "other-speed")
        assert half["missed"] == ["throughput at least 250 examples/s"]
        assert (half["speed"], more["speed"], "missed" in more) == ("0.5", "1.5", False)
        facts = json.loads((out / "plan.json").read_text())
        assert set(facts["guess"]["at_speed"]) == {"0.5", "1.5"}
        assert not facts["guess"]["at_speed"]["0.5"]["targets"][0]["met"]
        # What it says to type is the plan at half the speed.
        option = "cluster.device={preset: t4, precision: fp32, efficiency: 0.2}"
        assert half["again"] == f"--set '{option}'"
        again = json.loads(varsim(*options, "--out", tmp_path / "half", "--set", option))
        assert again["headline"][0]["where"] == "workers = 6"
        assert "guess" not in [note["code"] for note in again["notes"]]

    def test_check_says_so(self, file: Path) -> None:
        assert "guess" in noted(varsim("check", file, "--format", "json"))

    def test_without_a_guess_none_is(self, file: Path, tmp_path: Path) -> None:
        option = ("--set", "cluster.device.efficiency=0.4")
        out = ("--out", tmp_path / "out", "--quiet", "--format", "json")
        told = json.loads(varsim("plan", file, *out, *option))
        (margin,) = (note for note in told["notes"] if note["code"] == "margin")
        assert "guess" not in margin
        assert told["guess"] is None


@pytest.mark.parametrize("rate", [1e40, 1e80, 1e100])
def test_training_that_diverges_is_told_without_a_warning(rate: float) -> None:
    """Losses of up to 1e300 or beyond all floats: neither their squares nor numpy are news."""
    given = scenario(
        {"kind": "local_sgd", "period": 2},
        cluster={"compute": {"kind": "exponential", "mean": 0.01}},
        problem={"kind": "linear_regression", "features": 4},
        optimizer={"learning_rate": rate},
        replications=2,
    )
    result = simulate(given)
    assert {"grew", "diverged"} & {note.code for note in result.report.notes}


@pytest.mark.parametrize(("after", "told"), [(0.5, []), (5.0, ["Worker 1", 5.0, 1.0])])
def test_workers_that_would_be_slow_after_the_end_are_told_of(after: float, told: Any) -> None:
    slow = ({"rank": 1, "factor": 3.0, "after": after},)
    result = simulate(
        scenario({"kind": "none"}, cluster={"workers": 2, "slow_workers": slow}, stop={"time": 1.0})
    )
    found = [note.values for note in result.report.notes if note.code == "slow-later"]
    assert told == [each for of in found for each in (of["who"], of["first"].mean, of["over"].mean)]
