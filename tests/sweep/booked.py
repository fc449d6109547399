"""A sweep with its books: who makes its runs, and what is known of them on the way."""

from pathlib import Path

from varsim.scenario.space import Sweep
from varsim.study.case import cases_of
from varsim.study.grid import Table, table_of
from varsim.study.runs import Backend, Books, Here, carry_out
from varsim.study.store import Store


def booked(what: Sweep, directory: Path, backend: Backend | None = None) -> tuple[Table, Books]:
    """The table and the books of a sweep whose runs are kept in `directory`."""
    cases = cases_of(what)
    with Store(directory) as store, backend or Here() as maker:
        books = Books(what, (case for _, _, case in cases), store.runs())
        carry_out(books, store, maker, lambda status: None, books.begin())
    return table_of(what, cases, books), books
