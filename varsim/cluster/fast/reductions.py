"""All-reduces of a run by the recurrence there is for their times, one after the other."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from varsim.cluster.clock import END_OF_TIME, Clock
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.cluster.collectives.carrying import Recurrence
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector, links_between, needs_messages, planned
from varsim.cluster.collectives.plan import CollectivePlan, Paths
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.fast import Reading
from varsim.cluster.fast.start import Start, remembered
from varsim.cluster.network.network import Network, network
from varsim.cluster.network.topology import Topology
from varsim.cluster.record.trace import LinkRow
from varsim.cluster.workers.allreduce import Reducing, ready_buckets, vectors_of
from varsim.cluster.workers.worker import Slowed, shares_of_compute


class Reductions:
    """All-reduces of some vectors, as of the buckets of gradients, one by one, again and again.

    `ready`: shares of the backward pass after which each is, where it is reduced meanwhile.
    `number`: of vectors; `overheads` (ns) of each; `shares` of a gradient's computation after which
    each is ready, where it is reduced meanwhile.
    """

    def __init__(
        self, start: Start, vectors: Sequence[Vector], ready: Sequence[float] = ()
    ) -> None:
        cluster = start.cluster
        self._network = network(Clock(), cluster.network)
        paths = _paths(self._network, start.workers, vectors[0])
        rounds = [planned(cluster, start.workload, vector, paths) for vector in vectors]
        self._plans, self.number = [one.plan for one in rounds], len(rounds)
        self.overheads = [one.overhead for one in rounds]
        self.shares = shares_of_compute(cluster, ready)
        self._share = cluster.overlap_pace if ready else None
        needs_messages(cluster.network, self._plans[0])  # makes all links, used or not
        self._pace = Slowed(0, 1.0)  # of the latest
        self._recurrence = Recurrence(self._plans[0])

    def ends(self, bucket: int, entries: Times, now: int, computed: int) -> Times:
        """When each rank is done with a bucket (ns), given when each entered, the last one now.

        `computed`: when all will have computed (ns); until then links may be slower.
        """
        if self._plans[0].idle:  # a worker alone
            return entries
        self._recurrence.turn_to(self._plans[bucket])
        share = self._share
        if share is None:
            return self._recurrence.times(entries)
        self._pace = Slowed(computed, share)
        slow = np.rint(computed - (computed - entries) * share).astype(np.int64)
        work = self._recurrence.times(np.where(entries >= computed, entries, slow))
        slow = np.rint(computed - (computed - work) / share).astype(np.int64)
        return np.maximum(now, np.where(work >= computed, work, slow))

    def carried(
        self, bucket: int, entries: Sequence[int | None], end: int, computed: int
    ) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end (ns), and `Trace.sent`; after this, no more.

        `bucket`, `entries`: of the one that not all have entered.
        """
        latest = coming = end
        if self._share is not None:
            now = Slowed(computed, self._share)
            latest = round(self._pace.work_at(end))
            entries = [None if one is None else round(now.work_at(one)) for one in entries]
            coming = round(now.work_at(end))
        self._recurrence.count(latest, self._plans[bucket], entries, END_OF_TIME, coming)
        return carried(self._network, end)


def of_gradients(start: Start, reducing: Reducing) -> Reductions:
    """All-reduces of gradients."""
    cluster, workload = start.cluster, start.workload
    buckets = ready_buckets(workload, reducing.bucketing)
    vectors = vectors_of(reducing.choice, cluster, workload, buckets, range(start.workers))
    return Reductions(
        start, vectors, [bucket.ready for bucket in buckets] if reducing.overlap else []
    )


def of_copies(start: Start) -> Reductions:
    """All-reduces of copies of the model."""
    return Reductions(start, [Vector(ring_all_reduce(start.workers), start.workload.size())])


def foretold(start: Start, rules: Reducing | Reading) -> str:
    """Why no recurrence says when its all-reduces end; empty if one does."""
    choice, size = Choice("ring"), start.workload.size()
    if isinstance(rules, Reducing):
        choice, size = rules.choice, ready_buckets(start.workload, rules.bucketing)[0].size
    return remembered(_foretold, start.cluster.network, start.workers, choice, size)


@lru_cache(maxsize=64)
def _foretold(topology: Topology, workers: int, choice: Choice, size: int) -> str:
    vector = Vector(choice.schedule_on(topology, range(workers), size), size)
    plan = CollectivePlan(
        vector.schedule, size, _paths(network(Clock(), topology), workers, vector)
    )
    if needs_messages(topology, plan):
        return "messages of its collective meet on links, or slow links"
    return ""


def idle_network(start: Start) -> Network:
    """A network on which no message is sent."""
    idle = network(Clock(), start.cluster.network)
    for rank in range(start.workers):
        idle.routing.worker(rank)
    return idle


def carried(used: Network, end: int) -> tuple[list[LinkRow], float]:
    """What every link has carried by the end (ns), and `Trace.sent`."""
    rows = [LinkRow(link.name, link.bandwidth, link.moved) for link in used.carried(end)]
    return rows, used.sent()


def _paths(used: Network, workers: int, vector: Vector) -> Paths:
    places = [used.routing.worker(rank) for rank in range(workers)]
    return links_between(used, places, side_by_side=vector.schedule.side_by_side)
