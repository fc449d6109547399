"""How long things take: CPU seconds, taken in turn, as ratios within a turn.

The machine may be busy and may change its clock: only what ran next to each other is compared.
"""

import gc
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

Task = Callable[[], object]


class Spread(NamedTuple):
    """What was measured several times."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(statistics.median(values), min(values), max(values))


class Row(NamedTuple):
    """A line of the table: what was measured, and what it may be at most.

    `unit`: of both; nothing for a ratio. `measured`: None where it could not be, `remark` says why.
    `goal`: None where there is none, so that the row is there to be known.
    """

    name: str
    goal: float | None
    measured: Spread | None
    unit: str = ""
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal is reached by the median."""
        if self.measured is None:
            return "not measured"
        if self.goal is None:
            return ""
        return "reached" if self.measured.median <= self.goal else "**missed**"


@dataclass(frozen=True)
class Turns:
    """CPU seconds of several tasks, done in turn: of each, one a turn."""

    seconds: Mapping[str, Sequence[float]]

    def __getitem__(self, name: str) -> Spread:
        return Spread.of(self.seconds[name])

    def ratio(self, name: str, base: str, scale: float = 1.0) -> Spread:
        """How long one takes beside another, turn by turn; times `scale`."""
        pairs = zip(self.seconds[name], self.seconds[base], strict=True)
        return Spread.of([scale * each / other for each, other in pairs])


def in_turn(
    tasks: Mapping[str, Task],
    repeat: int,
    clock: Callable[[], float] = time.process_time,
    warm: bool = False,
) -> Turns:
    """Each of the tasks `repeat` times, after a turn that warms up, unless they are `warm`."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(warm, repeat + 1):
        for name, task in tasks.items():
            gc.collect()
            start = clock()
            task()
            if turn:
                seconds[name].append(clock() - start)
    return Turns(seconds)


def children() -> float:
    """The clock of what other processes took that have ended: user and system."""
    of = resource.getrusage(resource.RUSAGE_CHILDREN)
    return of.ru_utime + of.ru_stime


def command(
    *arguments: str,
    tree: Path | None = None,
    folder: Path | None = None,
    cache: Path | None = None,
) -> Task:
    """Python in a process of its own, as users start it; of the varsim in `tree`, if not ours.

    `cache`: where machine code is kept, if not where it usually is.
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if tree is not None:
        environment["PYTHONPATH"] = str(tree)
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)

    def task() -> None:
        subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    return task
