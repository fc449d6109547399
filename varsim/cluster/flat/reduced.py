"""Runs of replicas that all-reduce gradients or copies message by message, in flat memory."""

from typing import Any, Final

import numpy as np

from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.arrays import Start, update_times
from varsim.cluster.flat.building import Building, Ints, NotCoveredError
from varsim.cluster.flat.choice import NEVER
from varsim.cluster.flat.compiled import Code
from varsim.cluster.flat.reducing import Reading, Reducing, Summing
from varsim.cluster.flat.reductions import of_copies, of_gradients
from varsim.cluster.flat.replicas import let_end, reduce_on
from varsim.cluster.flat.run import FlatRun
from varsim.cluster.flat.walks import FlatWalks
from varsim.cluster.trace import LinkRow
from varsim.values.distribution import BLOCK

_MESSAGES: Final = 8  # of a rank, on their way or not yet added, at first


class ReducedRun(FlatRun):
    """A run whose workers all-reduce over links on which messages meet: gradients, or copies."""

    def __init__(
        self, start: Start, rules: Reducing | Reading, *, interpreted: bool = False
    ) -> None:
        super().__init__(start, rules, interpreted=interpreted)
        cluster, workload, workers = start.cluster, start.workload, start.workers
        self._rules, self._advance = rules, reduce_on
        if isinstance(rules, Reading):
            self._reductions = of_copies(cluster, workload, workers)
        else:
            self._reductions = of_gradients(cluster, workload, workers, rules)
        self._foreseen = not self._reductions.reason_against
        fair = cluster.network.sharing == "fair"
        self._walks = FlatWalks(self._reductions, workers, fair=fair)
        self._transfers, self._written = _MESSAGES, 6 * self._reductions.number

    def _lay_out_rules(self, building: Building, workers: Ints, reals: list[float]) -> None:
        m, rules, reductions = building.scalars, self._rules, self._reductions
        m[at.STRATEGY], m[at.ROW] = at.MIRRORED, at.NEXT + 1
        if isinstance(rules, Reading):
            m[at.MICRO_BATCHES], m[at.THRESHOLD] = 1, at.FOREVER
            m[at.READ_EVERY], m[at.WRITES_BACK] = rules.every, rules.write_back
            m[at.NEXT_LOOK], m[at.SLOWEST_COUNT] = NEVER, self._workers
            m[at.RING] = building.room(self._workers)
        else:
            lay_out_batches(m, rules)
        self._parts = 4 * self._transfers  # whatever may pass at a moment
        m[at.FORESEEN] = self._foreseen
        reals.append(0.0)  # no address is 0
        m[at.OVERLAPS], m[at.SHARES] = bool(reductions.shares), len(reals)
        reals += reductions.shares
        m[at.BUCKETS] = reductions.number
        plans = [0] * reductions.number
        if not self._foreseen:
            plans = self._walks.lay_out(building, reals, self._transfers * self._workers)
            if reductions.pace is not None:
                m[at.PACE] = len(reals)
                reals.append(reductions.pace)
        m[at.PLANS] = building.add(np.stack((plans, reductions.overheads), axis=1))
        lay_out_replicas(building, workers, reductions.number, self._cluster)

    def _see_to(self, code: Code) -> None:
        """Say when a reduction that all have joined ends for each rank."""
        m = self._m
        if m[at.JOINED] < self._workers:
            return
        entries = np.array(self._joined(), dtype=np.int64)
        bucket = int(m[at.BUCKET] - 1) % int(m[at.BUCKETS])
        now, computed = int(m[at.NOW]), int(m[at.COMPUTED_BY])
        ends: Any = self._reductions.ends(bucket, entries, now, computed)
        code[let_end](m, self._heap, ends.tolist() if self._interpreted else ends)

    def _joined(self) -> list[int]:
        """When each replica joined what not all have; -1: it has not (ns)."""
        m, size = self._m, at.MOMENTS + self._reductions.number
        first = m[m[at.WORKERS] + at.REPLICA] + at.JOINED_AT
        return [int(entry) for entry in m[first : first + size * self._workers : size]]

    def _carried(self, workers: Ints, marks: Ints, end: int) -> tuple[list[LinkRow], float]:
        if not self._foreseen:
            return self._walks.carried(self._m, self._reals, end)
        entries = [None if entry < 0 else entry for entry in self._joined()]
        bucket, computed = int(self._m[at.BUCKET]), int(self._m[at.COMPUTED_BY])
        return self._reductions.carried(bucket, entries, end, computed)


def lay_out_batches(m: Ints, rules: Reducing | Summing) -> None:
    """Say how many micro-batches a step has, and when the rest of them is given up."""
    m[at.MICRO_BATCHES], m[at.THRESHOLD] = rules.micro_batches, at.FOREVER
    if rules.drop is None:
        return
    if rules.micro_batches > BLOCK // 4:
        raise NotCoveredError("too many micro-batches may be given up")
    m[at.PASSED_OVER] = rules.micro_batches
    m[at.THRESHOLD] = min(round(rules.drop.threshold * 1e9), at.FOREVER)
    m[at.BREAKS_OFF] = rules.drop.check == "preempt"


def lay_out_replicas(building: Building, workers: Ints, moments: int, cluster: Cluster) -> None:
    """Lay out what replicas have besides, each with room for so many moments."""
    replicas = np.zeros((len(workers), at.MOMENTS + moments), dtype=np.int64)
    replicas[:, at.JOINED_AT] = -1
    replicas[:, at.SEEN] = 1
    replicas[:, at.UPDATE] = update_times(cluster, len(workers))
    workers[:, at.REPLICA] = building.size + replicas.shape[1] * np.arange(len(workers))
    building.add(replicas)
