"""A scenario as the model takes it: plain numbers, and the compute times that were drawn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from tests.seams import keyed, stream
from varsim import Scenario


class Slow(NamedTuple):
    """A worker whose computing takes `factor` times as long from `after` to `until` (s)."""

    rank: int
    factor: float
    after: float
    until: float | None


class Tokens(NamedTuple):
    """The settings of synchronous replicas; None: as TensorFlow has it."""

    required: int  # N
    total: int | None  # T
    initial: int | None


class Limits(NamedTuple):
    """When a run ends: updates, examples in applied gradients, seconds."""

    steps: int | None
    examples: int | None
    time: float | None


class Update(NamedTuple):
    """What applying gradients takes on a server: a time drawn for each, and bytes/s, or one."""

    seconds: Callable[[int], Iterator[float]] | None  # what the n-th server draws
    rate: float | None
    threads: int


@dataclass(frozen=True)
class Setting:
    """All that a run depends on, in seconds, bytes and bytes/s."""

    workers: int
    seconds: Callable[[int], Iterator[float]]  # the compute times that a worker drew
    slow: tuple[Slow, ...]
    tensors: list[list[int]]  # bytes, per variable
    shares: list[float]  # the part of a variable that is read or sent at a time
    servers: int
    placement: str
    fair: bool
    latency: float
    worker_rates: list[float]  # of each worker's link, each way
    server_rate: float
    tokens: Tokens | None  # None: nobody waits for anybody
    update: Update | None  # None: no time
    locking: bool  # one gradient at a time is applied, and whole
    batch_size: int
    measure_every: int  # examples
    limits: Limits


def setting(scenario: Scenario, replication: int) -> Setting:
    """The first strategy of a scenario, in one replication."""
    (strategy,) = scenario.strategies
    cluster, workload = scenario.cluster_of(strategy), scenario.workload
    network, law, stop = cluster.network, cluster.compute, scenario.stop
    assert law is not None
    rates = [network.worker_rate] * cluster.workers
    for link in network.slow_links:
        rates[link.rank] /= link.factor

    def seconds(rank: int) -> Iterator[float]:
        times = law.for_batch(workload.batch_size)
        blocks = times.together(rank, keyed(scenario.seed, replication))
        return chain.from_iterable(block.tolist() for block in blocks)

    return Setting(
        workers=cluster.workers,
        seconds=seconds,
        slow=tuple(Slow(s.rank, s.factor, s.after, s.until) for s in cluster.stragglers),
        tensors=workload.tensor_sizes(),
        shares=workload.sent_shares(),
        servers=cluster.parameter_servers,
        placement=cluster.placement,
        fair=network.sharing == "fair",
        latency=network.delay,
        worker_rates=rates,
        server_rate=network.server_rate,
        tokens=_tokens(strategy.model_dump()),
        update=_update(scenario, cluster, replication),
        locking=strategy.model_dump().get("use_locking", False),
        batch_size=workload.batch_size,
        measure_every=workload.examples_between_evaluations(cluster.workers),
        limits=Limits(stop.global_steps, stop.examples, stop.time),
    )


def _tokens(strategy: dict[str, Any]) -> Tokens | None:
    if strategy["kind"] == "none":
        return None
    names = "replicas_to_aggregate", "total_num_replicas", "initial_tokens"
    return Tokens(*(strategy[name] for name in names))


def _update(scenario: Scenario, cluster: Any, replication: int) -> Update | None:
    update = cluster.server_update
    if update is None:
        return None
    law = update.time

    def seconds(server: int) -> Iterator[float]:
        def generator(block: int) -> object:
            return stream(scenario.seed, replication, "server update", server, block)

        assert law is not None
        blocks = law.blocks(server, generator)
        return chain.from_iterable(block.tolist() for block in blocks)

    return Update(None if law is None else seconds, update.rate, update.threads)
