"""Recurrence for the times at which ranks are done with a collective, without messages.

Where nothing else is on the links, a message that may set off at some moment does, and what it
needs is at most three times: when the source's last one left it, when the source had what it
needed, and when the target was free to receive. So a round is a few operations on arrays.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.plan import CollectivePlan, Lane
from varsim.cluster.collectives.schedule import Times

_AT_ONCE: Final = 2**22  # messages that are counted at once; more take too much memory


class Entered(NamedTuple):
    """A plan that is carried out: when each rank entered (ns), None if it has not.

    `received`: until when each rank received what it was sent before (ns). `ends`: when each is
    done (ns), if nobody gives up.
    """

    plan: CollectivePlan
    entries: Sequence[int | None] | Times
    received: Times
    ends: Times | None = None


class Recurrence:
    """The ends of a plan's ranks, time after time, and the bytes on its links.

    A rank that is done early may send to one that is still receiving what it was sent before; so
    it is kept until when each rank received. A rank's agents enter with it; it is done with the
    last of them.
    """

    def __init__(self, plan: CollectivePlan) -> None:
        self._plan = plan
        self._received = np.zeros(plan.schedule.everybody, dtype=np.int64)
        self._latest: Entered | None = None
        self._given_up = END_OF_TIME  # ns; when the latest was
        self._sent: dict[CollectivePlan, int] = {}  # how often all of it was sent

    def ends(self, entries: Sequence[int]) -> list[int]:
        """When each rank is done (ns), given when each entered."""
        ends: list[int] = self.times(np.array(entries, dtype=np.int64)).tolist()
        return ends

    def times(self, entries: Times) -> Times:
        """The same as arrays, which are kept and not to be changed."""
        plan = self._plan
        self._end_latest()
        received, agents = self._received, plan.schedule.agents
        if agents > 1:
            entries = np.tile(entries, agents)
        if not plan.idle and plan.schedule.ends is not None and plan.uniform and not plan.adds:
            ends = np.asarray(plan.schedule.ends(entries, *plan.message), dtype=np.int64)
        else:
            ends, self._received = rounds_ends(plan.lanes, entries, received)
        self._latest = Entered(plan, entries, received, ends)
        return ends if agents == 1 else ends.reshape(agents, -1).max(axis=0)

    def turn_to(self, plan: CollectivePlan) -> None:
        """From now on for another plan of the same ranks."""
        self._plan = plan

    def give_up(self, now: int) -> None:
        """What has not set off by now (ns) of what is under way never does."""
        self._given_up = min(self._given_up, now)
        self._received = np.minimum(self._received, now)

    def count(
        self,
        latest: int,
        plan: CollectivePlan,
        entries: Sequence[int | None],
        before: int,
        end: int,
    ) -> None:
        """Count the bytes that have passed each link when the run ends: at `latest` (ns).

        plan, entries, end: of the round that not all have entered, of which only what sets off
        `before` a moment (ns) is sent.
        """
        under_way = self._latest
        if under_way is not None and under_way.ends is not None:
            if int(under_way.ends.max(initial=0)) <= min(latest, self._given_up):
                self._end_latest()
            else:
                count_passed(under_way, self._given_up, latest)
        if any(entry is not None for entry in entries):
            count_passed(self._entering(plan, entries), before, end)
        for whole, times in self._sent.items():
            for link, size, messages in whole.loads:
                link.moved += times * size
                link.messages += times * messages
        self._latest, self._sent = None, {}

    def _entering(self, plan: CollectivePlan, entries: Sequence[int | None]) -> Entered:
        """A plan that not all have entered."""
        return Entered(plan, list(entries) * plan.schedule.agents, self._received)

    def _end_latest(self) -> None:
        """All of what was under way has been sent: everybody has entered the next time."""
        if self._latest is not None:
            plan = self._latest.plan
            self._sent[plan] = self._sent.get(plan, 0) + 1


def rounds_ends(
    lanes: Sequence[Lane],
    entries: Sequence[int] | Times,
    received: Times,
    begin: Callable[[Times], bool] | None = None,
) -> tuple[Times, Times]:
    """When each rank is done, and when it has received the last message (ns).

    `received`: until when each rank is receiving messages of the time before. `begin` is told when
    the messages of each round set off, and says whether it is to be told more.
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
            if begin is not None and not begin(begun):
                return free, received
            passed = begun + lane.holds
            free[sources] = received[targets] = passed
            here[targets] = np.maximum(here[targets], passed + lane.latencies) + lane.adding
            now += 1
    return np.maximum(free, here), received


def count_passed(entered: Entered, before: int, end: int) -> None:
    """Count the bytes of a plan that have passed each link at `end` (ns); see Recurrence.count."""
    plan = entered.plan
    entries = [END_OF_TIME if entry is None else entry for entry in entered.entries]
    most = max(1, _AT_ONCE // max(1, plan.schedule.everybody))
    lanes = iter(plan.lanes)
    lane, left = plan.lanes[0], 0
    begins: list[Times] = []
    counted = _Counted(plan, before, end)

    def begin(begun: Times) -> bool:
        nonlocal lane, left
        if not left:
            lane = next(lanes)
            left = lane.rounds
        if lane.rounds == 1:
            left = 0
            counted.add_round(lane, begun)
        else:
            begins.append(begun)
        if begins and len(begins) == min(left, most):
            left -= len(begins)
            counted.add_rounds(lane, begins)
            begins.clear()
        # Where every rank sends in a round, it sends in the next ones no sooner.
        return len(begun) < plan.schedule.everybody or int(begun.min()) <= end

    rounds_ends(plan.lanes, entries, entered.received, begin)
    if begins:
        counted.add_rounds(lane, begins)
    counted.note()


class _Counted:
    """The bytes of a plan that have passed each link at `end` (ns), of what set off `before`."""

    def __init__(self, plan: CollectivePlan, before: int, end: int) -> None:
        self._plan, self._before, self._end = plan, before, end
        links = plan.crossings.links
        # The last one is where short routes are filled up.
        self._moved = np.array([*(link.moved for link in links), 0.0])
        self._left = np.array([*(link.left for link in links), 0.0])
        self._messages = np.array([*(link.messages for link in links), 0])

    def add_round(self, lane: Lane, begun: Times) -> None:
        """One round, in which messages set off at these moments."""
        _, routes, later, holds, sizes = self._plan.crossings
        kinds, begun = lane.kinds[begun < self._before], begun[begun < self._before, None]
        at, later, holds, size = routes[kinds], later[kinds], holds[kinds], sizes[kinds, None]
        elapsed = np.clip(self._end - begun - later, 0, holds)
        shares = np.where(holds > 0, elapsed / np.maximum(holds, 1), begun + later <= self._end)
        np.add.at(self._moved, at, size * shares)
        np.add.at(self._left, at, size - size * shares)
        np.add.at(self._messages, at, 1)

    def add_rounds(self, lane: Lane, begins: Sequence[Times]) -> None:
        """Rounds, in each of which the same messages set off, some of them before the end."""
        _, routes, later, holds, sizes = self._plan.crossings
        begun = np.stack(begins, axis=1)
        some = begun[:, 0] <= self._end
        for kind, moments in zip(lane.kinds[some].tolist(), begun[some], strict=True):
            sent, size = moments[moments < self._before], float(sizes[kind])
            for at, after, hold in zip(routes[kind], later[kind], holds[kind], strict=True):
                elapsed = np.clip(self._end - sent - after, 0, hold)
                shares = elapsed / hold if hold else (sent + after <= self._end)
                self._moved[at] += (passed := float(np.sum(size * shares)))
                self._left[at] += len(sent) * size - passed
                self._messages[at] += len(sent)

    def note(self) -> None:
        """Note it all at the links."""
        links = self._plan.crossings.links
        columns = (self._moved.tolist(), self._left.tolist(), self._messages.tolist())
        for link, *row in zip(links, *columns, strict=False):
            link.moved, link.left, link.messages = row
