"""One collective and nothing else, message by message over the links."""

from collections.abc import Callable
from functools import partial

from simpy.events import Event

from varsim.cluster.clock import Clock
from varsim.cluster.collectives.plan import Plan
from varsim.cluster.collectives.walk import Walk


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
