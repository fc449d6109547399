"""What fails in a cluster, how often, and what a failure takes with it: keys of a scenario."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationInfo,
    model_validator,
)

from varsim.cluster.description import Cluster
from varsim.cluster.topology.nodes import Nodes
from varsim.cluster.topology.racks import Racks
from varsim.units import Seconds, format_seconds
from varsim.values import presets
from varsim.values.csv_file import CsvRow, file_or, named_in, rows_of
from varsim.values.distribution import Exponential
from varsim.values.distributions import AnyDistribution, Distribution
from varsim.values.schema import Grown, Model

# Part of the key of a domain's random streams: append, never renumber.
DOMAINS: Final = {"worker": 0, "node": 1, "rack": 2, "link": 3, "server": 4}
Domain: TypeAlias = Literal["worker", "node", "rack", "link", "server"]
RecordedFailure: TypeAlias = Annotated[
    tuple[Annotated[float, Field(gt=0)], Domain, NonNegativeInt], Field(strict=False)
]
_HEADER: Final = ("seconds", "domain", "member")
_RATES: Final = ("mtbf", "per_day", "preset", "law")
_DAY: Final = 86_400.0


def _fixed(given: object) -> object:
    """A time alone is a law of which every draw is the same."""
    if isinstance(given, dict | Distribution):
        return given
    if re.match(r"-|0+(\.0*)?([^\d.]|$)", str(given)):
        raise ValueError(
            f"{given} is no repair: give a time above 0, or leave it out (back at once)"
        )
    return {"kind": "constant", "value": given}


def members(domain: Domain, cluster: Cluster, workers: int) -> int:
    """How many there are of a domain; ValueError where the network has none."""
    machines = cluster.network.machines(workers)
    if domain == "worker":
        return workers
    if domain == "link":
        return machines
    if domain == "server":
        return cluster.parameter_servers
    if domain == "node":
        if not isinstance(cluster.network, Nodes):
            raise ValueError(
                f"domain: a network of kind {cluster.network.kind} has no nodes of several "
                "workers, each is a machine of its own: say worker"
            )
        return machines
    if not isinstance(cluster.network, Racks):
        raise ValueError(f"domain: a network of kind {cluster.network.kind} has no racks")
    return -(-machines // cluster.network.hosts_per_rack)


def hosts(domain: Domain, cluster: Cluster, workers: int, member: int) -> range:
    """The machines that a failure of one member of a domain takes; servers' after the workers'."""
    if domain == "server":
        server = cluster.network.machines(workers) + member
        return range(server, server + 1)
    if domain == "worker":
        host = member // cluster.workers_of_a_host
        return range(host, host + 1)
    if domain in ("node", "link"):
        return range(member, member + 1)
    assert isinstance(cluster.network, Racks)
    each, machines = cluster.network.hosts_per_rack, cluster.network.machines(workers)
    return range(member * each, min((member + 1) * each, machines))


Repair: TypeAlias = Annotated[AnyDistribution, BeforeValidator(_fixed)]


class FailureSource(Grown):
    """What fails: each member of a `domain` on its own, again and again.

    `mtbf`: mean time between failures of one member, exponential; or `per_day`: failures of one
    member in a day; or `preset`, as often as was published of machines; or `law`: any law of the
    time from one failure to the next (weibull, trace). A failure of a node or a rack takes all its
    workers, one of a link the host that it belongs to. `repair`: how long a failed host is away
    after it was detected, a time or a law of times; without it a host is back at once.
    """

    later: ClassVar[tuple[str, ...]] = ("preset",)

    domain: Domain
    """What fails as a whole; `link`: the link of a host, without which it is out of reach;
    `server`: a parameter server, with all that it holds."""
    mtbf: Seconds | None = Field(None, gt=0)
    """Mean time between failures of one member, exponential."""
    per_day: float | None = Field(None, gt=0)
    """Failures of one member per day, exponential."""
    preset: str | None = None
    """As often as the machines of some operator failed, exponential: `varsim list failures`."""
    law: AnyDistribution | None = None
    """Law of the time from one failure of a member to its next."""
    repair: Repair | None = None
    """How long a failed host is away once that is noticed; left out: it is back at once."""

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        given = [one for one in _RATES if getattr(self, one) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}: each says how often it fails")
        if not given:
            raise ValueError(f"say how often it fails: one of {', '.join(_RATES)}")
        for name, law in (("law", self.law), ("repair", self.repair)):
            check_no_batches(name, law)
        if self.preset is not None:
            presets.failures(self.preset)
            if self.domain not in ("worker", "node"):
                raise ValueError(
                    f"preset: what is published is of machines, not of a {self.domain}: say "
                    "domain worker or node, or give mtbf or per_day"
                )
        return self

    @property
    def between(self) -> Distribution:
        """Law of the time from one failure of a member to its next."""
        if self.law is not None:
            return self.law
        often = self.per_day
        if self.preset is not None:
            often = presets.failures(self.preset).per_day
        mean = _DAY / often if often is not None else self.mtbf
        assert mean is not None
        return Exponential(mean=mean)

    def check(self, cluster: Cluster, workers: int) -> None:
        """Raise ValueError where there is no such member, or a preset is of other machines."""
        members(self.domain, cluster, workers)
        if self.preset is None:
            return
        known, each = presets.failures(self.preset), cluster.workers_of_a_host
        if self.domain == "worker":
            if each == 1 and cluster.device is None:
                return  # a worker may be a whole machine
            each = 1
        if each != known.gpus:
            raise ValueError(
                f"preset: {self.preset} is of machines of {known.gpus} GPUs, and a {self.domain} "
                f"here has {each}: give per_day, for example "
                f"{known.per_day * each / known.gpus:.3g}"
            )


def check_no_batches(name: str, law: Distribution | None) -> None:
    """Raise ValueError where a law of times of hosts depends on what is computed on them."""
    if law is not None and law.needs_batch:
        raise ValueError(f"{name}: a law that depends on the batch says nothing of hosts")


class RecordedFailures(Model):
    """Failures that happened, played back: when (s of the life of the job), which domain, member.

    From a CSV file with the header `seconds,domain,member`, members numbered from 0, looked for
    beside the scenario. What was read is kept in `failures`, so that a resolved scenario needs no
    file; where these are given, `file` only says where they came from. `repair`: as of what fails
    at random.
    """

    # A key -> what is read from it, and out of date where another is put in its place.
    read_from: ClassVar[Mapping[str, str]] = {"file": "failures"}

    file: str | None = None
    """CSV file with the header `seconds,domain,member`, beside the scenario."""
    failures: Annotated[tuple[RecordedFailure, ...], Field(min_length=1, strict=False)]
    """The failures themselves, `[seconds, domain, member]` each, instead of a file."""
    repair: Repair | None = None
    """How long a failed host is away once that is noticed; left out: it is back at once."""

    model_config = ConfigDict(json_schema_extra=file_or("failures"))

    @model_validator(mode="before")
    @classmethod
    def _read_the_file(cls, data: object, info: ValidationInfo) -> object:
        if not isinstance(data, Mapping) or "failures" in data:
            return data
        path = named_in(data, info, "failures", _HEADER)
        rows = list(rows_of(path, _HEADER, "failures"))
        for line, row in enumerate(rows, 2):  # so that each is found by its number
            if row.line != line:
                raise ValueError(f"{path}, line {line} is empty: leave it out")
        return {**data, "failures": tuple(map(_recorded, rows))}

    @model_validator(mode="after")
    def _repair_of_hosts(self) -> Self:
        check_no_batches("repair", self.repair)
        return self

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Those of which some member fails."""
        return tuple(sorted({domain for _, domain, _ in self.failures}, key=DOMAINS.__getitem__))

    def check(self, horizon: float | None, cluster: Cluster, workers: int) -> None:
        """Raise ValueError where one that fails is not there, or all come after a horizon."""
        for index, (_, domain, member) in enumerate(self.failures):
            there = members(domain, cluster, workers)
            if member >= there:
                place = (
                    f"failures.{index}" if self.file is None else f"{self.file}, line {index + 2}"
                )
                raise ValueError(
                    f"{place}: {domain} {member}, but there are {there}, numbered from 0"
                )
        first = min(self.failures)[0]
        if horizon is not None and first > horizon:
            raise ValueError(
                f"no failure comes before the horizon: the first is at {format_seconds(first)}"
            )


def _recorded(row: CsvRow) -> tuple[float, str, int]:
    seconds, domain, member = row.fields
    if domain not in DOMAINS:
        raise ValueError(f"{row.place}: domain must be one of {', '.join(DOMAINS)}, not {domain!r}")
    return row.number(seconds, "seconds"), domain, row.whole(member, "member")
