"""`python -m validation.published PATTERN FOLDER`: scenario files of bundled experiments."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from validation.finding import matches
from validation.published.experiment import NotCalibratedError
from validation.published.findings import known, refused
from validation.published.table import Row, bundled_rows, read_rows
from varsim.report.files.directory import check_file
from varsim.scenario.training import Scenario
from varsim.scenario.writing import dump_scenario

# Scenarios of published experiments as files, to start from.


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


# The second line of what is written: by this it may be replaced.
MARK: Final = "# Made by python -m validation.published."


def main() -> None:
    """Write a file for every row of the experiments that a pattern fits; equal ones once."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.published",
        description="Write a scenario file for every row of published experiments.",
    )
    parser.add_argument("pattern", help="names of experiments, for example 'hkbu2020-*'")
    parser.add_argument("folder", type=Path, help="where to write; made if it is not there")
    asked = parser.parse_args()
    texts = {
        f"{scenario.name}.yaml": as_yaml(row, scenario).replace("\n", f"\n{MARK}\n", 1)
        for row, scenario in scenarios(None, asked.pattern)
    }
    if not texts:
        parser.error(f"no experiment with a scenario fits {asked.pattern!r}")
    try:
        asked.folder.mkdir(parents=True, exist_ok=True)
        for name in texts:
            check_file(asked.folder / name, MARK, "this command")
        for name, text in texts.items():
            partial = asked.folder / f".{name}.partial"
            partial.write_text(text, encoding="utf-8", newline="\n")
            partial.replace(asked.folder / name)
    except OSError as error:
        parser.error(str(error))
    parser.exit(0, f"{len(texts)} scenarios written to {asked.folder}\n")


if __name__ == "__main__":
    main()
