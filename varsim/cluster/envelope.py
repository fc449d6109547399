"""The back of an envelope: rough step times from means and sizes, without a simulation.

Queues, convoys, times at which a worker is slow, and everything random beyond a mean of order
statistics are left out; a run tells how much they matter.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.collectives.choice import Choice, Hop
from varsim.cluster.description import Cluster
from varsim.cluster.overheads import Overheads, collective_overhead
from varsim.cluster.pace import shares_of_compute
from varsim.cluster.placement import pieces_per_port, traffic_per_port
from varsim.cluster.rough import RoughTimes
from varsim.cluster.updating import ServerUpdate
from varsim.units import format_seconds
from varsim.values.law import Law
from varsim.values.stream import stream
from varsim.values.workload import Workload

_MOST_DRAWN: Final = 4096  # workers whose own draws are looked at; of more, these stand for all


@lru_cache(maxsize=2)
def _drawn(law: Law, workers: int, seed: int) -> NDArray[np.float64]:
    """Compute times (s) as a run begins with, shape (workers, steps), without slow workers.

    The first block of every worker; of very many workers those of some are dealt out to all.
    """
    if not law.varies:
        return np.full((workers, 1), law.expectation())
    some = range(0, workers, -(-workers // _MOST_DRAWN))
    rows = [
        next(law.blocks(rank, lambda block, rank=rank: stream(seed, 0, "compute", rank, block)))  # type: ignore[misc]
        for rank in some
    ]
    drawn = np.array(rows)
    if len(some) == workers:
        return drawn
    steps = drawn.size // workers
    return drawn.T.reshape(-1)[: workers * steps].reshape(workers, steps)


class Estimate(NamedTuple):
    """A rough step time (s) and how it comes about."""

    step_time: float
    why: str


class Envelope:
    """Compute and transfer times of a cluster and a workload, in seconds."""

    def __init__(self, cluster: Cluster, workload: Workload, seed: int) -> None:
        self.cluster = cluster
        self.workload = workload
        self.optimizer_time = cluster.optimizer_time or 0.0
        self.size = workload.size()
        self.overheads = cluster.overheads or Overheads()
        self._variables = len(workload.problem.variables())
        law = cluster.law(workload)
        self._means = [law.expectation()] * cluster.workers
        factors = [1.0] * cluster.workers
        for slow in cluster.slow_workers:
            if slow.after == 0 and slow.until is None:
                factors[slow.rank] *= slow.factor
                self._means[slow.rank] *= slow.factor
        shares = zip(workload.tensor_sizes(), workload.sent_shares(), strict=True)
        sent = [sum(sizes) * share for sizes, share in shares]
        traffic = traffic_per_port(workload, cluster)
        ratios = workload.gradient_ratios()
        gradients = [
            [size * ratio for size in column] for column, ratio in zip(traffic, ratios, strict=True)
        ]
        # Bytes of a read, and of a gradient: in all, and at the fullest server.
        pushed = [size * ratio for size, ratio in zip(sent, ratios, strict=True)]
        self._sent = sum(sent), sum(pushed)
        self._fullest = _fullest(traffic), _fullest(gradients)
        self._traffic = traffic, gradients
        # A plain star has formulas.
        star = cluster.network.kind == "star" and cluster.network.plain
        formulas = star and cluster.servers_on == "dedicated"
        self._rough = None if formulas else RoughTimes(cluster)
        self._known: dict[tuple[bool, bool], tuple[list[float], float]] = {}
        # At a server, all threads at it: at a gradient alone, and for each of many.
        self.update_alone, self.update_each = _update_times(cluster.server_update, gradients)
        # The k-th fastest of each step, averaged.
        rows = _drawn(law, cluster.workers, seed) * np.array(factors)[:, None]
        self._ordered = np.sort(rows, axis=0).mean(axis=1)

    def compute(self, rank: int | None = None) -> float:
        """Mean compute time of a worker, or of all."""
        return sum(self._means) / len(self._means) if rank is None else self._means[rank]

    def slowest_worker(self) -> float:
        """Mean compute time of the worker that is slowest on average."""
        return max(self._means)

    def kth(self, number: int) -> float:
        """Mean time until `number` of the workers have computed a gradient."""
        return float(self._ordered[min(number, len(self._ordered)) - 1])

    def rate(self, besides: float | Sequence[float] = 0.0) -> float:
        """Gradients per second of all workers, who spend `besides` (s; each its own) on one."""
        if isinstance(besides, float):
            return sum(1 / (mean + besides) for mean in self._means)
        return sum(1 / (mean + own) for mean, own in zip(self._means, besides, strict=True))

    def all_reduce(self, choice: Choice, size: float | None = None) -> float:
        """An all-reduce that all enter at once, at the pace of the slowest link.

        Of a gradient's `size` bytes; of the whole model if left out.
        """
        number_bytes = self.workload.gradient_bytes
        if size is None:
            size, number_bytes = self.size, self.workload.bytes_per_parameter
        ranks, network, overheads = self.cluster.workers, self.cluster.network, self.overheads
        slowest = max([1.0, *(link.factor for link in network.slow_links)])
        hop = Hop(network.delay, slowest / network.worker_rate, overheads.adding(1.0))
        overhead = 0.0
        if overheads.message or overheads.payload:
            schedule = choice.schedule(ranks, size)
            moved = schedule.traffic(size, math.ceil(size / number_bytes))
            overhead = collective_overhead(overheads, *moved)
        if self._rough is not None:
            return self._rough.all_reduce(choice, size, overheads.adding(1.0)) + overhead
        return choice.duration(ranks, size, hop) + overhead

    def ring(self) -> float:
        """A ring all-reduce of the model."""
        return self.all_reduce(Choice())

    def to_server(
        self, gradient: bool = False, *, number: int | None = None, layers: bool = False
    ) -> float:
        """One read, or gradient, on idle routes between the servers and the slowest worker.

        `number`: the slowest of so many, those with the fastest routes. `layers`: see `to_each`.
        """
        number = min(number or self.cluster.workers, self.cluster.workers)
        return sorted(self.to_each(gradient, layers=layers))[number - 1]

    def to_each(self, gradient: bool = False, *, layers: bool = False) -> list[float]:
        """The same for every worker; `layers`: a gradient is sent layer by layer."""
        if self._rough is not None:
            return self._rough_times(gradient, layers)[0]
        network, port = self.cluster.network, self.port(gradient)
        sent = self._sent[gradient]
        times = [network.delay + max(sent / network.worker_rate, port)] * self.cluster.workers
        for link in network.slow_links:
            times[link.rank] = network.delay + max(sent / network.rate_of(link.rank), port)
        return times

    def port(self, gradient: bool = False, *, layers: bool = False) -> float:
        """How long one read, or gradient, keeps the busiest link of all busy, one way.

        That is the port of the fullest server, or what servers and workers share.
        """
        if self._rough is not None:
            return self._rough_times(gradient, layers)[1]
        return float(self._fullest[gradient] / self.cluster.network.server_rate)

    def _rough_times(self, gradient: bool, layers: bool) -> tuple[list[float], float]:
        """What `RoughTimes.to_servers` says, worked out once."""
        layers = gradient and layers and self.cluster.network.message_overhead > 0
        if (gradient, layers) not in self._known:
            assert self._rough is not None
            sizes = self._traffic[gradient]
            if layers:
                sizes = pieces_per_port(self.workload, self.cluster)
            self._known[gradient, layers] = self._rough.to_servers(sizes, reads=not gradient)
        return self._known[gradient, layers]

    def exposed(self, moving: float, compute: float) -> float:
        """What is left, once it is computed, of a gradient that is sent as it is computed.

        `moving`: how long all of it takes to be sent, `compute`: how long to be computed.
        """
        sizes = [size for sizes in self.workload.tensor_sizes() for size in sizes]
        ready = shares_of_compute(self.cluster, self.workload.ready_after(sizes))
        end, total = 0.0, sum(sizes)
        for share, size in reversed(list(zip(ready, sizes, strict=True))):
            end = max(end, share * compute) + moving * size / total
        return max(0.0, end - compute)

    def attention(self, workers: int = 1) -> float:
        """Service time of the busiest server for one gradient and `workers` who go on at once."""
        overheads = self.overheads
        read, pushed = map(overheads.copying, self._fullest)
        each = overheads.wake + overheads.pull + read
        return workers * each + self._variables * overheads.push + pushed

    def updates(self, needed: int, last: float) -> float:
        """How much later than `last`, when the last comes, so many gradients are applied.

        `last` is counted from the moment at which all workers began.
        """
        if not self.update_each:
            return 0.0
        return max(self.update_alone, self.kth(1) + needed * self.update_each - last)

    def applied(self, seconds: float) -> str:
        """What is said of the time that servers apply gradients; nothing of none."""
        return f" + {format_seconds(seconds)} applied" if seconds else ""


def _fullest(sizes: list[list[float]]) -> float:
    """The bytes of all variables on the server that has most."""
    return float(max(sum(column) for column in zip(*sizes, strict=True)))


def _update_times(update: ServerUpdate | None, sizes: list[list[float]]) -> tuple[float, float]:
    """What the busiest server needs for one gradient, alone and as one of very many (s)."""
    if update is None:
        return 0.0, 0.0
    alone, each = [], []
    for column in zip(*sizes, strict=True):
        parts = [update.expectation(size) for size in column if size]
        each.append(sum(parts) / update.threads)
        alone.append(max(each[-1], *parts, 0.0))
    return max(alone), max(each)
