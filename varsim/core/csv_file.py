"""CSV files that a scenario names: their lines, each mistake at its line."""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationInfo

from varsim.core.refusal import RefusalError

_LARGEST_FILE: Final = 2**20
# So that a resolved scenario stays a file that can be loaded again.
MOST_ROWS: Final = 10_000


class FileError(RefusalError):
    """What is wrong with a file that a model names by its key `file`."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "file")


class CsvRow(NamedTuple):
    """A line of a file, by its number; its numbers are refused there, if they are none."""

    fields: list[str]
    path: Path
    line: int

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"{self.path}, line {self.line}"

    def whole(self, text: str, name: str) -> int:
        """A number from 0 up."""
        # isdecimal alone would let other alphabets' digits through.
        if not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise FileError(f"{self.place}: {name} must be a number from 0 up, not {text!r}")
        return int(text)

    def number(self, text: str, name: str) -> float:
        """A number above 0."""
        try:
            value = float(text)
        except ValueError:
            raise FileError(f"{self.place}: {text!r} is not a number of {name}") from None
        if not (math.isfinite(value) and value > 0):
            raise FileError(f"{self.place}: {name} must be above 0 and finite, not {text}")
        return value


def file_or(key: str) -> Callable[[dict[str, Any]], None]:
    """Of a model whose `key` is read from its file: in a scenario either will do."""

    def either(schema: dict[str, Any]) -> None:
        schema["required"] = [one for one in schema["required"] if one != key]
        schema["anyOf"] = [{"required": ["file"]}, {"required": [key]}]

    return either


def named_in(
    data: Mapping[str, object], info: ValidationInfo, what: str, header: Sequence[str]
) -> Path:
    """The file that a scenario names, beside it; ValueError where it names none."""
    file = data.get("file")
    if file is None:
        raise ValueError(f"give file: a CSV of {what} with the header {','.join(header)}")
    if not isinstance(file, str):
        raise ValueError("file must be the name of a CSV file")
    return Path((info.context or {}).get("folder", ""), file)


def header_of(path: Path) -> list[str]:
    """The names in the first line of a file; ValueError names a file that cannot be read."""
    return _named(_lines(path)[0])


def rows_of(path: Path, header: Sequence[str], what: str) -> Iterator[CsvRow]:
    """The lines of a file below its header, without empty ones; ValueError names file and line."""
    first, *lines = _lines(path)
    if _named(first) != list(header):
        raise FileError(f"{path}, line 1: the header must be {','.join(header)}")
    for number, line in enumerate(lines, start=2):
        if line.strip():
            row = CsvRow(_named(line), path, number)
            if len(row.fields) != len(header):
                count = {2: "two", 3: "three"}.get(len(header), len(header))
                raise FileError(
                    f"{row.place}: {len(row.fields)} values where {','.join(header)} are {count}"
                )
            yield row
    if len(lines) > MOST_ROWS:
        raise FileError(f"{path}: {len(lines)} {what}; at most {MOST_ROWS} can be replayed")
    if not any(map(str.strip, lines)):
        raise FileError(f"{path}, line 2: no {what} after the header")


def _named(line: str) -> list[str]:
    return [one.strip() for one in next(csv.reader([line]), [])]


def _lines(path: Path) -> list[str]:
    """All lines, at least one."""
    try:
        there, folder = path.is_file(), path.is_dir()
    except OSError as problem:  # as of a name that no file can have
        raise FileError(f"{path}: {problem.strerror}") from None
    if not there:
        raise FileError(f"{path}: {'this is a folder' if folder else 'there is no such file'}")
    if path.stat().st_size > _LARGEST_FILE:
        raise FileError(f"{path}: larger than {_LARGEST_FILE // 2**20} MiB")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(f"{path}: cannot be read as UTF-8 text ({problem})") from None
    return text.splitlines() or [""]
