"""The runs of a plan: made a batch at a time, kept as they end."""

from collections.abc import Iterable, Mapping

from varsim.study.plan.cell import Cell
from varsim.study.sweep.campaign import Status, Watcher, carry_out
from varsim.study.sweep.case import SENT, Case, Finished
from varsim.study.sweep.execution import Backend
from varsim.study.sweep.store import Store


class Runs:
    """All runs there are, and a way to make more; which ones depends on nothing but the results.

    Runs that `store` has from before are not made again; those that failed are.
    """

    def __init__(self, store: Store, backend: Backend, watch: Watcher) -> None:
        self._store, self._backend, self._watch = store, backend, watch
        self._kept: dict[str, dict[int, Finished]] = {}
        for run in store.runs():
            if not run.failure and SENT in run.measured:
                self._kept.setdefault(run.key, {})[run.replication] = run
        self._runs: dict[str, dict[int, Finished]] = {}
        self.cases: dict[str, Case] = {}
        self._done = self._total = self._resumed = self._failed = 0
        self.best: tuple[str, float] | None = None  # what the progress tells of

    @property
    def status(self) -> Status:
        """How far it is; the total is that of the batch under way and all before it."""
        return Status(self._done, self._total, self._resumed, self._failed, self.best)

    def make(self, wanted: Mapping[Cell, int] | Iterable[tuple[Cell, int]]) -> None:
        """See that the cases of these cells have been run so often, replication by replication."""
        pairs = wanted.items() if isinstance(wanted, Mapping) else wanted
        counts: dict[str, int] = {}
        for cell, count in pairs:
            self.cases.setdefault(cell.case.key, cell.case)
            counts[cell.case.key] = max(count, counts.get(cell.case.key, 0))
        todo = []
        for key, count in counts.items():
            have = self._runs.setdefault(key, {})
            kept = self._kept.get(key, {})
            for number in range(count):
                if number in have:
                    continue
                self._total += 1
                if number in kept:
                    have[number] = kept[number]
                    self._done += 1
                    self._resumed += 1
                else:
                    todo.append((key, number))
        todo.sort(key=lambda run: run[1])  # stable: replication by replication
        if todo:
            self._watch(self.status)
            carry_out(self, self._store, self._backend, self._watch, todo)

    def of(self, cell: Cell, count: int | None = None) -> list[Finished]:
        """The first runs of a cell, replication by replication; by default all there are."""
        found = self._runs.get(cell.case.key, {})
        return [found[number] for number in sorted(found)[:count]]

    def enter(self, run: Finished) -> list[tuple[str, int]]:
        """Take in a run that was made; nothing follows from it before its batch is done."""
        self._runs[run.key][run.replication] = run
        self._done += 1
        self._failed += bool(run.failure)
        return []
