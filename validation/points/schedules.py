"""Schedules of other collectives than all-reduces, and one collective and nothing else.

Closed forms are known of them; no scenario can name them.
"""

from collections.abc import Callable
from functools import partial

from simpy.events import Event

from varsim.cluster.clock import Clock
from varsim.cluster.collectives import hierarchy
from varsim.cluster.collectives.messages import Walk
from varsim.cluster.collectives.plan import Plan
from varsim.cluster.collectives.ring import all_gather_stage, reduce_scatter_stage
from varsim.cluster.collectives.schedule import Schedule, Stage, Transfer, once
from varsim.cluster.collectives.trees import broadcast_stages, distances, reduce_stages


def binomial_broadcast(ranks: int) -> Schedule:
    """From rank 0: ceil(log2 p) (latency + n / bandwidth)."""
    stages = broadcast_stages([range(ranks)], range(1))
    return Schedule("a broadcast", ranks, 1, stages)


def leader_all_reduce(ranks: int, group: int) -> Schedule:
    """Binomial trees inside, a ring between the first ranks of the groups.

    2 ceil(log2 g) (latency + n / bandwidth) inside (see `tree`), 2(k - 1) (latency + n / k /
    bandwidth) between.
    """
    hierarchy.check(ranks, group)
    count = ranks // group
    inside = [range(first, first + group) for first in range(0, ranks, group)]
    leaders, whole = [range(0, ranks, group)], range(count)
    stages = (
        *reduce_stages(inside, whole),
        reduce_scatter_stage(leaders),
        all_gather_stage(leaders),
        *broadcast_stages(inside, whole),
    )
    return Schedule("an all-reduce", ranks, count, stages)


def scatter_all_gather(ranks: int) -> Schedule:
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
    stages = (*scatter, all_gather_stage([range(ranks)]))
    return Schedule("a broadcast", ranks, ranks, stages)


def chain(ranks: int, segments: int) -> Schedule:
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


def pairwise(ranks: int) -> Schedule:
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


def ends_alone(clock: Clock, plan: Plan) -> list[int]:
    """When each rank is done (ns), if all enter now and nothing else ever happens."""
    done = [clock.time] * plan.schedule.ranks
    ends = [Event(clock) for _ in done]
    for rank, event in enumerate(ends):
        assert event.callbacks is not None
        event.callbacks.append(partial(_note, done, rank, lambda: clock.time))
    if not plan.idle:
        walk = Walk(clock, plan)
        walk.tell(ends)
        for rank in range(len(done)):
            walk.enter(rank)
        clock.run_until_stopped()
    return done


def _note(done: list[int], rank: int, now: Callable[[], int], _: Event) -> None:
    done[rank] = now()
