"""Empirical distribution: measured step times from a CSV file, cycled or resampled."""

import math
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationInfo, model_validator

from varsim.values.distribution import BLOCK, Distribution, Floats, Stream

# Not strict: after the validator below pydantic no longer knows that a list came from JSON.
Row = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, strict=False)]

_HEADER: Final = ["worker", "seconds"]
_LARGEST_FILE: Final = 2**20
_MOST: Final = 10_000  # so that a resolved scenario stays a file that can be loaded again


def _file_or_seconds(schema: dict[str, Any]) -> None:
    """In a scenario either will do."""
    schema["required"] = [key for key in schema["required"] if key != "seconds"]
    schema["anyOf"] = [{"required": ["file"]}, {"required": ["seconds"]}]


class MeasuredTimes(Distribution):
    """Step times measured per worker, from a CSV file with the header `worker,seconds`.

    The file has one line per step, a worker's steps in order, workers numbered from 0; it is looked
    for beside the scenario. Worker w takes row w modulo the number of rows: with `cycle` step by
    step and from the start again, with `resample` at random with replacement. What was read is
    kept in `seconds`, plain numbers, so that a resolved scenario needs no file; where `seconds` is
    given, `file` only says where they came from.
    """

    about: ClassVar[str] = "measured step times from a CSV, cycled or resampled"
    # A key -> what is read from it, and out of date where another is put in its place.
    read_from: ClassVar[Mapping[str, str]] = {"file": "seconds"}

    kind: Literal["trace"] = "trace"
    file: str | None = None
    """CSV file with the header `worker,seconds`, beside the scenario."""
    replay: Literal["cycle", "resample"] = "cycle"
    """Whether times are played in order, over and over, or drawn at random."""
    seconds: tuple[Row, ...] = Field(min_length=1, strict=False)
    """The times themselves, a list for each worker, instead of a file."""

    model_config = ConfigDict(json_schema_extra=_file_or_seconds)

    @model_validator(mode="before")
    @classmethod
    def _read_the_file(cls, data: object, info: ValidationInfo) -> object:
        if not isinstance(data, Mapping) or "seconds" in data:
            return data
        file = data.get("file")
        if file is None:
            raise ValueError("give file: a CSV of step times with the header worker,seconds")
        if not isinstance(file, str):
            raise ValueError("file must be the name of a CSV file")
        folder = (info.context or {}).get("folder", "")
        return {**data, "seconds": read_step_times(Path(folder, file))}

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        row = np.array(self.seconds[worker % len(self.seconds)])
        for block in count():
            if self.replay == "resample":
                yield row[stream(block).integers(row.size, size=BLOCK)]
            else:
                yield row[np.arange(block * BLOCK, (block + 1) * BLOCK) % row.size]

    @property
    def is_random(self) -> bool:
        return self.replay == "resample" and any(len(set(row)) > 1 for row in self.seconds)

    def expectation(self) -> float:
        """The mean of the rows' means: that of workers in equal numbers for every row."""
        return sum(math.fsum(row) / len(row) for row in self.seconds) / len(self.seconds)

    def shortest(self) -> float:
        return min(map(min, self.seconds))


def read_step_times(path: Path) -> tuple[tuple[float, ...], ...]:
    """Seconds per step, one tuple per worker; a ValueError names file and line."""
    try:
        there = path.is_file()
    except OSError as problem:  # as of a name that no file can have
        raise ValueError(f"{path}: {problem.strerror}") from None
    if not there:
        raise ValueError(f"{path}: there is no such file")
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"{path}: larger than {_LARGEST_FILE // 2**20} MiB")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path}: cannot be read as UTF-8 text ({problem})") from None
    header, *lines = text.splitlines() or [""]
    if [name.strip() for name in header.split(",")] != _HEADER:
        raise ValueError(f"{path}, line 1: the header must be {','.join(_HEADER)}")
    rows: dict[int, list[float]] = {}
    for number, line in enumerate(lines, start=2):
        if line.strip():
            worker, seconds = _step(line.split(","), f"{path}, line {number}")
            rows.setdefault(worker, []).append(seconds)
    if len(lines) > _MOST:
        raise ValueError(f"{path}: {len(lines)} step times; at most {_MOST} can be replayed")
    if not rows:
        raise ValueError(f"{path}, line 2: no step times after the header")
    missing = next(worker for worker in count() if worker not in rows)
    if missing < len(rows):
        raise ValueError(
            f"{path}: worker {max(rows)} has step times but worker {missing} has none; "
            "number the workers 0, 1, 2, ..."
        )
    return tuple(tuple(rows[worker]) for worker in range(len(rows)))


def _step(fields: list[str], place: str) -> tuple[int, float]:
    if len(fields) != len(_HEADER):
        raise ValueError(f"{place}: {len(fields)} values where worker,seconds are two")
    worker, seconds = (field.strip() for field in fields)
    # isdecimal alone would let other alphabets' digits through.
    if not (worker.isascii() and worker.isdecimal() and len(worker) <= 9):
        raise ValueError(f"{place}: worker must be a number from 0 up, not {worker!r}")
    try:
        value = float(seconds)
    except ValueError:
        raise ValueError(f"{place}: {seconds!r} is not a number of seconds") from None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{place}: seconds must be above 0 and finite, not {seconds}")
    return int(worker), value
