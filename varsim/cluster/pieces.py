"""Pieces of gradients on a fairly shared port, with clock events only for those that matter.

Each piece is a flow of its own, begun when the one before it has passed and it is ready, by the
same hub, in the same order and with the same roundings as if it were handed to `FairShare`. But
nobody waits for most of them: only the last piece of a variable completes it. So once such a piece
is ready the port looks ahead: it works out in a copy of its state what happens until the next one
has passed, and has the clock call then. Should another gradient come before that, it begins anew
from what is certain.
"""

from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

from varsim.cluster.clock import Clock
from varsim.cluster.fair import Hub
from varsim.cluster.ledger import Ledger
from varsim.cluster.link import Link, Route, note_passed
from varsim.cluster.maxmin import NEVER, Flow, Passed, Sharing
from varsim.cluster.trace import Phase, Span
from varsim.values.gradient import Gradient

_WRITE = int(Phase.WRITE)


class Pieces:
    """Pieces of one gradient on one connection, in order.

    `ready`: when each is (ns), never falling; `sizes` in bytes; `following`: of each the number of
    the first from there on of which somebody is to be told that it has arrived, by
    `arrived(number)`, a latency after it has passed.
    """

    def __init__(
        self,
        route: Route,
        ready: Sequence[int],
        sizes: Sequence[float],
        following: Sequence[int],
        gradient: Gradient,
        arrived: Callable[[int], None],
    ) -> None:
        self.route, self.ready, self.sizes, self.following = route, ready, sizes, following
        self.gradient, self.arrived = gradient, arrived
        self.latency = sum([link.latency for link in route])
        self.awaited = following[0]  # the next one that matters
        self.begun = ready[0]  # when the first of those was ready that are on their way (ns)


class _PieceFlow(Flow):
    """The flow of one piece."""

    __slots__ = ("closes", "index", "matters", "order", "pieces")

    def __init__(self, pieces: Pieces, order: int, index: int, number: int) -> None:
        super().__init__(pieces.route, (pieces.sizes[index],), pieces.arrived, number)
        self.pieces, self.order, self.index = pieces, order, index
        self.matters = pieces.following[index] == index
        # With it nothing of the gradient is on its way any more: see Ledger.has_sent.
        self.closes: tuple[Span, int] | None = None

    def ends(self) -> None:
        """See Flow; counted once it is certain."""


class _Ahead(NamedTuple):
    """What happens up to the next piece that matters: when, and these pieces."""

    state: "_State"
    time: int
    told: list[_PieceFlow]


class PiecePort:
    """Port on which pieces of gradients arrive, each over its worker's own link, and nothing else.

    Many links to the port may differ in bandwidth, but not more than a hub has groups.
    """

    def __init__(self, clock: Clock, port: Link, ledger: Ledger) -> None:
        self._clock, self._ledger = clock, ledger
        self._certain = _State(port)
        self._ahead: _Ahead | None = None
        self._wake_at = NEVER
        self._begun = 0  # gradients
        # The next piece that matters of each gradient, until it is ready; then the gradient.
        self._coming: list[tuple[int, int, int, Pieces]] = []
        self._late: set[Pieces] = set()
        self._closed: deque[tuple[Span, int]] = deque()  # see Ledger.has_sent

    def begin(self, pieces: Pieces) -> None:
        """Have these sent, each once it is ready and the one before has passed."""
        self._begun += 1
        entry = (pieces.ready[0], self._begun, 0, pieces)
        if self._ahead is not None and entry[0] <= self._ahead.time:
            self._ahead = None
            told = self._certain.run(self._clock.time - 1)
            assert told is None, "a piece that matters was passed over"
            self._note(self._certain)
        heappush(self._certain.ready, entry)
        if self._ahead is not None:
            heappush(self._ahead.state.ready, entry)
        self._await(pieces, self._begun)
        self._go_on()

    def count(self, end: int) -> None:
        """Count what has passed, or has been sent, by the end of the run (ns)."""
        self._certain.run(end, all_of_it=True)
        self._note(self._certain)
        for sent, computed in self._closed:
            if sent.end <= end:
                self._ledger.has_sent(sent, computed)
        if self._certain.hub is not None:
            for flow, passed in self._certain.hub.dissolve(end):
                flow.count(passed)

    def _await(self, pieces: Pieces, order: int) -> None:
        heappush(self._coming, (pieces.ready[pieces.awaited], order, pieces.awaited, pieces))

    def _go_on(self) -> None:
        """Look ahead if a piece that matters is ready; have the clock call for it, or the next."""
        now, coming = self._clock.time, self._coming
        while coming and (coming[0][0] <= now or coming[0][2] < coming[0][3].awaited):
            _, _, index, pieces = heappop(coming)
            if index == pieces.awaited:
                self._late.add(pieces)
        if self._late and self._ahead is None:
            state = self._certain.copy()
            told = state.run(NEVER)
            assert told is not None, "a piece that matters does not pass"
            self._ahead = _Ahead(state, *told)
        if self._ahead is not None:
            self._call_at(self._ahead.time)
        elif coming:
            self._call_at(coming[0][0])

    def _call_at(self, time: int) -> None:
        if time < self._wake_at:
            self._wake_at = time
            self._clock.call_at(time, self._wake)

    def _wake(self) -> None:
        now, ahead = self._clock.time, self._ahead
        if now != self._wake_at:
            return  # replaced by an earlier call
        self._wake_at = NEVER
        if ahead is not None and now == ahead.time:
            self._certain, self._ahead = ahead.state, None
            self._note(self._certain)
            for flow in ahead.told:
                pieces = flow.pieces
                self._clock.call_at(now + pieces.latency, partial(self._arrive, flow))
                self._late.discard(pieces)
                pieces.awaited = flow.index + 1
                if pieces.awaited < len(pieces.ready):
                    pieces.awaited = pieces.following[pieces.awaited]
                    self._await(pieces, flow.order)
        self._go_on()

    def _arrive(self, flow: "_PieceFlow") -> None:
        """A piece that matters is there."""
        if flow.closes is not None:
            self._ledger.has_sent(*flow.closes)
        flow.pieces.arrived(flow.index)

    def _note(self, state: "_State") -> None:
        """What has ended is certain."""
        for flow, time in state.ended:
            pieces, after = flow.pieces, flow.index + 1
            note_passed(flow.route, flow.marks[-1])
            there = time + pieces.latency
            last = after == len(pieces.ready)
            if last or pieces.ready[after] > there:
                of = pieces.gradient
                sent = Span(of.worker, _WRITE, pieces.begun, there, of.iteration)
                flow.closes = (sent, of.computed)
                if not flow.matters:
                    self._closed.append(flow.closes)
                if not last:
                    pieces.begun = pieces.ready[after]
        state.ended = []
        now, closed = self._clock.time, self._closed
        while closed and closed[0][0].end < now:
            self._ledger.has_sent(*closed.popleft())


class _State:
    """What is on the links, and what will be next."""

    def __init__(self, port: Link) -> None:
        self._port = port
        self.hub: Hub | None = None
        self._holder: dict[Link, Sharing] = {}
        # The next piece of a gradient, its number, by when it is ready and the gradients' order.
        self.ready: list[tuple[int, int, int, Pieces]] = []
        self.passed: list[Passed] = []  # in this instant, but not yet told
        self.ended: list[tuple[_PieceFlow, int]] = []  # and when (ns), not yet noted
        self._started = 0  # flows
        self._now = 0

    def copy(self) -> "_State":
        """The same, to be changed apart; of the flows nothing changes that is asked again."""
        other = copy(self)
        other.hub = None if self.hub is None else self.hub.copy()
        other._holder = dict.fromkeys(self._holder, other.hub) if other.hub is not None else {}
        other.ready, other.passed, other.ended = self.ready[:], self.passed[:], self.ended[:]
        return other

    def run(self, until: int, *, all_of_it: bool = False) -> tuple[int, list[_PieceFlow]] | None:
        """Go on up to a moment (ns), or until pieces pass that matter: when, and which."""
        while True:
            time = self.hub.expected if self.hub is not None else NEVER
            if self.ready and self.ready[0][0] < time:
                time = self.ready[0][0]
            if self.passed:
                time = self._now
            if time > until or time == NEVER:
                return None
            self._now = time
            told = self._happen(time)
            if told and not all_of_it:
                return time, told

    def _happen(self, now: int) -> list[_PieceFlow]:
        """What happens in an instant: pieces begin that are ready, then others that follow."""
        ready = self.ready
        while ready and ready[0][0] == now:
            _, order, index, pieces = heappop(ready)
            self._start(pieces, order, index, now)
        self._pass_marks(now)
        passed, self.passed = self.passed, []
        told = []
        for _, _, flow in sorted(passed):
            assert isinstance(flow, _PieceFlow)
            pieces, after = flow.pieces, flow.index + 1
            if after < len(pieces.ready):
                if pieces.ready[after] <= now:
                    self._start(pieces, flow.order, after, now)
                else:
                    heappush(ready, (pieces.ready[after], flow.order, after, pieces))
            if flow.matters:
                told.append(flow)
        return told

    def _start(self, pieces: Pieces, order: int, index: int, now: int) -> None:
        self._pass_marks(now)  # pieces that end now are to be off their links
        self._started += 1
        flow = _PieceFlow(pieces, order, index, self._started)
        if self.hub is None:
            self.hub = Hub(pieces.route[0], now)
            self.hub.expected = self.hub.add(flow, pieces.route[0], now, self._holder)
        else:
            due = self.hub.add(flow, self._port, now, self._holder)
            self.hub.expected = min(due, self.hub.expected)

    def _pass_marks(self, now: int) -> None:
        while self.hub is not None and self.hub.expected <= now:
            before = len(self.passed)
            self.hub.expected = self.hub.pass_marks(now, self.passed, self._holder)
            for _, _, flow in self.passed[before:]:
                assert isinstance(flow, _PieceFlow)
                self.ended.append((flow, now))
            if self.hub.expected == NEVER:
                self.hub = None
