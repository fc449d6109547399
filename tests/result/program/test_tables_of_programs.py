"""What the columns of a result of variables are documented as, and how many rows are kept."""

import pytest

from tests.programs import MODES, add, read, scenario, variable
from tests.seams import VariablesResult, simulate_variables
from varsim.study import program
from varsim.study.program import COLUMNS, METRICS


@pytest.fixture(scope="module")
def varied() -> VariablesResult:
    """A write, and from none to two reads."""
    made = scenario(
        (add(3.0, 1.0, 2.0, times=4),),
        (read(),),
        variables=(variable(shape=(1000,), aggregation="mean"),),
        vary={"reads_per_write": (0, 0.5, 1, 2)},
    )
    return simulate_variables(made)


def test_every_metric_has_a_unit_and_words() -> None:
    assert all(metric.unit and metric.description for metric in METRICS.values())


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_the_documented_ones(varied: VariablesResult, name: str) -> None:
    frame = getattr(varied, name)
    assert list(frame.columns) == list(COLUMNS[name])
    assert not frame.empty
    assert set(frame["mode"]) == set(MODES)
    assert all(COLUMNS[name].values())


def test_rows_beyond_the_caps_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=5)
    whole = simulate_variables(made)
    # 35 acts in each of three runs, of which 30 are kept; 12, 22 and 35 messages.
    monkeypatch.setattr(program, "MOST_ACTS", 92)
    monkeypatch.setattr(program, "MOST_SENT", 36)
    result = simulate_variables(made)
    assert [trace.all_sent for trace in result.traces] == [12, 22, 35]
    assert (len(result.acts), len(result.sent)) == (90, 36)
    assert result.answer() == whole.answer()
    # 24 copies are looked at, 3 to an act: 8 acts in all, 2 of each run.
    monkeypatch.setattr(program, "MOST_GLANCES", 24)
    assert len(simulate_variables(made).acts) == 6
    assert result.report.details == whole.report.details
