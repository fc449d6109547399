"""Base of all networks: places, routes, batches, and who waits for what is sent."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.network.batch import Message, MessageBatch, Schedule
from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.topology.base import Place, Topology
from varsim.cluster.network.topology.star import StarRouting
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.worker import Worker

T = TypeVar("T")

READ, WRITE = int(Phase.READ), int(Phase.WRITE)


class Content(Protocol):
    """Content of a batch; it notes when its latest part arrived (ns)."""

    arrived: int


Arrived: TypeAlias = Callable[[int, Any], None]


class Network(ABC):
    """Network of links and routes; what `send` and `fetch` cost depends on how links are shared."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        self.clock = clock
        self.routing = topology.routing()
        self._batches: list[MessageBatch] = []
        self._schedules: dict[object, Schedule] = {}  # of them, as far as they differ
        self._counts: list[Callable[[int], None]] = []
        # For who foresees a run: of each collective, how many links a round of its messages passes.
        self.crossed_in_a_round: list[Callable[[], int]] = []

    def host(self, name: str, bandwidth: float, count: int = 1) -> tuple[Link, Link]:
        """A new host of a star (or `count` equal ones): its link up to the switch, and down."""
        assert isinstance(self.routing, StarRouting), "only a star has room for any host"
        return self.routing.host(name, bandwidth, count)

    def route(self, source: Place, target: Place) -> Route:
        """The links from one place to another; none if they are on one machine."""
        return self.routing.route(source, target)

    def batch(self, messages: Sequence[Message]) -> MessageBatch:
        """Messages to be sent together, again and again."""
        batch = self._batch(messages)
        self._batches.append(batch)
        return batch

    def latency(self, route: Route) -> int:
        """How long (ns) after it has passed the links of a route a message arrives."""
        return sum([link.latency for link in route])

    def hold(self, route: Route, size: float) -> int:
        """How long (ns) a message takes to pass the links of a route, if they are free."""
        if not route:
            return 0
        return route[0].overhead + max([link.hold(size) for link in route])

    def passing(self, route: Route, size: float) -> list[tuple[Link, int, int]]:
        """Each link of a message that has them to itself: when it begins to pass, and for how long.

        Both in ns, the former from when it sets off.
        """
        later = route[0].overhead if route else 0
        return [(link, later, link.hold(size)) for link in route]

    def also_count(self, count: Callable[[int], None]) -> None:
        """Have this called at the end of the run (ns): it counts what else has passed links."""
        self._counts.append(count)

    def carried(self, end: int) -> list[Link]:
        """All links, each with the bytes that had passed it by the end of the run (ns).

        That is never more than it can carry: what is beyond, a message ended half a ns too soon.
        """
        for batch in self._batches:
            batch.count(end)
        for count in self._counts:
            count(end)
        came, went = dict[str, float](), dict[str, float]()
        for link in self.routing.links:
            came[link.into] = came.get(link.into, 0.0) + link.moved + link.left
            went[link.out_of] = went.get(link.out_of, 0.0) + link.moved + link.left
        for switch in came.keys() | went.keys():
            if switch:
                sent, received = went.get(switch, 0.0), came.get(switch, 0.0)
                assert math.isclose(sent, received, rel_tol=1e-9), "bytes were lost on the way"
        for link in self.routing.links:
            assert link.moved <= link.most(end), f"{link} carried more than it can: {link.moved}"
            link.moved = min(link.moved, link.bandwidth * end / 1e9)
        return self.routing.links

    def sent(self) -> float:
        """Bytes that went from machine to machine, each counted once; after `carried`."""
        begun = (link.moved - link.relayed for link in self.routing.links if link.begins)
        return math.fsum(begun)

    def _batch(self, messages: Sequence[Message]) -> MessageBatch:
        return MessageBatch(messages, known=self._schedules)

    @abstractmethod
    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        """Bring a batch to a worker, who waits for it; its content is that of the request."""

    @abstractmethod
    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """Send a worker's batch; `arrived(item, content)` as each item is there, to the last."""

    @abstractmethod
    def pass_on(
        self,
        route: Route,
        size: float,
        passed: Callable[[], None],
        arrived: Callable[[], None],
        sooner: int = 0,
    ) -> None:
        """Send one message: `passed` when its links are free again, `arrived` a latency later.

        `sooner`: by how much less than that of its route (ns).
        """


class WaitingNetwork(Network):
    """Network whose links nobody knows ahead to be done: whoever sends waits for an event."""

    @abstractmethod
    def _carry(self, route: Route, marks: Sequence[float], reached: Callable[[int], None]) -> None:
        """Let marks[-1] bytes pass a route; `reached(i)` when marks[i] of them have passed.

        It counts what has passed a link, and at the end of the run what is under way.
        """

    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        yield from worker.catch_up()
        requested = content()
        yield from self._transfer(worker, batch, lambda item: None, READ)
        return requested

    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        yield from worker.catch_up()
        deliver = partial(deliver_item, self.clock, content=content, arrived=arrived)
        yield from self._transfer(worker, batch, deliver, WRITE)

    def pass_on(
        self,
        route: Route,
        size: float,
        passed: Callable[[], None],
        arrived: Callable[[], None],
        sooner: int = 0,
    ) -> None:
        def reached(_: int) -> None:
            passed()
            self.clock.call_at(self.clock.time + self.latency(route) - sooner, arrived)

        if route:
            self._carry(route, (size,), reached)
        else:
            self.clock.call_at(self.clock.time, partial(reached, 0))

    def _transfer(
        self, worker: Worker, batch: MessageBatch, deliver: Callable[[int], None], phase: int
    ) -> Activity[None]:
        clock = self.clock
        arrivals = Arrivals(clock, batch.schedule.parts, deliver)

        def reached(items: list[int], latency: int, mark: int) -> None:
            clock.call_at(clock.time + latency, partial(arrivals.part, items[mark]))

        for route, items, marks in batch.marks:
            told = partial(reached, items, self.latency(route))
            if route:
                self._carry(route, marks, told)
            else:
                for mark in range(len(items)):
                    clock.call_at(clock.time, partial(told, mark))
        worker.waits(phase, self)
        yield arrivals.all
        worker.waits_for = None
        worker.transferred(phase, clock.time, batch.alone)

    def __str__(self) -> str:
        return "a transfer"


class Arrivals:
    """Arrivals of something that is sent in items, and these in parts.

    `parts`: of each item; `arrived(item)` is called with its last one. `all` happens when
    everything is there.
    """

    def __init__(self, clock: Clock, parts: Sequence[int], arrived: Callable[[int], None]) -> None:
        self.all = Event(clock)
        self.awaited = True  # somebody still waits for all of it
        self._parts = list(parts)
        self._missing = len(parts)
        self._arrived = arrived

    @property
    def complete(self) -> bool:
        """Whether everything is there."""
        return not self._missing

    def part(self, item: int) -> None:
        """A part of an item is there."""
        self._parts[item] -= 1
        if self._parts[item]:
            return
        self._missing -= 1
        self._arrived(item)
        if not self._missing and self.awaited:
            self.all.succeed()


def deliver_item(clock: Clock, item: int, content: Content, arrived: Arrived) -> None:
    """An item of what was sent is there."""
    content.arrived = clock.time
    arrived(item, content)


def nothing() -> None:
    """What happens when nobody waits for links to be free again."""
