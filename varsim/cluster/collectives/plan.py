"""A schedule for so many bytes over certain links: sizes, times, and what each rank sends."""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache, cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.collectives.schedule import Schedule, ScheduledTransfer, Times
from varsim.cluster.network.link import Link, Route, relays
from varsim.cluster.network.network import Network


class MessagePath(NamedTuple):
    """How a message gets from one rank to another.

    `header`: bytes that each message has besides. On links without latency it is the time that a
    message holds its links whatever its length, the alpha of a model in which a message of n bytes
    keeps both ports busy for alpha + n beta (Hockney, 1994). `payload`: the share of what is sent
    that is data; `sooner`: by how much less than the latency of its links it takes to arrive (ns).
    """

    network: Network
    route: Route
    header: float = 0.0
    payload: float = 1.0
    sooner: int = 0

    def sent(self, size: float) -> float:
        """How many bytes pass the links for `size` bytes of data."""
        return (size + self.header) / self.payload

    def hold(self, size: float) -> int:
        """For how long (ns) a message of `size` bytes keeps the links busy."""
        return self.network.hold(self.route, self.sent(size))

    @property
    def latency(self) -> int:
        """How long (ns) after that it arrives."""
        return self.network.latency(self.route) - self.sooner


# The path from one rank to another.
Paths: TypeAlias = Callable[[int, int], MessagePath]


class Lane(NamedTuple):
    """A number of rounds in which the same happens: from where to where, and for how long (ns).

    `kinds`: which of the plan's `messages` they are.
    """

    rounds: int
    kinds: NDArray[np.intp]
    sources: NDArray[np.intp]
    targets: NDArray[np.intp]
    holds: Times
    latencies: Times
    adding: Times
    slacks: NDArray[np.intp] | None  # None: all 0


class Crossings(NamedTuple):
    """Which links the plan's `messages` cross, in arrays (messages, hops), as indices of `links`.

    Short routes are filled up with -1. `later`, `holds`: when a message begins to pass each, after
    it has set off, and for how long (ns).
    """

    links: list[Link]
    routes: NDArray[np.intp]
    later: Times
    holds: Times
    sizes: NDArray[np.float64]


class Send(NamedTuple):
    """What a rank sends `times` times in a row.

    The i-th of them, from 0, needs the first `needs + i * needs_more` of all messages that the
    rank is sent, and is itself number `turn + i`, from 0, of those that the target is sent.
    `size`: bytes that pass the links; they arrive `sooner` (ns) than the links' latency says.
    `adding`: how long (ns) the target takes to add it. `plain`: the target is sent nothing by
    others, and nothing that takes time to be added, of any size.
    """

    times: int
    target: int
    network: Network
    route: Route
    size: float
    sooner: int
    adding: int
    needs: int
    needs_more: int
    turn: int
    plain: bool


class CollectivePlan:
    """A schedule for `size` bytes; worked out once, carried out again and again.

    `adding_rate`: bytes/s that a rank adds up; None: adding takes no time.
    """

    def __init__(
        self, schedule: Schedule, size: float, paths: Paths, adding_rate: float | None = None
    ) -> None:
        self.schedule: Final = schedule
        self._size = size
        self._paths = cache(lambda one, other: paths(one % schedule.ranks, other % schedule.ranks))
        self._rate = adding_rate
        self._patterns = schedule.patterns

    @property
    def idle(self) -> bool:
        """Whether nothing is sent at all."""
        return not self._patterns

    @cached_property
    def exclusive(self) -> bool:
        """Whether each link carries the messages of one rank only.

        One that sends them or one that they are for; either way, one after the other.
        """
        sources, targets = dict[Link, set[int]](), dict[Link, set[int]]()
        for source, target in self._pairs():
            for link in self._paths(source, target).route:
                sources.setdefault(link, set()).add(source)
                targets.setdefault(link, set()).add(target)
        return not any(len(sources[link]) > 1 and len(targets[link]) > 1 for link in sources)

    @cached_property
    def uniform(self) -> bool:
        """Whether, besides, all paths are equal."""
        rates, others = set[float](), set[tuple[float, ...]]()
        for pair in self._pairs():
            path = self._paths(*pair)
            overhead = path.route[0].overhead if path.route else 0
            others.add((path.latency, path.header, overhead, len(path.route)))
            rates.update(link.bandwidth for link in path.route)
        return len(rates) <= 1 and len(others) <= 1 and self.exclusive

    @cached_property
    def even(self) -> bool:
        """Whether all messages take the same time, and adding none."""
        return not self.idle and self.uniform and not self.adds

    @cached_property
    def relayed(self) -> bool:
        """Whether hosts on the way pass messages on."""
        return any(relays(self._paths(*pair).route) for pair in self._pairs())

    @cached_property
    def adds(self) -> bool:
        """Whether adding takes time anywhere."""
        return self._rate is not None and any(map(self._adding, self._kinds))

    @cached_property
    def message(self) -> tuple[int, int]:
        """For how long (ns) the first message of all holds its links, and its latency (ns)."""
        first = self._kinds[0]
        path = self._path(first)
        return path.hold(self._bytes(first)), path.latency

    @cached_property
    def lanes(self) -> list[Lane]:
        """All rounds as arrays."""
        kinds = self._kinds
        paths = [self._path(one) for one in kinds]
        sources = np.array([one.source for one in kinds], dtype=np.intp)
        targets = np.array([one.target for one in kinds], dtype=np.intp)
        holds = _times(
            [path.hold(self._bytes(one)) for path, one in zip(paths, kinds, strict=True)]
        )
        latencies = _times([path.latency for path in paths])
        adding = _times([self._adding(one) for one in kinds])
        slacks = np.array([one.slack for one in kinds], dtype=np.intp)

        def lane(rounds: int, at: NDArray[np.intp]) -> Lane:
            slack = slacks[at] if slacks[at].any() else None
            return Lane(
                rounds, at, sources[at], targets[at], holds[at], latencies[at], adding[at], slack
            )

        made = dict[tuple[int, int], Lane]()
        for rounds, at in self._turns:
            if (rounds, id(at)) not in made:
                made[rounds, id(at)] = lane(rounds, at)
        return [made[rounds, id(at)] for rounds, at in self._turns]

    @cached_property
    def _turns(self) -> list[tuple[int, NDArray[np.intp]]]:
        """How many rounds there are of which messages, as places in `messages`."""
        number = {id(one): index for index, one in enumerate(self._kinds)}
        made = {
            id(transfers): np.array([number[id(one)] for one in transfers], dtype=np.intp)
            for transfers in {id(each): each for _, each in self._patterns}.values()
        }
        return [(rounds, made[id(transfers)]) for rounds, transfers in self._patterns]

    @cached_property
    def sends(self) -> list[tuple[list[Send], int]]:
        """What each rank sends, in order, and how many messages it is sent."""
        sends: list[list[Send]] = [[] for _ in range(self.schedule.everybody)]
        came = [0] * self.schedule.everybody  # messages that a rank is sent in earlier rounds
        rounds_of: list[list[int]] = [[] for _ in sends]  # the rounds in which they are sent
        slack = any(one.slack for one in self._kinds)
        plain = self._plain_targets()
        done = 0
        for rounds, transfers in self._patterns:
            targets = {transfer.target for transfer in transfers}
            for one in transfers:
                needs = came[one.source]
                if one.slack:
                    needs = bisect_left(rounds_of[one.source], done - one.slack)
                more = int(one.source in targets)
                path, turn = self._path(one), came[one.target]
                size = path.sent(self._bytes(one))
                what = (path.network, path.route, size, path.sooner, self._adding(one))
                row = (*what, needs, more, turn, one.target in plain)
                sends[one.source].append(Send(rounds, one.target, *row))
            for rank in targets:
                came[rank] += rounds
                if slack:
                    rounds_of[rank] += range(done, done + rounds)
            done += rounds
        return list(zip(sends, came, strict=True))

    @cached_property
    def messages(self) -> list[tuple[MessagePath, float]]:
        """Which way each kind of message goes, and the bytes that pass its links."""
        paths = ((self._path(one), self._bytes(one)) for one in self._kinds)
        return [(path, path.sent(size)) for path, size in paths]

    @cached_property
    def crossings(self) -> Crossings:
        """All kinds of messages on all their links."""
        links = dict[Link, int]()
        passing = [path.network.passing(path.route, size) for path, size in self.messages]
        shape = len(passing), max(map(len, passing), default=0)
        routes = np.full(shape, -1, dtype=np.intp)
        later, holds = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for kind, hops in enumerate(passing):
            for hop, (link, begins, hold) in enumerate(hops):
                routes[kind, hop] = links.setdefault(link, len(links))
                later[kind, hop], holds[kind, hop] = begins, hold
        sizes = np.array([size for _, size in self.messages])
        return Crossings(list(links), routes, later, holds, sizes)

    @cached_property
    def loads(self) -> list[tuple[Link, float, int]]:
        """The bytes that each link carries, and in how many messages."""
        links, routes, *_, sizes = self.crossings
        moved, messages = np.zeros(len(links) + 1), np.zeros(len(links) + 1, dtype=np.int64)
        for rounds, kinds in self._turns:
            at = routes[kinds]
            # Added one by one, in the order in which they are sent: the same sum on every machine.
            np.add.at(moved, at, rounds * sizes[kinds, None])
            np.add.at(messages, at, rounds)
        return list(zip(links, moved.tolist(), messages.tolist(), strict=False))

    @property
    def crossed(self) -> int:
        """How many links all its messages pass."""
        return sum(messages for _, _, messages in self.loads)

    @cached_property
    def _kinds(self) -> list[ScheduledTransfer]:
        """Each transfer once, in the order in which they are first made."""
        patterns = {id(transfers): transfers for _, transfers in self._patterns}.values()
        return list({id(one): one for transfers in patterns for one in transfers}.values())

    def _plain_targets(self) -> set[int]:
        """The ranks that are sent messages by one other only, and need no time to add any.

        The same for vectors of every size, also where that time is rounded to nothing.
        """
        sources = dict[int, set[int]]()
        busy = set()
        for transfer in self._kinds:
            sources.setdefault(transfer.target, set()).add(transfer.source)
            if self._rate is not None and transfer.adds:
                busy.add(transfer.target)
        return {target for target, one in sources.items() if len(one) == 1} - busy

    def _pairs(self) -> list[tuple[int, int]]:
        return list(dict.fromkeys((one.source, one.target) for one in self._kinds))

    def _path(self, transfer: ScheduledTransfer) -> MessagePath:
        return self._paths(transfer.source, transfer.target)

    def _bytes(self, transfer: ScheduledTransfer) -> float:
        return self._size * len(transfer.blocks) / self.schedule.cut

    def _adding(self, transfer: ScheduledTransfer) -> int:
        """How long (ns) it takes the target to add what it was sent."""
        if self._rate is None or not transfer.adds:
            return 0
        return round(self._bytes(transfer) / self._rate * 1e9)


def _times(values: list[int]) -> Times:
    return np.array(values, dtype=np.int64)
