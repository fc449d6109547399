"""Checkpoints, random failures and how a job comes back: keys of a scenario, and their refusals."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, TypedDict

from pydantic import BeforeValidator, Discriminator, Field, NonNegativeInt, PositiveInt, Tag

from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.description.failures import (
    Domain,
    FailureSource,
    ProcessEvent,
    RecordedFailures,
    members,
)
from varsim.cluster.network.topology import Topology
from varsim.core.distribution import Exponential
from varsim.core.distributions import Distribution
from varsim.core.measured_times import MeasuredTimes
from varsim.core.refusal import Refusal, RefusalError, no_effect, refusals, refused
from varsim.core.schema import Grown, Model
from varsim.core.units import BytesPerSecond, Seconds, format_seconds

LONGEST: Final = 1.5e9  # seconds (48 years): sums of several fit into 63 bits of ns


class RandomFailures(Grown):
    """Failures at random, drawn from streams of their own: all strategies meet the same.

    The steps of a life up to the `horizon` are those that the run up to `stop` shows. Without one,
    failures strike inside the run: workers die in it, and are back once that is noticed, their host
    is there, and `recovery.restart` has passed. They `strike` `always`, also while the job is down
    (then detection and restart begin again); only `while_running`, at work or writing a checkpoint;
    or only `while_computing`.
    """

    later: ClassVar[tuple[str, ...]] = ("recorded",)

    horizon: Seconds | None = Field(None, gt=0, le=LONGEST)
    """How long the job is followed; left out: failures strike inside the run."""
    detection: Seconds = Field(0.0, ge=0)
    """From a failure until it is noticed."""
    strike: Literal["always", "while_running", "while_computing"] = "always"
    """When members age and fail."""
    of: tuple[FailureSource, ...] = ()
    """What fails, and how often."""
    recorded: RecordedFailures | None = None
    """Failures that happened, in place of those at random or beside them."""
    conflicts: ClassVar[Sequence[Refusal]] = (
        Refusal(
            "strike: not always", "recorded", "recorded ones strike when they did", "write always"
        ),
    )

    def refusals(self) -> Iterator[RefusalError | str]:
        if not self.of and self.recorded is None:
            yield "say what fails: of (for example {domain: worker, mtbf: 30 d})"

    @property
    def repairs(self) -> tuple[tuple[Domain, Distribution | None], ...]:
        """The domain and the repair times of each of `of`, then of what recorded ones are of."""
        found: list[tuple[Domain, Distribution | None]]
        found = [(one.domain, one.repair) for one in self.of]
        if self.recorded is not None:
            found += [(domain, self.recorded.repaired) for domain in self.recorded.domains]
        return tuple(found)

    @property
    def is_random(self) -> bool:
        """Whether two lives may meet different failures, or repairs."""
        laws = [one.between for one in self.of]
        laws += [repair for _, repair in self.repairs if repair is not None]
        chosen = any(one.lemons is not None or one.mistaken is not None for one in self.of)
        return chosen or any(law.is_random for law in laws)

    @property
    def of_servers(self) -> bool:
        """Whether parameter servers fail."""
        return any(domain == "server" for domain, _ in self.repairs)

    @property
    def cause(self) -> str:
        """What ends workers inside a run, in words."""
        return "failures inside a run"

    @property
    def ends_workers(self) -> bool:
        """Whether anything but servers fails."""
        return bool(self.without_servers().repairs)

    def without_servers(self) -> "RandomFailures":
        """The same where there are no servers to fail; the others fail as they do beside them."""
        of = tuple(one for one in self.of if one.domain != "server")
        recorded = self.recorded
        if recorded is not None:
            others = tuple(one for one in recorded.failures if one[1] != "server")
            left = recorded.model_copy(update={"failures": others})
            recorded = left if left.played else None
        return self.model_copy(update={"of": of, "recorded": recorded})

    def rate(self, cluster: Cluster, workers: int) -> float:
        """Failures of the whole job per second, on average."""
        drawn = math.fsum(members(one.domain, cluster, workers) * one.rate for one in self.of)
        known = 0 if self.recorded is None else len(self.recorded.played)
        return drawn + known / (self.horizon or LONGEST)

    def of_chief(self, cluster: Cluster) -> bool:
        """Whether worker 0 may fail."""
        recorded = () if self.recorded is None else self.recorded.played
        return any(one.domain != "server" for one in self.of) or any(
            member // cluster.workers_of_a_host == 0 if domain == "worker" else member == 0
            for _, domain, member, _ in recorded
            if domain != "server"
        )

    def rate_of_rollbacks(self, cluster: Cluster, *, chief: bool) -> float:
        """Of those random ones per second that take a server, or the `chief` with its host."""
        each = {"server": cluster.parameter_servers, "worker": cluster.workers_of_a_host * chief}
        return math.fsum(each.get(one.domain, int(chief)) * one.rate for one in self.of)

    @property
    def memoryless(self) -> bool:
        """Whether the time to the next failure of the job is exponential, given its lemons."""
        drawn = all(isinstance(one.between, Exponential) and not one.mistaken for one in self.of)
        return drawn and self.recorded is None


def in_run(failures: RandomFailures | None) -> tuple[RandomFailures, ...]:
    """Those failures if they strike inside the run, as they have no horizon; else none."""
    return (failures,) if failures is not None and failures.horizon is None else ()


def _is_optimal(given: object) -> str:
    return "optimal" if given == "optimal" else "time"


def _no_word(given: object) -> object:
    """A word other than optimal is no time that lacks its unit."""
    if isinstance(given, str) and given.isalpha() and given != "optimal":
        raise ValueError(f"{given!r} is not a time: write a time such as 10 min, or optimal")
    return given


Interval: TypeAlias = Annotated[
    Annotated[Annotated[Seconds, Field(gt=0)], Tag("time")]
    | Annotated[Literal["optimal"], Tag("optimal")],
    Discriminator(_is_optimal),
    BeforeValidator(_no_word),
]


class Checkpoint(Model):
    """Checkpoints of a job: one after `every` of work, rounded up to the end of a step.

    To `storage` one worker sends the parameters and the optimizer's state, over its link, and it
    reads them back in as long, beside `restore`. A checkpoint counts when its write is complete.
    Inside a run (`failures` without `horizon`) servers are saved: the chief reads all variables,
    and it alone stops, or goes on beside its write; time counts, not work. Copies of workers
    are not saved there: when nobody is left, all begin from the start.
    """

    every: Interval
    """Work between two checkpoints; `optimal`: with which most is kept under exponential failures.
    """
    write: Seconds | None = Field(None, ge=0)
    """How long it takes to write one checkpoint."""
    storage: BytesPerSecond | None = Field(None, gt=0)
    """Instead of `write`: at what rate storage takes in parameters and optimizer state."""
    mode: Literal["blocking", "asynchronous"] = "blocking"
    """Whether the job stops for a write, or goes on beside it."""
    snapshot: Seconds = Field(0.0, ge=0)
    """How long the job stops before an asynchronous write."""
    slowdown: float = Field(0.0, ge=0)
    """How much longer steps take beside an asynchronous write, as a share."""
    restore: Seconds = Field(0.0, ge=0)
    """How long a job that restarts takes to read its last checkpoint."""
    conflicts: ClassVar[Sequence[Refusal]] = tuple(
        no_effect(key, "mode: blocking", "that stops the job for a write")
        for key in ("snapshot", "slowdown")
    )

    def refusals(self) -> Iterator[RefusalError | str]:
        if (self.write is None) == (self.storage is None):
            yield "say how long a write takes: give either write or storage"
        if self.every == "optimal":
            # How long a write to storage takes is not known yet, but whether it costs anything.
            known = self.model_copy(update={"write": 1.0}) if self.write is None else self
            if not known.stops:
                yield refused(
                    "every",
                    ": optimal needs a checkpoint that costs time (write, or of asynchronous "
                    "ones snapshot or slowdown): what costs nothing is done all the time",
                )
        elif self.write is not None and self.every < self.write:
            yield refused(
                "every",
                f"is shorter than a write ({self.write:.4g} s): the next checkpoint would be "
                "due before this one is written",
            )

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

    def interval(
        self, failures: RandomFailures, rate: float, down: float, rounds: float = 0.0
    ) -> float:
        """Work (s) between checkpoints; `rate` of failures (1/s), `down` so long after each (s).

        The best, x of the mean time M between failures, has (1 - x) e^x = e^(-cost / M) (Daly,
        2006, by a renewal argument; Lambert's W); where only work can fail, 1 - cost / (M + down).
        Of work in `rounds` of so long, at whose ends alone one can be written, whole ones: as many
        as fit into that, or one more, whichever keeps more.
        """
        if self.every != "optimal":
            return self.every
        mean, cost = 1 / rate, self.stops
        alone = failures.strike == "while_computing"
        lost = cost / (mean + down) if alone else -math.expm1(-cost / mean)
        best = max(mean * _root(lost), self.beside)
        if not rounds:
            return best

        def kept(number: int) -> float:
            """Work that is kept for each failure, to a factor, if a checkpoint follows so much."""
            work = number * rounds
            saves = 1 / math.expm1((work if alone else work + cost) / mean)
            return work * saves / (mean + down + saves * cost if alone else 1.0)

        least = max(1, math.ceil(self.beside / rounds))
        fewer = max(least, math.floor(best / rounds))
        return max(fewer, fewer + 1, key=kept) * rounds

    def in_run(self, network: Topology, size: float, rate: float, share: float) -> "Checkpoint":
        """The same with the best interval in a run, if that is asked for.

        What so many bytes take the chief to read and to write costs the job a `share` of it, and
        models are lost at a `rate` (1/s). How long links are busy with other things is not known.
        """
        if self.every != "optimal":
            return self
        through = self.through(network, size)
        cost = share * (network.delay + size / network.worker_rate + through.stops)
        best = max(_root(-math.expm1(-cost * rate)) / rate, through.beside)
        return self.model_copy(update={"every": best})


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

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("swap", "no cold", "hot spares take over at once"),
    )


class Recovery(Grown):
    """What becomes of a job after a failure.

    `policy: restart`: the whole job begins again from its last complete checkpoint (or from the
    start), once every failed host is replaced by a spare or repaired, and `restart` later.
    `wait`: as long, but those who are left keep the model, and the job goes on with the step that
    it was in; who takes the place of a failed host gets the model from another within `restart`.
    `continue_with_fewer`: neither waits the job, as long as `fewest` hosts are there: after
    `restart` it goes on with them, and is formed anew, at the end of a step, with one that comes
    back. Where nobody is left that has the model, these, too, go back to the last checkpoint.
    """

    later: ClassVar[tuple[str, ...]] = ("fewest",)

    policy: Literal["restart", "wait", "continue_with_fewer"] = "restart"
    """What the job does after a failure."""
    restart: Seconds = Field(0.0, ge=0)
    """From the moment its hosts are there until the job works again."""
    spares: Spares | None = None
    """Hosts that stand by."""
    fewest: PositiveInt | None = None
    """Fewest hosts with which a job goes on (`continue_with_fewer`); default: 1."""

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect(
            "fewest",
            "policy: not continue_with_fewer",
            "it needs all hosts",
            "write policy: continue_with_fewer",
        ),
    )


def goes_on(recovery: Recovery | None) -> bool:
    """Whether a job goes on while hosts are missing."""
    return recovery is not None and recovery.policy == "continue_with_fewer"


class ServedBy(TypedDict):
    """What is known of strategies: whether any has servers, any of them the model and a chief."""

    servers: bool
    chief: bool


# So many failures are followed in less than a minute.
_MOST: Final = 1_000_000


def check_beside(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    events: Sequence[ProcessEvent],
    cluster: Cluster,
    stop: Stop,
    *,
    servers: bool,
    chief: bool,
) -> None:
    """Raise ValueError where something does not go with failures at random; see Served."""
    if failures.of_servers and failures.horizon is not None:
        raise refused(
            "failures",
            "of a server strike inside the run, with all that it holds: leave out failures.horizon",
        )
    if failures.of_servers and not servers:
        raise refused(
            "failures", "of a server have no effect: none of the strategies uses parameter servers"
        )
    if events:
        raise refused(
            "events",
            "do not go with failures: either processes end at given times, or hosts fail at random",
        )
    if in_run(failures):
        if checkpoint is not None and not restores(failures, cluster, servers, chief):
            raise refused(
                "checkpoint",
                "has no effect: inside a run it is read back when servers fail, or when "
                "worker 0 fails where servers have the model; here nothing is read back (over "
                "failures.horizon workers save their copies)",
            )
        played = failures.recorded
        if played and stop.time is not None and (first := min(played.played)[0]) > stop.time:
            raise refused(
                "failures.recorded",
                f": no failure comes before stop.time: the first is at {format_seconds(first)}",
            )
        return
    if any(slow.after or slow.until for slow in cluster.stragglers):
        raise refused(
            "failures",
            "do not go with cluster.slow_workers that are slow for a part of the time: "
            "all steps of a job must take the same time",
        )


def restores(failures: RandomFailures, cluster: Cluster, servers: bool, chief: bool) -> bool:
    """Whether failures inside a run may take a model back to what was saved; as check_beside."""
    return (failures.of_servers and servers) or (chief and failures.of_chief(cluster))


def left_of(
    failures: RandomFailures | None,
    checkpoint: Checkpoint | None,
    recovery: Recovery | None,
    cluster: Cluster,
    *,
    servers: bool,
    chief: bool,
) -> dict[str, RandomFailures | Checkpoint | Recovery | None]:
    """What of them has an effect on such strategies as check_beside has, by key of a scenario."""
    for inside in in_run(failures):
        if not restores(inside, cluster, servers, chief):
            checkpoint = None
        failures = inside if servers else inside.without_servers()
        if recovery is not None and all(repair is None for _, repair in failures.repairs):
            recovery = recovery.model_copy(update={"spares": None})
    return {"failures": failures, "checkpoint": checkpoint, "recovery": recovery}


def check_steps(stop: Stop, needs: Mapping[str, tuple[int, int]], *, random: bool) -> None:
    """Raise ValueError where runs surely make fewer updates than lives can be made of.

    `needs`: of each strategy, by its label, the least global steps and the least examples;
    `random`: whether the steps of some are.
    """
    for place, key in enumerate(("global_steps", "examples")):
        given, least = getattr(stop, key), {one: need[place] for one, need in needs.items()}
        if given is None or given >= max(least.values()):
            continue
        which = ", which are random," if random else ""
        said = f"must be {max(least.values())} or more: from these steps{which} "
        if len(needs) == 1:
            raise refused(f"stop.{key}", f"{said}the life of a job is made")
        short = ", ".join(f"{one!r} {need}" for one, need in least.items() if given < need)
        raise refused(f"stop.{key}", f"{said}the lives of jobs are made (at least: {short})")


# What goes with no failures at random; what does not beside failures of a job that is followed.
_OF_POLICIES: Final = tuple(
    Refusal("recovery.policy: wait | continue_with_fewer", with_, because, write)
    for with_, because, write in (
        ("failures.strike: while_computing", "", "write always or while_running"),
        ("checkpoint.mode: asynchronous", "work goes on beside a write", "write blocking"),
        (
            "checkpoint.every: optimal",
            "that is known of policy restart: a failure loses no more than a step here, and a "
            "checkpoint is needed only when no host is left",
            "give a time",
        ),
    )
)
_UNLIKE: Final = (
    "hosts are not alike, and how fast the others are would depend on which of them is missing"
)
_OF_FEWER: Final = tuple(
    Refusal("recovery.policy: continue_with_fewer", with_, _UNLIKE)
    for with_ in (
        "cluster.slow_workers",
        "cluster.network.slow_links",
        "cluster.network: not star | full_mesh | nodes",
    )
)
_INSIDE: Final = (
    Refusal(
        "failures.strike: not always",
        "no failures.horizon",
        "inside a run members age and fail always",
        says="needs",
    ),
    Refusal(
        "recovery.policy: not restart",
        "no failures.horizon",
        "inside a run the strategy says what the others do (on_death of those that have it)",
        says="needs",
    ),
    Refusal(
        "cluster.servers_on: workers",
        "no failures.horizon",
        "a host that fails inside a run would take a server with it",
        "or servers_on: dedicated",
        says="needs",
    ),
)
_OF_CHECKPOINTS: Final = (
    Refusal(
        "checkpoint.mode: asynchronous",
        "failures.strike: while_computing",
        "work goes on beside an asynchronous write",
        "write blocking",
    ),
)


def _check(table: Iterable[Refusal], known: Mapping[str, object]) -> None:
    for error in refusals(table, known):
        raise error


def check_life(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    recovery: Recovery,
    cluster: Cluster,
    workers: int,
    servers: bool = True,
) -> None:
    """Raise RefusalError where a job cannot fail or come back like that.

    `servers`: whether it has such, as in Served.
    """
    known: dict[str, object] = {
        "failures": failures,
        "checkpoint": checkpoint,
        "recovery": recovery,
        "cluster": cluster,
    }
    if not servers and not failures.without_servers().repairs:
        raise refused(
            "failures",
            "of servers alone do not meet a strategy that uses no parameter servers: let workers "
            "fail, too, or leave that strategy out",
        )
    _check_sources(failures, cluster, workers)
    if failures.horizon is None:
        if any(domain == "link" for domain, _ in failures.repairs):
            raise refused(
                "failures",
                "of a link need failures.horizon: inside a run they would not end a worker; say "
                "domain: worker",
            )
        _check(_INSIDE, known)
    comes_back = any(repair is not None for _, repair in failures.repairs)
    whole = (
        f"a host that fails is back at once, as nothing in failures."
        f"{'of' if failures.of else 'recorded'} says how long its repair takes"
    )
    if recovery.spares is not None:
        _check_spares(recovery.spares, cluster.network.machines(workers))
        if not comes_back:
            raise refused("recovery.spares", f"has no effect: {whole}")
    _check(_OF_POLICIES, known)
    if recovery.policy == "continue_with_fewer":
        hosts = cluster.network.machines(workers)
        if (recovery.fewest or 1) >= hosts:
            raise refused(
                "recovery.fewest",
                f"must be below the number of hosts ({hosts}), with which the policy is wait",
            )
        if not comes_back:
            raise refused("recovery.policy", f"{recovery.policy} has no effect: {whole}")
        _check(_OF_FEWER, known)
        if isinstance(cluster.compute, MeasuredTimes) and len(cluster.compute.seconds) > 1:
            says = f"{recovery.policy} does not go with cluster.compute of kind trace: {_UNLIKE}"
            raise refused("recovery.policy", says)
    if checkpoint is not None and checkpoint.every == "optimal" and not failures.memoryless:
        raise refused(
            "checkpoint.every",
            ": optimal is known for exponential times between failures alone, none of them "
            "mistaken; give a time, or sweep over it",
        )
    _check(_OF_CHECKPOINTS, known)


def _check_sources(failures: RandomFailures, cluster: Cluster, workers: int) -> None:
    """Raise RefusalError where something cannot fail that is not there, or too often."""
    for index, one in enumerate(failures.of):
        try:
            one.check(cluster, workers)
        except RefusalError as error:
            raise error.within("failures", "of", index) from None
    if failures.recorded is not None:
        try:
            failures.recorded.check(failures.horizon, cluster, workers)
        except ValueError as error:
            raise refused("failures.recorded", f": {error}") from None
    if failures.horizon is not None:
        expected = failures.horizon * failures.rate(cluster, workers)
        if expected > _MOST:
            raise refused(
                "failures.horizon",
                f": about {expected:.2g} failures would be met, at most {_MOST:,} are followed: "
                "shorten it",
            )


def _check_spares(spares: Spares, hosts: int) -> None:
    """Raise RefusalError where there are more than hosts, or none."""
    if spares.hot + spares.cold > hosts:
        which = "" if spares.hot and spares.cold else f".{'hot' if spares.hot else 'cold'}"
        raise refused(
            f"recovery.spares{which}",
            f": {spares.hot + spares.cold} for {hosts} hosts that may fail; at most {hosts}",
        )
    if not spares.model_fields_set:
        raise refused("recovery.spares", "has no effect: say how many are hot or cold")
