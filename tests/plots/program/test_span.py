"""Which steps are shown: one, or all in which replicas are ahead of each other.

A byte takes 1 us, the latency is 100 us (see `programs`).
"""

from typing import Any

import pytest
from matplotlib.axes import Axes

from tests.programs import WIRE, add, read, scenario, variable
from varsim.report.plots.figure import panels, style
from varsim.report.plots.program import span, step
from varsim.study.simulation import simulate_variables
from varsim.study.variables import VariablesResult

LARGE = variable(shape=(1000,), aggregation="mean")
RING, COLLECTED = 5776, 8100


def apart(**changes: Any) -> VariablesResult:
    """Worker 1 computes for 3 ms, the others for 1 ms; under on_read nobody waits for it."""
    cluster = {
        "compute": {"kind": "constant", "value": 1e-3},
        "network": WIRE,
        "slow_workers": ({"rank": 1, "factor": 3.0},),
    }
    whole = {"variables": (LARGE,), "modes": ("on_read", "on_write"), **changes}
    return simulate_variables(scenario(({"kind": "compute"}, add(1.0)), cluster=cluster, **whole))


def drawn(result: VariablesResult) -> Axes:
    """The panel of the first mode."""
    with style():
        return step.draw(result, panels(step.heights(result), one_axis=False)[1])[0]


def test_where_all_meet_in_every_step_one_is_shown() -> None:
    found = apart(outside=(read(),), steps=3)
    assert span.span(found) == (range(1, 2), range(1, 2), True)
    assert not [text for text in drawn(found).texts if text.get_text()]


def test_steps_that_overlap_are_shown_together() -> None:
    found = apart(outside=(read(every=3),), steps=6)
    assert span.span(found) == (range(1, 4), range(1, 4), True)
    ahead = step.step(found)[0]
    assert (ahead.mode, ahead.steps) == ("on_read", range(1, 4))
    assert ahead.length == pytest.approx(9e-3 + COLLECTED * 1e-6)
    bars = [(bar.step, round(bar.begin * 1e3), round(bar.end * 1e3)) for bar in ahead.bars]
    assert bars[:3] == [(1, 0, 1), (1, 0, 1), (2, 1, 2)]
    first = drawn(found)
    numbers = [text.get_text().removeprefix("step ") for text in first.texts if text.get_text()]
    # Three replicas each, and the outside collects in step 3.
    assert sorted(numbers) == [*"111", *"222", *"3333"]


def test_what_they_took_is_what_the_table_says() -> None:
    """Here steps 1 to 3 are the whole run."""
    found = apart(outside=(read(every=3),), steps=3)
    said = [found.estimate(mode, "time_per_step").mean for mode in ("on_read", "on_write")]
    assert said == pytest.approx([3e-3 + COLLECTED * 1e-6 / 3, 3e-3 + RING * 1e-6])
    assert step.title(found) == (
        "Steps 1 to 3 took per step: 5.700 ms in 'on_read', 8.776 ms in 'on_write'"
    )


def test_of_many_that_overlap_one_is_shown_and_all_are_timed() -> None:
    found = apart(outside=(), steps=12)
    assert span.span(found) == (range(1, 2), range(1, 13), True)
    panel = step.step(found)[0]
    # Step 1 of replica 1 takes until 3 ms, when the others are through three.
    assert panel.length == pytest.approx(3e-3)
    assert [bar.step for bar in panel.bars if bar.row == 0] == [1, 2, 3]
    assert step.title(found) == (
        "Step 1, one of 1 to 12, which took per step: 3.000 ms in 'on_read', 8.776 ms in 'on_write'"
    )
    first = drawn(found)
    assert {text.get_text() for text in first.texts} == {"step 1", "step 2", "step 3"}


def test_of_those_that_are_cut_no_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("varsim.study.simulation.MOST_ACTS", 60)
    found = apart(outside=(), steps=12)
    assert not span.span(found).whole
    assert step.title(found).endswith(": replicas are ahead of each other")
