"""How the rounds of a schedule are carried out: message by message, or by a recurrence of times."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from simpy.events import Event

from varsim.cluster.clock import END_OF_TIME, Clock
from varsim.cluster.collectives.plan import CollectivePlan, Lane, Send
from varsim.cluster.collectives.schedule import Sent, Times
from varsim.cluster.primitives import Countdown
from varsim.cluster.workers.worker import Slowed

_AT_ONCE: Final = 2**20  # messages that are counted at once; more take too much memory


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
        if plan.schedule.ends is not None and plan.even:
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
            entered = [*entries] * plan.schedule.agents
            count_passed(Entered(plan, entered, self._received), before, end)
        for whole, times in self._sent.items():
            for link, size, messages in whole.loads:
                link.add(times * size, messages=times * messages)
        self._latest, self._sent = None, {}

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
    counted = _Counted(plan, before, end)
    if plan.schedule.sent is not None and plan.even and not entered.received.any():
        counted.add_even(plan.schedule.sent, np.array(entries, dtype=np.int64))
        counted.note()
        return
    most = max(1, _AT_ONCE // max(1, plan.schedule.everybody))
    lanes = iter(plan.lanes)
    lane, left = plan.lanes[0], 0
    begins: list[Times] = []

    def begin(begun: Times) -> bool:
        nonlocal lane, left
        if not left:
            lane = next(lanes)
            left = lane.rounds
        begins.append(begun)
        if len(begins) == min(left, most):
            left -= len(begins)
            counted.add(lane, begins)
            begins.clear()
        # Where every rank sends in a round, it sends in the next ones no sooner.
        return len(begun) < plan.schedule.everybody or int(begun.min()) <= end

    rounds_ends(plan.lanes, entries, entered.received, begin)
    if begins:
        counted.add(lane, begins)
    counted.note()


class _Counted:
    """The bytes of a plan that have passed each link at `end` (ns), of what set off `before`."""

    def __init__(self, plan: CollectivePlan, before: int, end: int) -> None:
        self._plan, self._before, self._end = plan, before, end
        # The last one is where short routes are filled up.
        self._moved, self._left = np.zeros((2, len(plan.crossings.links) + 1))
        self._messages = np.zeros(len(self._moved), dtype=np.int64)

    def add(self, lane: Lane, begins: Sequence[Times]) -> None:
        """Rounds, in each of which the same messages set off at these moments."""
        _, routes, later, holds, sizes = self._plan.crossings
        begun = np.stack(begins, axis=1)  # (messages, rounds)
        some = begun[:, 0] <= self._end
        begun, kinds = begun[some], lane.kinds[some]
        sent = begun < self._before
        for hop in range(routes.shape[1]):
            at, hold = routes[kinds, hop], holds[kinds, hop, None]
            elapsed = self._end - begun - later[kinds, hop, None]
            shares = np.clip(elapsed, 0, hold) / np.maximum(hold, 1)
            shares[(elapsed >= 0) & (hold == 0)] = 1.0
            passed = sizes[kinds] * np.sum(shares * sent, axis=1)
            np.add.at(self._moved, at, passed)
            np.add.at(self._left, at, sizes[kinds] * np.sum(sent, axis=1) - passed)
            np.add.at(self._messages, at, np.sum(sent, axis=1))

    def add_even(self, sent: Sent, entries: Times) -> None:
        """All rounds of what there is a formula for, of messages that all take the same time."""
        plan, before = self._plan, self._before
        _, routes, later, holds, sizes = plan.crossings
        begun, _ = sent(entries, *plan.message, min(before - 1, self._end))
        for hop in range(routes.shape[1]):
            hold, last = int(holds[0, hop]), self._end - int(later[0, hop])
            whole, following = sent(entries, *plan.message, min(before - 1, last - hold))
            part = np.clip(last - following, 0, hold) / max(hold, 1) * (following < before)
            done = 0
            for lane in plan.lanes:
                at, size = routes[lane.kinds, hop], sizes[lane.kinds]
                number, off = np.clip([whole - done, begun - done], 0, lane.rounds)
                under_way = (whole >= done) & (whole < done + lane.rounds)
                passed = size * (number + part * under_way)[lane.sources]
                np.add.at(self._moved, at, passed)
                np.add.at(self._left, at, size * off[lane.sources] - passed)
                np.add.at(self._messages, at, off[lane.sources])
                done += lane.rounds

    def note(self) -> None:
        """Note it all at the links."""
        columns = (self._moved.tolist(), self._left.tolist(), self._messages.tolist())
        for link, moved, left, messages in zip(self._plan.crossings.links, *columns, strict=False):
            link.add(moved, left, messages=messages)


class Walk:
    """Carries a plan out once; each rank's event happens when it is done, once it was told.

    `before`: the walk of the time before; a rank receives all of that first. `slowed`: at which
    pace a message goes that is sent now; it holds its links no longer, but is done with later.
    """

    def __init__(
        self,
        clock: Clock,
        plan: CollectivePlan,
        before: "Walk | None" = None,
        slowed: Callable[[], Slowed] | None = None,
    ) -> None:
        self._clock, self._ranks = clock, plan.schedule.ranks
        self._members = members = [_Member(clock, slowed, *of_rank) for of_rank in plan.sends]
        for member in members:
            member.all = members
        if before is not None:
            for member, earlier in zip(members, before._members, strict=True):
                member.received = earlier.received - earlier.receipts
                earlier.later = member

    def enter(self, rank: int) -> None:
        """The rank takes part from now on."""
        for agent in self._members[rank :: self._ranks]:
            agent.enter()

    def tell(self, ends: Sequence[Event]) -> None:
        """Which event is to happen when each rank is done; in time before the first is.

        Agents that neither send nor receive are done before, as soon as they enter.
        """
        for rank, end in enumerate(ends):
            members = self._members[rank :: self._ranks]
            agents = [one for one in members if one.sends or one.receipts] or members
            told = Countdown(self._clock, len(agents), end).count
            for agent in agents:
                agent.done = told

    def give_up(self) -> None:
        """Nobody sends any more, and nobody waits for what has not been sent."""
        for member in self._members:
            member.occupied = member.over = True
            member.all = []
            member._waiting.clear()
            if member.later is not None and member.received < member.receipts:
                member.later.free()
                member.later = None


class _Member:
    """What a rank, or an agent of it, has sent and received."""

    def __init__(
        self,
        clock: Clock,
        slowed: Callable[[], Slowed] | None,
        sends: list[Send],
        receipts: int,
    ) -> None:
        self.all: list[_Member]
        self._slowed = slowed
        self.receipts = receipts  # messages that it is sent
        # Messages that have passed the links to it; below 0, as many are missing of before.
        self.received = 0
        self.later: _Member | None = None  # the same rank in the walk after this one
        self.occupied = True  # sends, or has not entered
        self.over = False  # nothing is sent any more
        self.done: Callable[[], object] | None = None
        self._clock, self.sends = clock, sends
        self._entered = False
        self._place = 0  # in what it sends
        self._time = 0  # how often it has sent what stands there
        self._here = 0  # messages that have arrived and been added
        self._unadded: dict[int, int] = {}  # that have arrived: how long adding takes, by turn
        self._waiting: dict[int, _Member] = {}  # who could send to it, by turn

    def enter(self) -> None:
        """Take part from now on."""
        self._entered, self.occupied = True, False
        if self._unadded:
            self._add()
        self._go_on()

    def free(self) -> None:
        """Nothing of before is on its way any more."""
        self.received = -1
        self._receive()

    def _go_on(self) -> None:
        """Send what can be sent now, or say that the rank is done."""
        if self.occupied:
            return
        place = self._place
        if place == len(self.sends):
            if self._here == self.receipts:
                self.all = []  # no cycle is left behind; see Clock.run_until_stopped
                if self.done is not None:
                    self.done()
            return
        times, number, network, route, size, sooner, adding, needs, more, turn, plain = self.sends[
            place
        ]
        time = self._time
        if self._here < needs + time * more:
            return
        target = self.all[number]
        if not plain:
            turn += time
            if target.received != turn:
                target._waiting[turn] = self
                return
        self.occupied = True
        time += 1
        if time == times:
            self._place, self._time = place + 1, 0
        else:
            self._time = time
        left, arrived = self._left, target._arrived
        if not plain:
            left, arrived = (
                partial(self._left_for, target),
                partial(target._arrived_at, turn, adding),
            )
        if self._slowed is not None:
            late = partial(self._late, self._slowed, self._clock.time)
            left, arrived = partial(late, left), partial(late, arrived)
        network.pass_on(route, size, left, arrived, sooner)

    def _late(self, slowed: Callable[[], Slowed], begun: int, call: Callable[[], None]) -> None:
        """What was begun then is done by its links; call when it is done at the pace it has had."""
        end = round(slowed().done_at(begun, self._clock.time - begun))
        if end > self._clock.time:
            self._clock.call_at(end, call)
        else:
            call()

    def _left(self) -> None:
        """What it sent has passed the links."""
        self.occupied = self.over
        self._go_on()

    def _left_for(self, target: "_Member") -> None:
        target._receive()
        self._left()

    def _receive(self) -> None:
        """The rank is free to receive the next message."""
        self.received = turn = self.received + 1
        source = self._waiting.pop(turn, None)
        if source is not None:
            source._go_on()
        if self.later is not None:
            self.later._receive()

    def _arrived(self) -> None:
        """The next message is here."""
        self._here += 1
        self._go_on()

    def _arrived_at(self, turn: int, adding: int) -> None:
        self._unadded[turn] = adding
        self._add()
        self._go_on()

    def _add(self) -> None:
        """Add what has arrived to the rank's own, in order, one at a time.

        While it adds, the turn it adds is taken out and `_here` stays: no other is begun.
        """
        while self._entered and self._here in self._unadded:
            adding = self._unadded.pop(self._here)
            if adding:
                self._clock.call_at(self._clock.time + adding, self._added)
            else:
                self._here += 1

    def _added(self) -> None:
        self._here += 1
        self._add()
        self._go_on()
