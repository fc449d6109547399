"""What is told of a run of variables: whether its answer is what its numbers say."""

import pytest

from tests.programs import add, scenario
from varsim import simulate_variables
from varsim.report.notes import line
from varsim.report.told import Note, Number
from varsim.report.wording import shown
from varsim.study.variables import VariablesResult

RANDOM = {"workers": 2, "compute": {"kind": "lognormal", "mean": 1e-3, "sigma": 0.9}}
COMPUTE = {"kind": "compute"}


def varied(replications: int, seed: int) -> VariablesResult:
    """A write and some random work, in all modes."""
    made = scenario(
        (add(1.0), COMPUTE), cluster=RANDOM, replications=replications, seed=seed, steps=3
    )
    return simulate_variables(made)


def ends(note: Note) -> tuple[float, float]:
    low, high = note.values["low"], note.values["high"]
    assert isinstance(low, Number)
    assert isinstance(high, Number)
    return low.mean, high.mean


def test_modes_too_close_to_call_are_told_with_the_times_between_which_they_lie() -> None:
    found = [varied(4, seed) for seed in range(1, 6)]
    close = [one for one in found if one.report.headline[0].code == "step-close"]
    assert close
    for result in close:
        note = result.report.headline[0]
        tied = note.values["tied"]
        assert isinstance(tied, tuple)
        times = [result.estimate(mode, "time_per_step").mean for mode in tied]
        assert ends(note) == (min(times), max(times))
        low, high = (shown(Number(time, unit="s")) for time in (min(times), max(times)))
        assert f", {low} to {high} a step" in line(note)


def test_of_one_replication_the_slowest_ends_the_range() -> None:
    result = varied(1, 1)
    note = result.report.headline[0]
    assert note.code == "untold"
    times = [result.estimate(mode, "time_per_step").mean for mode in result.modes]
    assert ends(note) == pytest.approx((min(times), max(times)))
    assert min(times) < max(times)
