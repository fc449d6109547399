"""All-reduces of a run by the recurrence there is for their times, one after the other."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from varsim.cluster.clock import END_OF_TIME, Clock
from varsim.cluster.collectives import ring
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector, links_between, needs_messages, planned
from varsim.cluster.collectives.plan import Paths, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast.rules import Reading, Reducing
from varsim.cluster.network.network import Network, network
from varsim.cluster.network.topology import Topology
from varsim.cluster.record.trace import LinkRow
from varsim.cluster.workers.allreduce import vectors_of
from varsim.cluster.workers.buckets import ready_buckets
from varsim.cluster.workers.worker import Slowed, shares_of_compute
from varsim.learning.workload import Workload


class Reductions:
    """All-reduces of some vectors, as of the buckets of gradients, one by one, again and again.

    `ready`: shares of the backward pass after which each is, where it is reduced meanwhile.
    `number`: of vectors; `overheads` (ns) of each; `shares` of a gradient's computation after which
    each is ready, where it is reduced meanwhile. `idle`: a worker alone, which sends nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        workers: int,
        vectors: Sequence[Vector],
        ready: Sequence[float] = (),
    ) -> None:
        self.network = network(Clock(), cluster.network)
        paths = _paths(self.network, workers, vectors[0])
        rounds = [planned(cluster, workload, vector, paths) for vector in vectors]
        self.plans = [one.plan for one in rounds]
        self.number = len(rounds)
        self.overheads = [one.overhead for one in rounds]
        self.shares = shares_of_compute(cluster, ready)
        self.pace = cluster.overlap_pace if ready else None
        self.idle = self.plans[0].idle
        needs_messages(cluster.network, self.plans[0])  # makes all links, used or not
        self._pace = Slowed(0, 1.0)  # of the latest
        self._recurrence = Recurrence(self.plans[0])

    def ends(self, bucket: int, entries: Times, now: int, computed: int) -> Times:
        """When each rank is done with a bucket (ns), given when each entered, the last one now.

        `computed`: when all will have computed (ns); asked for where there is a `pace`.
        """
        if self.idle:
            return entries
        self._recurrence.turn_to(self.plans[bucket])
        if self.pace is None:
            return self._recurrence.times(entries)
        self._pace = Slowed(computed, self.pace)
        work = self._recurrence.times(_work_at(self._pace, entries))
        slow = np.rint(computed - (computed - work) / self.pace).astype(np.int64)
        return np.maximum(now, np.where(work >= computed, work, slow))

    def carried(
        self, bucket: int, entries: Sequence[int | None], end: int, computed: int
    ) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end (ns), and `Trace.sent`; after this, no more.

        `bucket`, `entries`: of the one that not all have entered.
        """
        latest = coming = end
        if self.pace is not None:
            now = Slowed(computed, self.pace)
            latest = round(self._pace.work_at(end))
            entries = [None if one is None else round(now.work_at(one)) for one in entries]
            coming = round(now.work_at(end))
        self._recurrence.count(latest, self.plans[bucket], entries, END_OF_TIME, coming)
        return carried(self.network, end)


def of_gradients(
    cluster: Cluster, workload: Workload, workers: int, reducing: Reducing
) -> Reductions:
    """All-reduces of gradients."""
    buckets = ready_buckets(workload, reducing.bucketing)
    vectors = vectors_of(reducing.choice, cluster, workers, workload, buckets)
    ready = [bucket.ready for bucket in buckets] if reducing.overlap else []
    return Reductions(cluster, workload, workers, vectors, ready)


def foretold(cluster: Cluster, workload: Workload, workers: int, rules: Reducing | Reading) -> str:
    """Why no recurrence says when its all-reduces end; empty if one does."""
    if isinstance(rules, Reading):
        choice, size = Choice("ring"), workload.size()
    else:
        choice, size = rules.choice, ready_buckets(workload, rules.bucketing)[0].size
    asked = (cluster.network, workers, choice, size)
    try:
        return _foretold(*asked)
    except TypeError:  # somebody else's network, that has no hash
        return _foretold.__wrapped__(*asked)


@lru_cache(maxsize=64)
def _foretold(topology: Topology, workers: int, choice: Choice, size: int) -> str:
    vector = Vector(choice.schedule_on(topology, range(workers), size), size)
    plan = Plan(vector.schedule, size, _paths(network(Clock(), topology), workers, vector))
    if needs_messages(topology, plan):
        return "messages of its collective meet on links, or slow links"
    return ""


def of_copies(cluster: Cluster, workload: Workload, workers: int) -> Reductions:
    """All-reduces of copies of the model."""
    vector = Vector(ring.all_reduce(workers), workload.size())
    return Reductions(cluster, workload, workers, [vector])


def idle_network(cluster: Cluster, workers: int) -> Network:
    """A network on which no message is sent."""
    idle = network(Clock(), cluster.network)
    for rank in range(workers):
        idle.routing.worker(rank)
    return idle


def carried(used: Network, end: int) -> tuple[list[LinkRow], float]:
    """What every link has carried by the end (ns), and `Trace.sent`."""
    rows = [LinkRow(link.name, link.bandwidth, link.moved) for link in used.carried(end)]
    return rows, used.sent()


def _paths(used: Network, workers: int, vector: Vector) -> Paths:
    places = [used.routing.worker(rank) for rank in range(workers)]
    return links_between(used, places, side_by_side=vector.schedule.side_by_side)


def _work_at(pace: Slowed, times: Times) -> Times:
    """See Slowed."""
    until, share = pace
    slow = np.rint(until - (until - times) * share).astype(np.int64)
    return np.where(times >= until, times, slow)
