"""A sweep with its ledger: who makes its runs, and what is known of them on the way."""

from pathlib import Path

from varsim.scenario.space import Sweep
from varsim.study.grid import Grid
from varsim.study.grid import SweepTable as Table
from varsim.study.pool import Backend, Here
from varsim.study.runs import Runs
from varsim.study.store import Store


def booked(what: Sweep, directory: Path, backend: Backend | None = None) -> tuple[Table, Runs]:
    """The table and the ledger of a sweep whose runs are kept in `directory`."""
    study = Grid(what)
    with Store(directory) as store, backend or Here() as maker:
        runs = Runs(store, maker)
        study.begin(runs)
        return study.run(runs), runs
