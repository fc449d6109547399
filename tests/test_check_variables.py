"""`check` of variables: what a step takes and sends."""

from pathlib import Path
from typing import Any

import pytest

from tests.programs import MODES, add, read, scenario, variable
from tests.reports import cells
from tests.seams import VariablesScenario
from tests.seams import run_of_program as trace
from varsim import load

SCENARIOS = Path(__file__).parent.parent / "scenarios"


def check(made: VariablesScenario) -> Any:
    """How its program begins under each mode."""
    return load(made).check()


class TestTheBeginning:
    def test_of_a_short_program_is_the_whole(self) -> None:
        made = scenario((add(1.0),), (read(every=2),), steps=4)
        for mode, begun in zip(MODES, check(made), strict=True):
            done = trace(made, mode)
            assert (begun.mode, begun.steps, begun.beyond) == (mode, 4, False)
            assert begun.measured["step_time_mean"] == (done.end - done.began) / 1e9 / 4
            assert begun.measured["bytes_per_step"] == done.moved / 4
            assert begun.measured["messages_per_step"] == done.messages / 4

    def test_of_a_long_one_is_some_steps(self) -> None:
        made = scenario((add(1.0),), (read(every=7),), steps=10_000)
        begun = check(made)
        assert [one.steps for one in begun] == [14, 14, 14]  # whole times of what is rarest
        # 12 bytes of 1 us and 100 us of latency twice a write; a read takes 2 messages.
        report = begun.report
        assert cells(report, "step_s")[0].mean == pytest.approx(15.4e-6, rel=0.01)
        assert cells(report, "messages")[0].mean == pytest.approx(4 / 14)
        assert cells(report, "bytes")[0].mean == pytest.approx(16 / 14)

    def test_what_lies_beyond_it_is_told(self) -> None:
        made = scenario((add(1.0),), (read(every=5000),), steps=10_000)
        (note,) = check(made).report.notes
        assert (note.code, note.values) == ("beyond", {"steps": 5000})

    def test_what_is_too_much_is_not_begun(self) -> None:
        made = scenario(
            (add(1.0),),
            cluster={"workers": 1000},
            variables=(variable(shape=(1_000_000,)),),
            modes=("on_write",),
        )
        report = check(made).report
        assert cells(report, "step_s") == ("-",)
        assert [note.code for note in report.notes] == ["step-not-begun"]


def test_its_size_is_told_in_a_sentence() -> None:
    (valid,) = check(scenario((add(1.0),), (read(),))).report.headline
    assert valid.code == "valid-variables"
    assert {key: valid.values[key] for key in ("variables", "modes")} == {
        "variables": 1,
        "modes": 3,
    }


def test_values_that_a_ring_cuts_are_worked_out_once() -> None:
    made = load(SCENARIOS / "read_or_write.yaml").points[0].scenario
    assert isinstance(made, VariablesScenario)
    assert [one.steps for one in check(made)] == [1, 1, 1]
    assert check(made).report.notes == ()
