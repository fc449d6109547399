"""What runs in arrays of all workers have in common: workers, compute times, spans."""

from typing import Final

import numpy as np

from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast.draws import ComputeTimes
from varsim.cluster.fast.rules import NotCoveredError
from varsim.cluster.record.rows import BLOCK as ROWS_OF_A_BLOCK
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import Phase, Span
from varsim.cluster.workers.worker import end_of, windows
from varsim.values.distribution import BLOCK
from varsim.values.workload import Workload

# Ends of spans that are recorded at once.
TOGETHER: Final = 1 << 20


class Workers:
    """Workers of a run: `number` of them, that begin at `down` (ns).

    `updates`: ns that each one's copy takes to be updated.
    """

    def __init__(
        self, cluster: Cluster, workload: Workload, number: int, seed: int, replication: int
    ) -> None:
        self.number = number
        self.updates = update_times(cluster, number)
        self.update = bool(self.updates.any())
        if self.update and not self.updates.all():
            raise NotCoveredError("some workers update their copies in no time")
        found = {rank: found for rank, found in _slowness(cluster, number) if len(found) > 1}
        self._windows: dict[int, list[tuple[int, float]]] = found
        self.down = cluster.set_up
        self._times = ComputeTimes(cluster, workload, number, seed, replication)
        self._block, self._drawn = -1, np.empty((0, number), dtype=np.int64)

    def work(self, iteration: int) -> Times:
        """Compute times of all in an iteration (ns); iterations come in order."""
        block = iteration // BLOCK
        if block != self._block:
            self._block = block
            self._drawn = np.ascontiguousarray(self._times.of_all(block).T)
        times: Times = self._drawn[iteration % BLOCK]
        return times

    def slow_down(self, ends: Times, starts: Times, work: Times) -> None:
        """The ends of those that are slow at times."""
        for rank, found in self._windows.items():
            ends[rank] = end_of(found, int(starts[rank]), int(work[rank]))


def update_times(cluster: Cluster, workers: int) -> Times:
    """How long each worker's copy takes to be updated at its normal pace (ns)."""
    factors = np.ones(workers)
    for rank, found in _slowness(cluster, workers):
        if len(found) == 1:
            factors[rank] = found[0][1]
    seconds = cluster.optimizer_time or 0.0
    return np.array([round(seconds * factor * 1e9) for factor in factors.tolist()], dtype=np.int64)


def _slowness(cluster: Cluster, workers: int) -> list[tuple[int, list[tuple[int, float]]]]:
    """The windows of all workers that are slow."""
    ranks = dict.fromkeys(entry.rank for entry in cluster.slow_workers if entry.rank < workers)
    return [(rank, windows(cluster.slow_workers, rank)) for rank in ranks]


class Spans:
    """Spans of a run whose workers do the same again and again.

    `phases`: of what each does in a round; `iterations`: in which of the round's.
    """

    def __init__(
        self, workers: Workers, phases: list[Phase], iterations: list[int], *, keep: bool
    ) -> None:
        self._number, self._keep = workers.number, keep
        self._phases, self._iterations = np.array(phases), np.array(iterations)
        self._each = max(iterations) + 1
        self._begun = np.full(workers.number, workers.down)  # when each began what comes next
        self._rounds, self._rows = 0, Rows(len(Span._fields))
        self._parts = 0

    def record(self, rounds: Times, end: int) -> None:
        """Record when the spans of the next rounds end, (rounds, spans, ranks), at the end (ns)."""
        if not self._keep:
            return
        steps = np.arange(self._rounds, self._rounds + len(rounds))[:, np.newaxis] * self._each
        iterations, phases = (steps + self._iterations).ravel(), np.tile(self._phases, len(rounds))
        before = self._begun[np.newaxis]
        if not self._rounds:  # they were set up
            before = np.stack((np.zeros_like(self._begun), self._begun))
            iterations, phases = np.append(0, iterations), np.append(Phase.DOWN, phases)
        self._begun, self._rounds = rounds[-1, -1].copy(), self._rounds + len(rounds)
        times = np.concatenate((before, rounds.reshape(-1, self._number)))
        some = max(1, ROWS_OF_A_BLOCK // len(times))  # workers whose spans are packed together
        np.minimum(times, end, out=times)
        for first in range(0, self._number, some):
            of_some = times[:, first : first + some].T.copy()
            self._rows.append_columns(_columns(first, of_some, phases, iterations))
        self._parts += 1

    def rows(self) -> Rows:
        """All spans, by worker."""
        return self._rows if self._parts < 2 else self._rows.by(0, self._number)


def _columns(first: int, times: Times, phases: Times, iterations: Times) -> Times:
    """Columns of Span of workers from that one on, of each one span from time to time."""
    there = np.zeros(times.shape, dtype=np.bool_)
    np.less(times[:, :-1], times[:, 1:], out=there[:, :-1])
    found = np.flatnonzero(there)
    ranks = np.repeat(np.arange(len(times)), np.count_nonzero(there, axis=1))
    places = found - ranks * times.shape[1]
    columns = np.empty((len(Span._fields), len(found)), dtype=np.int64)
    columns[0] = ranks + first
    np.take(phases, places, out=columns[1], mode="clip")
    np.take(times, found, out=columns[2], mode="clip")
    np.take(times, found + 1, out=columns[3], mode="clip")
    np.take(iterations, places, out=columns[4], mode="clip")
    return columns
