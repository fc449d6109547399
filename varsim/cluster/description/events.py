"""What happens to the processes of a run from outside: deaths, restarts, an orderly end."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from varsim.units import Seconds
from varsim.values.schema import Model


class WorkerName(Model):
    """A worker, by its rank."""

    worker: int = Field(ge=0)
    """Its rank."""


# The chief is worker 0's process: it has the update loop besides.
ProcessName: TypeAlias = WorkerName | Literal["chief"]


class ProcessEvent(Model):
    """At a given time a process is killed, restarts, or (the chief alone) ends in good order.

    It comes before all else that happens at that instant.
    """

    at: Seconds = Field(ge=0)
    """When."""
    kill: ProcessName | None = None
    """Whose process dies: `chief`, or `{worker: 3}`."""
    restart: ProcessName | None = None
    """Whose process restarts."""
    stop: Literal["chief"] | None = None
    """The chief ends in good order, and the run with it."""

    def refusals(self) -> Iterator[str]:
        if sum(name is not None for name in (self.kill, self.restart, self.stop)) != 1:
            yield "say what happens: one of kill, restart, stop"

    @property
    def process(self) -> ProcessName:
        """Whom it happens to."""
        found = self.kill or self.restart or self.stop
        assert found is not None
        return found

    @property
    def rank(self) -> int:
        """The worker whose process that is."""
        return self.process.worker if isinstance(self.process, WorkerName) else 0

    def __str__(self) -> str:
        done = "killed" if self.kill else "restarted" if self.restart else "stopped"
        who = f"worker {self.rank}" if isinstance(self.process, WorkerName) else "the chief"
        return f"{who} is {done} at {self.at:.9g} s"


def check_events(events: Sequence[ProcessEvent], workers: int, end: float | None) -> None:
    """Raise ValueError where events cannot happen, one after the other, before `end` (s)."""
    dead: set[int] = set()
    before: ProcessEvent | None = None
    for index, event in enumerate(events):
        rank = event.rank
        if rank >= workers:
            raise ValueError(
                f"events.{index}: worker {rank} does not exist: ranks go from 0 to "
                f"{workers - 1} (workers: {workers})"
            )
        if before is not None and event.at < before.at:
            raise ValueError(
                f"events.{index}: {event}, but comes after one of a later time; "
                "put events in the order of their times"
            )
        if before is not None and before.stop is not None:
            raise ValueError(f"events.{index}: {event}, but {before}, which ends the run")
        if end is not None and event.at >= end:
            raise ValueError(f"events.{index}: {event}, when the run is over (stop.time)")
        before = event
        if event.restart is None:
            if rank in dead:
                raise ValueError(f"events.{index}: {event}, but is dead already")
            dead.add(rank)
        elif rank in dead:
            dead.remove(rank)
        else:
            raise ValueError(f"events.{index}: {event}, but is not dead then")
