"""Compute times of a run's workers, many at a time: the bits that each draws for itself."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.collectives.schedule import Times
from varsim.cluster.fast.start import NotCoveredError, Start, check_sums
from varsim.cluster.workers.worker import end_of, slowness
from varsim.core.distribution import BLOCK, Distribution, Floats
from varsim.core.stream import keyed, stream, streams

Ints: TypeAlias = NDArray[np.int64]
_FOREVER: Final = 1 << 60  # draws
_MANY: Final = 1 << 22  # draws of all workers
_TOGETHER: Final = 1 << 13  # workers that draw together


class ComputeTimes:
    """Compute times of workers, block by block, in integer ns.

    `each`: how many of them a worker needs, about; of very many workers not much more is kept of a
    block, which is drawn again where that was too little.
    """

    def __init__(self, start: Start, each: int = BLOCK) -> None:
        law = start.cluster.compute_distribution(start.workload)
        self._draws = law, start.seed, start.replication
        self._factors, self._slowest = np.ones(start.workers), 1.0
        for rank, found in _slowness(start).items():
            self._slowest = max(self._slowest, *(factor for _, factor in found))
            if len(found) == 1:
                self._factors[rank] = found[0][1]
        self._blocks: dict[int, Iterator[Floats]] = {}
        # Whether each block of a worker's draws stands by itself.
        self._independent = type(law).blocks is Distribution.blocks
        self._is_constant = self._independent and not law.varies
        self._kept = BLOCK
        if self._independent and start.workers * BLOCK > _MANY:
            self._kept = min(BLOCK, 8 << (each // 8).bit_length())

    def first(self) -> tuple[Ints, int]:
        """The first draws of every worker, and how many these are; of a constant law one for all.

        There is room for as many again: those that come next, or came before.
        """
        first = self._drawn(range(len(self._factors)), 0)
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
            yield ranks, first, self._drawn(ranks.tolist(), first)

    def block(self, number: int, ranks: Sequence[int]) -> Ints:
        """The times of that block of these workers (ranks, BLOCK); of each in order."""
        law, seed, replication = self._draws
        if self._is_constant:
            seconds = np.full((len(ranks), BLOCK), law.draw(stream(0, 0, "compute")))
        elif self._independent:
            made = streams(seed, replication, "compute", ranks, number)
            seconds = np.array([law.draw(generator) for generator in made])
        else:
            for rank in ranks:
                if rank not in self._blocks:
                    blocks = law.together(rank, keyed(seed, replication))
                    self._blocks[rank] = islice(blocks, number, None)
            seconds = np.stack([next(self._blocks[rank]) for rank in ranks])
        times = np.rint(seconds * (self._factors[list(ranks)] * 1e9)[:, np.newaxis])
        check_sums(times.max() * self._slowest)
        return times.astype(np.int64)

    def _drawn(self, ranks: Sequence[int], first: int) -> Ints:
        """So many times of these workers as are kept, from that draw on (ranks, kept)."""
        number, begin = divmod(first, BLOCK)
        found = np.empty((len(ranks), self._kept), dtype=np.int64)
        for place in range(0, len(ranks), _TOGETHER):
            drawn = self.block(number, ranks[place : place + _TOGETHER])
            found[place : place + _TOGETHER] = drawn[:, begin : begin + self._kept]
        return found


class Workers:
    """Workers of a run: `number` of them, that begin at `down` (ns).

    `updates`: ns that each one's copy takes to be updated at its normal pace, if it takes any.
    """

    def __init__(self, start: Start) -> None:
        self.number, self.down = start.workers, start.cluster.set_up
        slow = _slowness(start)
        self._windows = {rank: found for rank, found in slow.items() if len(found) > 1}
        seconds = np.full(self.number, start.cluster.optimizer_time or 0.0)
        for rank, found in slow.items():
            seconds[rank] *= found[0][1] if len(found) == 1 else 1.0
        self.updates: Times = np.rint(seconds * 1e9).astype(np.int64)
        self.update = bool(self.updates.any())
        if self.update and not self.updates.all():
            raise NotCoveredError("some workers update their copies in no time")
        self._times = ComputeTimes(start)
        self._block, self._drawn = -1, np.empty((0, self.number), dtype=np.int64)

    def work(self, iteration: int) -> Times:
        """Compute times of all in an iteration (ns); iterations come in order."""
        block = iteration // BLOCK
        if block != self._block:
            self._block = block
            drawn = self._times.block(block, range(self.number))
            self._drawn = np.ascontiguousarray(drawn.T)
        times: Times = self._drawn[iteration % BLOCK]
        return times

    def ends(self, starts: Times, work: Times) -> Times:
        """When so much work of each worker ends, also of those that are slow at times."""
        ends: Times = starts + work
        for rank, found in self._windows.items():
            ends[rank] = end_of(found, int(starts[rank]), int(work[rank]))
        return ends


def _slowness(start: Start) -> dict[int, list[tuple[int, float]]]:
    """See `slowness`; of those that take part."""
    return slowness(one for one in start.cluster.stragglers if one.rank < start.workers)
