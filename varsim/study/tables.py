"""The tables of a result: their columns, and how they come out of the rows of its traces."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.recovery import goes_on, in_run
from varsim.cluster.record.trace import Trace
from varsim.scenario.fault import known
from varsim.scenario.training import AnyScenario, Scenario
from varsim.study.gradients import NANOSECONDS, GradientTable
from varsim.study.metrics import (
    ACTIVITIES,
    METRICS,
    OUTCOMES,
    Metric,
    ageing_by,
    metrics,
    share_of_applied,
    utilization,
)
from varsim.study.verdict import evaluated_grid, interval, latest

if TYPE_CHECKING:
    from pandas import DataFrame

Column = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.object_]

WHOSE = {
    "strategy": "label of the strategy",
    "replication": "number of the replication, from 0",
}
# What every column of every table means: table -> column -> description with unit.
COLUMNS: dict[str, dict[str, str]] = {
    "summary": {
        "strategy": "label of the strategy",
        "metric": "what is measured",
        "unit": "unit of mean, low and high; empty for pure numbers",
        "mean": "mean over replications (geometric for ratios); empty where it does not exist",
        "low": "lower end of the 95 % confidence interval (Student t over replications)",
        "high": "upper end of the 95 % confidence interval",
        "replications": "number of replications in which the number exists",
        "note": "what else there is to say about this number",
        "description": "what the metric means",
    },
    "runs": {
        **WHOSE,
        "stopped_by": "the stop rule that ended the run, deadlock if nothing could happen any "
        "more, or chief if all had ended in good order",
        **{name: f"{about.description} [{about.unit or '1'}]" for name, about in METRICS.items()},
    },
    "updates": {
        **WHOSE,
        "worker": "rank of the worker that computed the gradient",
        "iteration": "the worker's own count, from 0",
        "read_s": "when the parameters were read, s",
        "read_step": "global_step at that moment, updates; of a replica with a copy of its own, "
        "that copy's updates",
        "compute_start_s": "when computing began, s",
        "computed_s": "when computing ended, s; empty if that never came",
        "arrived_s": "when the last part of the gradient reached its variable, s",
        "ended_s": "when it was applied, dropped or lost, s",
        "ended_step": "global_step just before that, updates; of a replica with a copy of its own, "
        "that copy's updates; empty while pending, or if it was lost",
        "outcome": "applied, dropped (too stale, or given up), partly (applied to some "
        "variables), pending or lost (its worker ended)",
        "applied_share": "share of the variables it was applied to, 0 to 1",
        "staleness": "ended_step - read_step, updates; empty where there is no ended_step",
        "age_s": "ended_s - read_s, s; empty while pending",
    },
    "spans": {
        **WHOSE,
        "worker": "rank of the worker",
        "activity": "compute, read, write, queue, barrier, token, lock or down",
        "start_s": "start, s",
        "end_s": "end, s",
        "iteration": "the worker's own count, from 0",
    },
    "evaluations": {
        **WHOSE,
        "time_s": "simulated time, s",
        "global_step": "updates made so far",
        "examples": "examples in applied gradients so far",
        "loss": "training loss",
        "accuracy": "share of examples classified correctly; empty where there are no classes",
        "divergence": "largest distance between two copies; 0 where there is one",
        "off_grid": "1 where it was measured besides, as the first update whose loss is at or "
        "below a loss that was waited for; else 0",
    },
    "steps": {**WHOSE, "global_step": "number of the update, from 1", "time_s": "when, s"},
    "links": {
        **WHOSE,
        "link": "name of the link",
        "bandwidth_bytes_per_s": "what it can carry, bytes/s",
        "moved_bytes": "what had passed it when the run ended, a message in part, bytes",
        "utilization": "carried / (bandwidth x simulated time), 0 to 1",
    },
    "workers": {
        **WHOSE,
        "worker": "rank of the worker",
        "lifetime_s": "simulated time, s: the sum of the next eight",
        "compute_s": "computing gradients, s",
        "read_s": "reading parameters over an otherwise idle route, s",
        "write_s": "writing gradients over an otherwise idle route, s",
        "queue_s": "waiting for, or sharing, a link or a server, s",
        "barrier_s": "waiting for other replicas, s",
        "token_s": "waiting for a token, s",
        "lock_s": "waiting for a lock on a server, s",
        "down_s": "not running, s",
        "produced": "gradients of this worker",
        "applied": "its applied gradients; a partly applied one counts by its share",
        "share_of_applied": "applied, as a share of all workers' applied gradients, 0 to 1",
    },
}

# The same of a table that there is only where hosts fail at random.
OF_ATTEMPTS: dict[str, dict[str, str]] = {
    "attempts": {
        **WHOSE,
        "start_s": "when the attempt began, s",
        "productive_s": "work that was kept, with its communication and waiting, s",
        "checkpoint_s": "what completed checkpoints cost, s",
        "lost_s": "work, and checkpoints, that the failure at its end threw away, s",
        "detection_s": "then: until the failure was noticed, s",
        "repair_s": "waiting for a spare host, or for the repair of one, s",
        "restart_s": "restarting, s; the sum of these six is the length of the attempt",
        "steps": "updates that were kept",
        "steps_lost": "updates that were thrown away, and made again",
        "checkpoints": "checkpoints that were completed",
        "failures": "failures at its end, and while the job was down after it",
        "spares": "spare hosts that took over",
    }
}
# The same of a table that there is only where workers send while they compute.
OF_SENDS: dict[str, dict[str, str]] = {
    "sends": {
        **WHOSE,
        "worker": "rank of the worker",
        "activity": "write, or read of parameters that are gathered",
        "start_s": "when it began to be sent, s",
        "end_s": "when all of it was there, s",
        "iteration": "the worker's own count when it began, from 0",
    }
}
_VALUE = "all elements of a small value, else the first three, then '...' and the mean of all"
# And of programs of variables: what was done, and what was sent for it.
OF_ACTS: dict[str, dict[str, str]] = {
    "acts": {
        **WHOSE,
        "step": "number of the step, from 1",
        "line": "the action's place in the program: its part, and its number in it from 0",
        "repetition": "which of its `times` it is, from 0",
        "actor": "who acted: a replica, or the outside",
        "action": "what was done",
        "variable": "the variable it was done to; empty for compute",
        "begin_s": "start, s",
        "end_s": "end, s",
        "handed": f"what it was done with: {_VALUE}",
        "seen": f"what was read, saved or restored: {_VALUE}",
        "copies": "the first 64 copies of the variable at that moment, with ' | ' between them",
        "movements": "numbers of the movements made for it, as in sent.csv",
    },
    "sent": {
        **WHOSE,
        "movement": "number of the movement in the run, from 0: one operation's messages",
        "round": "number of the round of the movement, from 0; rounds follow one another",
        "what": "the operation",
        "from": "who sent: a replica, the outside (on the machine of replica 0) or a server (ps)",
        "to": "who received",
        "bytes": "size, bytes",
        "start_s": "when it was sent, s",
        "end_s": "when it had arrived, s",
    },
}
# Tables of others that programs have, too.
_OF_STEPS = ("summary", "spans", "steps", "links")
# And of jobs that go on with fewer hosts, and of failures that strike inside a run.
_OF_FEWER = {"hosts": "hosts that took part"}
_OF_WORKERS = {"worker": "rank of the worker whose attempt it is; a step is one of its gradients"}
# What some columns of other tables mean where such failures undo what was done.
_OF_UNDONE = {
    "updates": {
        "outcome": "applied (be it undone later), dropped (too stale, or given up), partly "
        "(applied to some variables), pending or lost (its worker ended)",
    },
    "evaluations": {
        "global_step": "updates that the model is then made of",
        "examples": "examples in their gradients",
    },
    "steps": {"global_step": "number of the update, from 1, counting those undone later"},
}


def _more_of_attempts(scenario: AnyScenario) -> dict[str, str]:
    """Columns of attempts that only some have."""
    if not isinstance(scenario, Scenario):
        return {}
    if in_run(scenario.failures):
        return _OF_WORKERS
    return _OF_FEWER if goes_on(scenario.recovery) else {}


def of_attempts(scenario: AnyScenario) -> dict[str, dict[str, str]]:
    """The table of attempts, where a scenario has one."""
    if scenario.failures is None:
        return {}
    return {"attempts": OF_ATTEMPTS["attempts"] | _more_of_attempts(scenario)}


def columns_of(scenario: AnyScenario) -> dict[str, dict[str, str]]:
    """COLUMNS, in words that are right for a scenario, with the table of attempts if it has one."""
    if not isinstance(scenario, Scenario):
        return {name: COLUMNS[name] for name in _OF_STEPS} | OF_ACTS
    undone = _OF_UNDONE if in_run(scenario.failures) else {}
    said = {table: COLUMNS[table] | columns for table, columns in undone.items()}
    return COLUMNS | said | of_attempts(scenario)


def of_sends(traces: Iterable[Trace]) -> dict[str, dict[str, str]]:
    """The table of sends, where anything was sent beside computation."""
    return OF_SENDS if any(len(trace.send_rows) for trace in traces) else {}


def ages_by(scenario: AnyScenario, strategy: str) -> str:
    """What the staleness of a strategy's gradients counts (`Round`)."""
    every = {one.label: one.round.ages_by for one in scenario.strategies}
    return every.get(strategy, "updates")


def metrics_of(scenario: AnyScenario, strategies: Sequence[str]) -> dict[str, Metric]:
    """What is measured of some strategies; where jobs fail at random, of their lives, too."""
    counts = dict.fromkeys(ages_by(scenario, strategy) for strategy in strategies)
    return ageing_by(list(counts), metrics(scenario))


def joined(
    table: str | Sequence[str], traces: list[Trace], parts: list[list[Column]]
) -> "DataFrame":
    """One table of what `parts` holds per trace: whose it is, then the columns, in order.

    `table`: its name, or those of its columns.
    """
    from pandas import DataFrame

    sizes = [len(part[0]) for part in parts]
    labels = np.array([trace.strategy for trace in traces], dtype=object)
    numbers = np.array([trace.replication for trace in traces], dtype=np.int64)
    columns = [
        np.repeat(labels, sizes),
        np.repeat(numbers, sizes),
        *(np.concatenate(column) for column in zip(*parts, strict=True)),
    ]
    names = list(COLUMNS[table] if isinstance(table, str) else table)[: len(columns)]
    return DataFrame(dict(zip(names, columns, strict=True)))


def updates(rows: GradientTable) -> list[Column]:
    """The columns of `updates`, of one trace."""
    ended_step = np.where(rows.applied_step < 0, np.nan, rows.applied_step)
    age = np.where(rows.ended, (rows.applied - rows.read) / NANOSECONDS, np.nan)
    times = (rows.read, rows.compute_start, rows.computed, rows.arrived, rows.applied)
    read, start, computed, arrived, ended = (_seconds(time) for time in times)
    outcome = np.array(OUTCOMES, dtype=object)[rows.outcome]
    return [
        *(rows.worker, rows.iteration, read, rows.read_step, start, computed, arrived, ended),
        *(ended_step, outcome, rows.applied_share, ended_step - rows.read_step, age),
    ]


def spans(trace: Trace) -> list[Column]:
    """The columns of `spans`, of one trace."""
    worker, phase, start, end, iteration = trace.spans.T
    names = np.array(ACTIVITIES, dtype=object)[phase]
    return [worker, names, start / NANOSECONDS, end / NANOSECONDS, iteration]


def evaluations(trace: Trace) -> list[Column]:
    """The columns of `evaluations`, of one trace."""
    columns = list(zip(*trace.evaluations, strict=True)) or [()] * 7
    time, step, examples, *values, off_grid = columns
    counts = [np.array(column, dtype=np.int64) for column in (time, step, examples, off_grid)]
    return [
        counts[0] / NANOSECONDS,
        *counts[1:3],
        *(np.array(column, dtype=np.float64) for column in values),
        counts[3],
    ]


def steps(trace: Trace) -> list[Column]:
    """The columns of `steps`, of one trace."""
    return [np.arange(1, len(trace.steps) + 1), trace.steps / NANOSECONDS]


def attempts(scenario: AnyScenario, traces: Iterable[Trace]) -> "DataFrame":
    """The table `attempts`, of traces that have one."""
    lived = [trace for trace in traces if trace.life is not None]
    names = [*OF_ATTEMPTS["attempts"], *_more_of_attempts(scenario)]
    return joined(names, lived, [_life(trace, names[len(WHOSE) :]) for trace in lived])


def _life(trace: Trace, names: Sequence[str]) -> list[Column]:
    assert trace.life is not None
    columns = zip(names, trace.life.T, strict=True)
    return [each / NANOSECONDS if name.endswith("_s") else each for name, each in columns]


def links(trace: Trace) -> list[Column]:
    """The columns of `links`, of one trace."""
    used = [utilization(row.moved, row.bandwidth, trace.end) for row in trace.links]
    return [
        np.array([row.name for row in trace.links], dtype=object),
        np.array([row.bandwidth for row in trace.links], dtype=np.float64),
        np.array([row.moved for row in trace.links], dtype=np.float64),
        np.array(used, dtype=np.float64),
    ]


def workers(trace: Trace, rows: GradientTable, split: NDArray[np.int64]) -> list[Column]:
    """The columns of `workers`, of one trace; `split` is its time per worker and activity, ns."""
    return [
        np.arange(trace.workers),
        np.full(trace.workers, trace.end / NANOSECONDS),
        *(split.T / NANOSECONDS),
        np.bincount(rows.worker, minlength=trace.workers),
        np.bincount(rows.worker, rows.weight, minlength=trace.workers),
        share_of_applied(trace, rows),
    ]


def _seconds(times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Seconds, nan for -1, which says never."""
    return np.where(times < 0, np.nan, times / NANOSECONDS)


def curves(
    runs: Mapping[str, Sequence[Trace]],
    exact: Mapping[str, bool],
    by: Literal["time_s", "global_step"],
    value: Literal["loss", "accuracy", "divergence"],
    points: int,
) -> "DataFrame":
    """Mean and interval over the runs of each strategy of what was evaluated, point by point."""
    known("axis", by, ("time_s", "global_step"))
    known("curve", value, ("loss", "accuracy", "divergence"))
    from pandas import DataFrame

    rows: list[tuple[str, float, float, float, float, int]] = []
    for strategy, own in runs.items():
        if not all(run.evaluations for run in own):
            continue
        on_time = by == "time_s"
        seen = [run.evaluations if on_time else run.kept_evaluations for run in own]
        moments = [
            np.array([row.time if on_time else row.global_step for row in rows]) for rows in seen
        ]
        grid = evaluated_grid(moments, points, even=on_time)
        found = [
            latest(moment, np.array([getattr(row, value) for row in rows]), grid)
            for moment, rows in zip(moments, seen, strict=True)
        ]
        for point, *values in zip(grid.tolist(), *(c.tolist() for c in found), strict=True):
            mean, low, high, count, _ = interval(values, exact=exact[strategy])
            rows.append(
                (strategy, point / NANOSECONDS if on_time else point, mean, low, high, count)
            )
    return DataFrame(rows, columns=["strategy", by, "mean", "low", "high", "replications"])
