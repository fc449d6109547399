"""Recordings of real training clusters, one file per run, and their replay as scenarios.

Times are seconds since the common start of the run. `compute` is how long the compute part of an
iteration took: prescribed, or what lay between two collectives. Reads, pushes, queues, updates and
collectives were real. The files that `varsim.record` writes, one per rank, are joined to runs.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from varsim.cluster.description.servers import Overheads
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study import simulation

Length = Annotated[float, Field(ge=0, lt=1e6)]
Moment = Annotated[float, Field(ge=-1, lt=1e9)]  # a process may begin a little early
Moments: TypeAlias = tuple[Moment, ...]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]

ACCEPTED: Final = 1
DROPPED: Final = 0
_LARGEST_FILE: Final = 2**26


class RunFileError(Exception):
    """Files that are not recordings of runs: one line for each."""


class _Recorded(BaseModel):
    """Part of a recording; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


Factor = Annotated[float, Field(ge=0.01, le=100)]


class Rank(_Recorded):
    """One process of a collective; an entry per step. `slow`: as many times as long, it is said."""

    slow: Factor = 1.0
    compute: tuple[Length, ...] = Field(min_length=1)
    begin: Moments = Field(min_length=1)
    compute_end: Moments
    end: Moments

    @model_validator(mode="after")
    def _entries_match(self) -> Self:
        _same_length(self, "begin", "compute_end", "end")
        _at_least(self, "compute", len(self.begin))
        _in_order(self.begin, self.compute_end, self.end)
        return self


class RecordedWorker(_Recorded):
    """One worker of parameter servers; an entry per local iteration."""

    compute: tuple[Length, ...] = Field(min_length=1)
    begin: Moments
    compute_begin: Moments
    compute_end: Moments
    end: Moments

    @model_validator(mode="after")
    def _moments_match(self) -> Self:
        _same_length(self, "begin", "compute_begin", "compute_end", "end")
        _at_least(self, "compute", len(self.begin))
        _in_order(self.begin, self.compute_begin, self.compute_end, self.end)
        return self


class SyncWorker(RecordedWorker):
    """One worker of SyncReplicasOptimizer; `accepted`: 1 in an update, 0 dropped, -1 unknown."""

    accepted: tuple[Literal[-1, 0, 1], ...]

    @model_validator(mode="after")
    def _fates_match(self) -> Self:
        _same_length(self, "begin", "accepted")
        return self


class AsyncWorker(RecordedWorker):
    """One worker of an asynchronous parameter server; `applied_as`: the number of its update."""

    applied_as: tuple[Positive, ...]
    staleness: tuple[int, ...]

    @model_validator(mode="after")
    def _updates_match(self) -> Self:
        _same_length(self, "begin", "applied_as", "staleness")
        return self


class RecordedKill(_Recorded):
    """A worker that was ended by force, and when."""

    worker: Count
    at: Moment


class Noise(_Recorded):
    """How many cores of the machine were busy on average: with everything, with this run."""

    cpu_busy_cores_all: Length
    cpu_busy_cores_cluster: Length


class _Run(_Recorded):
    version: Literal[1] = Field(alias="schema")
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    steps: Positive
    payload_bytes: Count
    noise: Noise | None = None

    @property
    def foreign_cores(self) -> float:
        """How many cores foreign work kept busy; 0 where nobody looked."""
        if self.noise is None:
            return 0.0
        return max(0.0, self.noise.cpu_busy_cores_all - self.noise.cpu_busy_cores_cluster)


class SyncRun(_Run):
    """SyncReplicasOptimizer: N = `aggregate`, T = `total`; -1 initial tokens are the default."""

    kind: Literal["tf_sync_replicas"]
    workers: tuple[SyncWorker, ...] = Field(min_length=1)
    ps: Positive
    total: Positive
    aggregate: Positive
    init_tokens: Annotated[int, Field(ge=-1)]
    step_done: Moments = Field(min_length=1)
    contributions: tuple[tuple[Count, ...], ...]
    killed: tuple[RecordedKill, ...] = ()

    @model_validator(mode="after")
    def _updates_match(self) -> Self:
        _same_length(self, "step_done", "contributions")
        if any(later < earlier for earlier, later in pairwise(self.step_done)):
            raise ValueError("step_done goes backwards")
        if any(len(row) != len(self.workers) for row in self.contributions):
            raise ValueError(f"contributions must have a number for each of {len(self.workers)}")
        dead = [killed.worker for killed in self.killed]
        if dead and max(dead) >= len(self.workers):
            raise ValueError(f"killed: there is no worker {max(dead)}")
        for rank, worker in enumerate(self.workers):
            # The iteration in which a worker was killed is not listed; its gradient may count.
            accepted = worker.accepted.count(ACCEPTED) + dead.count(rank)
            counted = sum(row[rank] for row in self.contributions)
            if counted > accepted:
                raise ValueError(
                    f"workers[{rank}]: {counted} gradients in contributions, {accepted} accepted"
                )
        return self


class AsyncRun(_Run):
    """An asynchronous parameter server."""

    kind: Literal["tf_async_ps"]
    workers: tuple[AsyncWorker, ...] = Field(min_length=1)
    ps: Positive

    @model_validator(mode="after")
    def _all_updates_are_there(self) -> Self:
        numbers = sorted(chain.from_iterable(worker.applied_as for worker in self.workers))
        if numbers[: self.steps] != list(range(1, self.steps + 1)):
            raise ValueError(f"applied_as: the updates 1 to {self.steps} must be there once each")
        return self


class CollectiveRun(_Run):
    """All ranks meet in an all-reduce at every step."""

    kind: Literal["gloo_all_reduce", "all_reduce"]
    ranks: tuple[Rank, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _ranks_match(self) -> Self:
        if any(len(rank.end) != self.steps for rank in self.ranks):
            raise ValueError(f"every rank must have an entry for each of {self.steps} steps")
        return self


class RankFile(_Recorded):
    """What `varsim.record` writes: the collectives of one rank, when it came to them and left."""

    version: Literal[1] = Field(alias="schema")
    kind: Literal["rank"]
    run: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    rank: Count
    ranks: Annotated[int, Field(ge=2, le=1_000_000)]
    slow: Factor = 1.0
    clock: str
    began: float
    sizes: tuple[Count, ...] = Field(alias="bytes", min_length=1)
    before: tuple[float, ...] = Field(min_length=1)
    after: tuple[float, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _entries_match(self) -> Self:
        _same_length(self, "before", "after", "sizes")
        if self.rank >= self.ranks:
            raise ValueError(f"rank {self.rank} of {self.ranks}, counted from 0")
        _in_order((self.began,), self.before[:1])
        _in_order(self.before, self.after)
        return self


def joined(files: Sequence[RankFile]) -> CollectiveRun:
    """The run that these are the ranks of; ValueError where they are not those of one run.

    Clocks of other machines are set by the ends of collectives, which ranks leave together: by the
    median difference to those of rank 0. What lies between two collectives is a rank's own time.
    """
    ranks = sorted(files, key=lambda file: file.rank)
    first = ranks[0]
    missing = sorted(set(range(first.ranks)) - {file.rank for file in ranks})
    if missing:
        raise ValueError(f"rank {missing[0]} of {first.ranks} has no file")
    for file in ranks:
        if (file.ranks, len(file.sizes)) != (first.ranks, len(first.sizes)):
            raise ValueError(
                f"rank {file.rank} has {len(file.sizes)} collectives of {file.ranks} ranks, rank 0 "
                f"{len(first.sizes)} of {first.ranks}"
            )
    sizes = {size for file in ranks for size in file.sizes}
    if len(sizes) > 1:
        raise ValueError(
            f"collectives of {min(sizes)} and of {max(sizes)} bytes; a recording has one size"
        )
    ahead = [
        0.0
        if file.clock == first.clock
        else median(own - its for own, its in zip(file.after, first.after, strict=True))
        for file in ranks
    ]
    start = min(file.began - early for file, early in zip(ranks, ahead, strict=True))
    return CollectiveRun(
        schema=1,
        id=first.run,
        kind="all_reduce",
        steps=len(first.sizes),
        payload_bytes=first.sizes[0],
        ranks=tuple(_rank(file, early + start) for file, early in zip(ranks, ahead, strict=True)),
    )


def _rank(file: RankFile, zero: float) -> Rank:
    begin = [file.began, *file.after[:-1]]
    return Rank(
        slow=file.slow,
        compute=tuple(ready - began for began, ready in zip(begin, file.before, strict=True)),
        begin=tuple(moment - zero for moment in begin),
        compute_end=tuple(moment - zero for moment in file.before),
        end=tuple(moment - zero for moment in file.after),
    )


Run: TypeAlias = SyncRun | AsyncRun | CollectiveRun

_ANY: Final[TypeAdapter[Run | RankFile]] = TypeAdapter(
    Annotated[Run | RankFile, Field(discriminator="kind")]
)


def compute_tables(run: Run) -> tuple[tuple[float, ...], ...]:
    """The prescribed compute time (s) of each iteration, worker by worker."""
    actors = run.ranks if isinstance(run, CollectiveRun) else run.workers
    return tuple(actor.compute for actor in actors)


def computes(run: Run) -> bool:
    """Whether workers compute at all; otherwise there is nothing to replay."""
    return any(map(any, compute_tables(run)))


def read_runs(folder: Path) -> list[Run]:
    """All runs of a folder (its files *.json), by name; RunFileError says what is wrong where."""
    if not folder.is_dir():
        raise RunFileError(f"{folder}: there is no such folder")
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise RunFileError(f"{folder}: no file *.json there")
    runs: dict[str, Run] = {}
    of_ranks: dict[str, list[RankFile]] = {}
    wrong = []
    for path in paths:
        try:
            run = read_run(path)
        except RunFileError as error:
            wrong.append(str(error))
            continue
        if isinstance(run, RankFile):
            of_ranks.setdefault(run.run, []).append(run)
            continue
        if run.id in runs:
            wrong.append(f"{path}: there is another run {run.id!r}")
        runs[run.id] = run
    for name, files in [] if wrong else of_ranks.items():
        if name in runs or len({file.rank for file in files}) < len(files):
            wrong.append(f"{folder}: there are two runs {name!r}")
            continue
        try:
            runs[name] = joined(files)
        except ValueError as error:
            wrong.append(f"{folder}: run {name}: {error}")
    if wrong:
        raise RunFileError("\n".join(wrong))
    return [runs[name] for name in sorted(runs)]


def read_run(path: Path) -> Run | RankFile:
    """One recording; RunFileError says in one line what is wrong with the file."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise RunFileError(f"{path}: larger than {_LARGEST_FILE // 2**20} MiB")
        text = path.read_bytes()
    except OSError as error:
        raise RunFileError(f"{path}: {error.strerror}") from None
    try:
        return _ANY.validate_json(text)
    except ValidationError as error:
        if b'"made_by": "varsim"' in text[:100]:
            raise RunFileError(
                f"{path}: this is a report that varsim wrote; --runs takes recordings of runs of a "
                "cluster"
            ) from None
        raise RunFileError(f"{path}: {first_fault(error)}") from None


def first_fault(error: ValidationError) -> str:
    """First validation error, in one line, and the number of others."""
    first, *others = error.errors()
    if first["type"] == "union_tag_not_found":
        return "kind is missing"
    place = ""
    # The kind by which the form of the file was chosen is not a place in it.
    for part in first["loc"][1:]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    said = str(first["msg"]).removeprefix("Value error, ")
    more = f" (and {len(others)} more)" if others else ""
    return " ".join(f"{place}: {said}{more}".removeprefix(": ").split())


def _same_length(part: BaseModel, first: str, *others: str) -> None:
    length = len(getattr(part, first))
    for name in others:
        if len(getattr(part, name)) != length:
            raise ValueError(f"{name} has {len(getattr(part, name))} entries, {first} has {length}")


def _at_least(part: BaseModel, name: str, length: int) -> None:
    if len(getattr(part, name)) < length:
        raise ValueError(f"{name} has {len(getattr(part, name))} entries, fewer than {length}")


def _in_order(*columns: Sequence[float]) -> None:
    """Within an iteration and from one to the next, time does not run backwards."""
    moments = list(chain.from_iterable(zip(*columns, strict=True)))
    if any(later < earlier for earlier, later in pairwise(moments)):
        raise ValueError("its times run backwards")


# All processes were on one machine: what its loopback network takes is among the overheads.
_NO_NETWORK: Final = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come"}

# A variable of a few bytes, where no larger one travelled.
_FEW_BYTES: Final = 4

# A law of compute times has none of no length.
_NO_SLEEP: Final = 1e-9


class Replay:
    """Replay of a measured run with given overheads."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._scenario = _scenario(run)

    def scenario(self, overheads: Overheads | None = None) -> Scenario:
        """The run's scenario on a cluster with these overheads; None: an ideal one."""
        cluster = self._scenario.cluster.model_copy(update={"overheads": overheads})
        return self._scenario.model_copy(update={"cluster": cluster})

    def trace(self, overheads: Overheads | None = None) -> Trace:
        """Simulate it."""
        return simulation.run_one(simulation.Run(self.scenario(overheads), 0, 0), record=False)

    def subject_to(self) -> frozenset[str]:
        """The names of the overheads that can occur in it."""
        (strategy,) = self._scenario.strategies
        return strategy.subject_to()

    @property
    def size(self) -> int:
        """Bytes that are read, and sent as a gradient, in each iteration."""
        return max(self.run.payload_bytes, _FEW_BYTES)


def _scenario(run: Run) -> Scenario:
    tables = tuple(tuple(max(time, _NO_SLEEP) for time in row) for row in compute_tables(run))
    told = description(run)
    times = {"compute": {"kind": "trace", "seconds": tables}, "network": _NO_NETWORK}
    # Who is slow is slow in these times.
    told["cluster"] |= {**times, "slow_workers": ()}
    return Scenario.model_validate({"name": run.id, "replications": 1, **told})


def description(run: Run) -> dict[str, Any]:
    """Parts of a scenario that a recording states: who, what is sent, and for how many steps.

    Nothing of how long anything took.
    """
    cluster: dict[str, Any] = {"workers": len(compute_tables(run))}
    events: tuple[dict[str, Any], ...] = ()
    if not isinstance(run, CollectiveRun):
        # Whole variables on one server each, as TensorFlow places them.
        placement = "partitioned" if run.ps == 1 else "round_robin"
        cluster |= {"parameter_servers": run.ps, "placement": placement}
    elif slow := [(rank, one.slow) for rank, one in enumerate(run.ranks) if one.slow != 1]:
        cluster["slow_workers"] = tuple({"rank": rank, "factor": by} for rank, by in slow)
    if isinstance(run, SyncRun):
        in_order = sorted(run.killed, key=lambda killed: killed.at)
        events = tuple({"at": dead.at, "kill": {"worker": dead.worker}} for dead in in_order)
    size = float(max(run.payload_bytes, _FEW_BYTES))
    return {
        "cluster": cluster,
        "workload": {"problem": {"kind": "timing", "size": size}, "batch_size": 1},
        "strategies": (_strategy(run),),
        "events": events,
        "stop": {"global_steps": run.steps},
    }


def _strategy(run: Run) -> dict[str, Any]:
    match run:
        case SyncRun():
            return {
                "kind": "sync_replicas",
                "replicas_to_aggregate": run.aggregate,
                "total_num_replicas": run.total,
                "initial_tokens": run.init_tokens,
            }
        case AsyncRun():
            return {"kind": "none"}
        case CollectiveRun():
            return {"kind": "on_write"}
