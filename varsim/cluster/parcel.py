"""Parcels: what a host sends, or asks for, in one go."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from varsim.cluster.link import Link

Route: TypeAlias = tuple[Link, ...]


class Message(NamedTuple):
    """Bytes of one item (a variable) on one route."""

    item: int
    route: Route
    size: float


class Passage(NamedTuple):
    """After how long (ns) on each of its links a message of a parcel has passed."""

    item: int
    first: Link
    first_passed: int
    second: Link
    second_passed: int


class Parcel:
    """Messages that one host sends or asks for at once; an item is there when all its parts are.

    It is made once and sent again and again, so whatever its sizes tell is worked out here.
    `alone`: the least time (ns) it needs when nothing else uses its links.
    """

    def __init__(self, messages: Sequence[Message], latency: int) -> None:
        self.items = 1 + max(message.item for message in messages)
        self.sent = 0  # how often
        self.due = 0  # when it was, or will be, there (ns)
        self.loads: dict[Link, float] = {}
        self.connections: dict[Route, list[Message]] = {}
        self.parts = [0] * self.items
        self.passed: list[Passage] = []
        for message in messages:
            self.connections.setdefault(message.route, []).append(message)
            self.parts[message.item] += 1
            for link in message.route:
                self.loads[link] = self.loads.get(link, 0.0) + message.size
            first, second = message.route
            self.passed.append(
                Passage(
                    message.item,
                    first,
                    first.hold(self.loads[first]),
                    second,
                    second.hold(self.loads[second]),
                )
            )
        self.holds = {link: link.hold(size) for link, size in self.loads.items()}
        self.alone = latency + max(self.holds.values())
        # For fair links: the items of each connection, and at which byte each is complete.
        self.marks = [
            (
                route,
                [message.item for message in there],
                list(accumulate(message.size for message in there)),
            )
            for route, there in self.connections.items()
        ]
        # The commonest parcel goes over one connection; it has a shorter way.
        self.only: tuple[Link, int, Link, int] | None = None
        if len(self.connections) == 1:
            ((first, second),) = self.connections
            self.only = (first, self.holds[first], second, self.holds[second])
        self.firsts = list(dict.fromkeys(first for first, _ in self.connections))
        self.seconds = [
            (second, [first for first, other in self.connections if other is second])
            for second in dict.fromkeys(second for _, second in self.connections)
        ]
