"""Random failures of a job, its checkpoints, and how it comes back: the keys of a scenario."""

import math
from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    NonNegativeInt,
    Tag,
    model_validator,
)

from varsim.cluster.description import Cluster
from varsim.cluster.events import ProcessEvent
from varsim.cluster.stop import Stop
from varsim.cluster.topology.base import Topology
from varsim.cluster.topology.nodes import Nodes
from varsim.cluster.topology.racks import Racks
from varsim.units import BytesPerSecond, Seconds
from varsim.values.distribution import Exponential
from varsim.values.distributions import AnyDistribution, Distribution
from varsim.values.schema import Model

# Part of the key of a domain's random streams: append, never renumber.
DOMAINS: Final = {"worker": 0, "node": 1, "rack": 2}
_DAY: Final = 86_400.0
# So many failures are followed in a few seconds.
_MOST: Final = 1_000_000
LONGEST: Final = 1.5e9  # seconds (48 years): sums of several fit into 63 bits of ns


def _known_domain(given: object) -> object:
    """Domains that are not there yet say so."""
    if given in ("server", "link"):
        raise ValueError(
            f"failures of a {given} are not there yet, only those of a worker, a node or a rack"
        )
    return given


def _fixed(given: object) -> object:
    """A time alone is a law of which every draw is the same."""
    return given if isinstance(given, dict | Distribution) else {"kind": "constant", "value": given}


class FailureSource(Model):
    """What fails: each member of a `domain` for itself, again and again.

    `mtbf`: mean time between failures of one member, exponential; or `per_day`: failures of one
    member in a day; or `law`: any law of the time from one failure to the next (weibull, trace).
    A failure of a node or a rack takes all its workers. `repair`: how long a failed host is away
    after it was detected, a time or a law of times; without it a host is back at once.
    """

    domain: Annotated[Literal["worker", "node", "rack"], BeforeValidator(_known_domain)]
    """What fails as a whole."""
    mtbf: Seconds | None = Field(None, gt=0)
    """Mean time between failures of one member, exponential."""
    per_day: float | None = Field(None, gt=0)
    """Failures of one member in a day, exponential."""
    law: AnyDistribution | None = None
    """Law of the time from one failure of a member to its next."""
    repair: Annotated[AnyDistribution, BeforeValidator(_fixed)] | None = None
    """How long a failed host is away once that is noticed; left out: it is back at once."""

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if sum(one is not None for one in (self.mtbf, self.per_day, self.law)) != 1:
            raise ValueError("say how often it fails: one of mtbf, per_day, law")
        for name, law in (("law", self.law), ("repair", self.repair)):
            if law is not None and law.needs_batch:
                raise ValueError(f"{name}: a law that depends on the batch says nothing of hosts")
        return self

    @property
    def between(self) -> Distribution:
        """Law of the time from one failure of a member to its next."""
        if self.law is not None:
            return self.law
        mean = _DAY / self.per_day if self.per_day is not None else self.mtbf
        assert mean is not None
        return Exponential(mean=mean)

    def members(self, cluster: Cluster, workers: int) -> int:
        """How many of them there are; ValueError where the network has none."""
        machines = cluster.network.machines(workers)
        if self.domain == "worker":
            return workers
        if self.domain == "node":
            if not isinstance(cluster.network, Nodes):
                raise ValueError(
                    f"domain: a network of kind {cluster.network.kind} has no nodes of several "
                    "workers, each is a machine of its own: say worker"
                )
            return machines
        if not isinstance(cluster.network, Racks):
            raise ValueError(f"domain: a network of kind {cluster.network.kind} has no racks")
        return -(-machines // cluster.network.hosts_per_rack)

    def hosts(self, cluster: Cluster, workers: int, member: int) -> range:
        """The machines that a failure of one member takes."""
        if self.domain == "worker":
            host = member // cluster.workers_of_a_host
            return range(host, host + 1)
        if self.domain == "node":
            return range(member, member + 1)
        assert isinstance(cluster.network, Racks)
        each, machines = cluster.network.hosts_per_rack, cluster.network.machines(workers)
        return range(member * each, min((member + 1) * each, machines))


class RandomFailures(Model):
    """Failures at random, drawn from streams of their own: all strategies meet the same.

    `horizon`: for how long the life of a job is followed. Its steps are those that the run up to
    `stop` shows. `detection`: from a failure until it is noticed. `strike`: when members fail and
    age: `always`, also while the job is down (then detection and restart begin again); only
    `while_running`, at work or writing a checkpoint; or only `while_computing`.
    """

    horizon: Seconds = Field(gt=0, le=LONGEST)
    """For how long the life of the job is followed."""
    detection: Seconds = Field(0.0, ge=0)
    """From a failure until it is noticed."""
    strike: Literal["always", "while_running", "while_computing"] = "always"
    """When members age and fail."""
    of: tuple[FailureSource, ...] = Field(min_length=1)
    """What fails, and how often."""

    def rate(self, cluster: Cluster, workers: int) -> float:
        """Failures of the whole job per second, on average."""
        return math.fsum(
            one.members(cluster, workers) / one.between.expectation() for one in self.of
        )

    @property
    def memoryless(self) -> bool:
        """Whether the time to the next failure of the job is exponential."""
        return all(isinstance(one.between, Exponential) for one in self.of)


def _is_optimal(given: object) -> str:
    return "optimal" if given == "optimal" else "time"


Interval: TypeAlias = Annotated[
    Annotated[Annotated[Seconds, Field(gt=0)], Tag("time")]
    | Annotated[Literal["optimal"], Tag("optimal")],
    Discriminator(_is_optimal),
]


class Checkpoint(Model):
    """Checkpoints of a job: after `every` so much work, rounded up to the end of a step.

    `every: optimal` takes the interval that gives the most goodput under exponential failures.
    `write`: how long it takes to write one; or `storage`: one worker sends the parameters and the
    optimizer's state there, over its link, and reads them back in as long. In a write the job stops
    (`mode: blocking`), or goes on, its steps `slowdown` longer, after a `snapshot` in which it
    stops (`asynchronous`); a checkpoint counts when its write is complete. `restore`: how long a
    job that begins again reads the last one, beside what `storage` takes.
    """

    every: Interval
    """Work between two checkpoints; optimal: as much as keeps most."""
    write: Seconds | None = Field(None, ge=0)
    """How long one checkpoint is written."""
    storage: BytesPerSecond | None = Field(None, gt=0)
    """Instead of `write`: at what rate storage takes in parameters and optimizer state."""
    mode: Literal["blocking", "asynchronous"] = "blocking"
    """Whether the job stops for a write, or goes on beside it."""
    snapshot: Seconds = Field(0.0, ge=0)
    """How long the job stops before an asynchronous write."""
    slowdown: float = Field(0.0, ge=0)
    """How much longer steps take beside an asynchronous write, as a share."""
    restore: Seconds = Field(0.0, ge=0)
    """How long a job that begins again reads its last checkpoint."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.mode == "blocking":
            for name in ("snapshot", "slowdown"):
                if getattr(self, name):
                    raise ValueError(f"{name} has no effect: a blocking write stops the job")
        if (self.write is None) == (self.storage is None):
            raise ValueError("say how long a write takes: give either write or storage")
        if self.write is None:
            return self
        if self.every == "optimal":
            if not self.stops:
                raise ValueError(
                    "every: optimal needs a checkpoint that costs time (write, or of asynchronous "
                    "ones snapshot or slowdown): what costs nothing is done all the time"
                )
        elif self.every < self.lasts:
            raise ValueError(
                f"every is shorter than a write ({self.lasts:.4g} s): the next checkpoint would be "
                "due before this one is written"
            )
        return self

    @property
    def lasts(self) -> float:
        """How long a write takes (s)."""
        assert self.write is not None, "storage says nothing without what is written"
        return self.write

    def through(self, network: Topology, size: float) -> "Checkpoint":
        """The same with the time that so many bytes take to the storage, and back."""
        if self.storage is None:
            return self
        taken = network.delay + size / min(self.storage, network.worker_rate)
        changes = {"write": taken, "storage": None, "restore": self.restore + taken}
        return Checkpoint.model_validate({**dict(self), **changes})

    @property
    def beside(self) -> float:
        """Work (s) that is done beside an asynchronous write."""
        return 0.0 if self.mode == "blocking" else self.lasts / (1 + self.slowdown)

    @property
    def stops(self) -> float:
        """What one checkpoint costs in time (s)."""
        if self.mode == "blocking":
            return self.lasts
        return self.snapshot + self.lasts - self.beside

    def interval(self, failures: RandomFailures, rate: float, down: float) -> float:
        """Work (s) between checkpoints; `rate` of failures (1/s), `down` so long after each (s).

        The best, x of the mean time M between failures, has (1 - x) e^x = e^(-cost / M) (Daly,
        2006, by a renewal argument; Lambert's W); where only work can fail, 1 - cost / (M + down).
        """
        if self.every != "optimal":
            return self.every
        mean, cost = 1 / rate, self.stops
        alone = failures.strike == "while_computing"
        lost = cost / (mean + down) if alone else -math.expm1(-cost / mean)
        return max(mean * _root(lost), self.beside)


def _root(lost: float) -> float:
    """The x with (1 - x) e^x = 1 - `lost`, by Newton's method from above."""
    x = math.sqrt(2 * lost)
    while True:
        better = x - (x * math.exp(x) - math.expm1(x) - lost) / (x * math.exp(x))
        if not better < x * (1 - 1e-15):
            return x
        x = better


class Spares(Model):
    """Hosts that stand by: `hot` ones take over at once, `cold` ones after `swap`."""

    hot: NonNegativeInt = 0
    """Hosts that take over at once."""
    cold: NonNegativeInt = 0
    """Hosts that take over after a swap."""
    swap: Seconds = Field(0.0, ge=0)
    """How long a cold spare takes to take over."""

    @model_validator(mode="after")
    def _swap_what(self) -> Self:
        if self.swap and not self.cold:
            raise ValueError("swap has no effect: hot spares take over at once; give cold ones")
        return self


def _known_policy(given: object) -> object:
    """Policies that are not there yet say so."""
    if given in ("continue_with_fewer", "wait"):
        raise ValueError(
            f"{given} is not there yet: the only policy is restart, from the last checkpoint"
        )
    return given


class Recovery(Model):
    """What becomes of a job after a failure.

    `policy: restart`: the whole job begins again from its last complete checkpoint (or from the
    start), once every failed host is replaced by a spare or repaired, and `restart` later.
    """

    policy: Annotated[Literal["restart"], BeforeValidator(_known_policy)] = "restart"
    """What the job does after a failure."""
    restart: Seconds = Field(0.0, ge=0)
    """From when all hosts are there until the job works again."""
    spares: Spares | None = None
    """Hosts that stand by."""


def check_beside(events: Sequence[ProcessEvent], cluster: Cluster, stop: Stop) -> None:
    """Raise ValueError where something does not go with failures at random."""
    if events:
        raise ValueError(
            "events do not go with failures: either processes end at given times, or hosts fail at "
            "random"
        )
    if any(slow.after or slow.until for slow in cluster.slow_workers):
        raise ValueError(
            "failures do not go with cluster.slow_workers that are slow for a part of the time: "
            "all steps of a job must take the same time"
        )
    if (stop.global_steps or 2) < 2:
        raise ValueError(
            "stop.global_steps must be 2 or more: from these steps the life of a job is made"
        )


def check_life(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    recovery: Recovery,
    cluster: Cluster,
    workers: int,
) -> None:
    """Raise ValueError where a job cannot fail, be saved or come back like that."""
    for index, one in enumerate(failures.of):
        try:
            one.members(cluster, workers)
        except ValueError as error:
            raise ValueError(f"failures.of.{index}.{error}") from None
    expected = failures.horizon * failures.rate(cluster, workers)
    if expected > _MOST:
        raise ValueError(
            f"failures.horizon: about {expected:.2g} failures would be met, at most {_MOST:,} are "
            "followed: shorten it"
        )
    spares = recovery.spares
    if spares is not None:
        hosts = cluster.network.machines(workers)
        if spares.hot + spares.cold > hosts:
            raise ValueError(
                f"recovery.spares: {spares.hot + spares.cold} for {hosts} hosts that may fail; "
                f"at most {hosts}"
            )
        if not spares.model_fields_set:
            raise ValueError("recovery.spares has no effect: say how many are hot or cold")
        if all(one.repair is None for one in failures.of):
            raise ValueError(
                "recovery.spares has no effect: a host that fails is back at once, as nothing in "
                "failures.of says how long its repair takes"
            )
    if checkpoint is None:
        return
    if checkpoint.every == "optimal" and not failures.memoryless:
        raise ValueError(
            "checkpoint.every: optimal is known for exponential times between failures alone; "
            "give a time, or sweep over it"
        )
    if checkpoint.mode == "asynchronous" and failures.strike == "while_computing":
        raise ValueError(
            "failures.strike while_computing goes with blocking checkpoints: work goes on beside "
            "an asynchronous write"
        )
