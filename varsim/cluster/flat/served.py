"""Runs of strategies with parameter servers, in flat memory."""

from typing import Final

import numpy as np

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.arrays import Start
from varsim.cluster.flat.building import Building, Ints, check_sums
from varsim.cluster.flat.choice import NEVER
from varsim.cluster.flat.compiled import Code
from varsim.cluster.flat.core import advance
from varsim.cluster.flat.network import FlatNetwork
from varsim.cluster.flat.queues import FlatQueues
from varsim.cluster.flat.rules import Rules
from varsim.cluster.flat.run import FlatRun
from varsim.cluster.trace import LinkRow

_KINDS: Final = {
    "asynchronous": at.ASYNCHRONOUS,
    "locking": at.LOCKING,
    "bounded": at.BOUNDED,
    "accumulators": at.SYNCHRONOUS,
    "cutoff": at.BACKUP,
}


class ServedRun(FlatRun):
    """A run whose workers read from servers and push to them; see FlatRun."""

    def __init__(self, start: Start, rules: Rules, *, interpreted: bool = False) -> None:
        super().__init__(start, rules, interpreted=interpreted)
        self._rules, self._advance = rules, advance
        self._fair = start.cluster.network.sharing == "fair"
        # Who is called off leaves its own behind, on links that are shared.
        self._transfers = 2 if rules.kind == "cutoff" else 1
        self._has_chief = rules.kind == "accumulators"
        self._network = FlatNetwork(start.cluster, start.workload, start.workers, self._trained)
        self._written = 2 * self._network.most_hops
        self._queues: FlatQueues

    def _lay_out_rules(self, building: Building, workers: Ints, reals: list[float]) -> None:
        self._queues = FlatQueues(self._cluster, self._workload, self._trained, *self._drawn_from)
        m, number, variables = building.scalars, self._workers, len(self._trained)
        m[at.STRATEGY] = _KINDS[self._rules.kind]
        m[at.RING], m[at.KEPT] = building.room(number), building.room(number * variables)
        m[at.THERE], m[at.ORDER] = building.room(variables), building.add(range(variables))
        m[at.ACCUMULATORS] = building.room(variables * at.ACCUMULATOR)
        m[at.NEEDED], m[at.TOKENS] = self._rules.needed, self._rules.tokens
        m[at.HEAD_LEFT] = max(0, self._rules.first)
        m[at.BOUND], m[at.KEEPS] = min(self._rules.bound, NEVER), self._rules.keeps
        m[at.SLOWEST_COUNT] = number
        m[at.ROW] = at.NEXT + variables * (self._rules.kind == "accumulators")
        self._queues.lay_out(building, reals)
        m[at.CONFIRMS] = self._rules.kind in ("asynchronous", "bounded", "cutoff")
        m[at.AT_ONCE] = m[at.THREADS] and self._rules.kind != "locking"
        sent = self._network.lay_out(building)
        workers[:, [at.OWN, at.PULL, at.PUSH]] = sent[:, :3]
        hops = np.cumsum(sent[:, 3:])
        starts = building.room(int(hops[-1])) + np.concatenate(([0], hops[:-1]))
        workers[:, [at.PULL_STARTS, at.PUSH_STARTS]] = starts.reshape(-1, 2)
        self._queues.draws.lay_out(building, reals)
        check_sums(building.largest * max([1.0, *reals]) * number * variables)
        if self._fair:
            self._network.lay_out_fairly(building, workers, reals, self._transfers)
            self._parts = self._transfers * self._network.most_parts

    def _see_to(self, code: Code) -> None:
        """Draw more for the queues that have few draws left."""
        self._queues.draws.refill(self._m, self._reals)

    def _carried(self, workers: Ints, marks: Ints, end: int) -> tuple[list[LinkRow], float]:
        if self._fair:
            return self._network.carried_fairly(self._m, self._reals, end)
        again = _sent_again(marks) if self._rules.kind == "cutoff" else {}
        return self._network.carried(self._m, workers, again, end)


def _sent_again(marks: Ints) -> dict[tuple[int, int], list[int]]:
    """When batches started that were sent again too soon: by rank, and whether pushed."""
    found: dict[tuple[int, int], list[int]] = {}
    starts: list[int] = []
    for value, code in marks[marks[:, 1] < at.LOOKS].tolist():
        if code == at.STARTED:
            starts.append(value)
        else:
            starts = found.setdefault((value, code - at.AGAIN), [])
    return found
