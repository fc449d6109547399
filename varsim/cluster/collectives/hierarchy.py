"""Two-level all-reduces: k groups of g ranks each, say the accelerators of k machines.

Ranks 0 to g - 1 are the first group, and so on; the ranks must divide evenly.
"""

from collections.abc import Callable, Iterator

from varsim.cluster.collectives import ring
from varsim.cluster.collectives.schedule import Round, Schedule, ScheduledTransfer, Stage, once
from varsim.core.refusal import refused


def all_reduce(ranks: int, group: int, segments: int = 0) -> Schedule:
    """Reduce-scatter inside, a ring all-reduce of n / g between, all-gather inside.

    2(g - 1) (latency + n / g / bandwidth) inside, 2(k - 1) (latency + n / (g k) / bandwidth)
    between the groups, in which every rank takes part with the same place in its group.
    (Horovod, hierarchical all-reduce.) In `segments` it is a pipeline: while one segment is between
    the groups, the one before it is gathered inside, and the one after it scattered; each rank has
    an agent for inside and one for between. n / segments more of what is shorter, inside or between
    (NCCL, src/device/all_reduce.h: chunks go through both at once).
    """
    if segments:
        return _pipeline(ranks, group, segments)
    return Schedule("an all-reduce", ranks, ranks, _stages(ranks, group))


def reduce_scatter(ranks: int, group: int) -> Schedule:
    """The first half: each rank gets a block of the sum."""
    return Schedule("a reduce-scatter", ranks, ranks, _stages(ranks, group)[:2])


def all_gather(ranks: int, group: int) -> Schedule:
    """The second half: each rank has that block at the start; every rank gets all blocks."""
    return Schedule("an all-gather", ranks, ranks, _stages(ranks, group)[2:])


def _stages(ranks: int, group: int) -> tuple[Stage, ...]:
    """Scattered inside groups, then between them; gathered between them, then inside."""
    count = _groups(ranks, group)
    inside = [range(first, first + group) for first in range(0, ranks, group)]
    between = [range(place, ranks, group) for place in range(group)]

    def share(_: int, place: int) -> range:
        return range(place * count, (place + 1) * count)

    def part(place: int, number: int) -> range:
        return range(place * count + number, place * count + number + 1)

    return (
        ring.reduce_scatter_stage(inside, share),
        ring.reduce_scatter_stage(between, part),
        ring.all_gather_stage(between, part),
        ring.all_gather_stage(inside, share),
    )


def _pipeline(ranks: int, group: int, segments: int) -> Schedule:
    """Segment by segment: blocks of a segment lie together, as in the whole without segments."""
    count = _groups(ranks, group)
    inside = [range(first, first + group) for first in range(0, ranks, group)]
    between = [range(ranks + place, 2 * ranks, group) for place in range(group)]
    patterns: dict[int, Round] = {}

    def alike(which: int, stage: Stage) -> Stage:
        pattern = patterns.setdefault(which, stage.transfers(0))
        return Stage(stage.rounds, stage.transfers, pattern)

    def handed(first: int, *, on: bool) -> Stage:
        """Of each rank, what it has the sum of: on to the agent for between, or back."""
        shares = [range(first + i * count, first + (i + 1) * count) for i in range(group)]
        return once(
            [
                ScheduledTransfer(
                    *((rank, ranks + rank) if on else (ranks + rank, rank)), shares[rank % group]
                )
                for rank in range(ranks)
            ]
        )

    def within(first: int) -> Callable[[int, int], range]:
        return lambda _, place: range(first + place * count, first + (place + 1) * count)

    def part(first: int) -> Callable[[int, int], range]:
        return lambda place, number: range(at := first + place * count + number, at + 1)

    def scattered(first: int) -> Iterator[Stage]:
        yield alike(0, ring.reduce_scatter_stage(inside, within(first)))
        yield alike(1, handed(first, on=True))

    stages = list(scattered(0))
    for first in range(0, segments * ranks, ranks):
        stages.append(alike(2, ring.reduce_scatter_stage(between, part(first))))
        stages.append(alike(3, ring.all_gather_stage(between, part(first))))
        if first + ranks < segments * ranks:
            stages += scattered(first + ranks)
        stages.append(alike(4, handed(first, on=False)))
        stages.append(alike(5, ring.all_gather_stage(inside, within(first))))
    return Schedule("an all-reduce", ranks, segments * ranks, tuple(stages), agents=2)


def check(ranks: int, group: int) -> None:
    """Raise RefusalError if the ranks do not divide evenly."""
    if ranks % group:
        raise refused("ranks_per_group", f"{group} does not divide {ranks} workers evenly")


def _groups(ranks: int, group: int) -> int:
    check(ranks, group)
    return ranks // group
