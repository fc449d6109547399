"""Links shared max-min fairly by flows (a fluid model), in virtual time.

Max-min fair: no flow can get more without taking from one that has no more than it. The rates
change only when a flow starts or ends, so the bytes a flow has passed grow in straight pieces.

Where many flows meet in one link, the port of a server say, all of them get the same rate, and
one number, the bytes passed by each flow that has been there since the beginning, serves for
all: the virtual time V. A flow of s bytes that starts at V ends at V + s whatever happens in
between, so the order of the ends is known at once and a heap keeps it. For example, on a link of
1 GB/s, flow A of 300 MB starts at 0 and B of 100 MB at 0.1 s:

    time (s)   V (MB)   flows   V grows by   what happens
    0.0           0     A       1.0 GB/s     A starts and will end at V = 300
    0.1         100     A B     0.5 GB/s     B starts and will end at V = 200
    0.3         200     A       1.0 GB/s     B ends
    0.4         300                          A ends

Such a meeting link is a Hub: O(log n) for a start or an end. Flows that share links in any other
way are the Mesh's (in `maxmin`), which works all rates out anew at every change.

Virtual time: Zhang, "Virtual clock", SIGCOMM 1990; Parekh and Gallager, 1993 (generalised
processor sharing). Max-min fairness: Bertsekas and Gallager, "Data Networks", section 6.5.2.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Final

from varsim.cluster.clock import Clock
from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.maxmin import NEVER, Flow, Mesh, Passed, Sharing

# With more than this many different bandwidths of its flows' other links a hub is no faster.
MOST_GROUPS: Final = 64


class FairShare:
    """Flows that share links max-min fairly over whole routes.

    Latency is the caller's. Without `hubs` all flows go to the mesh, only slower: the same rates,
    worked out in another order. So times differ by rounding, in a plan of some flows by no ns; but
    where workers that wait for nobody crowd a server, each meeting about doubles the difference: of
    16 workers it was milliseconds after 20 steps.
    """

    def __init__(self, clock: Clock, hubs: bool = True) -> None:
        self._clock = clock
        self._hubs = hubs
        self._mesh = Mesh()
        self._holder: dict[Link, Sharing] = {}  # the hub or mesh of every link in use
        self._binding: dict[Route, Route] = {}  # the links of a route that bind
        self._started = 0
        self._passed: list[Passed] = []  # a heap of marks that have passed and are to be told
        # When a hub or the mesh may next be due: never too late; too early where flows have come.
        self._agenda: list[tuple[int, int, Sharing]] = []
        self._entries = 0
        self._later = NEVER  # how long (ns) after a mark is due something is to be done, at least
        self._wake_at = NEVER
        self._telling = 0  # the latest flow that had been started when it woke

    def start(
        self,
        route: tuple[Link, ...],
        marks: Sequence[float],
        reached: Callable[[int], None],
        *,
        later: int = 0,
        empty: float = 0.0,
    ) -> None:
        """Start a flow of marks[-1] bytes over all links of `route` at once.

        route: one or more links, all different. marks: bytes since the start, never falling.
        reached(i) is called `later` ns after the instant (nearest ns) at which marks[i] bytes have
        passed; for 0 bytes that is this instant, but not from inside `start`. What is told in the
        same instant is told in the order in which the flows were started. `empty`: so much of it,
        at its beginning, only keeps the links busy.
        """
        now = self._clock.time
        if self._clock.stopped:
            return
        self._started += 1
        binding = self._binding.get(route)
        if binding is None:
            binding = self._binding[route] = tuple([link for link in route if link.binds])
        flow = Flow(route, binding, marks, reached, self._started, later, empty)
        if marks[-1] <= 0:
            for index in range(len(marks)):
                flow.tell(index, now, self._passed)
            self._wake(self._passed[0][0])
            return
        if self._agenda and self._agenda[0][0] <= now:
            self._pass_marks(now)  # flows that have ended are to be off their links
        if later < self._later:
            self._tell_sooner(later)
        holder = self._holder
        used = [link for link in flow.route if link in holder]
        found = holder[used[0]] if len(used) == 1 else None
        if not used and self._hubs:
            hub = Hub(flow.route[0], now)
            self._expect(hub.add(flow, flow.route[0], now, holder), hub)
        elif isinstance(found, Hub) and found.takes(flow, used[0]):
            due = found.add(flow, used[0], now, holder)
            if due < found.expected:
                self._expect(due, found)
        else:
            self._move_to_mesh(flow, used, now)

    def reroute(self) -> None:
        """More links bind from now on: all flows are the mesh's, with these."""
        now = self._clock.time
        self._pass_marks(now)
        flows = self._dissolved(now)
        self._mesh, self._holder, self._binding = Mesh(), {}, {}
        for flow, passed in flows:
            flow.route = tuple([link for link in flow.whole if link.binds])
            self._mesh.add(flow, passed, now, self._holder)
        if flows:
            self._tell_sooner(0)
            self._wake(now)

    def _dissolved(self, now: int) -> list[tuple[Flow, float]]:
        """All flows, with the bytes that have passed (now, ns); they share nothing any more."""
        sharings = {id(one): one for one in self._holder.values()}.values()
        return [flow for sharing in sharings for flow in sharing.dissolve(now)]

    def count(self, end: int) -> None:
        """Count what has passed of the flows that are there at the end of the run (ns)."""
        self._wake_at = 0  # nobody is called any more
        self._pass_marks(end)
        for flow, passed in self._dissolved(end):
            flow.count(passed)

    def _move_to_mesh(self, flow: Flow, used: list[Link], now: int) -> None:
        """Give the mesh a flow, and all flows of the hubs that it touches."""
        for link in used:
            hub = self._holder[link]
            if isinstance(hub, Hub):
                for other, passed in hub.dissolve(now):
                    self._mesh.add(other, passed, now, self._holder)
        self._mesh.add(flow, 0.0, now, self._holder)
        self._tell_sooner(0)  # its rates change when a flow ends
        self._wake(now)

    def _tell_sooner(self, later: int) -> None:
        """From now on something is to be done so long (ns) after a mark is due."""
        self._later = later
        if self._agenda:
            self._wake(self._agenda[0][0] + later)

    def _pass_marks(self, now: int) -> None:
        """Collect all marks due by now; what stays on the agenda is later."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= now:
            time, _, sharing = heappop(agenda)
            if time == sharing.expected:
                self._expect(sharing.pass_marks(now, self._passed, self._holder), sharing)
        if self._passed:
            self._wake(self._passed[0][0])

    def _expect(self, time: int, sharing: Sharing) -> None:
        """Put a hub or the mesh on the agenda; what it had there before is out of date."""
        sharing.expected = time
        if time < NEVER:
            self._entries += 1  # so that the heap never compares what comes after it
            heappush(self._agenda, (time, self._entries, sharing))
            self._wake(time + self._later)

    def _wake(self, time: int) -> None:
        """Have the clock call `_settle` at a time (ns), if it does not call earlier anyway."""
        if time < self._wake_at:
            self._wake_at = time
            self._clock.call_at(time, self._settle)

    def _settle(self) -> None:
        """Tell what has been reached, one event each; then see to the rates and the next call."""
        now = self._clock.time
        if now != self._wake_at:
            return  # replaced by an earlier call; the clock cannot take one back
        passed, agenda = self._passed, self._agenda
        if agenda and agenda[0][0] <= now:
            self._pass_marks(now)
        last = self._telling = self._telling or self._started
        if passed and passed[0][0] <= now and passed[0][1] <= last:
            _, _, index, flow = heappop(passed)
            if passed and passed[0][0] <= now and passed[0][1] <= last:
                self._clock.call_first(now, self._settle)
                flow.reached(index)  # as _wake_at is still now, what it starts calls nobody
                return
            flow.reached(index)
        self._telling = 0
        if self._mesh.changed:
            self._expect(self._mesh.share(now), self._mesh)
        self._wake_at = NEVER
        if passed:
            self._wake(passed[0][0])
        if agenda:
            self._wake(agenda[0][0] + self._later)


class FlowGroup:
    """The flows of a hub whose other links allow them the same rate; see Hub."""

    __slots__ = ("ceiling", "heap", "rate", "virtual")

    def __init__(self, ceiling: float) -> None:
        self.ceiling = ceiling  # bytes/s
        self.rate = 0.0  # bytes/s, of each flow
        self.virtual = 0.0  # bytes passed by each flow since the group's beginning
        self.heap: list[tuple[float, int, Flow]] = []  # virtual time of its next mark, number


class Hub(Sharing):
    """Flows that meet in one link and have all other links of their routes to themselves.

    A flow gets an even share of what the link has left after those whose other links, its
    ceiling, cannot use theirs. Flows of one ceiling have one rate and so one virtual time; most
    hubs have one such group. Seconds count from the hub's first flow; it ends with its last.
    """

    __slots__ = ("_count", "_epoch", "_groups", "_link", "_time")

    def __init__(self, link: Link, now: int) -> None:
        self.expected = NEVER
        self._link = link  # while there is one flow, any of its links may yet become the hub
        self._epoch = now  # ns
        self._time = 0.0  # of the last change, seconds after the epoch
        self._count = 0
        self._groups: list[FlowGroup] = []  # by rising ceiling

    def takes(self, flow: Flow, link: Link) -> bool:
        """Whether a flow that shares only `link` with the others can join them."""
        if link is not self._link:
            return self._count == 1
        return len(self._groups) < MOST_GROUPS or any(
            group.ceiling == self._ceiling(flow) for group in self._groups
        )

    def add(self, flow: Flow, link: Link, now: int, holder: dict[Link, Sharing]) -> int:
        """Let in a flow that shares `link` with the others; a time before which nothing is due."""
        self._advance((now - self._epoch) / 1e9)
        if link is not self._link:
            self._link = link
            (alone,) = self._groups
            alone.ceiling = self._ceiling(alone.heap[0][2])
        ceiling = self._ceiling(flow)
        for group in self._groups:
            if group.ceiling == ceiling:
                break
        else:
            group = FlowGroup(ceiling)
            self._groups.append(group)
            self._groups.sort(key=lambda group: group.ceiling)
        flow.entered = group.virtual
        heap = group.heap
        heappush(heap, (group.virtual + flow.marks[0], flow.number, flow))
        self._count += 1
        for other in flow.route:
            holder[other] = self
        self._share()
        if heap[0][2] is not flow:
            return self.expected  # the flows before it only became slower
        return self._epoch + round(self._first()[0] * 1e9)

    def dissolve(self, now: int) -> list[tuple[Flow, float]]:
        self._advance((now - self._epoch) / 1e9)
        self.expected = NEVER
        flows = [(flow, g.virtual - flow.entered) for g in self._groups for *_, flow in g.heap]
        return sorted(flows, key=lambda entry: entry[0].number)

    def pass_marks(self, now: int, passed: list[Passed], holder: dict[Link, Sharing]) -> int:
        while self._count:
            time, group = self._first()
            due = self._epoch + round(time * 1e9)
            if due > now:
                return due
            self._advance(time)
            heap = group.heap
            group.virtual = virtual = heap[0][0]  # exactly, whatever the rounding of the steps
            while heap and heap[0][0] == virtual:
                flow = heap[0][2]
                flow.tell(flow.step, due, passed)
                flow.step += 1
                if flow.step < len(flow.marks):
                    mark = flow.entered + flow.marks[flow.step]
                    heapreplace(heap, (mark, flow.number, flow))
                else:
                    heappop(heap)
                    self._leave(flow, holder)
            if not heap:
                self._groups.remove(group)
            self._share()
        return NEVER

    def _leave(self, flow: Flow, holder: dict[Link, Sharing]) -> None:
        self._count -= 1
        flow.count(flow.marks[-1])
        for link in flow.route:
            if link is not self._link or not self._count:
                del holder[link]

    def _first(self) -> tuple[float, FlowGroup]:
        """The next mark: its time (seconds after the epoch) and the group whose first it is."""
        soonest = inf
        for group in self._groups:
            time = (group.heap[0][0] - group.virtual) / group.rate
            if time < soonest:
                soonest, first = time, group
        return self._time + soonest, first

    def _advance(self, time: float) -> None:
        gone = time - self._time
        if gone > 0:
            for group in self._groups:
                group.virtual += group.rate * gone
            self._time = time

    def _share(self) -> None:
        """Set the rates: from the lowest ceiling up, nobody gets more than an even share."""
        left, count = self._link.bandwidth, self._count
        for group in self._groups:
            even = left / count
            group.rate = rate = even if even < group.ceiling else group.ceiling
            flows = len(group.heap)
            left -= rate * flows
            count -= flows

    def _ceiling(self, flow: Flow) -> float:
        ceiling = inf
        for link in flow.route:
            if link.bandwidth < ceiling and link is not self._link:
                ceiling = link.bandwidth
        return ceiling
