"""Where runs are kept as they end: an SQLite file beside the results, one commit to a run."""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from varsim.sweep.case import Finished

FILE: Final = "runs.sqlite"
_LOCK: Final = ".lock"
_FORMAT: Final = "varsim sweep 2"
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS about (format TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS runs (key TEXT NOT NULL, replication INTEGER NOT NULL, "
    "seconds REAL NOT NULL, measured TEXT NOT NULL, failure TEXT NOT NULL, "
    "trace TEXT NOT NULL, PRIMARY KEY (key, replication)) WITHOUT ROWID",
)


class Store:
    """The runs of a sweep, kept in a directory; a context, in which nobody else may write there.

    Whatever cannot be read or written is an OSError that names the file.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        self._directory = directory
        self._made: list[Path] = []
        self._lock = -1
        self._fresh = False  # whether the file is not yet one that runs may be in
        self._base: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        with _as_os_error(self._directory):
            above = [path for path in self._directory.parents if not path.exists()]
            self._made = [] if self._directory.exists() else [self._directory, *above]
            self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._take_lock()
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        empty = self._fresh  # unless runs are in it: what cannot be counted is never removed
        if self._base is not None:
            with suppress(OSError):
                empty = not self.count()
            with suppress(sqlite3.Error):
                self._base.close()
            self._base = None
        if self._lock >= 0:
            if empty:
                self._remove_all()
            (self._directory / _LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1
        for path in self._made:
            with suppress(OSError):  # not empty: it stays
                path.rmdir()

    def add(self, runs: Iterable[Finished]) -> None:
        """Keep some runs, each by a commit of its own."""
        base = self._connected()
        with _as_os_error(self.path):
            for run in runs:
                row = (*run[:3], json.dumps(run.measured), run.failure, run.trace)
                base.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
                base.commit()

    def runs(self) -> Iterator[Finished]:
        """All runs that are kept."""
        base = self._connected()
        with _as_os_error(self.path):
            query = "SELECT key, replication, seconds, measured, failure, trace FROM runs"
            for key, replication, seconds, measured, *rest in base.execute(query):
                yield Finished(key, replication, seconds, json.loads(measured), *rest)

    def count(self) -> int:
        """How many runs are kept."""
        with _as_os_error(self.path):
            (number,) = self._connected().execute("SELECT COUNT(*) FROM runs").fetchone()
        return int(number)

    def _connected(self) -> sqlite3.Connection:
        assert self._base is not None, "a store is used inside 'with'"
        return self._base

    def _take_lock(self) -> None:
        """Be the only one who writes here; the lock goes with the process, however that ends."""
        with _as_os_error(self._directory):
            self._lock = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            import fcntl
        except ImportError:  # not on this system: SQLite still keeps the file whole
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            raise OSError(f"another sweep is at work in {self._directory}") from None
        except OSError:  # file systems without locks
            return

    def _open(self) -> None:
        self._fresh = not self.path.exists()
        with _as_os_error(self.path):
            base = self._base = sqlite3.connect(self.path)
            base.execute("PRAGMA journal_mode = WAL")
            # What is committed survives the end of any process; not always that of the machine.
            base.execute("PRAGMA synchronous = NORMAL")
            for line in _TABLES:
                base.execute(line)
            if base.execute("SELECT COUNT(*) FROM about").fetchone() == (0,):
                base.execute("INSERT INTO about VALUES (?)", (_FORMAT,))
            base.commit()
            (said,) = base.execute("SELECT format FROM about").fetchone()
        self._fresh = False
        if said != _FORMAT:
            raise OSError(f"{self.path} was written by another version of varsim ({said})")

    def _remove_all(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                self.path.with_name(f"{self.path.name}{suffix}").unlink(missing_ok=True)


@contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """What SQLite says of a file, as the system would: it names the file, and ends the command."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"cannot write {path}: {error}") from error
