"""The back of an envelope: rough step times from means and sizes, without a simulation.

Queues, convoys, times at which a worker is slow, and everything random beyond a mean of order
statistics are left out; a run tells how much they matter.
"""

from typing import NamedTuple

import numpy as np

from varsim.cluster.description import Cluster
from varsim.cluster.placement import bytes_per_port
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
        self._means = [law.expectation()] * cluster.workers
        factors = [1.0] * cluster.workers
        for slow in cluster.slow_workers:
            if slow.after == 0 and slow.until is None:
                factors[slow.rank] *= slow.factor
                self._means[slow.rank] *= slow.factor
        placed = bytes_per_port(workload.tensor_sizes(), cluster)
        self._fullest = max(sum(column) for column in zip(*placed, strict=True))
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
        return network.delay + max(self.size / network.worker_rate, self.port())

    def port(self) -> float:
        """How long one model keeps the port of the fullest server busy, one way."""
        return float(self._fullest / self.cluster.network.server_rate)
