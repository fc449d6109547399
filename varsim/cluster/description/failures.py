"""What fails in a cluster, at random, as recorded or on purpose: keys of a scenario."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    Tag,
    ValidationInfo,
    model_validator,
)

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.network.topologies import Nodes, Racks
from varsim.core import presets
from varsim.core.csv_file import CsvRow, FileError, file_or, header_of, named_in, rows_of
from varsim.core.distribution import Constant, Exponential
from varsim.core.distributions import AnyDistribution, Distribution, check_alone
from varsim.core.refusal import Refusal, RefusalError, no_effect, refused
from varsim.core.schema import Grown, Model
from varsim.core.units import Seconds, format_seconds


class WorkerName(Model):
    """A worker, by its rank."""

    worker: int = Field(ge=0)
    """Its rank."""


# The chief is worker 0's process: it has the update loop besides.
ProcessName: TypeAlias = WorkerName | Literal["chief"]


class ProcessEvent(Model):
    """At a given time a process is killed, restarts, or (the chief alone) ends in good order.

    It comes before all else that happens at that instant.
    """

    at: Seconds = Field(ge=0)
    """When."""
    kill: ProcessName | None = None
    """Whose process dies: `chief`, or `{worker: 3}`."""
    restart: ProcessName | None = None
    """Whose process restarts."""
    stop: Literal["chief"] | None = None
    """The chief ends in good order, and the run with it."""

    def refusals(self) -> Iterator[RefusalError | str]:
        if sum(name is not None for name in (self.kill, self.restart, self.stop)) != 1:
            yield "say what happens: one of kill, restart, stop"

    @property
    def process(self) -> ProcessName:
        """Whom it happens to."""
        found = self.kill or self.restart or self.stop
        assert found is not None
        return found

    @property
    def rank(self) -> int:
        """The worker whose process that is."""
        return self.process.worker if isinstance(self.process, WorkerName) else 0

    @property
    def cause(self) -> str:
        """What ends processes, in words."""
        return f"events ({self})"

    @property
    def ends_workers(self) -> bool:
        """Not at random."""
        return False

    def __str__(self) -> str:
        done = "killed" if self.kill else "restarted" if self.restart else "stopped"
        who = f"worker {self.rank}" if isinstance(self.process, WorkerName) else "the chief"
        return f"{who} is {done} at {self.at:.9g} s"


def refused_events(
    events: Sequence[ProcessEvent], workers: int, end: float | None
) -> Iterator[RefusalError]:
    """What of events cannot happen, one after the other, before `end` (s)."""
    dead: set[int] = set()
    before: ProcessEvent | None = None
    for index, event in enumerate(events):
        if why := _impossible(event, before, event.rank in dead, workers, end):
            yield refused(f"events.{index}", f": {why}")
            continue
        before = event
        if event.restart is None:
            dead.add(event.rank)
        else:
            dead.remove(event.rank)


def _impossible(
    event: ProcessEvent, before: ProcessEvent | None, dead: bool, workers: int, end: float | None
) -> str:
    """Why an event cannot happen after the one before, to one who is dead or not; or nothing."""
    rank = event.rank
    if rank >= workers:
        ranks = f"ranks go from 0 to {workers - 1} (workers: {workers})"
        return f"worker {rank} does not exist: {ranks}"
    if before is not None and event.at < before.at:
        return (
            f"{event}, but comes after one of a later time; put events in the order of their times"
        )
    if before is not None and before.stop is not None:
        return f"{event}, but {before}, which ends the run"
    if end is not None and event.at >= end:
        return f"{event}, when the run is over (stop.time)"
    if dead and event.restart is None:
        return f"{event}, but is dead already"
    if not dead and event.restart is not None:
        return f"{event}, but is not dead then"
    return ""


# Part of the key of a domain's random streams: append, never renumber.
DOMAINS: Final = {"worker": 0, "node": 1, "rack": 2, "link": 3, "server": 4}
Domain: TypeAlias = Literal["worker", "node", "rack", "link", "server"]
_Moment: TypeAlias = Annotated[float, Field(gt=0)]
_Begun: TypeAlias = Annotated[tuple[_Moment, Domain, NonNegativeInt], Field(strict=False)]
_Ended: TypeAlias = Annotated[
    tuple[_Moment, Domain, NonNegativeInt, _Moment | None], Field(strict=False)
]


def _has_end(given: object) -> str:
    return "ended" if isinstance(given, list | tuple) and len(given) == 4 else "begun"


RecordedFailure: TypeAlias = Annotated[
    Annotated[_Begun, Tag("begun")] | Annotated[_Ended, Tag("ended")], Discriminator(_has_end)
]
_HEADER: Final = ("seconds", "domain", "member")
# What columns of a file are called; of those in days a name ends so.
_COLUMNS: Final = (("seconds", "start_day"), ("domain",), ("member", "node"), ("until", "end_day"))
_IN_DAYS: Final = "_day"
_RATES: Final = ("mtbf", "per_day", "preset", "distribution")
_DAY: Final = 86_400.0


def _fixed(given: object) -> object:
    """A time alone is a distribution of which every draw is the same."""
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
            raise refused(
                "domain",
                f": a network of kind {cluster.network.kind} has no nodes of several "
                "workers, each is a machine of its own: say worker",
            )
        return machines
    if not isinstance(cluster.network, Racks):
        raise refused("domain", f": a network of kind {cluster.network.kind} has no racks")
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


class Lemons(Model):
    """Members that fail more often than the others: each is one with probability `share`.

    Which they are is drawn anew in every replication. A lemon fails `times` as often, at the same
    draws; a repair does not change it, and what takes its place fails as it did.
    """

    share: float = Field(gt=0, lt=1)
    """Probability that a member is a lemon."""
    times: float = Field(gt=1)
    """How many times as often a lemon fails as the others, whose rate is the one that is given."""


class Mistaken(Model):
    """Failures after which the wrong member is taken away and repaired: the fault stays.

    That is another one of its domain, any with the same probability, and stops working when the
    fault strikes. The faulty one is back at once, and strikes `again`, until it is found, or taken
    away for something else.
    """

    share: float = Field(gt=0, lt=1)
    """Probability that the wrong one is taken away, at each strike of a fault."""
    again: Repair
    """From one strike of a fault that stays to its next."""


class FailureSource(Grown):
    """What fails: each member of a `domain` on its own, again and again.

    How often says one of `mtbf`, `per_day`, `preset` and `distribution`. A failure of a node or a
    rack takes all its workers, one of a link the host that it belongs to.
    """

    later: ClassVar[tuple[str, ...]] = ("preset", "lemons", "mistaken")

    domain: Domain
    """What fails as a whole; `link`: the link of a host, without which it is out of reach;
    `server`: a parameter server, with all that it holds."""
    mtbf: Seconds | None = Field(None, gt=0)
    """Mean time between failures of one member, exponential."""
    per_day: float | None = Field(None, gt=0)
    """Failures of one member per day, exponential."""
    preset: str | None = None
    """As often as the machines of some operator failed, exponential: `varsim list failures`."""
    distribution: AnyDistribution | None = None
    """Distribution of the time from one failure of a member to its next (weibull, trace, ...)."""
    repair: Repair | None = None
    """How long a failed host is away once that is noticed; left out: it is back at once."""
    lemons: Lemons | None = None
    """Members that fail more often than the others."""
    mistaken: Mistaken | None = None
    """Failures after which the wrong member is repaired, and the fault stays."""
    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("mistaken", "no repair", "whatever is taken away is back at once"),
    )

    def refusals(self) -> Iterator[RefusalError | str]:
        given = [one for one in _RATES if getattr(self, one) is not None]
        if len(given) > 1:
            yield f"give one of {' and '.join(given)}: each says how often it fails"
        if not given:
            yield f"say how often it fails: one of {', '.join(_RATES)}"
        for name, law in (("distribution", self.distribution), ("repair", self.repair)):
            check_no_batches(name, law)
        if self.mistaken is not None:
            check_no_batches("mistaken.again", self.mistaken.again)
        if self.preset is not None:
            presets.failures(self.preset)
            if self.domain not in ("worker", "node"):
                yield refused(
                    "preset",
                    f": what is published is of machines, not of a {self.domain}: say "
                    "domain worker or node, or give mtbf or per_day",
                )

    @property
    def between(self) -> Distribution:
        """Distribution of the time from one failure of a member to its next."""
        if self.distribution is not None:
            return self.distribution
        often = self.per_day
        if self.preset is not None:
            often = presets.failures(self.preset).per_day
        mean = _DAY / often if often is not None else self.mtbf
        assert mean is not None
        return Exponential(mean=mean)

    @property
    def rate(self) -> float:
        """Failures of one member per second, on average over lemons and others."""
        often = 1 / self.between.expectation()
        if self.lemons is not None:
            often *= 1 + self.lemons.share * (self.lemons.times - 1)
        return often if self.mistaken is None else often / (1 - self.mistaken.share)

    def check(self, cluster: Cluster, workers: int) -> None:
        """Raise ValueError where there is no such member, or a preset is of other machines."""
        if members(self.domain, cluster, workers) < 2 and self.mistaken is not None:
            raise refused(
                "mistaken", f": there is no other {self.domain} that could be taken for it"
            )
        if self.preset is None:
            return
        known, each = presets.failures(self.preset), cluster.workers_of_a_host
        if self.domain == "worker":
            if each == 1 and cluster.device is None:
                return  # a worker may be a whole machine
            each = 1
        if each != known.gpus:
            raise refused(
                "preset",
                f": {self.preset} is of machines of {known.gpus} GPUs, and a {self.domain} "
                f"here has {each}: give per_day, for example "
                f"{known.per_day * each / known.gpus:.3g}",
            )


def check_no_batches(name: str, law: Distribution | None) -> None:
    """Raise ValueError where times of hosts depend on what is computed on them."""
    if law is not None and check_alone(law, key=name).needs_batch:
        raise refused(name, ": a distribution that depends on the batch cannot describe hosts")


class RecordedFailures(Grown):
    """Failures that happened, played back: when (s of the life of the job), which domain, member.

    And, if that is known, until when it was away: then its host is repaired by that moment. One
    whose end is empty is not back. From a CSV file, looked for beside the scenario, members
    numbered from 0: its columns `seconds,domain,member`, and `until` if there are ends; or
    `node,start_day,end_day` in days, among any others, of the `domain` that is given. What was read
    is kept in `failures`, so that a resolved scenario needs no file; where these are given, `file`
    only says where they came from. There is a `repair` only if no ends are known.
    """

    # A key -> what is read from it, and out of date where another is put in its place.
    read_from: ClassVar[Mapping[str, str]] = {"file": "failures"}
    later: ClassVar[tuple[str, ...]] = ("domain", "since")

    file: str | None = None
    """CSV file with the columns `seconds,domain,member`, beside the scenario."""
    domain: Domain | None = None
    """What fails, of a file that has no column for it; default: worker."""
    since: Seconds = Field(0.0, ge=0)
    """When the job begins, by the clock of the record; what failed before is left out."""
    failures: Annotated[tuple[RecordedFailure, ...], Field(min_length=1, strict=False)]
    """The failures themselves, `[seconds, domain, member]` or `[..., until]`, instead of a file."""
    repair: Repair | None = None
    """How long a failed host is away once that is noticed; left out: it is back at once."""

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("domain", "no file", "each of failures says its own"),
    )

    model_config = ConfigDict(json_schema_extra=file_or("failures"))

    @model_validator(mode="before")
    @classmethod
    def _read_the_file(cls, data: object, info: ValidationInfo) -> object:
        if not isinstance(data, Mapping) or "failures" in data:
            return data
        return {**data, "failures": _read(named_in(data, info, "failures", _HEADER), data)}

    def refusals(self) -> Iterator[RefusalError | str]:
        check_no_batches("repair", self.repair)
        ends = {len(one) for one in self.failures}
        if len(ends) > 1:
            yield refused("failures", ": either each has an end (null: not back), or none has")
        if 4 in ends and self.repair is not None:
            yield refused("repair", "has no effect: each failure says until when it lasted")
        for index, (when, _, _, *end) in enumerate(self.failures):
            if end and end[0] is not None and end[0] <= when:
                yield f"{self._place(index)}: it ended at {end[0]:g} s, and began at {when:g} s"
        if not self.played:
            yield refused(
                "since",
                f": no failure comes after {format_seconds(self.since)}: the last is at "
                f"{format_seconds(max(one[0] for one in self.failures))}",
            )

    @property
    def played(self) -> tuple[tuple[float, Domain, int, float | None], ...]:
        """When (s since the job began), what, which, and until when: not back is infinity.

        The end is None where none is known of any.
        """
        return tuple(
            (
                when - self.since,
                domain,
                member,
                (math.inf if end[0] is None else end[0] - self.since) if end else None,
            )
            for when, domain, member, *end in self.failures
            if when > self.since
        )

    @property
    def repaired(self) -> Distribution | None:
        """Distribution of the repairs; where each has its own, a constant of their mean."""
        lasted = [end - when for when, _, _, end in self.played if end is not None]
        if not lasted:
            return self.repair
        known = [one for one in lasted if one < math.inf]
        return Constant(value=math.fsum(known) / len(known) if known else _DAY)

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Those of which some member fails."""
        return tuple(sorted({one[1] for one in self.played}, key=DOMAINS.__getitem__))

    def check(self, horizon: float | None, cluster: Cluster, workers: int) -> None:
        """Raise ValueError where one that fails is not there, or all come after a horizon."""
        for index, (_, domain, member, *_) in enumerate(self.failures):
            there = members(domain, cluster, workers)
            if member >= there:
                raise ValueError(
                    f"{self._place(index)}: {domain} {member}, but there are {there}, numbered "
                    "from 0"
                )
        first = min(one[0] for one in self.played)
        if horizon is not None and first > horizon:
            raise ValueError(
                f"no failure comes before the horizon: the first is at {format_seconds(first)}"
            )

    def _place(self, index: int) -> str:
        return f"failures.{index}" if self.file is None else f"{self.file}, line {index + 2}"


def _read(path: Path, data: Mapping[object, object]) -> tuple[tuple[object, ...], ...]:
    """The failures of a file, by the names of its columns."""
    header = header_of(path)
    begin, domain, member, end = (
        next((one for one in names if one in header), None) for names in _COLUMNS
    )
    if begin is None or member is None or (domain is None and begin == _HEADER[0]):
        raise ValueError(
            f"{path}, line 1: the header must be {','.join(_HEADER)} (and until, if ends are "
            "known), or have node, start_day and end_day"
        )
    if domain is not None and data.get("domain") is not None:
        raise refused("domain", f"has no effect: {path} has a column that says what fails")
    found = []
    for line, row in enumerate(rows_of(path, header, "failures"), 2):
        if row.line != line:  # so that each is found by its number
            raise ValueError(f"{path}, line {line} is empty: leave it out")
        of = dict(zip(header, row.fields, strict=True))
        what = data.get("domain") or "worker" if domain is None else of[domain]
        if what not in DOMAINS:
            raise FileError(
                f"{row.place}: domain must be one of {', '.join(DOMAINS)}, not {what!r}"
            )
        ended = () if end is None else (_seconds(row, of[end], end) if of[end] else None,)
        found.append((_seconds(row, of[begin], begin), what, row.whole(of[member], member), *ended))
    return tuple(found)


def _seconds(row: CsvRow, text: str, name: str) -> float:
    return round(row.number(text, name) * (_DAY if name.endswith(_IN_DAYS) else 1), 6)
