"""What fits into memory: limits that a scenario states, and what would make a strategy fit.

Nothing here changes a run: times are those with enough memory.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.memory import Memory
from varsim.core import presets
from varsim.core.schema import Model
from varsim.core.units import Bytes, format_bytes
from varsim.learning.workload import Workload
from varsim.strategies.base import Strategy

_MOST_WORKERS = 100_000
_MOST_MORE_SERVERS = 256


class MemoryLimits(Model):
    """Memory of a worker's device and of a parameter server, and what becomes of what exceeds it.

    `device`: by default that of the preset, as far as it comes in one size. `server`: not known by
    default. `activations`: what a batch takes on a device; by default not counted. `exceeded`: a
    strategy that does not fit is refused; or marked, and simulated as if there were enough.
    """

    device: Bytes | None = Field(None, gt=0)
    """Memory of each worker's device (default: that of its preset, if it comes in one size)."""
    server: Bytes | None = Field(None, gt=0)
    """Memory of each parameter server (default: not known)."""
    activations: Bytes | None = Field(None, gt=0)
    """What the activations of a batch take on a device (default: not counted)."""
    exceeded: Literal["refuse", "mark"] = "refuse"
    """Whether a strategy that does not fit is refused, or simulated anyway and marked."""

    def sizes(self, cluster: Cluster) -> tuple[float, ...]:
        """Bytes that a device may have: one if that is known, none if nothing is."""
        return cluster.device_memory if self.device is None else (self.device,)

    def of_device(self, strategy: Strategy, cluster: Cluster, workload: Workload) -> Memory:
        """What each worker of a strategy keeps, with activations if they are given."""
        kept = strategy.memory(cluster, workload)
        if self.activations is None:
            return kept
        return kept._replace(further=(*kept.further, ("activations", self.activations)))


class Misfit(NamedTuple):
    """What is known not to fit: where, what it needs there, and what there is (bytes)."""

    where: Literal["device", "server"]
    needs: float
    has: float


class Setting(NamedTuple):
    """A strategy with what it runs on and trains, and the limits of memory there."""

    limits: MemoryLimits
    strategy: Strategy
    cluster: Cluster
    workload: Workload

    @property
    def device(self) -> float:
        """Bytes on each device."""
        return self.limits.of_device(self.strategy, self.cluster, self.workload).total

    @property
    def server(self) -> float:
        """Bytes on the fullest server; 0 where there is none."""
        kept = self.strategy.server_memory(self.cluster, self.workload)
        return 0.0 if kept is None else kept.total

    @property
    def misfits(self) -> list[Misfit]:
        """Where it is known not to fit."""
        found = []
        if (sizes := self.limits.sizes(self.cluster)) and self.device > max(sizes):
            found.append(Misfit("device", self.device, max(sizes)))
        if self.limits.server is not None and self.server > self.limits.server:
            found.append(Misfit("server", self.server, self.limits.server))
        return found

    def refusal(self, misfit: Misfit) -> str:
        """Why it is refused, and what would fit."""
        counted = misfit.where == "server" or self.limits.activations is not None
        before = "" if counted else " before any activation"
        changes = self._on_device(misfit) if misfit.where == "device" else self._on_servers(misfit)
        would = next((f"; {what} would fit" for what in changes), "")
        return (
            f"{self.strategy.label!r} does not fit into the {format_bytes(misfit.has)} of a "
            f"{misfit.where}: it needs {format_bytes(misfit.needs)}{before}{would} "
            "(to simulate it anyway: memory.exceeded: mark)"
        )

    def _on_device(self, misfit: Misfit) -> Iterator[str]:
        """Changes with which it fits its device, the smallest first."""
        last, how = self, ""
        for settings in self.strategy.lighter:
            try:
                strategy = type(self.strategy).model_validate({**dict(self.strategy), **settings})
                strategy.check(self.cluster)
                strategy.check_workload(self.workload)
            except ValueError:
                continue
            last = self._replace(strategy=strategy)
            how = ", ".join(f"{key}: {value}" for key, value in settings.items())
            if last.device <= misfit.has:
                yield how
        if last.strategy.traits.shards:
            count = last._least_workers(misfit.has)
            if count <= _MOST_WORKERS:
                yield " with ".join(filter(None, [how, f"cluster.workers: {count}"]))
        if not self.workload.sized and self.workload.bytes_per_parameter > 2:
            halves = self.workload.model_copy(update={"bytes_per_parameter": 2})
            if self._replace(workload=halves).device <= misfit.has:
                yield "workload.bytes_per_parameter: 2"
        large = [one for one in presets.devices().values() if max(one.memory) >= misfit.needs]
        if large and self.cluster.device is not None:
            least = min(large, key=lambda one: max(one.memory))
            yield f"cluster.device: {least.name}, with {format_bytes(max(least.memory))},"

    def _least_workers(self, room: float) -> int:
        """The fewest workers whose shards fit; more than there may be where no number does."""

        def fits(count: int) -> bool:
            cluster = self.cluster.model_copy(update={"workers": count})
            return self._replace(cluster=cluster).device <= room

        counts = range(1, _MOST_WORKERS + 1)
        return 1 + bisect_left(counts, True, key=fits)

    def _on_servers(self, misfit: Misfit) -> Iterator[str]:
        """Changes with which it fits its servers, the smallest first."""
        own = self.strategy.on
        count = self.cluster.parameter_servers
        more = range(count + 1, count + _MOST_MORE_SERVERS)
        tried: list[tuple[str, object]] = [("placement", "partitioned")]
        for key, value in [*tried, *(("parameter_servers", number) for number in more)]:
            try:
                cluster = Cluster.model_validate({**dict(self.cluster), key: value})
            except ValidationError:
                continue
            if self._replace(cluster=cluster).server <= misfit.has:
                yield f"{'cluster' if getattr(own, key, None) is None else 'on'}.{key}: {value}"
