"""Ports of servers that serve every batch together: first come, all in one step."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.network.link import Link

_LONGEST: Final = 1 << 40  # ns; ports that are busy for longer are served one by one, in integers


class Served(NamedTuple):
    """When the ports of a bank begin with a batch (ns)."""

    links: Sequence[Link]
    starts: NDArray[np.int64]


class PortBank:
    """Ports on which every batch takes the same time each (`holds`, ns), rising.

    All of a batch comes to all ports at one moment, so the port with the most bytes is the last one
    done with it, and always was.
    """

    def __init__(self, links: Sequence[Link], holds: Sequence[int]) -> None:
        self.links, self.holds = links, holds
        self.open = True
        self._takes = np.array(holds, np.int64)
        self._free = np.zeros(len(holds), np.int64)  # when each port is free again

    def serve(self, at: int) -> tuple[int, int, Served]:
        """A batch comes: when the first port begins with it, when the last is done with it (ns)."""
        starts = np.maximum(self._free, at)
        self._free = free = starts + self._takes
        return int(starts[0]), int(free[-1]), Served(self.links, starts)

    def close(self) -> None:
        """From now on each port is busy for itself."""
        self.open = False
        for link, time in zip(self.links, self._free.tolist(), strict=True):
            link.free_at = time


class PortBanks:
    """The banks of a network: of ports that nobody uses one by one."""

    def __init__(self) -> None:
        self._of: dict[Link, PortBank | None] = {}  # of links in use
        self.any = False

    def bank(self, ports: Sequence[tuple[int, Link]]) -> PortBank | None:
        """The bank of these ports, each with what it takes for a batch (ns), in that order."""
        holds, links = [hold for hold, _ in ports], [link for _, link in ports]
        if holds[-1] <= _LONGEST and not any(link in self._of for link in links):
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
