"""Recordings of clusters that are simulated: what would be measured if these were the overheads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.building import gradient_rows, span_rows
from tests.seams import GradientRow, Outcome, Phase, Trace, run_one
from tests.seams import Run as SimulatedRun
from varsim.calibration.recorded.runs import (
    AsyncRun,
    AsyncWorker,
    CollectiveRun,
    Rank,
    Replay,
    Run,
    SyncRun,
    SyncWorker,
    read_run,
)
from varsim.calibration.recorded.runs import (
    RecordedKill as Killed,
)
from varsim.cluster.description.servers import Overheads

FATES = {Outcome.APPLIED: 1, Outcome.DROPPED: 0, Outcome.PENDING: -1}
Table = Sequence[Sequence[float]]


def table(workers: int, iterations: int, mean: float = 0.1) -> list[list[float]]:
    """Compute times that are all different, between 0.5 and 1.5 means."""
    numbers = np.arange(workers * iterations).reshape(workers, iterations)
    return np.round(mean * (0.5 + (numbers * 0.618034) % 1), 6).tolist()


def sync(
    name: str,
    times: Table,
    aggregate: int,
    overheads: Overheads | None = None,
    *,
    updates: int = 30,
    **settings: Any,
) -> Any:
    """The file of a run of SyncReplicasOptimizer."""
    described = {
        **_about(name, "tf_sync_replicas", updates, settings),
        "ps": 1,
        "total": len(times),
        "aggregate": aggregate,
        "init_tokens": -1,
        "killed": [],
        **settings,
    }
    workers = tuple(SyncWorker.model_construct(compute=tuple(row)) for row in times)
    killed = tuple(Killed(**dead) for dead in described["killed"])
    live = {**described, "workers": workers, "killed": killed}
    trace = simulated(SyncRun.model_construct(**live), overheads)
    contributions = np.zeros((len(trace.steps), len(times)), dtype=int)
    for row in gradient_rows(trace):
        if row.outcome == Outcome.APPLIED:
            contributions[row.applied_step, row.worker] += 1
    files = [
        {
            **_moments(trace, rank, times[rank]),
            "accepted": [FATES[Outcome(row.outcome)] for row in _rows(trace, rank)],
        }
        for rank in range(len(times))
    ]
    steps = (trace.steps / 1e9).tolist()
    return {
        **described,
        "workers": files,
        "step_done": steps,
        "contributions": contributions.tolist(),
    }


def asynchronous(
    name: str,
    times: Table,
    overheads: Overheads | None = None,
    *,
    updates: int = 60,
    **settings: Any,
) -> Any:
    """The file of an asynchronous run."""
    described = {**_about(name, "tf_async_ps", updates, settings), "ps": 1, **settings}
    workers = tuple(AsyncWorker.model_construct(compute=tuple(row)) for row in times)
    trace = simulated(AsyncRun.model_construct(**{**described, "workers": workers}), overheads)
    files = []
    for rank, row in enumerate(times):
        done = [one for one in _rows(trace, rank) if one.outcome == Outcome.APPLIED]
        moments = _moments(trace, rank, row)
        files.append(
            {
                **{name: column[: len(done)] for name, column in moments.items()},
                "compute": moments["compute"],
                "end": [one.applied / 1e9 for one in done],
                "applied_as": [one.applied_step + 1 for one in done],
                "staleness": [one.applied_step - one.read_step for one in done],
            }
        )
    return {**described, "workers": files}


def collective(
    name: str,
    times: Table,
    overheads: Overheads | None = None,
    *,
    updates: int = 20,
    **settings: Any,
) -> Any:
    """The file of a run of all-reduces."""
    described = {**_about(name, "gloo_all_reduce", updates, settings), **settings}
    ranks = tuple(Rank.model_construct(compute=tuple(row)) for row in times)
    trace = simulated(CollectiveRun.model_construct(**{**described, "ranks": ranks}), overheads)
    ends = (trace.steps / 1e9).tolist()
    files = []
    for rank, row in enumerate(times):
        rows = _rows(trace, rank)[: len(ends)]
        files.append(
            {
                "compute": list(row),
                "begin": [one.compute_start / 1e9 for one in rows],
                "compute_end": [one.computed / 1e9 for one in rows],
                "end": ends,
            }
        )
    return {**described, "ranks": files}


def write(file: Any, folder: Path) -> Path:
    """Write a file under its name."""
    path = folder / f"{file['id']}.json"
    path.write_text(json.dumps(file))
    return path


def run_of(file: Any, folder: Path) -> Run:
    """A file as it is read."""
    return read_run(write(file, folder))


def simulated(run: Run, overheads: Overheads | None) -> Trace:
    """A run as it is replayed, with its spans."""
    return run_one(SimulatedRun(Replay(run).scenario(overheads), 0, 0))


def _about(name: str, kind: str, updates: int, settings: Any) -> dict[str, Any]:
    payload = settings.get("payload_bytes", 0)
    return {
        "schema": 1,
        "id": name,
        "kind": kind,
        "steps": updates,
        "payload_bytes": payload,
    }


def _rows(trace: Trace, rank: int) -> list[GradientRow]:
    """A worker's gradients that were computed to the end, in order."""
    rows = [row for row in gradient_rows(trace) if row.worker == rank and row.computed >= 0]
    return sorted(rows, key=lambda row: row.iteration)


def _moments(trace: Trace, rank: int, compute: Sequence[float]) -> dict[str, list[float]]:
    """When a worker began each iteration, computed, and was done with it; its times to compute."""
    rows = _rows(trace, rank)
    length = max(len(rows) + 1, len(compute))
    begins = []
    for row in rows:
        reading = [
            span.start
            for span in span_rows(trace, rank)
            if span.iteration == row.iteration
            and span.phase in (Phase.READ, Phase.QUEUE)
            and span.start < row.compute_start
        ]
        begins.append(min(reading, default=row.compute_start) if row.iteration else 0)
    ends = [*begins[1:], max(trace.end, rows[-1].computed)]
    return {
        "compute": [compute[index % len(compute)] for index in range(length)],
        "begin": [time / 1e9 for time in begins],
        "compute_begin": [row.compute_start / 1e9 for row in rows],
        "compute_end": [row.computed / 1e9 for row in rows],
        "end": [time / 1e9 for time in ends],
    }
