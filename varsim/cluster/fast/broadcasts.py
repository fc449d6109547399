"""Broadcasts of worker 0's copy, message by message, in runs whose workers' times are in arrays."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from simpy.events import Event

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.collective import Broadcast
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description import Cluster
from varsim.cluster.fast.reductions import carried
from varsim.cluster.network import network
from varsim.cluster.trace import PHASE_BITS, RANK_BITS, LinkRow, Phase
from varsim.cluster.worker import Worker
from varsim.values.workload import Workload

# What a rank may do from a meeting until it goes on, and in which of its iterations, as seen from
# the next one; whoever still waits to read when the run ends does so for that.
PHASES: Final = [Phase.QUEUE, Phase.WRITE, Phase.WRITE, Phase.READ, Phase.READ]
ITERATIONS: Final = [-1, -1, -1, -1, 0]
_WRITE, _READ = 1, 3  # places in these


class Sent(NamedTuple):
    """Broadcast: when what each rank did ended (PHASES, ranks), in which turn it went on."""

    ends: Times
    turns: Times


class Broadcasts:
    """Broadcasts of the model, one after another, on a clock and a network of their own."""

    def __init__(self, cluster: Cluster, workload: Workload, workers: int) -> None:
        self.cluster, self.clock = cluster, Clock()
        self.network = network(self.clock, cluster.network)
        self._spans: list[list[int]] = [[] for _ in range(workers)]
        places = [self.network.routing.worker(rank) for rank in range(workers)]
        self.workers = [
            Worker(self.clock, rank, place, iter(()), [], iter(()), {}, self._spans[rank])
            for rank, place in enumerate(places)
        ]
        self._broadcast = Broadcast(self, workload.size())

    def send(self, now: int, end: int | None = None) -> Sent:
        """Send one when all have met (ns), the last of whom goes on before the others.

        `end`: when it is broken off (ns); who has not gone on by then comes last.
        """
        order = list[int]()
        self.clock.time, self.clock.stopped = now, False
        if end is not None:
            self.clock.call_last(end, self.clock.stop)
        for worker in (self.workers[-1], *self.workers[:-1]):
            worker.goes_on()
            self._spans[worker.rank].clear()
            done = partial(order.append, worker.rank)
            _Part(self.clock, self._broadcast.take_part(worker), done).go_on()
        self.clock.run_until_stopped()
        turns = np.full(len(self.workers), len(order))
        turns[order] = np.arange(len(order))
        ends = [self._ends(worker.rank, now) for worker in self.workers]
        return Sent(np.stack(ends, axis=1), turns)

    def _ends(self, rank: int, begun: int) -> Times:
        """When all ended that a rank has done since it took part (ns), by PHASES."""
        found, writes = np.full(len(PHASES), begun), 0
        for end, code in zip(self._spans[rank][::2], self._spans[rank][1::2], strict=True):
            place, phase = 0, code & (1 << PHASE_BITS) - 1
            if phase == Phase.WRITE:
                place, writes = _WRITE + writes, writes + 1
            elif phase != Phase.QUEUE:
                place = _READ + ((code & (1 << RANK_BITS) - 1) >> PHASE_BITS)
            found[place:] = end
        return found

    def carried(self, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end (ns), and `Trace.sent`."""
        return carried(self.network, end)


class _Part:
    """Part of a rank in a broadcast, carried out as by a process that has begun."""

    def __init__(self, clock: Clock, activity: Activity[None], done: Callable[[], None]) -> None:
        self._clock, self._activity, self._done = clock, activity, done

    def go_on(self, event: Event | None = None) -> None:
        try:
            awaited = next(self._activity)
        except StopIteration:
            self._done()
            return
        if isinstance(awaited, int):
            self._clock.call_at(awaited, self.go_on)
        else:
            awaited.callbacks.append(self.go_on)
