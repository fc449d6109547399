"""One collective, message by message over the links; the rules are those of `schedule`."""

from collections.abc import Callable, Sequence
from functools import partial

from simpy.events import Event

from varsim.cluster.clock import Clock
from varsim.cluster.collectives.plan import CollectivePlan, Send
from varsim.cluster.workers.worker import Slowed


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
        self._ranks = plan.schedule.ranks
        self._members = members = [
            _Member(clock, slowed, *of_rank)
            for of_rank in zip(plan.sends, plan.receipts, strict=True)
        ]
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
            agents = [agent for agent in members if agent.takes_part] or members
            told = end.succeed if len(agents) == 1 else _Last(len(agents), end).done
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


class _Last:
    """An event that happens when the last of some agents is done."""

    def __init__(self, agents: int, end: Event) -> None:
        self._left, self._end = agents, end

    def done(self) -> None:
        """One more is done."""
        self._left -= 1
        if not self._left:
            self._end.succeed()


class _Member:
    """What a rank, or an agent of it, has sent and received."""

    __slots__ = (
        "_clock",
        "_entered",
        "_here",
        "_place",
        "_sends",
        "_slowed",
        "_time",
        "_unadded",
        "_waiting",
        "all",
        "done",
        "later",
        "occupied",
        "over",
        "receipts",
        "received",
    )

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
        self._clock, self._sends = clock, sends
        self._entered = False
        self._place = 0  # in what it sends
        self._time = 0  # how often it has sent what stands there
        self._here = 0  # messages that have arrived and been added
        self._unadded: dict[int, int] = {}  # that have arrived: how long adding takes, by turn
        self._waiting: dict[int, _Member] = {}  # who could send to it, by turn

    @property
    def takes_part(self) -> bool:
        """Whether it sends or receives anything."""
        return bool(self._sends or self.receipts)

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
        if place == len(self._sends):
            if self._here == self.receipts:
                self.all = []  # no cycle is left behind; see Clock.run_until_stopped
                if self.done is not None:
                    self.done()
            return
        times, number, network, route, size, sooner, adding, needs, more, turn, plain = self._sends[
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
