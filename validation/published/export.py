"""Scenarios of published experiments as files, to start from."""

from collections.abc import Iterator
from pathlib import Path

from validation.matching import matches
from validation.published.experiment import NotCalibratedError
from validation.published.findings import known, refused
from validation.published.table import Row, bundled_rows, read_rows
from varsim.scenario.training import Scenario
from varsim.scenario.writing import dump_scenario


def scenarios(path: Path | None, only: str | None) -> Iterator[tuple[Row, Scenario]]:
    """Every row of a file (None: of those that come with varsim) with its scenario, calibrated."""
    rows = bundled_rows() if path is None else read_rows(path)
    for setting in known(rows, path is not None):
        wanted = [row for row in setting.rows if matches(only, row.experiment)]
        if not wanted:
            continue
        fitted = setting.calibrated()
        for row in wanted:
            if not refused(setting.family, row):
                try:
                    yield row, setting.family.scenario(row, fitted)
                except NotCalibratedError:
                    continue


def as_yaml(row: Row, scenario: Scenario) -> str:
    """The text of a scenario file that asks what was measured in a row."""
    question = f"# What {row.metric} does {row.experiment} have? Measured: {row.value:g} {row.unit}"
    return f"{question} ({Path(row.file).name}, line {row.line}).\n{dump_scenario(scenario)}"
