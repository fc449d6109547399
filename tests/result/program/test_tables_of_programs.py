"""How many rows of programs of variables are kept."""

from typing import cast

import pytest

from tests.programs import add, read, scenario
from tests.seams import ProgramTrace, Result, VariablesScenario, simulate
from varsim.scenario import variables


def kept(result: Result[VariablesScenario]) -> tuple[int, int]:
    """Acts and messages."""
    traces = cast("list[ProgramTrace]", result.traces)
    return sum(len(one.acts) for one in traces), sum(len(one.sent_rows) for one in traces)


def test_rows_beyond_the_caps_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=5)
    whole = simulate(made)
    # 35 acts in each of three runs, of which 30 are kept; 12, 22 and 35 messages.
    monkeypatch.setattr(variables, "MOST_ACTS", 92)
    monkeypatch.setattr(variables, "MOST_SENT", 36)
    result = simulate(made)
    whole_of = cast("list[ProgramTrace]", result.traces)
    assert [trace.all_sent for trace in whole_of] == [12, 22, 35]
    assert kept(result) == (90, 36)
    assert result.answer() == whole.answer()
    # 24 copies are looked at, 3 to an act: 8 acts in all, 2 of each run.
    monkeypatch.setattr(variables, "MOST_GLANCES", 24)
    assert kept(simulate(made))[0] == 6
    assert result.report.details == whole.report.details
