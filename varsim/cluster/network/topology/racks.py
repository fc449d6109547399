"""Racks: stars whose switches are joined by one link each way to a core."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.topology.base import KIND_IS_SAID, Place, halves
from varsim.cluster.network.topology.star import Ported, StarRouting
from varsim.units import BytesPerSecond, Seconds, format_rate, format_seconds


class Racks(Ported):
    """Two tiers: hosts in racks, a star each, and one link per rack and direction to the core.

    Hosts fill the racks in order: workers by rank, then servers on machines of their own. A rack's
    uplink carries `uplink_bandwidth`, or what its hosts could send together divided by
    `oversubscription`. `latency` is from host to host in a rack, `uplink_latency` (default: the
    same) is added between racks.
    """

    model_config = KIND_IS_SAID

    about: ClassVar[str] = "two tiers: racks of hosts, joined by oversubscribed uplinks"

    kind: Literal["racks"] = "racks"
    hosts_per_rack: PositiveInt
    """Hosts in a rack."""
    oversubscription: float | None = Field(None, gt=0)
    """Bandwidth of a rack's hosts together over that of its link to the core."""
    uplink_bandwidth: BytesPerSecond | None = Field(None, gt=0)
    """Bandwidth of a rack's link to the core, instead of `oversubscription`."""
    uplink_latency: Seconds | None = Field(None, ge=0)
    """How much longer a message takes between racks; by default `latency`."""

    def refusals(self) -> Iterator[str]:
        yield from super().refusals()
        if (self.oversubscription is None) == (self.uplink_bandwidth is None):
            yield "give either oversubscription (for example 4.0) or uplink_bandwidth"

    @property
    def uplink_rate(self) -> float:
        """Bytes/s between a rack and the core, per direction."""
        if self.uplink_bandwidth is not None:
            return self.uplink_bandwidth * self.efficiency
        assert self.oversubscription is not None
        return self.hosts_per_rack * self.worker_rate / self.oversubscription

    @property
    def uplink_delay(self) -> float:
        """Seconds that a message between racks takes more than one in a rack."""
        return self.delay if self.uplink_latency is None else self.uplink_latency

    def routing(self) -> "RackRouting":
        return RackRouting(self)

    def more_lines(self) -> list[str]:
        return [
            f"racks of {self.hosts_per_rack} hosts, {format_rate(self.uplink_rate)} each way "
            f"between a rack and the core, {format_seconds(self.uplink_delay)} more between racks"
        ]


class RackRouting(StarRouting):
    """A link up and a link down for every host, and for every rack."""

    def __init__(self, racks: Racks) -> None:
        super().__init__(racks)
        self._racks = racks
        self._uplinks: dict[int, tuple[Link, Link]] = {}

    def _switch(self) -> str:
        return f"rack {self._rack(self._machines - 1)}"

    def _rack(self, machine: int) -> int:
        return machine // self._racks.hosts_per_rack

    def _crossed(self, source: Place, target: Place) -> Route:
        up, down = super()._crossed(source, target)
        here, there = self._rack(source.machine), self._rack(target.machine)
        if here == there:
            return up, down
        return up, self._uplink(here)[0], self._uplink(there)[1], down

    def _uplink(self, rack: int) -> tuple[Link, Link]:
        if rack not in self._uplinks:
            first, second = halves(self._racks.uplink_delay)
            name, rate = f"rack {rack}", self._racks.uplink_rate
            self._uplinks[rack] = (
                self._link(f"{name} up", rate, first, out_of=name, into="core"),
                self._link(f"{name} down", rate, second, out_of="core", into=name),
            )
        return self._uplinks[rack]
