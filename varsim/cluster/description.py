"""The cluster as a scenario describes it: workers, their compute times, servers and network."""

from collections.abc import Iterable
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, PositiveInt, model_validator

from varsim import presets
from varsim.cluster.overheads import Overheads
from varsim.schema import Model
from varsim.units import BytesPerSecond, FlopsPerSecond, Seconds
from varsim.values.law import AnyLaw, Law
from varsim.values.laws.simple import Constant
from varsim.values.workload import Workload

_MOST_HOSTS: Final = 100_000


def _or_its_name(schema: dict[str, Any]) -> None:
    """A device may be written as the name of its preset alone."""
    described = dict(schema)
    schema.clear()
    schema["anyOf"] = [described, {"type": "string", "description": "name of a preset"}]


class Device(Model):
    """What computes: a preset by name, or a peak rate; `efficiency` is the share of it reached."""

    model_config = ConfigDict(json_schema_extra=_or_its_name)

    preset: str | None = None
    precision: Literal["fp32", "tf32", "fp16", "bf16"] | None = None
    peak: FlopsPerSecond | None = None
    efficiency: float = Field(0.4, gt=0, le=1)

    @model_validator(mode="before")
    @classmethod
    def _a_name_is_a_preset(cls, value: object) -> object:
        return {"preset": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_source_of_the_peak(self) -> Self:
        if (self.preset is None) == (self.peak is None):
            raise ValueError("give either a preset or a peak")
        if self.preset is None:
            if self.precision is not None:
                raise ValueError("precision chooses a rate of a preset; with a peak it has no use")
            if self.peak is not None and self.peak <= 0:
                raise ValueError("peak must be above 0")
        else:
            presets.device_peak(self.preset, self.precision or "fp32")
        return self

    @property
    def rate(self) -> float:
        """FLOP/s that a training step reaches."""
        if self.preset is None:
            assert self.peak is not None
            return self.peak * self.efficiency
        return presets.device_peak(self.preset, self.precision or "fp32") * self.efficiency


class SlowWorker(Model):
    """A straggler: its compute takes `factor` times as long, always or between two times.

    Where several entries for one rank overlap in time, their factors multiply.
    """

    rank: int = Field(ge=0)
    factor: float = Field(gt=0)
    after: Seconds = Field(0.0, ge=0)
    until: Seconds | None = None

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        if self.until is not None and self.until <= self.after:
            raise ValueError("until must be later than after")
        return self


class SlowLink(Model):
    """A worker whose link, both ways, has 1/factor of the bandwidth of the others."""

    rank: int = Field(ge=0)
    factor: float = Field(gt=0)


class Star(Model):
    """Every host has its own up and down link to one switch.

    `bandwidth` is each worker's, per direction; `server_bandwidth` each server's (default: the
    same). `sharing: fair` splits a link evenly between the hosts using it (max-min over whole
    routes); `first_come` serves one message after the other.
    """

    kind: Literal["star"] = "star"
    preset: str | None = None
    bandwidth: BytesPerSecond | None = None
    latency: Seconds | None = Field(None, ge=0)
    server_bandwidth: BytesPerSecond | None = None
    sharing: Literal["fair", "first_come"] = "fair"
    slow_links: tuple[SlowLink, ...] = ()

    @model_validator(mode="after")
    def _known_rates(self) -> Self:
        if (self.preset is None) == (self.bandwidth is None):
            raise ValueError("give either a preset or a bandwidth")
        for value in (self.bandwidth, self.server_bandwidth):
            if value is not None and value <= 0:
                raise ValueError("a bandwidth must be above 0")
        preset = None if self.preset is None else presets.link(self.preset)
        if self.latency is None and (preset is None or preset.latency is None):
            raise ValueError("latency is missing (for example latency: 20 us)")
        return self

    @property
    def worker_rate(self) -> float:
        """Bytes/s of a worker's link, per direction."""
        if self.bandwidth is not None:
            return self.bandwidth
        assert self.preset is not None
        return presets.link(self.preset).bandwidth

    def rate_of(self, rank: int) -> float:
        """Bytes/s of the link of one worker, per direction."""
        rate = self.worker_rate
        for slow in self.slow_links:
            if slow.rank == rank:
                rate /= slow.factor
        return rate

    @property
    def server_rate(self) -> float:
        """Bytes/s of a server's link, per direction."""
        return self.server_bandwidth if self.server_bandwidth is not None else self.worker_rate

    @property
    def delay(self) -> float:
        """Seconds from host to host for a message of no length."""
        if self.latency is not None:
            return self.latency
        assert self.preset is not None
        latency = presets.link(self.preset).latency
        assert latency is not None
        return latency


class Cluster(Model):
    """Workers, their compute times, parameter servers and the network between them.

    Without `compute` a step takes FLOPs / device rate. `placement` says how variables lie on the
    parameter servers: `partitioned` (every tensor cut evenly over all), `round_robin` (whole
    tensors in turn) or `by_bytes` (whole tensors, largest first, to the emptiest server).
    `overheads`: what a real runtime adds to all this; without them, nothing.
    """

    workers: PositiveInt
    device: Device | None = None
    compute: AnyLaw | None = None
    slow_workers: tuple[SlowWorker, ...] = ()
    parameter_servers: PositiveInt = 1
    placement: Literal["partitioned", "round_robin", "by_bytes"] = "partitioned"
    network: Star
    overheads: Overheads | None = None

    @model_validator(mode="after")
    def _ranks_exist(self) -> Self:
        if max(self.workers, self.parameter_servers) > _MOST_HOSTS:
            raise ValueError(f"at most {_MOST_HOSTS} workers or servers can be simulated")
        if (self.device is None) == (self.compute is None):
            raise ValueError("give either compute (a law of compute times) or device")
        check_ranks(self.workers, (*self.slow_workers, *self.network.slow_links))
        return self

    def law(self, workload: Workload) -> Law:
        """The law of one worker's compute times, before slow workers."""
        if self.compute is not None:
            return self.compute
        assert self.device is not None
        flops = workload.flops_per_example() * workload.batch_size
        return Constant(value=flops / self.device.rate)

    def without_servers(self) -> "Cluster":
        """The cluster with nothing said about servers."""
        network = self.network.model_copy(update={"server_bandwidth": None})
        changes = {"parameter_servers": 1, "placement": "partitioned", "network": network}
        return self.model_copy(update=changes)

    def subject_to(self, names: frozenset[str]) -> "Cluster":
        """The cluster with only these of its overheads."""
        if self.overheads is None:
            return self
        kept = self.overheads.only(names)
        return self.model_copy(update={"overheads": kept if kept.given else None})

    def check_overheads(self, names: frozenset[str]) -> None:
        """Raise ValueError where there is an overhead besides these, which are all that count."""
        for name in () if self.overheads is None else self.overheads.given:
            if name not in names:
                raise ValueError(
                    f"cluster.overheads.{name} has no effect: it occurs in none of the strategies"
                )

    def check_no_servers(self) -> None:
        """Raise ValueError where something is said of servers that nobody uses."""
        for key, idle in (
            ("parameter_servers", self.parameter_servers == 1),
            ("placement", self.placement == "partitioned"),
            ("network.server_bandwidth", self.network.server_bandwidth is None),
        ):
            if not idle:
                raise ValueError(
                    f"cluster.{key} has no effect: none of the strategies uses parameter servers"
                )


def check_ranks(workers: int, slow: Iterable[SlowWorker | SlowLink]) -> None:
    """Raise ValueError for a rank that no worker has."""
    for entry in slow:
        if entry.rank >= workers:
            raise ValueError(
                f"rank {entry.rank} does not exist: {workers} workers have ranks 0 to {workers - 1}"
            )


class ClusterChange(Model):
    """What one strategy of a comparison has different from the scenario's cluster."""

    parameter_servers: PositiveInt | None = None
    placement: Literal["partitioned", "round_robin", "by_bytes"] | None = None
    network: Star | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.parameter_servers is None and self.placement is None and self.network is None:
            raise ValueError("say what is different: parameter_servers, placement or network")
        return self

    def check(self, *, uses_servers: bool) -> None:
        """Raise ValueError where something is said of servers that the strategy does not use."""
        about_servers = self.parameter_servers is not None or self.placement is not None
        if self.network is not None and self.network.server_bandwidth is not None:
            about_servers = True
        if about_servers and not uses_servers:
            raise ValueError("the strategy uses no parameter servers; on can change its network")

    def applied_to(self, cluster: Cluster) -> Cluster:
        """The cluster with these changes."""
        changes = {
            name: value
            for name in type(self).model_fields
            if (value := getattr(self, name)) is not None
        }
        return Cluster.model_validate({**dict(cluster), **changes})
