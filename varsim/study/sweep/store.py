"""Where runs are kept as they end: an SQLite file beside the results, one commit to a run."""

import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from varsim.study.sweep.case import Finished
from varsim.study.sweep.runs_file import STORE, is_emptied, is_runs_file

_VERSION: Final = 2
_FORMAT: Final = f"varsim sweep {_VERSION}"
_ANY_FORMAT: Final = re.compile(rb"varsim sweep ([0-9]{1,6})")
# What a damaged file is met with: besides the library's own, names in it that are no UTF-8.
_UNREADABLE: Final = (sqlite3.Error, ValueError, OverflowError, MemoryError)
_BESIDE: Final = ("-wal", "-shm", "-journal")
_TABLES: Final = (
    "CREATE TABLE about (format TEXT NOT NULL, runs INTEGER NOT NULL, sha256 TEXT NOT NULL)",
    "CREATE TABLE runs (key TEXT NOT NULL, replication INTEGER NOT NULL, "
    "seconds REAL NOT NULL, measured TEXT NOT NULL, failure TEXT NOT NULL, "
    "trace TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (key, replication)) WITHOUT ROWID",
)
_ROWS: Final = "SELECT key, replication, seconds, measured, failure, trace, sha256 FROM runs"


class Damage(NamedTuple):
    """A file of runs that could not be used: damaged, or of an `old` version of varsim.

    `lost` says how many runs are not in the new one, if that is known; `kept` is the old file.
    """

    path: Path
    lost: int | None
    kept: Path
    old: bool

    def told(self, then: str) -> str:
        """In a sentence, as `3 runs in a/runs.sqlite were unreadable and are made again; ...`."""
        aside = f"the {'old' if self.old else 'damaged'} file is kept as {self.kept.name}"
        if self.lost == 0:
            what = "is of an earlier varsim" if self.old else "was damaged"
            return f"{self.path} {what}, but no run is lost; {aside}"
        why = "made by an earlier varsim, with other answers," if self.old else "unreadable"
        if self.lost == 1:
            return f"1 run in {self.path} was {why} and is {then}; {aside}"
        many = "some runs" if self.lost is None else f"{self.lost:,} runs"
        return f"{many} in {self.path} were {why} and are {then}; {aside}"


class Store:
    """The runs of a sweep, kept in a directory; a context, in which nobody else may write there.

    Every run has a checksum. Where a file of runs is damaged, those that can be read go to a new
    one, and `damage` says so. Whatever cannot be read or written is an OSError that names the file.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / STORE
        self.damage: Damage | None = None
        self._directory = directory
        self._made: list[Path] = []
        self._lock = -1
        self._count = -1  # of the runs that are kept, once that is known
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
        if self._base is not None:
            with suppress(sqlite3.Error):
                self._base.close()
            self._base = None
        if self._count == 0:  # what cannot be counted is never removed
            for suffix in ("", *_BESIDE):
                with suppress(OSError):
                    self._beside(suffix).unlink(missing_ok=True)
        if self._lock >= 0:
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
                known = "SELECT 1 FROM runs WHERE key = ? AND replication = ?"
                self._count += base.execute(known, run[:2]).fetchone() is None
                _insert(base, run)
                base.execute("UPDATE about SET runs = ?, sha256 = ?", _about(self._count)[1:])
                base.commit()

    def runs(self) -> Iterator[Finished]:
        """All runs that are kept."""
        base = self._connected()
        with _as_os_error(self.path):
            for key, replication, seconds, measured, failure, trace, _ in base.execute(_ROWS):
                yield Finished(key, replication, seconds, json.loads(measured), failure, trace)

    def count(self) -> int:
        """How many runs are kept."""
        return self._count

    def _connected(self) -> sqlite3.Connection:
        assert self._base is not None, "a store is used inside 'with'"
        return self._base

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{STORE}{suffix}")

    def _take_lock(self) -> None:
        """Be the only one who writes here; the lock goes with the process, however that ends.

        The directory itself is locked: no file of its own, which might be somebody's.
        """
        try:
            import fcntl
        except ImportError:  # not on this system: SQLite still keeps the file whole
            return
        with _as_os_error(self._directory):
            self._lock = os.open(self._directory, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            raise OSError(f"another sweep is at work in {self._directory}") from None
        except OSError:  # file systems without locks
            return

    def _open(self) -> None:
        if not self.path.exists():
            for path in map(self._beside, _BESIDE):
                if path.exists():
                    raise OSError(
                        f"{path} belongs to a database that is not there; it is left alone: name "
                        "another directory"
                    )
            self._put(self._written([]))
            self._count = 0
        elif not (is_runs_file(self.path) or is_emptied(self.path)):
            raise OSError(
                f"{self.path} is not a file of runs of varsim; it is left alone: name another "
                "directory"
            )
        else:
            self._look_through()
        with _as_os_error(self.path):
            base = self._base = sqlite3.connect(self.path)
            base.execute("PRAGMA journal_mode = WAL")
            # What is committed survives the end of any process; not always that of the machine.
            base.execute("PRAGMA synchronous = NORMAL")

    def _look_through(self) -> None:
        """Count the runs; where the file is damaged, another takes its place with what is left."""
        with _as_os_error(self.path), closing(sqlite3.connect(self.path)) as base:
            base.text_factory = bytes
            version, expected = _said(base)
            if version > _VERSION:
                raise OSError(
                    f"{self.path} was written by a later version of varsim: name another directory"
                )
            if version < _VERSION:
                old, good, lost = True, [], _row_count(base)
            else:
                whole, self._count = _looked_through(base)
                if whole and self._count == expected:
                    return
                old, good = False, _salvaged(base)
                lost = 0 if whole else None
                if expected is not None:
                    lost = max(0, expected - len(good))
        self._replace(good, lost, old)
        self._count = len(good)

    def _replace(self, good: Iterable[Finished], lost: int | None, old: bool) -> None:
        """Put the file aside, and another with the good runs in its place."""
        ending = ".old" if old else ".damaged"
        names = (self._beside(f"{ending}{number}") for number in ("", *range(2, 1_000_000)))
        aside = next(path for path in names if not (path.exists() or path.is_symlink()))
        partial = self._written(good)
        with _as_os_error(self.path):
            try:
                os.link(self.path, aside)
            except OSError:  # not on every file system
                shutil.copy2(self.path, aside)
            for path in map(self._beside, _BESIDE):
                path.unlink(missing_ok=True)
        self._put(partial)
        self.damage = Damage(self.path, lost, aside, old)

    def _written(self, runs: Iterable[Finished]) -> Path:
        """A new file with these runs, not yet in its place."""
        partial = self._directory / f".{STORE}.partial-{os.getpid()}"
        try:
            with _as_os_error(self.path):
                partial.unlink(missing_ok=True)
                with closing(sqlite3.connect(partial)) as base:
                    for line in _TABLES:
                        base.execute(line)
                    count = 0
                    for run in runs:
                        _insert(base, run)
                        count += 1
                    base.execute("INSERT INTO about VALUES (?, ?, ?)", _about(count))
                    base.commit()
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return partial

    def _put(self, partial: Path) -> None:
        with _as_os_error(self.path):
            partial.replace(self.path)


def _insert(base: sqlite3.Connection, run: Finished) -> None:
    row = (*run[:3], json.dumps(run.measured), run.failure, run.trace)
    values = (*row, _digest(row))
    base.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def _about(count: int) -> tuple[str, int, str]:
    return _FORMAT, count, _digest((_FORMAT, count))


def _digest(row: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(row).encode(errors="surrogatepass")).hexdigest()


def _said(base: sqlite3.Connection) -> tuple[int, int | None]:
    """The version of a file, and the number of runs that it says it has, if it is to be trusted."""
    with suppress(*_UNREADABLE):
        ((said, *rest),) = base.execute("SELECT * FROM about").fetchall()
        if isinstance(said, bytes) and (found := _ANY_FORMAT.fullmatch(said)):
            if len(rest) != 2:
                return int(found[1]), None
            count, digest = rest
            if digest.decode() == _about(count)[2]:
                return _VERSION, count
    return _VERSION, None


def _row_count(base: sqlite3.Connection) -> int | None:
    """How many runs there are, readable or not."""
    with suppress(*_UNREADABLE):
        (number,) = base.execute("SELECT COUNT(*) FROM runs").fetchone()
        return int(number)
    return None


def _looked_through(base: sqlite3.Connection) -> tuple[bool, int]:
    """Whether a file is as it was written, and how many runs in it are."""
    count = 0
    try:
        for row in base.execute(_ROWS):
            if _intact(row) is None:
                return False, count
            count += 1
        return base.execute("PRAGMA quick_check").fetchall() == [(b"ok",)], count
    except _UNREADABLE:
        return False, count


def _salvaged(base: sqlite3.Connection) -> list[Finished]:
    """The runs of a damaged file that can be read, each once."""
    good: dict[tuple[str, int], Finished] = {}
    # From both ends: what lies behind a damaged page is met from the other side.
    for order in ("ASC", "DESC"):
        with suppress(*_UNREADABLE):
            for row in base.execute(f"{_ROWS} ORDER BY key {order}, replication {order}"):
                if (run := _intact(row)) is not None:
                    good[run.key, run.replication] = run
    return list(good.values())


def _intact(row: tuple[Any, ...]) -> Finished | None:
    """The run of a row whose checksum holds."""
    try:
        row = tuple(part.decode() if isinstance(part, bytes) else part for part in row)
        if _digest(row[:-1]) != row[-1]:
            return None
        key, replication, seconds, measured, failure, trace = row[:-1]
        return Finished(key, replication, seconds, json.loads(measured), failure, trace)
    except ValueError:
        return None


@contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """What SQLite says of a file, as the system would: it names the file, and ends the command."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"cannot write {path}: {error}") from error
