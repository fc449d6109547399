"""Empirical distribution: measured step times from a CSV file, cycled or resampled."""

import math
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationInfo, model_validator

from varsim.core.csv_file import FileError, file_or, named_in, rows_of
from varsim.core.distribution import BLOCK, Distribution, Floats, Stream, Streams

# Not strict: after the validator below pydantic no longer knows that a list came from JSON.
Row = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, strict=False)]

_HEADER: Final = ("worker", "seconds")


class MeasuredTimes(Distribution):
    """Step times measured per worker, from a CSV file with the header `worker,seconds`.

    The file has one line per step, a worker's steps in order, workers numbered from 0; it is looked
    for beside the scenario. Worker w takes row w modulo the number of rows: with `cycle` step by
    step and from the start again, with `resample` at random with replacement. Of rows that are
    equally long workers then take the same random step, as those of one measured step belong
    together (see `together`). What was read is kept in `seconds`, plain numbers, so that a resolved
    scenario needs no file; where `seconds` is given, `file` only says where they came from.
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

    model_config = ConfigDict(json_schema_extra=file_or("seconds"))

    @model_validator(mode="before")
    @classmethod
    def _read_the_file(cls, data: object, info: ValidationInfo) -> object:
        if not isinstance(data, Mapping) or "seconds" in data:
            return data
        path = named_in(data, info, "times", _HEADER)
        return {**data, "seconds": read_step_times(path)}

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        row = np.array(self.seconds[worker % len(self.seconds)])
        for block in count():
            if self.replay == "resample":
                yield row[stream(block).integers(row.size, size=BLOCK)]
            else:
                yield row[np.arange(block * BLOCK, (block + 1) * BLOCK) % row.size]

    def together(self, worker: int, streams: Streams) -> Iterator[Floats]:
        """Whole steps: workers 0 to R - 1, who have the R rows, take the same step of each.

        So do workers R to 2 R - 1, in draws of their own. Rows of different lengths have no steps
        in common: each worker draws alone.
        """
        rows = len(self.seconds)
        whole = len({len(row) for row in self.seconds}) == 1
        return self.blocks(worker, streams("compute", worker - worker % rows if whole else worker))

    @property
    def is_random(self) -> bool:
        return self.replay == "resample" and any(len(set(row)) > 1 for row in self.seconds)

    def expectation(self) -> float:
        """The mean of the rows' means: that of workers in equal numbers for every row."""
        return sum(math.fsum(row) / len(row) for row in self.seconds) / len(self.seconds)


def read_step_times(path: Path) -> tuple[tuple[float, ...], ...]:
    """Seconds per step, one tuple per worker; a ValueError names file and line."""
    rows: dict[int, list[float]] = {}
    for row in rows_of(path, _HEADER, "times"):
        worker, seconds = row.fields
        number = row.whole(worker, "worker")
        rows.setdefault(number, []).append(row.number(seconds, "seconds"))
    missing = next(worker for worker in count() if worker not in rows)
    if missing < len(rows):
        raise FileError(
            f"{path}: worker {max(rows)} has times but worker {missing} has none; "
            "number the workers 0, 1, 2, ..."
        )
    return tuple(tuple(rows[worker]) for worker in range(len(rows)))
