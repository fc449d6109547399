"""A schedule for so many bytes over certain links: sizes, times, and what each rank sends."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.collectives.schedule import Round, Schedule, Transfer
from varsim.cluster.link import Link, Route, relays
from varsim.cluster.transport import Network

Times: TypeAlias = NDArray[np.int64]


class Path(NamedTuple):
    """How a message gets from one rank to another.

    `header`: bytes that each message has besides. On links without latency it is the time that a
    message holds its links whatever its length, the alpha of a model in which a message of n bytes
    keeps both ports busy for alpha + n beta (Hockney, 1994).
    """

    network: Network
    route: Route
    header: float = 0.0

    def hold(self, size: float) -> int:
        """For how long (ns) a message of `size` bytes keeps the links busy."""
        return self.network.hold(self.route, size + self.header)

    @property
    def latency(self) -> int:
        """How long (ns) after that it arrives."""
        return self.network.latency(self.route)


# The path from one rank to another.
Paths: TypeAlias = Callable[[int, int], Path]


class Lane(NamedTuple):
    """A number of rounds in which the same happens: from where to where, and for how long (ns)."""

    rounds: int
    sources: NDArray[np.intp]
    targets: NDArray[np.intp]
    holds: Times
    latencies: Times
    adding: Times
    slacks: NDArray[np.intp] | None  # None: all 0


class Send(NamedTuple):
    """What a rank sends `times` times in a row.

    The i-th of them, from 0, needs the first `needs + i * needs_more` of all messages that the
    rank is sent, and is itself number `turn + i`, from 0, of those that the target is sent.
    `size`: bytes with the header. `adding`: how long (ns) the target takes to add it. `plain`: the
    target is sent nothing by others, and nothing that takes time to be added.
    """

    times: int
    target: int
    network: Network
    route: Route
    size: float
    adding: int
    needs: int
    needs_more: int
    turn: int
    plain: bool


class Plan:
    """A schedule for `size` bytes; worked out once, carried out again and again.

    `adding_rate`: bytes/s that a rank adds up; None: adding takes no time.
    """

    def __init__(
        self, schedule: Schedule, size: float, paths: Paths, adding_rate: float | None = None
    ) -> None:
        self.schedule: Final = schedule
        self._size = size
        self._paths = cache(paths)
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
    def relayed(self) -> bool:
        """Whether hosts on the way pass messages on."""
        return any(relays(self._paths(*pair).route) for pair in self._pairs())

    @cached_property
    def adds(self) -> bool:
        """Whether adding takes time anywhere."""
        return self._rate is not None and any(map(self._adding, self._transfers()))

    @cached_property
    def message(self) -> tuple[int, int]:
        """For how long (ns) the first message of all holds its links, and its latency (ns)."""
        first = next(self._transfers())
        path = self._path(first)
        return path.hold(self._bytes(first)), path.latency

    @cached_property
    def lanes(self) -> list[Lane]:
        """All rounds as arrays."""
        return [self._lane(rounds, transfers) for rounds, transfers in self._patterns]

    @cached_property
    def sends(self) -> list[list[Send]]:
        """What each rank sends, in order."""
        sends: list[list[Send]] = [[] for _ in range(self.schedule.ranks)]
        came = [0] * self.schedule.ranks  # messages that a rank is sent in earlier rounds
        rounds_of: list[list[int]] = [[] for _ in sends]  # the rounds in which they are sent
        slack = any(transfer.slack for transfer in self._transfers())
        plain = self._plain_targets()
        done = 0
        for rounds, transfers in self._patterns:
            targets = {transfer.target for transfer in transfers}
            for one in transfers:
                needs = came[one.source]
                if one.slack:
                    needs = bisect_left(rounds_of[one.source], done - one.slack)
                more = int(one.source in targets)
                network, route, header = self._path(one)
                size, turn = self._bytes(one) + header, came[one.target]
                what = (network, route, size, self._adding(one))
                row = (*what, needs, more, turn, one.target in plain)
                sends[one.source].append(Send(rounds, one.target, *row))
            for rank in targets:
                came[rank] += rounds
                if slack:
                    rounds_of[rank] += range(done, done + rounds)
            done += rounds
        return sends

    @cached_property
    def receipts(self) -> list[int]:
        """How many messages each rank is sent."""
        count = [0] * self.schedule.ranks
        for rounds, transfers in self._patterns:
            for transfer in transfers:
                count[transfer.target] += rounds
        return count

    @cached_property
    def messages(self) -> list[list[tuple[Path, float]]]:
        """For each lane which way its messages go, and their bytes with the header."""
        return [
            [(self._path(one), self._bytes(one) + self._path(one).header) for one in transfers]
            for _, transfers in self._patterns
        ]

    @cached_property
    def loads(self) -> list[tuple[Link, float, int]]:
        """The bytes that each link carries, and in how many messages."""
        loads = dict[Link, tuple[float, int]]()
        for (rounds, _), lane in zip(self._patterns, self.messages, strict=True):
            for path, size in lane:
                for link in path.route:
                    moved, messages = loads.get(link, (0.0, 0))
                    loads[link] = moved + rounds * size, messages + rounds
        return [(link, *load) for link, load in loads.items()]

    def _plain_targets(self) -> set[int]:
        """The ranks that are sent messages by one other only, and need no time to add them."""
        sources = dict[int, set[int]]()
        busy = set()
        for transfer in self._transfers():
            sources.setdefault(transfer.target, set()).add(transfer.source)
            if self._adding(transfer):
                busy.add(transfer.target)
        return {target for target, one in sources.items() if len(one) == 1} - busy

    def _pairs(self) -> list[tuple[int, int]]:
        return list(dict.fromkeys((one.source, one.target) for one in self._transfers()))

    def _transfers(self) -> Iterator[Transfer]:
        return (transfer for _, transfers in self._patterns for transfer in transfers)

    def _path(self, transfer: Transfer) -> Path:
        return self._paths(transfer.source, transfer.target)

    def _bytes(self, transfer: Transfer) -> float:
        return self._size * len(transfer.blocks) / self.schedule.cut

    def _adding(self, transfer: Transfer) -> int:
        """How long (ns) it takes the target to add what it was sent."""
        if self._rate is None or not transfer.adds:
            return 0
        return round(self._bytes(transfer) / self._rate * 1e9)

    def _lane(self, rounds: int, transfers: Round) -> Lane:
        paths = [self._path(transfer) for transfer in transfers]
        sizes = [self._bytes(transfer) for transfer in transfers]
        slacks = [transfer.slack for transfer in transfers]
        return Lane(
            rounds,
            np.array([transfer.source for transfer in transfers], dtype=np.intp),
            np.array([transfer.target for transfer in transfers], dtype=np.intp),
            _times([path.hold(size) for path, size in zip(paths, sizes, strict=True)]),
            _times([path.latency for path in paths]),
            _times([self._adding(transfer) for transfer in transfers]),
            np.array(slacks, dtype=np.intp) if any(slacks) else None,
        )


def _times(values: list[int]) -> Times:
    return np.array(values, dtype=np.int64)
