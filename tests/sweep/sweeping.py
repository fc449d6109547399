"""Small sweeps for tests: a scenario of times only, quick to run."""

from collections.abc import Sequence
from pathlib import Path

from tests.seams import Note, Report
from varsim.scenario.sweep.loading import sweep_of_text
from varsim.scenario.sweep.space import Sweep
from varsim.study.sweep.campaign import Books, carry_out
from varsim.study.sweep.case import Case, cases_of
from varsim.study.sweep.execution import Backend, Here
from varsim.study.sweep.store import Store
from varsim.study.sweep.table import Table, table_of


def told(table: Table) -> Report:
    """What is told of a sweep, as data."""
    found: Report = table.report
    return found


def noted(table: Table) -> dict[str, Note]:
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


def sweep(block: str = "", sets: Sequence[str] = (), base: str = BASE) -> Sweep:
    """The sweep of the small scenario with this block, or that of SWEPT."""
    indented = "".join(f"  {line}\n" for line in block.splitlines())
    return sweep_of_text(base + f"sweep:\n{indented}" if block else SWEPT, sets=sets)


def carried_out(
    what: Sweep, directory: Path, backend: Backend | None = None
) -> tuple[Table, Books, list[tuple[int, str, Case]]]:
    """The table of a sweep whose runs are kept in `directory`."""
    cases = cases_of(what)
    with Store(directory) as store, backend or Here() as maker:
        books = Books(what, (case for _, _, case in cases), store.runs())
        carry_out(books, store, maker, lambda status: None, books.begin())
    return table_of(what, cases, books), books, cases
