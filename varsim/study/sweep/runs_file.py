"""The file of a sweep's runs, told from other files without being opened as what it is."""

from pathlib import Path
from typing import Final

STORE: Final = "runs.sqlite"

_MARK: Final = "CREATE TABLE runs (key TEXT NOT NULL, replication INTEGER "  # of any version
TABLE: Final = _MARK + (
    "NOT NULL, seconds REAL NOT NULL, measured TEXT NOT NULL, failure TEXT NOT NULL, "
    "trace TEXT NOT NULL, PRIMARY KEY (key, replication)) WITHOUT ROWID"
)
_PAGE: Final = 4096  # bytes, at the end of which SQLite writes what tables there are


def is_runs_file(path: Path) -> bool:
    """Whether a file is one of the runs of a sweep or plan."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _MARK.encode() in file.read(_PAGE)
