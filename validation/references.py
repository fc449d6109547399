"""Where the numbers are that varsim is held against."""

import csv
from pathlib import Path
from typing import Final

REFERENCES: Final = Path(__file__).parent / "data" / "references"


def table(name: str) -> list[dict[str, str]]:
    """The rows of a bundled CSV, by column."""
    with (REFERENCES / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
