"""Compute times of a run's workers, many at a time: the bits that each draws for itself."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast.rules import NotCoveredError, check_sums
from varsim.cluster.workers.worker import end_of, windows
from varsim.core.distribution import BLOCK, Distribution, Floats
from varsim.core.stream import keyed, stream, streams
from varsim.learning.workload import Workload

Ints: TypeAlias = NDArray[np.int64]
_FOREVER: Final = 1 << 60  # draws
_MOST_KEPT: Final = 2_000  # workers whose first draws are kept for other runs: 2 MB of them
_MANY: Final = 1 << 22  # draws of all workers
_TOGETHER: Final = 1 << 13  # workers that draw together


class ComputeTimes:
    """Compute times of workers, block by block, in integer ns.

    `each`: how many of them a worker needs, about; of very many workers not much more is kept of a
    block, which is drawn again where that was too little.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        workers: int,
        seed: int,
        replication: int,
        each: int = BLOCK,
    ) -> None:
        self._law = cluster.compute_distribution(workload)
        self._seed, self._replication = seed, replication
        self._factors = np.ones(workers)
        self._slowest = 1.0
        for rank in {entry.rank for entry in cluster.slow_workers if entry.rank < workers}:
            slowness = windows(cluster.slow_workers, rank)
            self._slowest = max(self._slowest, *(factor for _, factor in slowness))
            if len(slowness) == 1:
                self._factors[rank] = slowness[0][1]
        self._blocks: dict[int, Iterator[Floats]] = {}
        self._independent = type(self._law).blocks is Distribution.blocks
        self._is_constant = self._independent and not self._law.varies
        self._is_kept = workers <= _MOST_KEPT and _has_a_hash(self._law)
        self._kept = BLOCK
        if self._independent and workers * BLOCK > _MANY:
            self._kept = min(BLOCK, 8 << (each // 8).bit_length())

    def first(self) -> tuple[Ints, int]:
        """The first draws of every worker, and how many these are; of a constant law one for all.

        There is room for as many again: those that come next, or came before.
        """
        first = self._draws(range(len(self._factors)), 0)
        if self._is_constant:
            return first[:, :1], _FOREVER
        return np.concatenate((first, np.zeros_like(first)), axis=1), self._kept

    def more(self, draws: Ints, drawn: Ints) -> Iterator[tuple[Ints, int, Ints]]:
        """More draws for workers that have used up almost all they have.

        Their ranks, how many they have had, and the next ones of each.
        """
        short = draws - drawn < self._kept // 8
        for first in np.unique(draws[short]).tolist():
            ranks = np.flatnonzero(short & (draws == first))
            yield ranks, first, self._draws(ranks.tolist(), first)

    def of_all(self, block: int) -> Ints:
        """Each worker's times of a block, (workers, BLOCK); blocks come in order."""
        return self._block(range(len(self._factors)), block)

    def _draws(self, ranks: Sequence[int], first: int) -> Ints:
        """So many times of these workers as are kept, from that draw on (ranks, kept)."""
        block, begin = divmod(first, BLOCK)
        found = np.empty((len(ranks), self._kept), dtype=np.int64)
        for place in range(0, len(ranks), _TOGETHER):
            some = ranks[place : place + _TOGETHER]
            drawn = self._block(some, block)
            found[place : place + _TOGETHER] = drawn[:, begin : begin + self._kept]
        return found

    def _block(self, ranks: Sequence[int], block: int) -> Ints:
        """The times of that block of these workers (ranks, BLOCK); of each in order."""
        draws = self._law, self._seed, self._replication
        if self._is_constant:
            seconds = np.full((len(ranks), BLOCK), self._law.draw(stream(0, 0, "compute")))
        elif block == 0 and self._is_kept and len(ranks) == len(self._factors):
            seconds = first_blocks(*draws, len(ranks))
        elif self._independent:
            seconds = _independent_blocks(*draws, ranks, block)
        else:
            seconds = np.stack([next(self._blocks_of(rank, block)) for rank in ranks])
        times = np.rint(seconds * (self._factors[list(ranks)] * 1e9)[:, np.newaxis])
        check_sums(times.max() * self._slowest)
        return times.astype(np.int64)

    def _blocks_of(self, rank: int, block: int) -> Iterator[Floats]:
        """The blocks of a worker from that one on; later those after what was taken of them."""
        if rank not in self._blocks:
            blocks = _blocks(self._law, self._seed, self._replication, rank)
            self._blocks[rank] = islice(blocks, block, None)
        return self._blocks[rank]


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


@lru_cache(maxsize=32)
def first_blocks(law: Distribution, seed: int, replication: int, workers: int) -> Floats:
    """The first block of so many workers (seconds): runs of one sweep begin with the same draws."""
    if type(law).blocks is Distribution.blocks:
        return _independent_blocks(law, seed, replication, range(workers), 0)
    return np.stack([next(_blocks(law, seed, replication, rank)) for rank in range(workers)])


def _independent_blocks(
    law: Distribution, seed: int, replication: int, ranks: Sequence[int], block: int
) -> Floats:
    made = streams(seed, replication, "compute", ranks, block)
    return np.array([law.draw(generator) for generator in made])


def _blocks(law: Distribution, seed: int, replication: int, rank: int) -> Iterator[Floats]:
    return law.together(rank, keyed(seed, replication))


def _has_a_hash(law: Distribution) -> bool:
    try:
        hash(law)
    except TypeError:  # one of somebody else's
        return False
    return True
