"""A sweep with its books: who makes its runs, and what is known of them on the way."""

from pathlib import Path

from varsim.scenario.sweep.space import Sweep
from varsim.study.sweep.campaign import Books, carry_out
from varsim.study.sweep.case import cases_of
from varsim.study.sweep.execution import Backend, Here
from varsim.study.sweep.store import Store
from varsim.study.sweep.table import Table, table_of


def booked(what: Sweep, directory: Path, backend: Backend | None = None) -> tuple[Table, Books]:
    """The table and the books of a sweep whose runs are kept in `directory`."""
    cases = cases_of(what)
    with Store(directory) as store, backend or Here() as maker:
        books = Books(what, (case for _, _, case in cases), store.runs())
        carry_out(books, store, maker, lambda status: None, books.begin())
    return table_of(what, cases, books), books
