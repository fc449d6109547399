"""Small sweeps for tests: a scenario of times only, quick to run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import varsim
from tests.seams import Note, Report, sweep_of_text


def with_values(row: Any, values: Sequence[float], metric: str = "examples_per_s") -> Any:
    """A row whose runs had these values of a metric, one each."""
    first = row.runs[0]
    runs = (
        first._replace(replication=number, measured={**first.measured, metric: value})
        for number, value in enumerate(values)
    )
    return replace(row, runs=tuple(runs))


def told(table: Any) -> Report:
    """What is told of a sweep, as data."""
    found: Report = table.report
    return found


def noted(table: Any) -> dict[str, Note]:
    """Its notes by their codes."""
    return {note.code: note for note in told(table).notes}


BASE = """\
# How many?
name: tiny
seed: 3
replications: 2
cluster:
  workers: 4
  compute: {kind: uniform, low: 80 ms, high: 120 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload:
  problem: {kind: timing, size: 1 MB}
  batch_size: 4
strategies:
  - {kind: on_write}
  - {kind: backup_workers, replicas_to_aggregate: 2}
stop: {global_steps: 10}
"""
SWEPT = (
    BASE
    + """\
sweep:
  cluster.workers: [2, 4]
  strategies.backup_workers.replicas_to_aggregate: [1, 2]
  most_replications: 4
"""
)


def sweep(block: str = "", sets: Sequence[str] = (), base: str = BASE) -> Any:
    """The sweep of the small scenario with this block, or that of SWEPT."""
    indented = "".join(f"  {line}\n" for line in block.splitlines())
    return sweep_of_text(base + f"sweep:\n{indented}" if block else SWEPT, sets=sets)


def carried_out(what: Any, directory: Path) -> Any:
    """The table of a sweep whose runs are kept in `directory`."""
    return varsim.sweep(what, directory=directory)
