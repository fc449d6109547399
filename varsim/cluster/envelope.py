"""The back of an envelope: rough step times from means and sizes, without a simulation.

Queues, convoys, times at which a worker is slow, and everything random beyond a mean of order
statistics are left out; a run tells how much they matter.
"""

import math
from typing import NamedTuple

import numpy as np

from varsim.cluster.collectives.choice import Choice, Hop
from varsim.cluster.description import Cluster
from varsim.cluster.overheads import Overheads, collective_overhead
from varsim.cluster.placement import traffic_per_port
from varsim.values.stream import stream
from varsim.values.workload import Workload


class Estimate(NamedTuple):
    """A rough step time (s) and how it comes about."""

    step_time: float
    why: str


class Envelope:
    """Compute and transfer times of a cluster and a workload, in seconds."""

    def __init__(self, cluster: Cluster, workload: Workload, seed: int) -> None:
        self.cluster = cluster
        self.size = workload.size()
        self.overheads = cluster.overheads or Overheads()
        self._variables = len(workload.problem.variables())
        self._parameters = math.ceil(self.size / workload.bytes_per_parameter)
        law = cluster.law(workload)
        self._means = [law.expectation()] * cluster.workers
        factors = [1.0] * cluster.workers
        for slow in cluster.slow_workers:
            if slow.after == 0 and slow.until is None:
                factors[slow.rank] *= slow.factor
                self._means[slow.rank] *= slow.factor
        shares = zip(workload.tensor_sizes(), workload.sent_shares(), strict=True)
        self._sent = sum(sum(sizes) * share for sizes, share in shares)
        traffic = traffic_per_port(workload, cluster)
        self._fullest = max(sum(column) for column in zip(*traffic, strict=True))
        # One block of every worker's own draws: the k-th fastest of each step, averaged.
        rows = [
            next(law.blocks(rank, lambda block, rank=rank: stream(seed, 0, "compute", rank, block)))  # type: ignore[misc]
            * factor
            for rank, factor in enumerate(factors)
        ]
        self._ordered = np.sort(np.array(rows), axis=0).mean(axis=1)

    def compute(self, rank: int | None = None) -> float:
        """Mean compute time of a worker, or of all."""
        return sum(self._means) / len(self._means) if rank is None else self._means[rank]

    def slowest_worker(self) -> float:
        """Mean compute time of the worker that is slowest on average."""
        return max(self._means)

    def kth(self, number: int) -> float:
        """Mean time until `number` of the workers have computed a gradient."""
        return float(self._ordered[min(number, len(self._ordered)) - 1])

    def rate(self, besides: float = 0.0) -> float:
        """Gradients per second of all workers, each spending `besides` (s) on every one."""
        return sum(1 / (mean + besides) for mean in self._means)

    def all_reduce(self, choice: Choice) -> float:
        """An all-reduce of the model that all enter at once, at the pace of the slowest link."""
        ranks, network, overheads = self.cluster.workers, self.cluster.network, self.overheads
        slowest = max([1.0, *(link.factor for link in network.slow_links)])
        hop = Hop(network.delay, slowest / network.worker_rate, overheads.adding(1.0))
        overhead = 0.0
        if overheads.message or overheads.payload:
            schedule = choice.schedule(ranks, self.size)
            moved = schedule.traffic(self.size, self._parameters)
            overhead = collective_overhead(overheads, *moved)
        return choice.duration(ranks, self.size, hop) + overhead

    def ring(self) -> float:
        """A ring all-reduce of the model."""
        return self.all_reduce(Choice())

    def to_server(self) -> float:
        """One read, or gradient, on an idle route between a worker and the servers."""
        network = self.cluster.network
        return network.delay + max(self._sent / network.worker_rate, self.port())

    def port(self) -> float:
        """How long one read, or gradient, keeps the port of the fullest server busy, one way."""
        return float(self._fullest / self.cluster.network.server_rate)

    def attention(self, workers: int = 1) -> float:
        """How long the busiest server is at one gradient and `workers` who go on at one moment."""
        overheads, copying = self.overheads, self.overheads.copying(self._fullest)
        each = overheads.wake + overheads.pull + copying
        return workers * each + self._variables * overheads.push + copying
