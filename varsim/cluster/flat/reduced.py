"""Runs of replicas that all-reduce their gradients message by message, in flat memory."""

from typing import Final

import numpy as np

from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.arrays import Start, update_times
from varsim.cluster.flat.building import Building, Ints, NotCoveredError
from varsim.cluster.flat.plans import FlatPlans
from varsim.cluster.flat.reducing import Reducing
from varsim.cluster.flat.reductions import of_gradients
from varsim.cluster.flat.replicas import reduce_on
from varsim.cluster.flat.run import FlatRun
from varsim.cluster.stop import Stop
from varsim.cluster.trace import LinkRow
from varsim.values.distribution import BLOCK
from varsim.values.workload import Workload

_MESSAGES: Final = 8  # of a rank, on their way or not yet added, at first


class ReducedRun(FlatRun):
    """A run whose workers all-reduce their gradients over links on which messages meet."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        stop: Stop,
        reducing: Reducing,
        start: Start,
        *,
        interpreted: bool = False,
    ) -> None:
        super().__init__(cluster, workload, stop, reducing, start, interpreted=interpreted)
        self._reducing, self._advance = reducing, reduce_on
        self._plans = FlatPlans(of_gradients(cluster, workload, self._workers, reducing), self._workers)
        self._transfers, self._hops = _MESSAGES, self._plans.most_hops
        if reducing.drop is not None and reducing.micro_batches > BLOCK // 4:
            raise NotCoveredError("too many micro-batches may be given up")

    def _lay_out_rules(self, building: Building, workers: Ints, reals: list[float]) -> None:
        m, drop = building.scalars, self._reducing.drop
        m[at.STRATEGY], m[at.ROW] = at.MIRRORED, at.NEXT + 1
        m[at.MICRO_BATCHES] = self._reducing.micro_batches
        m[at.THRESHOLD] = at.FOREVER
        if drop is not None:
            m[at.PASSED_OVER] = self._reducing.micro_batches
            m[at.THRESHOLD] = min(round(drop.threshold * 1e9), at.FOREVER)
            m[at.BREAKS_OFF] = drop.check == "preempt"
        self._plans.lay_out(building, reals, self._transfers * self._workers)
        replicas = np.zeros((self._workers, at.MOMENTS + m[at.BUCKETS]), dtype=np.int64)
        replicas[:, at.UPDATE] = update_times(self._cluster, self._workers)
        workers[:, at.REPLICA] = building.size + replicas.shape[1] * np.arange(self._workers)
        building.add(replicas)

    def _refill(self) -> None:
        pass

    def _carried(self, workers: Ints, marks: Ints, end: int) -> tuple[list[LinkRow], float]:
        return self._plans.carried(self._m, self._reals, end)
