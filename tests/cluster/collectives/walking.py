"""Schedules carried out on the links of a job: by message, or by the recurrence."""

from collections.abc import Iterator, Sequence
from typing import Any

from simpy.events import Event

from tests.living import job, play
from varsim.cluster.collective import own_links
from varsim.cluster.collectives.plan import Paths, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.collectives.walk import Walk
from varsim.cluster.job import Job

Times = list[list[int]]


def a_job(ranks: int, bandwidth: float, latency: int, sharing: str, **more: Any) -> Job:
    """Workers behind links of so many bytes/s; latency in ns."""
    network = {"bandwidth": bandwidth, "latency": latency / 1e9, "sharing": sharing, **more}
    return job(network=network, cluster={"workers": ranks})


def walked(made: Job, plan: Plan, waits: Sequence[Sequence[int]]) -> tuple[Times, Times]:
    """When each rank entered and was done with each of several collectives, message by message.

    waits[i][r] is when rank r enters the first, or how long after its end of the one before.
    """
    ranks = range(plan.schedule.ranks)
    walks: list[Walk] = []
    ends = [[Event(made.clock) for _ in ranks] for _ in waits]
    entered, done = ([[-1 for _ in ranks] for _ in waits] for _ in range(2))

    def take_part(rank: int) -> Iterator[Any]:
        for number, of_ranks in enumerate(waits):
            yield from made.clock.sleep_until(made.clock.time + of_ranks[rank])
            entered[number][rank] = made.clock.time
            if number == len(walks):
                walks.append(Walk(made.clock, plan, walks[-1] if walks else None))
                walks[-1].tell(ends[number])
            walks[number].enter(rank)
            yield ends[number][rank]
            done[number][rank] = made.clock.time

    play(made, *(take_part(rank) for rank in ranks))
    return entered, done


def both_ways(
    made: Job,
    schedule: Schedule,
    size: float,
    entries: Sequence[int],
    rate: float | None = None,
    paths: Paths | None = None,
) -> list[int]:
    """When each rank is done, which is the same by message and by the recurrence."""
    plan = Plan(schedule, size, paths or own_links(made), rate)
    _, (done,) = walked(made, plan, [entries])
    assert Recurrence(plan).ends(entries) == done
    return done
