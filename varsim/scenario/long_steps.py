"""Steps that are longer than the clock counts: which part of a scenario says so."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.stragglers import stragglers
from varsim.cluster.workers.worker import slowness
from varsim.core.refusal import RefusalError, dotted
from varsim.core.units import format_bytes, format_rate, format_seconds
from varsim.learning.workload import Workload
from varsim.strategies import Strategy

_FEW_STEPS: Final = 4  # in all the time that the clock counts
_LONGEST: Final = END_OF_TIME / 1e9 / _FEW_STEPS


class _LongStep(NamedTuple):
    """About what a step takes (s), how, and which field of the cluster says so."""

    seconds: float
    how: str
    field: tuple[str | int, ...]


def check_long_steps(workload: Workload, cluster: Cluster, strategy: Strategy, index: int) -> None:
    """Raise RefusalError where a step of the strategy with this index is too long for the clock."""
    steps = _steps(workload, cluster, strategy)
    long = next((one for one in steps if one.seconds > _LONGEST), None)
    if long is None:
        return
    own = getattr(strategy.on, str(long.field[0]), None) is not None
    path = (*(("strategies", index, "on") if own else ("cluster",)), *long.field)
    unit = "" if long.field[-1] == "factor" else "the unit of "
    raise RefusalError(
        f"one step of {strategy.mention} takes about {format_seconds(long.seconds)} "
        f"({long.how}), but the clock ends at 1,281,000 h: is {unit}{dotted(path)} right?",
        *path,
    )


def _steps(workload: Workload, cluster: Cluster, strategy: Strategy) -> Iterator[_LongStep]:
    """What may make a step long, each alone.

    A gradient is computed, or sent over a worker's link; to all workers in rounds of a ring.
    """
    workers, network = strategy.workers(cluster), cluster.network
    each = strategy.round.micro_batches
    share = min(1.0, strategy.gradients_per_update(cluster) / (each * workers))
    computing = each * cluster.compute_distribution(workload).expectation()
    size = _sent(workload, strategy) if workers > 1 else 0.0
    rounds = 2 * (workers - 1) if strategy.sends.to == "workers" else 1
    latency = rounds * network.delay if size else 0.0
    moving = size / network.worker_rate
    yield _LongStep(share * computing, "computing alone", _of_compute(cluster))
    if latency >= moving:
        how = f"{format_seconds(network.delay)} in {rounds} round{'s' * (rounds > 1)}"
        yield _LongStep(share * (latency + moving), how, ("network", "latency"))
    else:
        how = f"{format_bytes(size)} at {format_rate(network.worker_rate)}"
        yield _LongStep(share * (latency + moving), how, ("network", "bandwidth"))
    yield from _slow(cluster, workers, computing, size)
    yield from _besides(cluster, strategy, size, rounds * workers)


def _of_compute(cluster: Cluster) -> tuple[str, ...]:
    """The field that says what a worker needs for a gradient, as closely as one does."""
    if cluster.compute is None:
        return ("device",)
    means = (key for key in ("value", "mean") if key in type(cluster.compute).model_fields)
    return ("compute", *islice(means, 1))


def _slow(cluster: Cluster, workers: int, computing: float, size: float) -> Iterator[_LongStep]:
    """A gradient of a slow worker is computed, or sent over a slow link."""
    network = cluster.network
    paces = slowness(cluster.stragglers)
    for index, entry in enumerate(cluster.slow_workers):
        for one in stragglers([entry], cluster.workers, network):
            if one.rank < workers and one.until is None:
                seconds = computing * paces[one.rank][-1][1]
                how = f"worker {one.rank} computing alone"
                yield _LongStep(seconds, how, ("slow_workers", index, "factor"))
    for index, link in enumerate(network.slow_links):
        if link.rank < workers:
            rate = network.rate_of(link.rank)
            seconds = size / rate if rate else math.inf
            how = f"{format_bytes(size)} at {format_rate(rate)} of worker {link.rank}"
            yield _LongStep(seconds, how, ("network", "slow_links", index, "factor"))


def _besides(
    cluster: Cluster, strategy: Strategy, size: float, messages: int
) -> Iterator[_LongStep]:
    """What a step takes beside computation and links."""
    if cluster.overheads is not None:
        overheads = cluster.overheads.only(strategy.subject_to())
        longer = {
            "payload": overheads.copying(size),
            "reduction": overheads.adding(size),
            "message": messages * overheads.message,
        }
        for name in overheads.given:
            seconds = longer.get(name, getattr(overheads, name))
            yield _LongStep(seconds, "overheads alone", ("overheads", name))
    if cluster.server_update is not None and strategy.traits.uses_servers:
        seconds = cluster.server_update.expectation(size)
        yield _LongStep(seconds, "a server's update alone", ("server_update",))
    if cluster.optimizer_time is not None and strategy.traits.updates_copies:
        yield _LongStep(cluster.optimizer_time, "the optimizer alone", ("optimizer_time",))
    if size:
        seconds = messages * cluster.network.message_overhead
        yield _LongStep(seconds, "overheads alone", ("network", "message_overhead"))


def _sent(workload: Workload, strategy: Strategy) -> float:
    """Bytes that a worker sends, or is sent, for every gradient: its own or their mean."""
    if strategy.sends.what == "gradients":
        parts = zip(
            workload.tensor_sizes(),
            workload.sent_shares(),
            workload.gradient_ratios(),
            strict=True,
        )
        return math.fsum(sum(sizes) * share * ratio for sizes, share, ratio in parts)
    return workload.size() / strategy.round.steps if strategy.sends.what == "parameters" else 0.0
