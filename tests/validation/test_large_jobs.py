"""Interruptions of large jobs, and the published figures that they are held against."""

import pytest

from validation.finding import Verdict
from validation.interruptions import GROUPS, between, findings


def test_a_job_is_met_as_often_as_all_its_machines_fail() -> None:
    found = between(0.24, 10)  # one in 10 h

    assert found.half_width is not None
    assert found.half_width < 0.03 * found.value
    assert found.value == pytest.approx(36_000, abs=2 * found.half_width)


@pytest.mark.slow
def test_reported_and_derived_figures_stand_apart() -> None:
    lines = findings()
    count = [sum(one.group == group for one in lines) for group in GROUPS]

    assert count == [4, 4, 2]
    assert not [one for one in lines if one.verdict is Verdict.MISS]
    assert sum(one.verdict is Verdict.PASS for one in lines) == 6
