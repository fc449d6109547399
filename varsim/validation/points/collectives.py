"""Collectives: chunk by chunk over links, a million times slower than the formula says.

In slow motion, because every message and every addition is rounded to a whole ns. All-reduces are
those of `on_write`. Reduce-scatter, broadcasts and all-to-all are no strategy's own: their
schedules are carried out alone, on the links of a cluster, where a message holds its ports for
alpha + m beta (Hockney, 1994).
"""

import math
from collections.abc import Callable
from typing import Final

from varsim.cluster.collective import own_links
from varsim.cluster.collectives import broadcast, doubling, exchange, ring, tree
from varsim.cluster.collectives.alone import ends_alone
from varsim.cluster.collectives.plan import Path, Plan
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.job import Job
from varsim.scenario import Scenario
from varsim.trace import Phase
from varsim.validation.points import laws
from varsim.validation.points.estimate import Measured, exactly
from varsim.validation.points.scenario import NANOSECONDS, Part, link_bytes, ran, scenario

SLOWER: Final = 10**6


def all_reduce(kind: str) -> Callable[[int, float, float, float, float], Measured]:
    """Families of all-reduces: the time that `on_write` spends on it in one step."""

    def measure(p: int, n: float, alpha: float, beta: float, gamma: float) -> Measured:
        reduction = {"overheads": {"reduction": 1 / gamma / SLOWER}} if gamma else {}
        described = scenario(
            {"kind": "on_write", "collective": kind},
            p,
            laws.constant(1.0),
            {"global_steps": 1},
            network=slow_star(alpha, beta),
            workload=sent(n),
            **reduction,
        )
        return exactly((int(ran(described).steps[0]) / NANOSECONDS - 1) / SLOWER)

    return measure


def slow_star(alpha: float, beta: float, slower: float = SLOWER) -> Part:
    """A message of m bytes takes alpha + m beta seconds, in slow motion."""
    return {"bandwidth": 1 / beta / slower, "latency": alpha * slower, "sharing": "fair"}


def sent(size: float) -> Part:
    """Nothing is learnt, and a gradient is so many bytes."""
    return {"problem": {"kind": "timing", "size": float(size)}}


def reduce_scatter(p: int, n: float, alpha: float, beta: float, gamma: float) -> Measured:
    """coll-ring-reducescatter."""
    return exactly(_alone(ring.reduce_scatter(p), n, alpha, beta, gamma))


def binomial_broadcast(p: int, n: float, alpha: float, beta: float) -> Measured:
    """coll-binomial-bcast."""
    return exactly(_alone(tree.broadcast(p), n, alpha, beta))


def scatter_all_gather(p: int, n: float, alpha: float, beta: float) -> Measured:
    """coll-vandegeijn-bcast."""
    return exactly(_alone(broadcast.scatter_all_gather(p), n, alpha, beta))


def chain(p: int, n: float, m: int, alpha: float, beta: float) -> Measured:
    """coll-chain-bcast."""
    return exactly(_alone(broadcast.chain(p, m), n, alpha, beta))


def best_chain(p: int, n: float, alpha: float, beta: float) -> Measured:
    """coll-chain-bcast-opt: the least of what m segments take, m real.

    m is whole in a simulation. Three of them around the smallest simulated time give it: with m
    segments it is c + d m + e / m, whatever c, d and e.
    """
    times: dict[int, float] = {}

    def of(segments: int) -> float:
        if segments not in times:
            times[segments] = _alone(broadcast.chain(p, segments), n, alpha, beta)
        return times[segments]

    best = 2
    while of(2 * best) < of(best):
        best *= 2
    low, high = max(1, best // 2), 2 * best
    return exactly(_least((low, of(low)), (best, of(best)), (high, of(high))))


def _least(*points: tuple[int, float]) -> float:
    """The least value of c + d m + e / m through three points."""
    import numpy as np

    rows = np.array([[1.0, m, 1 / m] for m, _ in points])
    c, d, e = np.linalg.solve(rows, np.array([time for _, time in points])).tolist()
    return float(c + 2 * math.sqrt(d * e))


def all_to_all(p: int, n: float, alpha: float, beta: float) -> Measured:
    """coll-alltoall."""
    return exactly(_alone(exchange.pairwise(p), n, alpha, beta))


def crossover(p: int, alpha: float, beta: float) -> Measured:
    """coll-crossover: where the simulated times of the two meet; both are lines in the size."""
    small, large = 1024.0 * p, 2.0**20 * p

    def gap(size: float) -> float:
        doubled = _alone(doubling.recursive_doubling(p), size, alpha, beta)
        return doubled - _alone(doubling.halving_doubling(p), size, alpha, beta)

    below, above = gap(small), gap(large)
    return exactly(small - below * (large - small) / (above - below))


def two_levels(
    k: int, g: int, n: float, alpha1: float, beta1: float, alpha2: float, beta2: float
) -> Measured:
    """coll-hier-allreduce: every rank of a node has a network card of its own."""
    return _in_nodes("hierarchical", g, k, g, n, alpha1, beta1, alpha2, beta2)


def leaders(
    k: int, g: int, n: float, alpha1: float, beta1: float, alpha2: float, beta2: float
) -> Measured:
    """coll-hier-leader-allreduce: one network card per node, which its leader uses."""
    return _in_nodes("hierarchical_leader", 1, k, g, n, alpha1, beta1, alpha2, beta2)


def _in_nodes(
    kind: str,
    cards: int,
    k: int,
    g: int,
    n: float,
    alpha1: float,
    beta1: float,
    alpha2: float,
    beta2: float,
) -> Measured:
    inside = {"bandwidth": 1 / beta1 / SLOWER, "latency": alpha1 * SLOWER}
    described = scenario(
        {"kind": "on_write", "collective": kind, "ranks_per_group": g},
        k * g,
        laws.constant(1.0),
        {"global_steps": 1},
        network={
            "kind": "nodes",
            "workers_per_node": g,
            "nics": cards,
            "inside": inside,
            **slow_star(alpha2, beta2),
        },
        workload=sent(n),
    )
    return exactly((int(ran(described).steps[0]) / NANOSECONDS - 1) / SLOWER)


def weak_scaling(tc: float, p: int, n: float, alpha: float, beta: float) -> Measured:
    """weak-scaling-eff: computing as a share of all time, of three steps in slow motion."""
    slower = 1000.0
    described = scenario(
        {"kind": "on_write"},
        p,
        laws.constant(tc * slower),
        {"global_steps": 3},
        network=slow_star(alpha, beta, slower),
        workload=sent(n),
    )
    trace = ran(described, record=True)
    computing = trace.spans[trace.spans[:, 1] == Phase.COMPUTE]
    return exactly(float((computing[:, 3] - computing[:, 2]).sum()) / (p * trace.end))


def volume(kind: str, p: int, n: float, H: int = 1) -> Measured:  # noqa: N803
    """vol-bytes: what a worker's link carried up, per step."""
    strategies: dict[str, Part] = {
        "ring": {"kind": "on_write"},
        "ps": {"kind": "sync_replicas", "replicas_to_aggregate": p, "initial_tokens": 0},
        "ring-local": {"kind": "on_read", "read_every": H, "write_back": True},
    }
    if kind not in strategies:
        raise ValueError(f"kind {kind!r} is none of {', '.join(strategies)}")
    # A step more, which ends after everything before it has been sent.
    steps = 2 * H + (kind == "ring-local")
    described = scenario(
        strategies[kind],
        p,
        laws.constant(1.0),
        {"global_steps": steps},
        network={"bandwidth": 1e9, "latency": 0.0, "sharing": "fair"},
        workload=sent(n),
    )
    carried = link_bytes(ran(described), "worker 3 up" if p > 3 else "worker 0 up")
    return exactly(carried / (2 * H))


def _alone(schedule: Schedule, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Seconds until all ranks are done with one collective."""
    job = _job(schedule.ranks, beta)
    paths = own_links(job)

    def holding(source: int, target: int) -> Path:
        return paths(source, target)._replace(header=alpha / beta)

    rate = 1 / gamma / SLOWER if gamma else None
    return max(ends_alone(job.clock, Plan(schedule, n, holding, rate))) / NANOSECONDS / SLOWER


def _job(ranks: int, beta: float) -> Job:
    made: Scenario = scenario(
        {"kind": "on_write"},
        ranks,
        laws.constant(1.0),
        {"global_steps": 1},
        network={**slow_star(0.0, beta), "sharing": "first_come"},
    )
    return Job(made.cluster, made.workload, made.stop, seed=made.seed, replication=0)
