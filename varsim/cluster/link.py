"""Links: one direction of a connection, and the routes made of them."""

from typing import TypeAlias


class Link:
    """One direction of a connection; identity is what counts.

    `count` equal links that always carry equal shares at the same time (the ports of servers
    between which every tensor is cut evenly) are one Link with their common bandwidth: the same
    times in fewer steps. `latency` (ns) is that of this link alone. A message that sets off here
    holds it `overhead` (ns) longer. `into`, `out_of`: the switch at its end, or at its beginning.
    `begins`: messages that leave their machine set off on it; `relayed` bytes of what it `moved`
    did not, but came from another such link.
    """

    __slots__ = (
        "bandwidth",
        "begins",
        "count",
        "free_at",
        "into",
        "latency",
        "moved",
        "name",
        "out_of",
        "overhead",
        "relayed",
    )

    def __init__(
        self,
        name: str,
        bandwidth: float,
        count: int = 1,
        *,
        latency: int = 0,
        overhead: int = 0,
        begins: bool = False,
        into: str = "",
        out_of: str = "",
    ) -> None:
        self.name = name
        self.bandwidth = bandwidth  # bytes/s
        self.count = count
        self.latency = latency
        self.overhead = overhead
        self.begins = begins
        self.into, self.out_of = into, out_of
        self.free_at = 0  # ns; for first-come service
        self.moved = self.relayed = 0.0  # bytes

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.bandwidth!r})"

    def hold(self, size: float) -> int:
        """The time (ns) that `size` bytes need on this link alone."""
        return round(size * 1e9 / self.bandwidth)


# The links that a message crosses, in order; none between two places on one machine.
Route: TypeAlias = tuple[Link, ...]


def relays(route: Route) -> list[Link]:
    """The links of a route that hosts on the way pass a message on over: none but in a ring."""
    return [link for link in route[1:] if link.begins]
