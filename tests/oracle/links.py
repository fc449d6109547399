"""Messages between workers and servers over first-come links, and what lies on which server.

Every host has a link up to the switch and one down from it. What a host sends, or asks for, is
handed to its links at once; a link serves batches in the order in which they were handed over and
is held for their bytes / bandwidth, from the moment it is free, but not before the link ahead of
it has begun (of several links ahead, the first). A message is there when both its links are done
with it and with what goes before it, plus the latency. No shard knows of the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from tests.oracle.agenda import Agenda, DoubtfulError, Flows
from tests.oracle.setting import Setting

# Nearer than this to half a ns, a float may be rounded to the other side (ns).
NEAR_HALF = Fraction(1, 1_000_000)

Part = tuple[int, Fraction]  # a server, and the bytes of a variable on it


def nearest(amount: Fraction, per: Fraction) -> int:
    """amount x per in whole ns. An exact half goes to the even one, if floats can tell it."""
    time = amount * per
    off = abs(time - int(time) - Fraction(1, 2))
    if off < NEAR_HALF and (off > 0 or Fraction(float(amount)) != amount):
        raise DoubtfulError
    return round(time)


def placed(setting: Setting) -> list[list[Part]]:
    """For every variable its parts, by server: of a sparse one, what is sent of them."""
    return [
        [(server, size * Fraction(share)) for server, size in parts]
        for parts, share in zip(_placed_whole(setting), setting.shares, strict=True)
    ]


def _placed_whole(setting: Setting) -> list[list[Part]]:
    servers = setting.servers
    if setting.placement == "partitioned":
        return [
            [(server, Fraction(sum(sizes), servers)) for server in range(servers)]
            for sizes in setting.tensors
        ]
    parts: list[dict[int, int]] = [{} for _ in setting.tensors]
    tensors = [(variable, size) for variable, sizes in enumerate(setting.tensors) for size in sizes]
    if setting.placement == "by_bytes":
        tensors.sort(key=lambda tensor: tensor[1], reverse=True)
    held = [0] * servers
    for turn, (variable, size) in enumerate(tensors):
        server = turn % servers
        if setting.placement == "by_bytes":
            server = min(range(servers), key=lambda server: (held[server], server))
        held[server] += size
        parts[variable][server] = parts[variable].get(server, 0) + size
    return [[(server, Fraction(size)) for server, size in sorted(p.items())] for p in parts]


class Wires(ABC):
    """Reads and pushes of all workers."""

    flows: Flows | None = None

    def __init__(self, setting: Setting, agenda: Agenda) -> None:
        self.agenda = agenda
        self.latency = round(setting.latency * 1e9)
        self.parts = placed(setting)
        self.loads: dict[int, Fraction] = {}  # bytes of all variables, by server
        for server, size in sorted(part for parts in self.parts for part in parts):
            self.loads[server] = self.loads.get(server, Fraction(0)) + size
        self.total = sum(self.loads.values(), Fraction(0))
        self.server_rate = Fraction(setting.server_rate)
        self.worker_rates = [Fraction(rate) for rate in setting.worker_rates]
        self._known: dict[tuple[Fraction, Fraction], int] = {}

    def hold(self, size: Fraction, rate: Fraction) -> int:
        """How long some bytes take on one link (ns)."""
        if (size, rate) not in self._known:
            self._known[size, rate] = nearest(size, 10**9 / rate)
        return self._known[size, rate]

    def alone(self, rank: int) -> int:
        """How long a read or a push takes if nobody else is there (ns)."""
        ports = [self.hold(load, self.server_rate) for load in self.loads.values()]
        return self.latency + max(*ports, self.hold(self.total, self.worker_rates[rank]))

    @abstractmethod
    def read(self, rank: int, told: Callable[[int], None], there: Callable[[], None]) -> None:
        """Ask for all variables: `told(when)`, then or before, and `there()` when all is there."""

    @abstractmethod
    def push(
        self,
        rank: int,
        told: Callable[[int], None],
        arrived: Callable[[int], None],
        handed_over: Callable[[], None],
    ) -> None:
        """Send all variables: `arrived(variable)` as each is there, then `handed_over()`."""


class FirstCome(Wires):
    """A link is the time at which it is free."""

    def __init__(self, setting: Setting, agenda: Agenda) -> None:
        super().__init__(setting, agenda)
        self._out = dict.fromkeys(self.loads, 0)  # servers' links up, from the servers
        self._into = dict.fromkeys(self.loads, 0)
        self._up = [0] * setting.workers
        self._down = [0] * setting.workers

    def read(self, rank: int, told: Callable[[int], None], there: Callable[[], None]) -> None:
        """When it ends is told at once."""
        begun = []
        for server, load in self.loads.items():
            begun.append(max(self.agenda.now, self._out[server]))
            self._out[server] = begun[-1] + self.hold(load, self.server_rate)
        start = max(min(begun), self._down[rank])
        self._down[rank] = start + self.hold(self.total, self.worker_rates[rank])
        end = max(*self._out.values(), self._down[rank]) + self.latency
        told(end)
        self.agenda.at(end, there)

    def push(
        self,
        rank: int,
        told: Callable[[int], None],
        arrived: Callable[[int], None],
        handed_over: Callable[[], None],
    ) -> None:
        """Variables in order; those that arrive together do so in this order, too."""
        rate = self.worker_rates[rank]
        up = max(self.agenda.now, self._up[rank])
        self._up[rank] = up + self.hold(self.total, rate)
        starts = {}
        for server, load in self.loads.items():
            starts[server] = max(up, self._into[server])
            self._into[server] = starts[server] + self.hold(load, self.server_rate)
        sent, received = Fraction(0), dict.fromkeys(self.loads, Fraction(0))
        times = []
        for variable, parts in enumerate(self.parts):
            ends = []
            for server, size in parts:
                sent += size
                received[server] += size
                ends += [
                    up + self.hold(sent, rate),
                    starts[server] + self.hold(received[server], self.server_rate),
                ]
            times.append((max(ends) + self.latency, variable))
        times.sort()
        for time, variable in times[:-1]:
            self.agenda.at(time, partial(arrived, variable))
        time, last = times[-1]
        told(time)

        def end() -> None:
            arrived(last)
            handed_over()

        self.agenda.at(time, end)
