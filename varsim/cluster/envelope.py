"""The back of an envelope: rough step times from means and sizes, without a simulation.

Queues, stragglers' effect on each other and everything random beyond a mean of order statistics
are left out; a run tells how much they matter.
"""

from typing import NamedTuple

import numpy as np

from varsim.cluster.description import Cluster
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
        law = cluster.law(workload)
        factors = [1.0] * cluster.workers
        for slow in cluster.slow_workers:
            factors[slow.rank] *= slow.factor
        # One block of every worker's own draws: the k-th fastest of each step, averaged.
        rows = [
            next(law.blocks(rank, lambda block, rank=rank: stream(seed, 0, "compute", rank, block)))  # type: ignore[misc]
            * factor
            for rank, factor in enumerate(factors)
        ]
        times = np.array(rows)
        self._ordered = np.sort(times, axis=0).mean(axis=1)
        self._means = times.mean(axis=1)

    def compute(self, rank: int | None = None) -> float:
        """Mean compute time of a worker, or of all."""
        return float(self._means.mean() if rank is None else self._means[rank])

    def slowest_worker(self) -> float:
        """Mean compute time of the worker that is slowest on average."""
        return float(self._means.max())

    def kth(self, number: int) -> float:
        """Mean time until `number` of the workers have computed a gradient."""
        return float(self._ordered[min(number, len(self._ordered)) - 1])

    def rate(self) -> float:
        """Gradients per second that all workers compute together."""
        return float((1 / self._means).sum())

    def ring(self) -> float:
        """A ring all-reduce of the model: 2(p - 1) (latency + size / p / bandwidth)."""
        ranks = self.cluster.workers
        network = self.cluster.network
        slowest = max([1.0, *(link.factor for link in network.slow_links)])
        chunk = self.size / ranks * slowest / network.worker_rate
        return 2 * (ranks - 1) * (network.delay + chunk)

    def to_server(self) -> float:
        """One model on an idle route between a worker and the servers."""
        network = self.cluster.network
        servers = network.server_rate * self.cluster.parameter_servers
        return network.delay + self.size / min(network.worker_rate, servers)

    def port(self) -> float:
        """How long one model keeps the servers' ports busy, one way."""
        return self.size / (self.cluster.network.server_rate * self.cluster.parameter_servers)
