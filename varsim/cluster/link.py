"""Links: one direction of one host's connection to the switch."""


class Link:
    """One direction of a host's connection; identity is what counts.

    `count` equal links that always carry equal shares at the same time (the ports of servers
    between which every tensor is cut evenly) are one Link with their common bandwidth: the same
    times in fewer steps.
    """

    __slots__ = ("bandwidth", "count", "free_at", "moved", "name")

    def __init__(self, name: str, bandwidth: float, count: int = 1) -> None:
        self.name = name
        self.bandwidth = bandwidth  # bytes/s
        self.count = count
        self.free_at = 0  # ns; for first-come service
        self.moved = 0.0  # bytes

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.bandwidth!r})"

    def hold(self, size: float) -> int:
        """The time (ns) that `size` bytes need on this link alone."""
        return round(size * 1e9 / self.bandwidth)
