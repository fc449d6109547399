"""Rows of integers that a run leaves: in as few bytes as they need, many of them on disk."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from shutil import copyfileobj
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# Rows whose columns are packed together, and read together.
BLOCK: Final = 1 << 16
# More gradients than this are on disk; of other rows as many as have as many integers.
MOST_KEPT: Final = 1_000_000
_OF_A_GRADIENT: Final = 11
# About so many are put in order together.
_TOGETHER: Final = 500_000


# Values of so many bytes are kept in parts: from which byte on, and how many bytes of each value.
_PARTS: Final = (
    *((), ((0, 1),), ((0, 2),), ((0, 2), (2, 1)), ((0, 4),)),
    *(((0, 4), (4, 1)), ((0, 4), (4, 2)), ((0, 4), (4, 2), (6, 1)), ((0, 8),)),
)

_HANDED_OVER_IN: Final = ContextVar[str | None]("folder", default=None)


@contextmanager
def handed_over_in(folder: str) -> Iterator[None]:
    """Pickle rows that are on disk as files in this folder, where who unpickles them takes them."""
    token = _HANDED_OVER_IN.set(folder)
    try:
        yield
    finally:
        _HANDED_OVER_IN.reset(token)


class _Packed(NamedTuple):
    """Column of a block: how far its values are above the lowest, `size` bytes (0 to 8) each."""

    lowest: int
    size: int
    content: bytes | int  # or where it begins in the file


class Rows:
    """Rows of integers, packed block by block and column by column.

    Beyond `most` rows they are in a temporary file: it has no name, and is gone as soon as nobody
    has these rows any more, however the program ends. By default: see MOST_KEPT.
    """

    def __init__(self, columns: int, most: int | None = None) -> None:
        self.columns = columns
        self._most = MOST_KEPT * _OF_A_GRADIENT // columns if most is None else most
        self._count = 0
        self._blocks: list[tuple[int, list[_Packed]]] = []  # how many rows, and their columns
        self._file: _File | None = None
        self._written = 0  # blocks that are in the file

    @classmethod
    def of(cls, rows: Integers) -> "Rows":
        """These rows (n, columns)."""
        found = cls(rows.shape[1])
        found.append(rows)
        return found

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        """Whether the rows are equal, wherever they are and however many came at a time."""
        if not isinstance(other, Rows):
            return NotImplemented
        return (self.columns, len(self)) == (other.columns, len(other)) and all(
            np.array_equal(self.column(number), other.column(number))
            for number in range(self.columns)
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, object]:
        folder = _HANDED_OVER_IN.get()
        if self._file is not None and folder is not None:
            return {**vars(self), "_file": self._file.copied(folder)}
        blocks = [
            (count, [column._replace(content=self._content(count, column)) for column in columns])
            for count, columns in self._blocks
        ]
        return {**vars(self), "_blocks": blocks, "_file": None, "_written": 0}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        if isinstance(self._file, str):
            self._file = _File(self._file)
        elif self._count > self._most:
            self._to_disk()

    def append(self, rows: Integers) -> None:
        """Add rows (n, columns) at the end."""
        self.append_columns(rows.T)

    def append_columns(self, columns: Integers) -> None:
        """Add rows at the end that come as columns (columns, n)."""
        for first in range(0, columns.shape[1], BLOCK):
            block = columns[:, first : first + BLOCK]
            packed = [_packed(np.ascontiguousarray(column)) for column in block]
            self._blocks.append((block.shape[1], packed))
            self._count += block.shape[1]
        if self._count > self._most:
            self._to_disk()

    def column(self, number: int) -> Integers:
        """One column of all rows (n,)."""
        found, first = np.empty(self._count, dtype=np.int64), 0
        for count, columns in self._blocks:
            found[first : first + count] = self._unpacked(count, columns[number])
            first += count
        return found

    def parts(self, numbers: Sequence[int] | None = None) -> Iterator[Integers]:
        """All rows in order, or these columns of them, a block (at most BLOCK, columns) at a time.

        One that is empty where there are none at all.
        """
        wanted = range(self.columns) if numbers is None else numbers
        if not self._blocks:
            yield np.empty((0, len(wanted)), dtype=np.int64)
        for count, columns in self._blocks:
            yield np.stack([self._unpacked(count, columns[one]) for one in wanted], axis=1)

    def of_each(
        self, number: int, values: int, wanted: Sequence[int] | None = None
    ) -> Iterator[Integers]:
        """All rows by a column, which is from 0 to below `values`; some values at a time.

        Rows of one value stay in order. `wanted`: columns, that one among them; by default all.
        """
        columns = range(self.columns) if wanted is None else wanted
        key = columns.index(number)
        counts = np.zeros(values, dtype=np.int64)
        for (only,) in (part.T for part in self.parts([number])):
            counts += np.bincount(only, minlength=values)
        starts = list(_starts(counts.tolist()))
        if len(starts) == 1:
            yield _sorted(np.concatenate(list(self.parts(columns))), key)
            return
        groups = [Rows(len(columns), most=0) for _ in starts]
        for part in self.parts(columns):
            place = np.searchsorted(starts, part[:, key], side="right") - 1
            for group in np.unique(place).tolist():
                groups[group].append(part[place == group])
        for rows in groups:
            yield _sorted(rows.array(), key)

    def by(self, number: int, values: int) -> "Rows":
        """All rows by a column; see `of_each`."""
        found = Rows(self.columns)
        for rows in self.of_each(number, values):
            found.append(rows)
        return found

    def least(
        self, number: int, count: int, chosen: Callable[[Integers], NDArray[np.bool_]] | None = None
    ) -> Integers:
        """The `count` rows with the least values in a column, of equal ones the first; in order.

        `chosen`: of a part (n, columns) which rows are looked at.
        """
        found: list[Integers] = []
        below: int | None = None  # rows with other values are none of them any more
        for part in self.parts():
            if chosen is not None:
                part = part[chosen(part)]
            found.append(part if below is None else part[part[:, number] < below])
            if sum(map(len, found)) > count + 2 * BLOCK:
                found = [_least(np.concatenate(found), number, count)]
                below = int(found[0][:, number].max(initial=0))
        return _least(np.concatenate(found), number, count)

    def blocks(self) -> Iterator["Rows"]:
        """All rows in order, at most BLOCK at a time."""
        for count, columns in self._blocks:
            one = Rows(self.columns)
            one._blocks, one._count, one._file = [(count, columns)], count, self._file
            yield one

    def array(self) -> Integers:
        """All rows at once (n, columns)."""
        return np.concatenate(list(self.parts()))

    def _unpacked(self, count: int, column: _Packed) -> Integers:
        if column.size == 0:
            return np.full(count, column.lowest, dtype=np.int64)
        found, first = np.zeros(count, dtype="<i8"), 0
        content = self._content(count, column)
        for begin, size in _PARTS[column.size]:
            part = np.frombuffer(content, dtype=f"<u{size}", count=count, offset=first)
            found.view(f"<u{size}")[begin // size :: 8 // size] = part
            first += part.nbytes
        found += column.lowest
        return found

    def _content(self, count: int, column: _Packed) -> bytes:
        if isinstance(column.content, bytes):
            return column.content
        assert self._file is not None
        return self._file.read(column.content, count * column.size)

    def _to_disk(self) -> None:
        """Write what is not yet in the file."""
        if self._file is None:
            self._file = _File()
        for _, columns in self._blocks[self._written :]:
            for number, column in enumerate(columns):
                assert isinstance(column.content, bytes)
                columns[number] = column._replace(content=self._file.append(column.content))
        self._written = len(self._blocks)


class _File:
    """Temporary file without a name, which lasts as long as this does; or one taken over."""

    _file: IO[bytes]

    def __init__(self, path: str | None = None) -> None:
        if path is None:
            self._file = TemporaryFile(prefix="varsim-")  # noqa: SIM115 - closed with this
            return
        self._file = open(path, "r+b")  # noqa: SIM115 - closed with this
        with suppress(PermissionError):  # of an open file: then it goes with its folder
            os.unlink(path)

    def copied(self, folder: str) -> str:
        """Copy it to a new file in a folder; its path."""
        self._file.seek(0)
        with NamedTemporaryFile(dir=folder, delete=False) as file:
            copyfileobj(self._file, file)
        return file.name

    def __del__(self) -> None:
        self._file.close()

    def append(self, content: bytes) -> int:
        """Write at the end; where that is."""
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(content)
        return place

    def read(self, place: int, size: int) -> bytes:
        """So many bytes from a place on."""
        self._file.seek(place)
        return self._file.read(size)


def _starts(counts: Sequence[int]) -> Iterator[int]:
    """From which values on rows, so many of each, are put in order together."""
    number = 0
    yield 0
    for value, count in enumerate(counts):
        if number and number + count > _TOGETHER:
            yield value
            number = 0
        number += count


def _sorted(rows: Integers, number: int) -> Integers:
    """Rows by a column, those of one value in order."""
    keys = rows[:, number] - rows[:, number].min(initial=0)
    if not (keys[1:] < keys[:-1]).any():
        return rows
    # Of small integers the stable sort is many times as fast.
    small = keys.max() < 1 << 16
    return rows[np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")]


def _least(rows: Integers, number: int, count: int) -> Integers:
    if len(rows) <= count:
        return rows
    return rows[np.sort(np.argsort(rows[:, number], kind="stable")[:count])]


def _packed(column: Integers) -> _Packed:
    lowest = int(column.min())
    size = (int(column.max()) - lowest).bit_length() + 7 >> 3
    above = (column - lowest).astype("<i8", copy=False)
    parts = [
        above.view(f"<u{wide}")[begin // wide :: 8 // wide].tobytes()
        for begin, wide in _PARTS[size]
    ]
    return _Packed(lowest, size, b"".join(parts))
