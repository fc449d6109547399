"""Where runs are kept as they end: a file of JSON lines beside the results, one for each run."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Self
from zlib import crc32

if TYPE_CHECKING:
    from varsim.study.case import Finished


STORE: Final = "runs.jsonl"
_MARK: Final = b'{"key": "'  # so each line begins
_CHECK: Final = b', "check": '  # and so it ends: with this and a checksum of what is before
_VERSION: Final = b"4"  # part of what is checked: lines of other versions are none


class Store:
    """The runs of a sweep, kept in a directory; a context, in which nobody else may write there.

    Where lines are damaged, or of another version, the file is set `aside` under another name, and
    a new one is begun with the others. What cannot be written is an OSError that names the file.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / STORE
        self.aside: Path | None = None
        self._directory = directory
        self._made: list[Path] = []
        self._lock = -1
        self._runs: dict[tuple[str, int], Finished] = {}

    def __enter__(self) -> Self:
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
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        for path in self._made:
            with suppress(OSError):  # not empty: it stays
                path.rmdir()

    def add(self, runs: Iterable["Finished"]) -> None:
        """Keep some runs."""
        added = {run[:2]: run for run in runs}
        if not added:  # no file without a run
            return
        try:
            with self.path.open("ab") as file:
                file.write(b"".join(map(_line, added.values())))
        except OSError as error:
            raise OSError(f"cannot write {self.path}: {error.strerror}") from error
        self._runs |= added

    def runs(self) -> Iterator["Finished"]:
        """All runs that are kept."""
        yield from list(self._runs.values())

    def count(self) -> int:
        """How many runs are kept."""
        return len(self._runs)

    def told(self, then: str) -> str:
        """What became of a file that was set aside: its runs are made again, or what `then` is."""
        assert self.aside is not None
        return (
            f"runs in {self.path} cannot be read (damaged, or of another version) and are {then}; "
            f"the file is kept as {self.aside.name}"
        )

    def _take_lock(self) -> None:
        """Be the only one who writes here; the lock goes with the process, however that ends.

        The directory itself is locked: no file of its own, which might be somebody's.
        """
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        self._lock = os.open(self._directory, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"another sweep is at work in {self._directory}") from None
        except OSError:  # file systems without locks
            return

    def _open(self) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        *lines, torn = content.split(b"\n")
        found = list(map(_read, lines))
        self._runs = {run[:2]: run for run in found if run is not None}
        foreign = bool(torn) and not lines and not _MARK.startswith(torn[: len(_MARK)])
        if None in found or foreign:
            names = (f"{STORE}.unreadable{number}" for number in ("", *range(2, 1_000_000)))
            aside = (path for path in map(self._directory.joinpath, names) if not _is_there(path))
            self.aside = self.path.rename(next(aside))
            self.add(self._runs.values())
        elif torn:  # whoever wrote it was killed meanwhile
            os.truncate(self.path, len(content) - len(torn))


@contextmanager
def kept(
    directory: Path | None, say: Callable[[str], object], then: str = "made again"
) -> Iterator[Store]:
    """The runs that a directory keeps, or without one those that are forgotten.

    Of a file that cannot be read it says what becomes of it: its runs are `then`.
    """
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="varsim-")))
        store = stack.enter_context(Store(directory))
        if store.aside is not None:
            say(store.told(then))
        yield store


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def is_runs_file(path: Path) -> bool:
    """Whether a file is one of the runs of a sweep or plan."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MARK)) == _MARK


def _line(run: "Finished") -> bytes:
    said = json.dumps(run._asdict()).encode()[:-1]
    return said + _CHECK + str(crc32(_VERSION + said)).encode() + b"}\n"


def _read(line: bytes) -> "Finished | None":
    """The run of a line; None where it is not as it was written."""
    from varsim.study.case import Finished

    said, _, check = line.rpartition(_CHECK)
    if check != str(crc32(_VERSION + said)).encode() + b"}":
        return None
    return Finished(**json.loads(said + b"}"))
