"""Collectives: chunk by chunk over links, in slow motion.

All-reduces are those of `on_write`. Reduce-scatter, broadcasts and all-to-all are no strategy's
own: their schedules are carried out alone, on the links of a cluster, where a message holds its
ports for alpha + m beta (Hockney, 1994). So are all-reduces along trees in which somebody has no
partner in a round: were alpha a latency, who has none would go on before the round is over.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Final, Literal

import varsim
from validation.points import laws
from validation.points.estimate import Answer, family
from validation.points.parameters import (
    Count,
    NotNegative,
    Positive,
    for_powers_of_two,
    of_minutes,
    only_if,
)
from validation.points.scenario import NANOSECONDS, Part, ran, scenario, sent, slow_motion
from varsim.cluster.collectives import algorithms
from varsim.cluster.collectives.algorithms import (
    all_gather_stage,
    distances,
    reduce_scatter_stage,
)
from varsim.cluster.collectives.carrying import Walk
from varsim.cluster.collectives.collective import own_links
from varsim.cluster.collectives.plan import CollectivePlan as Plan
from varsim.cluster.collectives.plan import MessagePath as Path
from varsim.cluster.collectives.schedule import Schedule, Stage, once
from varsim.cluster.collectives.schedule import ScheduledTransfer as Transfer
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job

# Schedules of other collectives than all-reduces. Closed forms are known of them; no scenario can
# name them.


def _broadcast_tree(ranks: int) -> Schedule:
    """From rank 0: ceil(log2 p) (latency + n / bandwidth)."""
    reduced_and_back = algorithms.binomial_tree(ranks).stages
    return Schedule("a broadcast", ranks, 1, reduced_and_back[len(reduced_and_back) // 2 :])


def _leader_all_reduce(ranks: int, group: int) -> Schedule:
    """Binomial trees inside, a ring between the first ranks of the groups.

    2 ceil(log2 g) (latency + n / bandwidth) inside (see `tree`), 2(k - 1) (latency + n / k /
    bandwidth) between.
    """
    algorithms.check_groups(ranks, group)
    count = ranks // group
    inside = [range(first, first + group) for first in range(0, ranks, group)]
    leaders, whole = [range(0, ranks, group)], range(count)
    upwards = [
        [
            Transfer(ranks_of[child], ranks_of[child - distance], whole, adds=True)
            for ranks_of in inside
            for child in range(distance, group, 2 * distance)
        ]
        for distance in distances(group)
    ]
    downwards = [
        [Transfer(parent, child, whole) for child, parent, *_ in each] for each in upwards[::-1]
    ]
    stages = (
        *map(once, upwards),
        reduce_scatter_stage(leaders, _block),
        all_gather_stage(leaders, _block),
        *map(once, downwards),
    )
    return Schedule("an all-reduce", ranks, count, stages)


def _block(_: int, index: int) -> range:
    return range(index, index + 1)


def _scatter_and_gather(ranks: int) -> Schedule:
    """Scatter the blocks along a binomial tree, then gather them all around a ring.

    (log2 p + p - 1) latency + 2 (p - 1) / p n / bandwidth, p a power of two. Barnett, Gupta, Payne,
    Shuler, van de Geijn and Watts, 1994; MPICH, bcast_intra_scatter_ring_allgather.
    """
    scatter = [
        once(
            [
                Transfer(child - distance, child, range(child, min(child + distance, ranks)))
                for child in range(distance, ranks, 2 * distance)
            ]
        )
        for distance in reversed(distances(ranks))
    ]
    stages = (*scatter, all_gather_stage([range(ranks)], _block))
    return Schedule("a broadcast", ranks, ranks, stages)


def _chain_of(ranks: int, segments: int) -> Schedule:
    """Every rank passes each of the segments on to the next rank as it comes.

    (p - 1) latency + (p - 2 + m) n / m / bandwidth for m segments. Sanders, Speck and Träff, 2009.
    """
    if segments < 1:
        raise ValueError(f"a chain needs at least one segment, not {segments}")
    rounds = segments + ranks - 2 if ranks > 1 else 0
    stages = tuple(_step(ranks, segments, index) for index in range(rounds))
    return Schedule("a broadcast", ranks, segments, stages)


def _step(ranks: int, segments: int, index: int) -> Stage:
    """The rank at place i of the chain passes on segment index - i."""
    places = range(max(0, index - segments + 1), min(index, ranks - 2) + 1)
    return once(
        [Transfer(place, place + 1, range(index - place, index - place + 1)) for place in places]
    )


def _pairwise(ranks: int) -> Schedule:
    """In round s with the partner at distance s: (p - 1) (latency + n / p / bandwidth).

    n are the bytes of one rank. Block source * p + target goes from source to target. A power of
    two of ranks exchange in pairs (rank xor s); any other number sends to rank + s and receives
    from rank - s (MPICH, alltoall_intra_pairwise; Thakur, Rabenseifner and Gropp, 2005).
    """
    pairs = ranks & (ranks - 1) == 0
    stages = [
        once(
            [
                Transfer(rank, other, range(rank * ranks + other, rank * ranks + other + 1))
                for rank in range(ranks)
                for other in [rank ^ distance if pairs else (rank + distance) % ranks]
            ]
        )
        for distance in range(1, ranks)
    ]
    return Schedule("an all-to-all", ranks, ranks, tuple(stages))


# A network on which one collective is carried out, and nothing else.


_NO_SIZE: Final = "without beta sizes do not count"
_NOTHING: Final = 1e-30  # seconds per byte of a link on which bytes take no time
_COMPUTING: Final = 1.0  # s


def _at_most(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Seconds within which any of these collectives is over."""
    return 2 * p * (alpha + n * (beta + gamma))


def _link(alpha: float, beta: float, slower: float) -> Part:
    """A message of m bytes takes alpha + m beta seconds, in slow motion."""
    return {"bandwidth": 1 / (beta or _NOTHING) / slower, "latency": alpha * slower}


def slow_star(alpha: float, beta: float, slower: float) -> Part:
    """Such links of all ranks, which messages share."""
    return {**_link(alpha, beta, slower), "sharing": "fair"}


def _all_reduced(
    strategy: Part, p: int, n: float, network: Part, slower: float, **cluster: object
) -> float:
    """Seconds that `on_write` spends on the all-reduce of a step."""
    described = scenario(
        {"kind": "on_write", **strategy},
        p,
        laws.constant(_COMPUTING),
        1,
        network=network,
        workload=sent(n),
        **cluster,
    )
    computing = round(_COMPUTING * NANOSECONDS)
    return (int(ran(described).steps[0]) - computing) / NANOSECONDS / slower


def _alone(schedule: Schedule, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Seconds until all ranks are done with one collective on a star."""
    slower = slow_motion(_at_most(schedule.ranks, n, alpha, beta, gamma))
    rate = 1 / gamma / slower if gamma else None
    star = slow_star(0.0, beta, slower)
    return _carried_out(schedule, n, star, lambda *_: alpha / (beta or _NOTHING), slower, rate)


def _carried_out(
    schedule: Schedule,
    n: float,
    network: Part,
    header: Callable[[int, int], float],
    slower: float,
    rate: float | None = None,
) -> float:
    """Seconds until all are done, each message with so many bytes besides; `rate` of adding."""
    first_come = {**network, "sharing": "first_come"}
    made = scenario({"kind": "on_write"}, schedule.ranks, laws.constant(1.0), 1, network=first_come)
    job = Job(made.cluster, made.workload, made.stop, seed=made.seed, replication=0)
    paths = own_links(job)

    def holding(source: int, target: int) -> Path:
        return paths(source, target)._replace(header=header(source, target))

    plan = Plan(schedule, n, holding, rate)
    if not plan.idle:
        walk = Walk(job.clock, plan)
        for rank in range(schedule.ranks):
            walk.enter(rank)
        job.clock.run_until_stopped()
    return job.clock.time / NANOSECONDS / slower


# Families: all-reduces are those of `on_write`; `formula`: one that is for powers of two.


def _all_reduce(kind: str, formula: str = "") -> Callable[[int, float, float, float, float], float]:
    def measure(
        p: Count, n: Positive, alpha: NotNegative, beta: NotNegative, gamma: NotNegative
    ) -> float:
        if formula:
            for_powers_of_two(p, formula)
        if kind == "binomial_tree" and p & (p - 1):
            only_if(not gamma, _EARLIER)
            return _alone(algorithms.binomial_tree(p), n, alpha, beta)
        slower = slow_motion(_at_most(p, n, alpha, beta, gamma))
        reduction = {"overheads": {"reduction": 1 / gamma / slower}} if gamma else {}
        star = slow_star(alpha, beta, slower)
        return _all_reduced({"collective": kind}, p, n, star, slower, **reduction)

    return measure


_EARLIER: Final = (
    "the formula counts whole rounds; with gamma, and p not a power of two, a rank is sent the "
    "next gradient while it adds up the last, so that all are done earlier"
)
_DOUBLING: Final = "log2 p (alpha + n beta + n gamma)"
_HALVING: Final = "2 log2 p alpha + 2 (p-1)/p n beta"
family("coll-ring-allreduce")(_all_reduce("ring"))
family("coll-recdoubling-allreduce")(_all_reduce("recursive_doubling", _DOUBLING))
family("coll-rabenseifner-allreduce")(_all_reduce("halving_doubling", _HALVING))
family("coll-tree-allreduce")(_all_reduce("binomial_tree"))


@family("coll-ring-reducescatter")
def _reduce_scatter(
    p: Count, n: Positive, alpha: NotNegative, beta: NotNegative, gamma: NotNegative
) -> Answer:
    return _alone(algorithms.reduce_scatter(p), n, alpha, beta, gamma)


@family("coll-binomial-bcast")
def _binomial_broadcast(p: Count, n: Positive, alpha: NotNegative, beta: NotNegative) -> Answer:
    return _alone(_broadcast_tree(p), n, alpha, beta)


@family("coll-vandegeijn-bcast")
def _scatter_all_gather(p: Count, n: Positive, alpha: NotNegative, beta: NotNegative) -> Answer:
    rounds = "(for any p, the simulation has ceil(log2 p) + p - 1)"
    for_powers_of_two(p, f"log2 p + p - 1 rounds {rounds}")
    return _alone(_scatter_and_gather(p), n, alpha, beta)


@family("coll-alltoall")
def _all_to_all(p: Count, n: Positive, alpha: NotNegative, beta: NotNegative) -> Answer:
    return _alone(_pairwise(p), n, alpha, beta)


@family("coll-chain-bcast")
def _chain(p: Count, n: Positive, m: Count, alpha: NotNegative, beta: NotNegative) -> Answer:
    only_if(p > 1, "one rank alone has nobody to send to")
    of_minutes(p * m)
    return _alone(_chain_of(p, m), n, alpha, beta)


@family("coll-chain-bcast-opt")
def _best_chain(p: Count, n: Positive, alpha: NotNegative, beta: NotNegative) -> Answer:
    """The least of what m segments take, m real.

    m is whole in a simulation. Three of them around the smallest simulated time give it: with m
    segments it is c + d m + e / m, whatever c, d and e.
    """
    import numpy as np

    only_if(p > 2, "with p = 2 every further segment costs alpha: one is best, and no m* minimises")
    why = "without alpha every further segment gains: there is no m* that minimises"
    only_if(alpha > 0, why)
    only_if(beta > 0, _NO_SIZE)
    of_minutes(8 * p * math.sqrt((p - 2) * n * beta / alpha))

    @cache
    def of(segments: int) -> float:
        return _alone(_chain_of(p, segments), n, alpha, beta)

    best = 2
    while of(2 * best) < of(best):
        best *= 2
    around = (max(1, best // 2), best, 2 * best)
    rows = np.array([[1.0, m, 1 / m] for m in around])
    c, d, e = np.linalg.solve(rows, np.array([of(m) for m in around])).tolist()
    return float(c + 2 * math.sqrt(d * e))


@family("coll-crossover")
def _crossover(p: Count, alpha: NotNegative, beta: NotNegative) -> Answer:
    """Where the simulated times of the two meet; both are lines in the size."""
    for_powers_of_two(p, "log2 p alpha / (beta (log2 p - 2(p-1)/p))")
    why = "with p = 2 both send n bytes, and the doubling has one latency less at any n"
    only_if(p > 2, why)
    only_if(alpha > 0, "without alpha they meet at 0 bytes")
    only_if(beta > 0, _NO_SIZE)
    small, large = alpha / beta, 1024 * alpha / beta

    def gap(size: float) -> float:
        doubled = _alone(algorithms.recursive_doubling(p), size, alpha, beta)
        return doubled - _alone(algorithms.halving_doubling(p), size, alpha, beta)

    below, above = gap(small), gap(large)
    return small - below * (large - small) / (above - below)


# Nodes of g ranks each: links inside (1) and network cards (2).


def _nodes(cards: int, g: int, inside: Part, outside: Part) -> Part:
    kind = {"kind": "nodes", "workers_per_node": g, "nics": cards, "inside": inside}
    return {**kind, **outside, "sharing": "fair"}


@family("coll-hier-allreduce")
def _two_levels(
    k: Count,
    g: Count,
    n: Positive,
    alpha1: NotNegative,
    beta1: NotNegative,
    alpha2: NotNegative,
    beta2: NotNegative,
) -> Answer:
    """Every rank of a node has a network card of its own."""
    slower = slow_motion(_at_most(k * g, n, alpha1 + alpha2, beta1 + beta2))
    nodes = _nodes(g, g, _link(alpha1, beta1, slower), _link(alpha2, beta2, slower))
    return _all_reduced(
        {"collective": "hierarchical", "ranks_per_group": g}, k * g, n, nodes, slower
    )


@family("coll-hier-leader-allreduce")
def _leaders(
    k: Count,
    g: Count,
    n: Positive,
    alpha1: NotNegative,
    beta1: NotNegative,
    alpha2: NotNegative,
    beta2: NotNegative,
) -> Answer:
    """One network card per node, which its leader uses."""
    slower = slow_motion(_at_most(k * g, n, alpha1 + alpha2, beta1 + beta2))
    if g & (g - 1) == 0:

        def by_leaders(ranks: int, size: float) -> Schedule:
            return _leader_all_reduce(ranks, g)

        varsim.register(by_leaders)
        nodes = _nodes(1, g, _link(alpha1, beta1, slower), _link(alpha2, beta2, slower))
        return _all_reduced({"collective": "by_leaders"}, k * g, n, nodes, slower)
    nodes = _nodes(1, g, _link(0.0, beta1, slower), _link(0.0, beta2, slower))
    headers = alpha1 / (beta1 or _NOTHING), alpha2 / (beta2 or _NOTHING)

    def header(source: int, target: int) -> float:
        return headers[source // g != target // g]

    return _carried_out(_leader_all_reduce(k * g, g), n, nodes, header, slower)


@family("weak-scaling-eff")
def _weak_scaling(
    tc: Positive, p: Count, n: Positive, alpha: NotNegative, beta: NotNegative
) -> Answer:
    """Computing as a share of all time, of three steps in slow motion."""
    slower = slow_motion(3 * (tc + _at_most(p, n, alpha, beta)))
    star = slow_star(alpha, beta, slower)
    law = laws.constant(tc * slower)
    described = scenario({"kind": "on_write"}, p, law, 3, network=star, workload=sent(n))
    trace = ran(described, record=True)
    computing = trace.spans[trace.spans[:, 1] == Phase.COMPUTE]
    return float((computing[:, 3] - computing[:, 2]).sum()) / (p * trace.end)


@family("vol-bytes")
def _volume(
    kind: Literal["ring", "ps", "ring-local"], p: Count, n: Positive, H: Count = 1
) -> Answer:
    """What the links of workers carried up, per step and worker."""
    strategies: dict[str, Part] = {
        "ring": {"kind": "on_write"},
        "ps": {"kind": "sync_replicas", "replicas_to_aggregate": p, "initial_tokens": 0},
        "ring-local": {"kind": "on_read", "read_every": H, "write_back": True},
    }
    network = {"bandwidth": 1e9, "latency": 0.0, "sharing": "fair"}
    up = {f"worker {rank} up" for rank in range(p)}

    def carried(steps: int) -> float:
        law, size = laws.constant(1.0), sent(n)
        trace = ran(scenario(strategies[kind], p, law, steps, network=network, workload=size))
        return math.fsum(link.moved for link in trace.links if link.name in up) / p

    # A message that arrives at the instant at which a run ends does not count: one in both.
    return (carried(4 * H + 1) - carried(2 * H + 1)) / (2 * H)
