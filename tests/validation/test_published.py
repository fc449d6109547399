"""Published experiments: what is calibrated on, the scenarios, and how parameters are found."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.seams import load_text
from tests.validation.published import ROWS, rows_of, setting_of, settings_of, told, used
from validation.published.__main__ import MARK, as_yaml, main
from validation.published.experiment import (
    Calibrated,
    Family,
    NotCalibratedError,
)
from validation.published.findings import FAMILIES, family_of

KNOWN = [row for row in ROWS if family_of(row) is not None]

by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)


class AnyValues(Calibrated):
    """Where the search for every parameter starts; a tenth of a second for most measured times."""

    def __init__(self, family: Family) -> None:
        super().__init__({parameter.name: parameter.start for parameter in family.parameters})

    def __missing__(self, name: str) -> float:
        if name.startswith(("line of", "servers of", "hop of", "pace of", "scheduling of")):
            return self[name.split(" of ")[0]]
        return 0.2 if "-PS on" in name else 0.1


class TestSplit:
    @by_family
    def test_something_is_calibrated_on_and_more_is_predicted(self, family: Family) -> None:
        calibrated_on = [row for setting in settings_of(family) for row in used(setting)]
        assert calibrated_on
        assert len(rows_of(family)) - len(calibrated_on) > len(family.parameters)
        assert family.split

    @by_family
    def test_the_split_looks_at_no_name_and_at_nothing_that_was_measured(
        self, family: Family
    ) -> None:
        for setting in settings_of(family):
            others = [
                replace(row, value=3 * row.value, experiment=f"other {row.experiment}")
                for row in setting.rows
            ]
            assert {family_of(row) for row in others} == {family}
            again = setting._replace(rows=others)
            assert [row.line for row in told(again)] == [row.line for row in told(setting)]

    @pytest.mark.parametrize("only", ["mxnet-1gpu-batch-v100", "vtrain-allreduce-a100"])
    def test_predictions_do_not_look_at_the_rows_that_they_predict(self, only: str) -> None:
        setting = setting_of(only)
        spoilt = setting._replace(
            rows=[
                row if row in used(setting) else replace(row, value=7 * row.value)
                for row in setting.rows
            ]
        )
        assert spoilt.calibrated() == setting.calibrated()


class TestScenarios:
    @by_family
    def test_a_scenario_for_every_row_which_survives_yaml(self, family: Family) -> None:
        values = AnyValues(family)
        rows = rows_of(family)
        for row in rows[:: max(1, len(rows) // 15)]:
            scenario = family.scenario(row, values)
            text = as_yaml(row, scenario)
            assert text.startswith(f"# What {row.metric}")
            assert load_text(text) == scenario

    def test_the_files_of_a_pattern(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "new"
        monkeypatch.setattr("sys.argv", ["published", "mxnet-1gpu-batch-k80", str(folder)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        assert "12 scenarios written" in capsys.readouterr().err
        assert len(list(folder.glob("*.yaml"))) == 12
        # What is there and is not its own is left alone, and so is all else.
        first, *others = sorted(folder.iterdir())
        assert first.read_text().splitlines()[1] == MARK
        first.write_text("mine")
        others[0].unlink()
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        assert f"{first} already exists, and was not written by " in capsys.readouterr().err
        assert first.read_text() == "mine"
        assert not others[0].exists()
        monkeypatch.setattr("sys.argv", ["published", "nothing-such", str(folder)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        assert "no experiment with a scenario fits" in capsys.readouterr().err


class TestFit:
    def test_it_finds_what_was_put_in(self) -> None:
        setting = setting_of("vtrain-allreduce-a100")
        family = setting.family
        true = {
            f"{length} {name}": value
            for length, times in (("short", 1.0), ("long", 1.5))
            for name, value in (
                ("launch", times * 3e-5),
                ("latency", times * 4e-6),
                ("bandwidth", 3e11 / (times + 0.5)),
            )
        }
        rows = [replace(row, value=family.predicted(row, true)) for row in told(setting)]
        assert family.calibrate(rows) == pytest.approx(true, rel=2e-3)

    def test_a_parameter_that_nothing_told_is_missed_by_name(self) -> None:
        with pytest.raises(NotCalibratedError, match="tells hop"):
            Calibrated({"bus": 1.0})["hop"]
