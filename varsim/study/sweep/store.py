"""Where runs are kept as they end: an SQLite file beside the results."""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from varsim.study.sweep.case import Finished
from varsim.study.sweep.runs_file import STORE, TABLE

_VERSION: Final = 3
_ROWS: Final = "SELECT key, replication, seconds, measured, failure, trace FROM runs"
_BESIDE: Final = ("", "-journal", "-wal", "-shm")  # the last two: of earlier versions
_PATIENCE: Final = 60.0  # seconds to wait while another program reads the file
# Errors that say nothing about whether the file is whole.
_OF_THE_SYSTEM: Final = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


class Store:
    """The runs of a sweep, kept in a directory; a context, in which nobody else may write there.

    A file that cannot be read, or is of another version, is set `aside` under another name, and a
    new one is begun. What cannot be written is an OSError that names the file.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / STORE
        self.aside: Path | None = None
        self._directory = directory
        self._made: list[Path] = []
        self._lock = -1
        self._base: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        above = [path for path in self._directory.parents if not path.exists()]
        self._made = [] if self._directory.exists() else [self._directory, *above]
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._take_lock()
            with _as_os_error(self.path):
                self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._base is not None:
            with suppress(sqlite3.Error, OSError), closing(self._base):
                if self.path.stat().st_size == 0 or self.count() == 0:
                    self.path.unlink()
            self._base = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        for path in self._made:
            with suppress(OSError):  # not empty: it stays
                path.rmdir()

    def add(self, runs: Iterable[Finished]) -> None:
        """Keep some runs, all of them or none."""
        rows = ((*run[:3], json.dumps(run.measured), run.failure, run.trace) for run in runs)
        with _as_os_error(self.path), self._connected() as base:
            base.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", rows)

    def runs(self) -> Iterator[Finished]:
        """All runs that are kept."""
        with _as_os_error(self.path):
            yield from _runs_in(self._connected())

    def count(self) -> int:
        """How many runs are kept."""
        (count,) = self._connected().execute("SELECT COUNT(*) FROM runs").fetchone()
        return int(count)

    def told(self, then: str) -> str:
        """What became of a file that was set aside: its runs are made again, or what `then` is."""
        assert self.aside is not None
        return (
            f"the runs in {self.path} cannot be read (damaged, or of another version) and are "
            f"{then}; the file is kept as {self.aside.name}"
        )

    def _connected(self) -> sqlite3.Connection:
        assert self._base is not None, "a store is used inside 'with'"
        return self._base

    def _take_lock(self) -> None:
        """Be the only one who writes here; the lock goes with the process, however that ends.

        The directory itself is locked: no file of its own, which might be somebody's.
        """
        try:
            import fcntl
        except ImportError:  # not on this system: SQLite still keeps the file whole
            return
        self._lock = os.open(self._directory, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"another sweep is at work in {self._directory}") from None
        except OSError:  # file systems without locks
            return

    def _open(self) -> None:
        begun = self.path.exists() and self.path.stat().st_size > 0
        if begun and not _is_whole(self.path):
            self._put_aside()
            begun = False
        self._base = sqlite3.connect(self.path, timeout=_PATIENCE)
        if not begun:
            self._base.executescript(f"BEGIN; {TABLE}; PRAGMA user_version = {_VERSION}; COMMIT")

    def _put_aside(self) -> None:
        names = (f"{STORE}.unreadable{number}" for number in ("", *range(2, 1_000_000)))
        self.aside = next(
            path
            for path in map(self._directory.joinpath, names)
            if not (path.exists() or path.is_symlink())
        )
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                self.path.with_name(f"{STORE}{suffix}").rename(f"{self.aside}{suffix}")


def _runs_in(base: sqlite3.Connection) -> Iterator[Finished]:
    for key, replication, seconds, measured, failure, trace in base.execute(_ROWS):
        yield Finished(key, replication, seconds, json.loads(measured), failure, trace)


def _is_whole(path: Path) -> bool:
    """Whether a file is a store of this version that can be read from beginning to end."""
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as base:
            if base.execute("PRAGMA user_version").fetchone() != (_VERSION,):
                return False
            for _ in _runs_in(base):
                pass
            return base.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_SYSTEM:
            raise
        return False
    except ValueError:
        return False


@contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """What SQLite says of a file, as the system would: it names the file, and ends the command."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"cannot write {path}: {error}") from error
