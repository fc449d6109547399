"""Scenarios of published experiments as files, to start from."""

from collections.abc import Iterator
from pathlib import Path

from varsim.load.loading import dump_scenario
from varsim.scenario import Scenario
from varsim.validation.matching import matches
from varsim.validation.published.experiment import NotCalibratedError
from varsim.validation.published.families import FAMILIES
from varsim.validation.published.findings import calibrated, refused
from varsim.validation.published.table import Row, bundled_rows, read_rows


def scenarios(path: Path | None, only: str | None) -> Iterator[tuple[Row, Scenario]]:
    """Every row of a file (None: of those that come with varsim) with its scenario, calibrated."""
    rows = bundled_rows() if path is None else read_rows(path)
    for family in FAMILIES:
        known = [row for row in rows if family.knows(row.experiment)]
        wanted = [row for row in known if matches(only, row.experiment)]
        if not wanted:
            continue
        fitted = calibrated(family, known)
        for row in wanted:
            if not refused(family, row):
                try:
                    yield row, family.scenario(row, fitted)
                except NotCalibratedError:
                    continue


def as_yaml(row: Row, scenario: Scenario) -> str:
    """The text of a scenario file that asks what was measured in a row."""
    question = f"# What {row.metric} does {row.experiment} have? Measured: {row.value:g} {row.unit}"
    return f"{question} ({Path(row.file).name}, line {row.line}).\n{dump_scenario(scenario)}"
