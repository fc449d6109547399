"""Ports of servers that serve every batch together: first come, without a look at each.

All of a batch comes to all ports at one moment, so the port with the most bytes is the last one
done with it, and always was. With a ports in the order of their bytes, and c batches since a port
last waited for one that came at a, it is done c hold after a, and at any moment those that wait
are the first ones. So a batch is a change of who waits, and of a number.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from varsim.cluster.link import Link

# Ports from this one on, up to the run before: when they began to be busy (ns), and how many
# batches they had all served by then.
_Run: TypeAlias = tuple[int, int, int]


class Served(NamedTuple):
    """When a batch came to a bank (ns), and how the ports were busy then; see PortBank.starts."""

    bank: "PortBank"
    at: int
    number: int
    runs: tuple[_Run, ...]


class PortBank:
    """Ports on which every batch takes the same time each (`holds`, ns), rising."""

    def __init__(self, links: Sequence[Link], holds: Sequence[int]) -> None:
        self.links, self.holds = links, holds
        self.open = True
        self._number = 0  # batches served
        self._runs: list[_Run] = [(0, 0, 0)]  # from the last ports to the first

    def serve(self, at: int) -> tuple[int, int, Served]:
        """A batch comes: when the first port begins with it, when the last is done with it (ns)."""
        runs, holds, number = self._runs, self.holds, self._number
        served = Served(self, at, number, tuple(runs))
        _, begun, before = runs[-1]
        first = max(at, begun + (number - before) * holds[0])
        waiting = 0  # ports that are done by now
        while runs:
            begin, begun, before = runs[-1]
            behind = runs[-2][0] if len(runs) > 1 else len(holds)
            if number == before:
                waiting = behind if begun <= at else begin
            elif begun <= at:
                waiting = bisect_right(holds, (at - begun) // (number - before), begin, behind)
            if waiting < behind:
                runs[-1] = (max(begin, waiting), begun, before)
                break
            runs.pop()
        if waiting:
            runs.append((0, at, number))
        self._number = number + 1
        _, begun, before = runs[0]
        return first, begun + (self._number - before) * holds[-1], served

    def starts(self, served: Served) -> dict[Link, int]:
        """When each port began, or will begin, with a batch (ns)."""
        free = self._free(served.number, served.runs)
        return {link: max(served.at, time) for link, time in zip(self.links, free, strict=True)}

    def close(self) -> None:
        """From now on each port is busy for itself."""
        self.open = False
        for link, time in zip(self.links, self._free(self._number, self._runs), strict=True):
            link.free_at = time

    def _free(self, number: int, runs: Sequence[_Run]) -> list[int]:
        """When each port is done (ns)."""
        times: list[int] = []
        ends = [begin for begin, _, _ in runs[:-1]]
        for (begin, begun, before), end in zip(
            runs[::-1], [*ends[::-1], len(self.holds)], strict=True
        ):
            times += [begun + (number - before) * hold for hold in self.holds[begin:end]]
        return times


class PortBanks:
    """The banks of a network: of ports that nobody uses one by one."""

    def __init__(self) -> None:
        self._of: dict[Link, PortBank | None] = {}  # of links in use
        self.any = False

    def bank(self, ports: Sequence[tuple[int, Link]]) -> PortBank | None:
        """The bank of these ports, each with what it takes for a batch (ns), in that order."""
        holds, links = [hold for hold, _ in ports], [link for _, link in ports]
        if not any(link in self._of for link in links):
            self.any = True
            self._of |= dict.fromkeys(links, made := PortBank(links, holds))
            return made
        found = self._of.get(links[0])
        if found is not None and (found.links, found.holds) == (links, holds):
            return found
        self.use(links)
        return None

    def use(self, links: Iterable[Link]) -> None:
        """These are used one by one; that is the end of the banks that they belong to."""
        for link in links:
            bank = self._of.setdefault(link, None)
            if bank is not None:
                bank.close()
                self._of |= dict.fromkeys(bank.links)
