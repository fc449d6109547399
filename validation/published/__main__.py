"""`python -m validation.published PATTERN FOLDER`: scenario files of bundled experiments."""

import argparse
from pathlib import Path
from typing import Final

from validation.published.export import as_yaml, scenarios
from varsim.report.files.directory import check_file

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
