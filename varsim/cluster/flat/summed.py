"""Runs of replicas whose gradients servers add up, piece by piece, in flat memory."""

from typing import Final

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.arrays import Start
from varsim.cluster.flat.building import Building, Ints
from varsim.cluster.flat.compiled import Code
from varsim.cluster.flat.pieces import FlatPieces, FlatSums
from varsim.cluster.flat.reduced import lay_out_batches, lay_out_replicas
from varsim.cluster.flat.reducing import Summing
from varsim.cluster.flat.replicas import reduce_on
from varsim.cluster.flat.run import FlatRun
from varsim.cluster.trace import LinkRow

_MESSAGES: Final = 4  # to a server or from it, on their way, at first


class SummedRun(FlatRun):
    """A run whose workers push pieces of their gradients, and pull the sums of all."""

    def __init__(self, start: Start, rules: Summing, *, interpreted: bool = False) -> None:
        super().__init__(start, rules, interpreted=interpreted)
        self._rules, self._advance = rules, reduce_on
        self._pieces = FlatPieces(
            start.cluster, start.workload, start.workers, overlap=rules.overlap
        )
        self._sums: FlatSums | None = None  # where they take time
        self._transfers = _MESSAGES * self._pieces.servers + 1

    def _lay_out_rules(self, building: Building, workers: Ints, reals: list[float]) -> None:
        m, shares = building.scalars, self._pieces.shares
        m[at.STRATEGY], m[at.ROW] = at.MIRRORED, at.NEXT + 1
        lay_out_batches(m, self._rules)
        # What may pass at a moment, and is sent then; when pieces of one worker are ready.
        self._parts = 4 * self._transfers + len(shares)
        reals.append(0.0)  # no address is 0
        m[at.OVERLAPS], m[at.SHARES], m[at.BUCKETS] = True, len(reals), len(shares)
        m[at.SENDS_EARLY] = self._rules.overlap
        reals += shares
        self._pieces.lay_out(building, reals, self._transfers * self._workers)
        if self._cluster.server_update is not None:
            layout = self._pieces.layout
            self._sums = FlatSums(self._cluster.server_update, layout, *self._drawn_from)
            self._sums.lay_out(building, reals)
        lay_out_replicas(building, workers, len(shares), self._cluster)

    def _see_to(self, code: Code) -> None:
        """Draw more for the servers that have few draws left."""
        if self._sums is not None:
            self._sums.draws.refill(self._m, self._reals)

    def _carried(self, workers: Ints, marks: Ints, end: int) -> tuple[list[LinkRow], float]:
        return self._pieces.carried(self._m, self._reals, end)
