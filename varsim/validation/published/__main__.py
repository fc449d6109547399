"""`python -m varsim.validation.published PATTERN FOLDER`: scenario files of bundled experiments."""

import argparse
from pathlib import Path

from varsim.validation.published.export import as_yaml, scenarios


def main() -> None:
    """Write a file for every row of the experiments that a pattern fits; equal ones once."""
    parser = argparse.ArgumentParser(
        prog="python -m varsim.validation.published",
        description="Write a scenario file for every row of published experiments.",
    )
    parser.add_argument("pattern", help="names of experiments, for example 'hkbu2020-*'")
    parser.add_argument("folder", type=Path, help="where to write; made if it is not there")
    asked = parser.parse_args()
    written = set()
    for row, scenario in scenarios(None, asked.pattern):
        asked.folder.mkdir(parents=True, exist_ok=True)
        (asked.folder / f"{scenario.name}.yaml").write_text(as_yaml(row, scenario))
        written.add(scenario.name)
    if not written:
        parser.error(f"no experiment with a scenario fits {asked.pattern!r}")
    parser.exit(0, f"{len(written)} scenarios written to {asked.folder}\n")


if __name__ == "__main__":
    main()
