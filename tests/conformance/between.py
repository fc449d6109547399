"""Recorded cases of strategies in between: scripted step times and gradients, no time to send.

A case is run by the strategy's own processes in a job. What there is to see is its trace, the model
after every update, what was read, and what copies are given (`copies.py`); it is told as recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from tests.building import APPLIED, DROPPED, MS, NO_TIME, PENDING, gradient_rows
from tests.conformance.records import Record
from tests.conformance.scripted import GivenProblem, GivenTask, optimizer
from tests.seams import GradientRow, Phase, Trace
from varsim.cluster.clock import Activity
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.failures.deaths import DeathWatch as Deaths
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.cluster.workers.worker import WorkerRead as Read
from varsim.learning.gradient import Gradient
from varsim.learning.task import Batches, Parameters, StackedGradients, VariableSpec
from varsim.learning.workload import Workload
from varsim.strategies import Strategy
from varsim.strategies.backup_workers import BackupWorkers
from varsim.strategies.k_family import KAsync, KBatchAsync, KBatchSync
from varsim.strategies.on_write import OnWrite
from varsim.strategies.ssp import StaleSynchronous

_WAITING: Final = (Phase.BARRIER, Phase.TOKEN, Phase.LOCK)
Seen = dict[str, Any]


class RecordedProblem(GivenProblem):
    """Gradients by formula or table; `parts` are the elements of x that each variable holds."""

    record: Any
    parts: Any

    def variables(self) -> tuple[VariableSpec, ...]:
        return tuple(VariableSpec(f"x{i}", (len(part),)) for i, part in enumerate(self.parts))

    def task(self, seed: int, replication: int) -> "RecordedTask":
        return RecordedTask(self.record, self.parts)


class RecordedTask(GivenTask):
    """Gradients of what was read, variable by variable."""

    def __init__(self, record: Record, parts: Sequence[Sequence[int]]) -> None:
        self._record, self._parts = record, parts

    def initial(self) -> Parameters:
        x = np.atleast_2d(np.array(self._record.get("initial", [0.0]), dtype=np.float64))[0]
        return tuple(x[list(part)] for part in self._parts)

    def gradients(self, parameters: Parameters, batches: Batches) -> StackedGradients:
        rows = batches.tolist()
        whole = self.whole(parameters)
        each = np.broadcast_to(whole, (len(rows), whole.shape[-1]))
        found = np.stack([self.gradient(w, n, x) for (w, n), x in zip(rows, each, strict=True)])
        # Row by row in memory, as problems give them: that is how they are added up.
        return tuple(np.ascontiguousarray(found[:, part]) for part in self._parts)

    def gradient(self, worker: int, number: int, x: Any) -> Any:
        """Of a worker's n-th mini-batch, at what it read."""
        record = self._record
        kind = record.get("gradient", "none")
        if kind == "none":
            return np.zeros_like(x)
        if kind == "table":
            table = record["table"][worker]
            return np.array(table[number % len(table)], dtype=np.float64)
        target = record["target" if kind == "quadratic" else "micro_target"][worker]
        if kind == "quadratic_micro":
            target = target[number % len(target)]
        return np.array(record["a"][worker]) * (x - np.array(target))

    def whole(self, parameters: Parameters) -> Any:
        """x, of parameters by variable; of many at once a row each."""
        first = np.asarray(parameters[0])
        found = np.empty((*first.shape[:-1], sum(map(len, self._parts))))
        for part, values in zip(self._parts, parameters, strict=True):
            found[..., list(part)] = values
        return found


class Replay:
    """A case as a job of its strategy that takes the recorded times, and no time to send.

    `parts`: of which elements of x each variable is made; by default one holds all of them. It ends
    with `until_ms` and what is then due, or after `steps`. `events`: who dies and comes back.
    """

    def __init__(
        self,
        record: Record,
        strategy: Strategy,
        parts: Sequence[Sequence[int]] | None = None,
        steps: int | None = None,
        events: Sequence[ProcessEvent] = (),
    ) -> None:
        problem = record.get("problem", {})
        size = np.atleast_2d(problem.get("initial", [0.0])).shape[1]
        parts = [range(size)] if parts is None else parts
        times = record.get("step_ms", [[100]] * record["workers"])
        described = {
            "workers": record["workers"],
            "parameter_servers": 1,
            "compute": {"kind": "trace", "seconds": [[t / 1000 for t in row] for row in times]},
            "network": NO_TIME,
        }
        cluster = Cluster.model_validate(described)
        strategy.check(cluster)
        workload = Workload.model_construct(
            problem=RecordedProblem.model_construct(record=problem, parts=parts),
            optimizer=optimizer(record.get("optimizer", {"name": "sgd", "lr": 1.0})),
            batch_size=1,
        )
        self.strategy = strategy
        self.job = Job(
            cluster,
            workload,
            # What begins at the last moment is part of the record.
            Stop(global_steps=steps) if steps else Stop(time=(record["until_ms"] + 0.5) / 1000),
            seed=0,
            replication=0,
            workers=strategy.workers(cluster),
        )
        if events:
            Deaths(self.job, events)
        task = self.job.task
        assert isinstance(task, RecordedTask)
        self.task = task
        self.updates: list[tuple[float, Any]] = []  # ms, x after every update of the model
        self.read: dict[tuple[int, int], Any] = {}  # at what (worker, n) was worked out, if it was

    @property
    def now(self) -> float:
        """The time of the run (ms)."""
        return ms(self.job.clock.time)

    def run(self) -> Trace:
        """Run to the end; its trace."""
        count, gradient = self.job.count_step, self.task.gradient

        def counted() -> None:
            count()
            self.updates.append((self.now, self.task.whole(self.job.model())))

        def noted(worker: int, number: int, x: Any) -> Any:
            self.read[worker, number] = np.array(x)
            return gradient(worker, number, x)

        counts, notes = (
            patch.object(self.job, "count_step", counted),
            patch.object(self.task, "gradient", noted),
        )
        with counts, notes:
            self.job.begin(self.strategy.start)
            return self.job.run(self.strategy.label)


def ms(time: int) -> float:
    """A time in ns as it is recorded: in ms, whole ones as whole numbers."""
    return time // MS if time % MS == 0 else time / MS


def chosen(record: Record, keys: str) -> dict[str, Any]:
    """The settings among these that a case has."""
    return {key: record[key] for key in keys.split() if key in record}


def blocked(trace: Trace, until: float | None = None) -> list[list[list[float | None]]]:
    """Of every worker the intervals (ms) in which it waits for others; the last may be open.

    `until`: the end of what was recorded (ms), at which what still goes on has no end.
    """
    found: list[list[list[float | None]]] = [[] for _ in range(trace.workers)]
    for worker, phase, start, end, _ in sorted(trace.spans.tolist(), key=lambda row: row[2]):
        own = found[worker]
        if phase in _WAITING and end > start:
            if own and own[-1][1] == ms(start):
                own[-1][1] = ms(end)
            else:
                own.append([ms(start), ms(end)])
    for own in found:
        if own and until is not None and own[-1][1] == until + 0.5:
            own[-1][1] = None
    return found


def clocks(rows: Sequence[GradientRow], workers: int) -> list[int]:
    """How many gradients of each worker have been used, or dropped."""
    done = [row.worker for row in rows if row.applied >= 0]
    return [done.count(rank) for rank in range(workers)]


@contextmanager
def _starts() -> Iterator[list[tuple[float, Worker, Read]]]:
    """Every start of a mini-batch: when (ms), by whom, at what."""
    found: list[tuple[float, Worker, Read]] = []
    compute = Worker.compute_gradient

    def logged(self: Worker, read: Read) -> Activity[Gradient]:
        found.append((ms(self._clock.time), self, read))
        return compute(self, read)

    with patch.object(Worker, "compute_gradient", logged):
        yield found


def ssp(record: Record) -> Seen:
    """Pushes, reads, waits, and values."""
    settings = chosen(record, "staleness refresh staleness_policy")
    replay = Replay(record, StaleSynchronous.model_validate(settings))
    with _starts() as begun:
        trace = replay.run()
    rows = sorted(
        (row for row in gradient_rows(trace) if row.applied >= 0),
        key=lambda row: (row.applied, row.worker),
    )
    made = [0] * record["workers"]
    pushes: list[Seen] = []
    updates, x = iter(replay.updates), replay.task.whole(replay.task.initial())
    for row in rows:
        made[row.worker] += 1
        used = row.outcome == APPLIED
        if used:
            at, x = next(updates)
            assert at == ms(row.applied)
        stale = row.applied_step - row.read_step
        seen = {"t": ms(row.applied), "worker": row.worker, "clock": made[row.worker]}
        pushes.append(seen | {"staleness": stale, "used": used, "x": x})
    assert next(updates, None) is None

    own: dict[int, int] = {}
    fetched_at: dict[int, int] = {}
    reads: list[Seen] = []
    for time, worker, read in begun:
        rank = worker.rank
        number = own[rank] = own.get(rank, -1) + 1
        fetched = ms(read.time) == time
        if fetched:
            fetched_at[rank] = number
        seen = {"t": time, "worker": rank, "clock": number, "fetched": fetched}
        version = read.global_step - (number - fetched_at[rank])
        reads.append(seen | {"version": version, "x": replay.task.whole(read.parameters)})
    reads.sort(key=lambda one: (one["t"], one["worker"]))
    waits = blocked(trace, record["until_ms"])
    return {"pushes": pushes, "reads": reads, "clocks": made, "blocked": waits}


def k_family(record: Record) -> Seen:
    """Who is used in each update, how stale, and who waits."""
    k, until, policy = record["k"], record["until_ms"], chosen(record, "staleness_policy")
    made: Mapping[str, Strategy] = {
        "k_sync": BackupWorkers(replicas_to_aggregate=k),
        "k_async": KAsync.model_validate({"k": k, **policy}),
        "k_batch_async": KBatchAsync.model_validate({"k": k, **policy}),
        "k_batch_sync": KBatchSync(k=k),
    }
    replay = Replay(record, made[record["kind"]])
    trace = replay.run()
    rows = sorted(gradient_rows(trace), key=lambda row: (row.computed, row.worker))
    vain = [row for row in rows if row.outcome == DROPPED]
    updates: list[Seen] = []
    for step, (time, x) in enumerate(replay.updates):
        used = [row for row in rows if row.applied_step == step and row.outcome == APPLIED]
        lost = sorted((row for row in vain if ms(row.applied) == time), key=lambda row: row.worker)
        seen = {"t": time, "used": [row.worker for row in used], "x": x}
        seen["staleness"] = [step - row.read_step for row in used]
        seen["dropped"] = [row.worker for row in lost if row.computed == row.applied]
        seen["cancelled"] = [row.worker for row in lost if row.computed != row.applied]
        updates.append(seen)
    kept = [row for row in rows if row.outcome == PENDING and 0 <= row.computed <= until * MS]
    seen = {"updates": updates, "in_buffer": [row.worker for row in kept]}
    return seen | {
        "stale": sorted([ms(row.applied), row.worker] for row in vain),
        "blocked": blocked(trace, until),
    }


def asynchronous(record: Record) -> Seen:
    """Every arrival is an update, by a rule for stale gradients."""
    policies = {
        "plain": {"kind": "none"},
        "inverse_staleness": {"kind": "inverse"},
        "delay_compensated": {
            "kind": "delay_compensated",
            "variance_control": record.get("lambda"),
        },
    }
    policy = {"k": 1, "staleness_policy": policies[record["rule"]]}
    replay = Replay(record, KAsync.model_validate(policy))
    rows = [row for row in gradient_rows(replay.run()) if row.outcome == APPLIED]
    rows.sort(key=lambda row: row.applied_step)
    return {
        "updates": [
            {"t": t, "x": x, "worker": row.worker, "staleness": row.applied_step - row.read_step}
            for row, (t, x) in zip(rows, replay.updates, strict=True)
        ]
    }


def drop_compute(record: Record) -> Seen:
    """When steps end, what is computed of them, and values."""
    number, steps, workers = record["micro_batches"], record["steps"], record["workers"]
    drop = {"threshold": record["threshold_ms"] / 1000, **chosen(record, "divide_by")}
    strategy = OnWrite.model_validate({"micro_batches": number, "drop_compute": drop})
    times = [[each for step in own for each in step] for own in record["micro_ms"]]
    replay = Replay({**record, "step_ms": times}, strategy, steps=steps)
    trace = replay.run()
    used = [[0] * workers for _ in range(steps)]
    stopped: list[list[float]] = [[0] * workers for _ in range(steps)]
    ends = [ms(time) for time in trace.steps.tolist()]
    starts = [0, *ends]
    for row in gradient_rows(trace):
        step = row.read_step
        assert ms(row.read) == starts[step]
        given_up = row.outcome == DROPPED
        assert given_up or ms(row.applied) == ends[step]
        used[step][row.worker] += not given_up
        until = ms(row.applied if given_up else row.computed)
        stopped[step][row.worker] = max(stopped[step][row.worker], until)
    rows: list[Seen] = [
        {
            **{"step": step, "start": starts[step], "end": ends[step], "stopped": stopped[step]},
            **{"computed": used[step], "total": sum(used[step]), "x": x},
        }
        for step, (_, x) in enumerate(replay.updates)
    ]
    return {"steps": rows, "blocked": blocked(trace)}
