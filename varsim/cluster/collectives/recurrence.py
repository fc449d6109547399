"""When each rank is done with a collective, without moving it message by message.

Where nothing else is on the links, a message that may set off at some moment does, and what it
needs is at most three times: when the source's last one left it, when the source had what it
needed, and when the target was free to receive. So a round is a few operations on arrays.
"""

from collections.abc import Sequence

import numpy as np

from varsim.cluster.collectives.plan import Lane, Plan, Times


class Recurrence:
    """The ends of a plan's ranks, time after time.

    A rank that is done early may send to one that is still receiving what it was sent before; so
    it is kept until when each rank received.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._received = np.zeros(plan.schedule.ranks, dtype=np.int64)

    def ends(self, entries: Sequence[int]) -> list[int]:
        """When each rank is done (ns), given when each entered."""
        plan = self._plan
        if not plan.idle and plan.schedule.ends is not None and plan.uniform and not plan.adds:
            return plan.schedule.ends(entries, *plan.message)
        ends, self._received = rounds_ends(plan.lanes, entries, self._received)
        result: list[int] = ends.tolist()
        return result

    def turn_to(self, plan: Plan) -> None:
        """From now on for another plan of the same ranks."""
        self._plan = plan

    def forget(self) -> None:
        """What was sent before is of no use any more, and nobody waits for it."""
        self._received[:] = 0


def rounds_ends(
    lanes: Sequence[Lane], entries: Sequence[int], received: Times
) -> tuple[Times, Times]:
    """When each rank is done, and when it has received the last message (ns).

    `received`: until when each rank is receiving messages of the time before.
    """
    free = np.array(entries, dtype=np.int64)  # what a rank sent has left it
    here = free.copy()  # what a rank was sent has arrived and been added
    received = received.copy()
    # Of all rounds before, if anybody needs less than what came in the latest.
    slack = any(lane.slacks is not None for lane in lanes)
    past = np.empty((sum(lane.rounds for lane in lanes) if slack else 0, len(here)), dtype=np.int64)
    now = 0
    for lane in lanes:
        sources, targets = lane.sources, lane.targets
        for _ in range(lane.rounds):
            if slack:
                past[now] = here
            if lane.slacks is None:
                ready = here[sources]
            else:
                ready = past[np.maximum(now - lane.slacks, 0), sources]
            begun = np.maximum(np.maximum(free[sources], ready), received[targets])
            passed = begun + lane.holds
            free[sources] = received[targets] = passed
            here[targets] = np.maximum(here[targets], passed + lane.latencies) + lane.adding
            now += 1
    return np.maximum(free, here), received
