"""The file of a sweep's runs, told from other files without being opened as what it is."""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

STORE: Final = "runs.sqlite"

# By either of these a file of runs is known, even if it is damaged.
_RUNS_MARKS: Final = (
    b"varsim sweep ",
    b"CREATE TABLE runs (key TEXT NOT NULL, replication INTEGER ",
)


def is_runs_file(path: Path) -> bool:
    """Whether a file is one of the runs of a sweep or plan, however damaged."""
    with suppress(OSError, ValueError):
        return any(content.find(mark) >= 0 for content in _mapped(path) for mark in _RUNS_MARKS)
    return False


def is_emptied(path: Path) -> bool:
    """Whether a file is there that has lost all it held, as when a machine loses its power."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size == 0


def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content
