"""The cluster as a scenario describes it, and the rule by which a run stops."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Literal

from pydantic import Field, PositiveInt, ValidationError

from varsim.cluster.description.device import Device
from varsim.cluster.description.servers import AnyPartitioner, Overheads, ServerUpdate
from varsim.cluster.description.stragglers import (
    SlowWorker,
    Straggler,
    check_ranks,
    stragglers,
)
from varsim.cluster.network.topologies import AnyTopology, Nodes
from varsim.core import presets
from varsim.core.distribution import Constant, Lognormal
from varsim.core.distributions import AnyDistribution, Correlated, Distribution
from varsim.core.refusal import Refusal, RefusalError, no_effect, refused
from varsim.core.schema import Model
from varsim.core.units import Seconds
from varsim.learning.workload import Workload

_MOST_HOSTS: Final = 1_000_000
# A backward pass has two products where the forward pass has one.
_BACKWARD_SHARE: Final = 2 / 3


class Cluster(Model):
    """Workers, their compute times, parameter servers and the network between them.

    With `servers_on: workers` server i is on machine i of the workers (of nodes, on a node), and
    what stays on a machine costs no network. Gradients that are sent while the backward pass runs
    are ready within it; an all-reduce of them may then be slower than its links (`overlap_pace`),
    as the kernels of both share the GPUs and their bus.
    """

    workers: PositiveInt
    """How many workers, each with one replica."""
    device: Device | None = None
    """What the workers compute on, instead of `compute`: a preset's name, or a preset or peak with
    details."""
    compute: AnyDistribution | None = None
    """Distribution of one worker's step times (of one micro-batch)."""
    slow_workers: tuple[SlowWorker, ...] = ()
    """Workers that are slower than the others."""
    parameter_servers: PositiveInt = 1
    """How many servers share the variables."""
    placement: Literal["partitioned", "round_robin", "by_bytes"] = "partitioned"
    """How variables are laid on servers: cut evenly over all, whole in turn, or the largest first
    to the emptiest."""
    partitioner: AnyPartitioner | None = None
    """What cuts tensors into parts that are placed as tensors of their own."""
    servers_on: Literal["dedicated", "workers"] = "dedicated"
    """Whether servers have machines of their own or run on those of the workers."""
    network: AnyTopology
    """The links between the machines, and how they are shared."""
    overheads: Overheads | None = None
    """What a real runtime adds to computation and network; nothing unless given."""
    server_update: ServerUpdate | None = None
    """How long a server takes to apply or add a gradient; no time unless given."""
    backward_share: float | None = Field(None, gt=0, le=1)
    """Share of a compute time that is the backward pass; by default 2/3, or what `compute` says.
    """
    optimizer_time: Seconds | None = Field(None, gt=0)
    """Time in which a worker updates its own copy (`on_write`, `on_read`, `single`); counts as
    compute."""
    overlap_pace: float | None = Field(None, gt=0, le=1)
    """Share of its pace that an all-reduce keeps beside computation, with `overlap`; by default 1.
    """

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect(
            "partitioner",
            "placement: partitioned",
            "it cuts every tensor over all servers",
            "choose round_robin or by_bytes",
        ),
    )

    def refusals(self) -> Iterator[RefusalError | str]:
        for key in ("workers", "parameter_servers"):
            if getattr(self, key) > _MOST_HOSTS:
                yield refused(key, f": at most {_MOST_HOSTS:,} can be simulated")
        if (self.device is None) == (self.compute is None):
            yield "give either compute (a distribution of compute times) or device"
        check_ranks(self.workers, self.slow_workers, self.network)
        self.network.check_workers(self.workers)
        self._check_servers_on()
        if isinstance(self.compute, Correlated) and isinstance(self.network, Nodes):
            size, there = self.compute.workers_per_node, self.workers_of_a_host
            if size not in (None, there):
                yield refused(
                    "compute.workers_per_node", f"is {size}, but a node of the network has {there}"
                )
        said = None if self.compute is None else self.compute.backward_share()
        if self.backward_share is not None and said is not None:
            yield refused(
                "backward_share", "has no effect: compute says how long the backward pass takes"
            )

    @property
    def stragglers(self) -> tuple[Straggler, ...]:
        """The slow workers one by one, an entry for each slowdown of each."""
        return stragglers(self.slow_workers, self.workers, self.network)

    @property
    def share_of_backward(self) -> float:
        """How much of a compute time is the backward pass."""
        said = None if self.compute is None else self.compute.backward_share()
        return said or self.backward_share or _BACKWARD_SHARE

    @property
    def workers_of_a_host(self) -> int:
        """Workers on one machine."""
        return self.network.workers_per_node if isinstance(self.network, Nodes) else 1

    @property
    def set_up(self) -> int:
        """How long (ns) a worker needs before it works, also when it begins again."""
        return 0 if self.overheads is None else round(self.overheads.first_iteration * 1e9)

    @property
    def device_memory(self) -> tuple[float, ...]:
        """Bytes of memory of a worker's device, of every size it comes in; none if not known."""
        if self.device is None or self.device.preset is None:
            return ()
        return presets.device(self.device.preset).memory

    def _check_servers_on(self) -> None:
        """Raise ValueError where servers share the machines of workers and cannot."""
        if self.servers_on == "dedicated":
            return
        machines = self.network.machines(self.workers)
        if self.parameter_servers > machines:
            raise refused(
                "parameter_servers",
                f"{self.parameter_servers}: servers_on workers puts one on each "
                f"machine of workers, and there are {machines}",
            )
        if self.network.says_of_servers:
            raise refused(
                "network.server_bandwidth",
                "has no effect: with servers_on workers, servers use the links of the workers",
            )

    def compute_distribution(self, workload: Workload) -> Distribution:
        """The distribution of one worker's compute times, before slow workers."""
        if self.compute is not None:
            return self.compute.for_batch(workload.batch_size)
        assert self.device is not None
        return self.device.compute_distribution(workload)

    def with_distribution_alone(self, workload: Workload, speed: float = 1.0) -> "Cluster":
        """The cluster with compute times for its device, so many times as fast; as is without."""
        if self.device is None:
            return self
        distribution = self.device.compute_distribution(workload)
        assert isinstance(distribution, Constant | Lognormal)
        key = "value" if isinstance(distribution, Constant) else "mean"
        distribution = distribution.model_copy(update={key: distribution.expectation() / speed})
        return self.model_copy(update={"device": None, "compute": distribution})

    def doubt(self, workload: Workload) -> str:
        """Why the step time is no more than a guess; empty where it is none."""
        return "" if self.device is None else self.device.step_time(workload).doubt


class ClusterChange(Model):
    """What is different for one strategy of a comparison from the scenario's cluster."""

    parameter_servers: PositiveInt | None = None
    """Takes the place of the cluster's."""
    placement: Literal["partitioned", "round_robin", "by_bytes"] | None = None
    """Takes the place of the cluster's."""
    partitioner: AnyPartitioner | None = None
    """Takes the place of the cluster's."""
    servers_on: Literal["dedicated", "workers"] | None = None
    """Takes the place of the cluster's."""
    network: AnyTopology | None = None
    """Takes the place of the cluster's."""

    def refusals(self) -> Iterator[RefusalError | str]:
        if not self.model_fields_set:
            yield (
                "say what is different: parameter_servers, placement, partitioner, servers_on or "
                "network"
            )

    def check(self, *, uses_servers: bool, reduces: bool) -> None:
        """Raise ValueError where something is said of what the strategy does not do.

        That is to use servers, or to reduce something among workers.
        """
        if not reduces and self.network is not None and self.network.protocols is not None:
            raise refused(
                "on.network.protocols",
                "has no effect: the strategy reduces nothing among workers",
            )
        if uses_servers:
            return
        about_servers = ("parameter_servers", "placement", "partitioner", "servers_on")
        idle = [name for name in about_servers if getattr(self, name) is not None]
        if self.network is not None and self.network.says_of_servers:
            idle.append("network.server_bandwidth")
        for name in idle:
            raise refused(
                f"on.{name}",
                "has no effect: the strategy uses no parameter servers; on can change its network",
            )

    def applied_to(self, cluster: Cluster) -> Cluster:
        """The cluster with these changes; RefusalError where it cannot have them."""
        changes = {
            name: value
            for name in type(self).model_fields
            if (value := getattr(self, name)) is not None
        }
        try:
            return Cluster.model_validate({**dict(cluster), **changes})
        except ValidationError as error:
            (why,) = (one["ctx"]["error"] for one in error.errors())
            own = isinstance(why, RefusalError) and not changes.keys().isdisjoint(why.path[:1])
            raise (why if own else RefusalError(str(why))).within("on") from None


class Stop(Model):
    """A run ends as soon as one of these holds.

    Where strategies put different numbers of gradients into one update, `global_steps` counts those
    of the largest, and the others run until they have applied as many examples. With `loss` every
    update is looked at; then another limit is needed as well.
    """

    global_steps: PositiveInt | None = None
    """After this many updates of the model."""
    examples: PositiveInt | None = None
    """After this many examples in applied gradients."""
    time: Seconds | None = Field(None, gt=0)
    """After this much simulated time."""
    loss: float | None = Field(None, ge=0)
    """At the first update with this loss or a lower one."""
    equal_examples: bool = True
    """With `global_steps`: all strategies apply as many examples as the one with the largest
    updates; else all make so many updates."""

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("equal_examples: false", "no global_steps", "no other limit counts updates"),
    )

    def refusals(self) -> Iterator[RefusalError | str]:
        if self.global_steps is None and self.examples is None and self.time is None:
            yield "give at least one of global_steps, examples, time"

    @property
    def most(self) -> tuple[float, float]:
        """How many updates and examples end a run; infinitely many where that is not said."""
        return (
            math.inf if self.global_steps is None else self.global_steps,
            math.inf if self.examples is None else self.examples,
        )

    def over_equal_examples(self, each: int) -> "Stop":
        """The same, with `each` examples for an update, instead of so many updates."""
        assert self.global_steps is not None
        limits = [self.global_steps * each] + ([] if self.examples is None else [self.examples])
        return self.model_copy(update={"global_steps": None, "examples": min(limits)})
