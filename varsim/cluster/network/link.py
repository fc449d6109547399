"""Links, each one direction of a connection, and routes made of them."""

from typing import TypeAlias


class Link:
    """Link: one direction of a connection; identity is what counts.

    Equal links that always carry equal shares at the same time (the ports of servers between which
    every tensor is cut evenly) are one Link with their common bandwidth: the same times in fewer
    steps. `latency` (ns) is that of this link alone. A message that sets off here holds it
    `overhead` (ns) longer. `into`, `out_of`: the switch at its end, or at its beginning. `begins`:
    messages that leave their machine set off on it. `binds`: whether flows that share it fairly may
    be held up by it: never where all routes over it cross a narrower link, too.

    At the end of a run, `moved` is what has passed it, `left` what was handed to it and has not;
    `relayed` bytes of what it moved did not set off on it, but on another link that `begins`.
    """

    __slots__ = (
        "_narrower",
        "bandwidth",
        "begins",
        "binds",
        "free_at",
        "into",
        "latency",
        "left",
        "messages",
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
        *,
        latency: int = 0,
        overhead: int = 0,
        begins: bool = False,
        into: str = "",
        out_of: str = "",
    ) -> None:
        self.name = name
        self.bandwidth = bandwidth  # bytes/s
        self.latency = latency
        self.overhead = overhead
        self.begins = begins
        self.into, self.out_of = into, out_of
        self.free_at = 0  # ns; for first-come service
        self.binds = True
        self._narrower: set[Link] | None = None  # than this one, on all routes over it
        self.moved = self.left = self.relayed = 0.0  # bytes
        self.messages = 0  # how often something was handed to it

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.bandwidth!r})"

    def hold(self, size: float) -> int:
        """The time (ns) that `size` bytes need on this link alone."""
        return round(size * 1e9 / self.bandwidth)

    def passed(self, size: float, time: int) -> float:
        """How many of `size` bytes have passed it alone after so long (ns)."""
        if time >= self.hold(size):
            return size
        return min(size, max(0, time) * self.bandwidth / 1e9)

    def is_on(self, route: "Route") -> bool:
        """A route crosses it; whether it binds only from now on."""
        narrower = {link for link in route if link.bandwidth < self.bandwidth}
        self._narrower = narrower if self._narrower is None else self._narrower & narrower
        before, self.binds = self.binds, not self._narrower
        return self.binds > before

    def add(
        self, moved: float, left: float = 0.0, *, messages: int = 1, relayed: float = 0.0
    ) -> None:
        """So many bytes have passed it, of which hosts on the way `relayed` some; see Link."""
        self.moved += moved
        self.left += left
        self.messages += messages
        self.relayed += relayed

    def most(self, end: int) -> float:
        """Bytes that it can have carried by `end` (ns).

        Messages end at the nearest ns, so each of them may be through half a ns too soon; what
        floats add up is good to 1e-9 of it.
        """
        return self.bandwidth * (end + self.messages / 2) / 1e9 * (1 + 1e-9)


# The links that a message crosses, in order; none between two places on one machine.
Route: TypeAlias = tuple[Link, ...]


def relays(route: Route) -> list[Link]:
    """The links of a route that hosts on the way pass a message on over: none but in a ring."""
    return [link for link in route[1:] if link.begins]


class Booking:
    """Booking of a message on first-come links: when its bytes begin to pass each (ns)."""

    __slots__ = ("route", "size", "starts")

    def __init__(self, route: Route, size: float, starts: list[int]) -> None:
        self.route = route
        self.size = size
        self.starts = starts

    def count(self, now: int) -> None:
        """Count what has passed each of its links by now (ns), for good."""
        for hop, (link, start) in enumerate(zip(self.route, self.starts, strict=True)):
            passed = link.passed(self.size, now - start)
            relayed = passed if link.begins and hop else 0.0
            link.add(passed, self.size - passed, relayed=relayed)
