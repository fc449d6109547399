"""Every metric: what it means, and how it is measured of one run, from the rows of its trace."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Stop
from varsim.cluster.description.recovery import in_run
from varsim.cluster.record.trace import (
    GradientRow,
    LinkRow,
    Outcome,
    Phase,
    Span,
    Trace,
)
from varsim.scenario.training import AnyScenario, Scenario
from varsim.study.gradients import NANOSECONDS, GradientTable, Window, times_only, updates_per_round
from varsim.study.lives import INTERVAL, KEPT, PARTS, TO_TARGET
from varsim.study.simulation import Run, run_one
from varsim.study.verdict import latest, spread
from varsim.study.why.levers import LEVERS, alone, without

ACTIVITIES = tuple(phase.name.lower() for phase in Phase)
OUTCOMES = tuple(outcome.name.lower() for outcome in Outcome)
# Bytes from machine to machine per second; and whether a run says anything.
SENT: Final = "sent_bytes_per_s"
COMPUTED: Final = "gradients_computed_per_worker"
# What programs of variables are compared by: a step is an update.
STEPS: Final = "updates_per_s"
# Losses are compared at these shares of the time that every run of the result lasted.
COMMON_TIMES = {"loss_at_25": 0.25, "loss_at_50": 0.5, "loss_at_75": 0.75, "loss_at_100": 1.0}


# Which runs have a number: all, all beside others, those of jobs that fail at random, those at
# prices, those where `every: optimal` chooses an interval, those of cases of a sweep or plan,
# programs of variables.
Of: TypeAlias = Literal["run", "comparison", "life", "price", "choice", "case", "program"]


class Metric(NamedTuple):
    """What a number means, and which runs have it; unit is empty for pure numbers.

    `of_values`: it may differ between replications whose times are equal. What it means of jobs
    that are undisturbed as they are simulated, and where failures strike inside the run and undo
    what was done, `calm` and `interrupted` say, if it is not the same.
    """

    unit: str
    description: str
    of: Of = "run"
    of_values: bool = False
    calm: str = ""
    interrupted: str = ""


def _four(name: str, unit: str, what: str) -> dict[str, Metric]:
    """The metrics of a spread over one run."""
    return {
        f"{name}_mean": Metric(unit, f"{what}: mean"),
        f"{name}_p50": Metric(unit, f"{what}: median"),
        f"{name}_p95": Metric(unit, f"{what}: 95th percentile"),
        f"{name}_p99": Metric(unit, f"{what}: 99th percentile"),
    }


_STALENESS = "updates between the read and the application of an applied gradient"
_EXCHANGES = "exchanges of others with a worker's copy between its read of it and its own step"
_SHARE = "share of all worker time (workers x simulated time) spent"
_LOSS_AT = "last training loss measured in the first {} % of the time that every run lasted"
_LIFE: Final = "share of all time of all workers, over the whole life of the job,"
# Every number that runs have: one name for each, in CSV files, Python, targets, plans and sweeps.
TABLE: Final[dict[str, Metric]] = {
    "simulated_time": Metric("s", "from the start of the run to its end"),
    "updates": Metric(
        "updates",
        "how often global_step rose",
        interrupted="updates that were kept: how often global_step rose, except for those undone",
    ),
    "updates_per_s": Metric("1/s", "updates per second of simulated time"),
    "gradients_per_s": Metric(
        "1/s", "gradients applied per second; a partly applied one counts by its share"
    ),
    "examples_per_s": Metric(
        "1/s",
        "examples in applied gradients per second",
        calm="examples in applied gradients per second, as long as nothing fails",
    ),
    "speedup": Metric(
        "", "examples/s against one worker alone, paired by replication", of="comparison"
    ),
    "throughput_ratio": Metric(
        "", "examples/s against the first strategy, paired by replication", of="comparison"
    ),
    **_four("step_time", "s", "time from one update to the next"),
    **_four("iteration_time", "s", "time from a worker's read of the parameters to its next read"),
    **_four("staleness", "updates", _STALENESS),
    "staleness_max": Metric("updates", f"{_STALENESS}: largest of a replication"),
    "age_mean": Metric("s", "time between the read and the application of a gradient: mean"),
    "age_p95": Metric(
        "s", "time between the read and the application of a gradient: 95th percentile"
    ),
    "copy_staleness_mean": Metric(
        "updates", "updates by other replicas a copy had not seen when read: mean"
    ),
    "copy_staleness_max": Metric(
        "updates",
        "updates by other replicas a copy had not seen when read: largest of a replication",
    ),
    "share_compute": Metric("fraction", f"{_SHARE} computing gradients"),
    "share_read": Metric("fraction", f"{_SHARE} reading parameters over an otherwise idle route"),
    "share_write": Metric("fraction", f"{_SHARE} writing gradients over an otherwise idle route"),
    "share_queue": Metric("fraction", f"{_SHARE} waiting for, or sharing, a link or a server"),
    "share_barrier": Metric("fraction", f"{_SHARE} waiting for other replicas"),
    "share_token": Metric("fraction", f"{_SHARE} waiting for a token"),
    "share_lock": Metric("fraction", f"{_SHARE} waiting for a lock on a server"),
    "share_down": Metric("fraction", f"{_SHARE} not running"),
    "link_bytes": Metric("bytes", "bytes carried, summed over links: one count per link crossed"),
    "busiest_link": Metric("fraction", "largest share of its capacity that a link carried"),
    "gradients_produced": Metric(
        "gradients",
        "gradients computed by the end, or lost before that: the sum of the next four",
    ),
    "gradients_applied": Metric(
        "gradients",
        "gradients applied to every variable",
        interrupted="gradients applied to every variable, and not undone",
    ),
    "gradients_dropped": Metric(
        "gradients",
        "gradients applied to no variable: too stale, given up, or lost with their worker",
        interrupted="gradients of which nothing is left: too stale, given up, lost with their "
        "worker, or undone",
    ),
    "gradients_partly": Metric("gradients", "gradients applied to some variables only"),
    "gradients_pending": Metric("gradients", "gradients not yet applied when the run ended"),
    "wasted_compute": Metric(
        "fraction",
        "compute time of dropped and lost gradients, and of the dropped share of partly applied "
        "ones, of all compute time",
        interrupted="compute time of dropped, lost and undone gradients, and of the dropped "
        "share of partly applied ones, of all compute time",
    ),
    "applied_share_min": Metric("fraction", "smallest share of applied gradients of one worker"),
    "applied_share_max": Metric("fraction", "largest share of applied gradients of one worker"),
    "final_loss": Metric("", "training loss at the end of the run", of_values=True),
    "final_accuracy": Metric("fraction", "accuracy at the end of the run", of_values=True),
    **{f"loss_at_{n}": Metric("", _LOSS_AT.format(n), of_values=True) for n in (25, 50, 75)},
    "loss_at_100": Metric(
        "", "last training loss measured in the time that every run lasted", of_values=True
    ),
    "time_to_target": Metric(
        "s",
        "time of the first update whose loss is at or below the target; every one is looked at",
        of_values=True,
    ),
    "updates_to_target": Metric(
        "updates",
        "updates made by then",
        of_values=True,
        interrupted="updates that the model was made of by then",
    ),
    "time_to_target_ratio": Metric(
        "",
        "time to the target loss against the first strategy, paired by replication",
        of="comparison",
        of_values=True,
    ),
    "divergence_mean": Metric(
        "", "largest distance between two copies: mean of the evaluations", of_values=True
    ),
    "divergence_max": Metric(
        "",
        "largest distance between two copies: largest evaluation of a replication",
        of_values=True,
    ),
    **{name: Metric("fraction", f"{_LIFE} {about}", "life") for name, (_, about) in PARTS.items()},
    "availability": Metric("fraction", f"{_LIFE} in which the job was not down", "life"),
    KEPT: Metric(
        "1/s", "examples in updates that were kept, per second of the whole life of the job", "life"
    ),
    "failures_per_day": Metric("1/d", "failures that met the job", "life"),
    "interruptions": Metric(
        "",
        "how often the job had to restart",
        "life",
        interrupted="how often workers had to restart",
    ),
    "cost_per_interruption": Metric(
        "s",
        "time lost and down for each of them",
        "life",
        interrupted="time of workers, all together, lost and down for each of them",
    ),
    "steps_discarded": Metric("updates", "updates that were thrown away, and made again", "life"),
    "spares_used": Metric("", "how often a spare host took over", "life"),
    TO_TARGET: Metric(
        "s",
        "when in the life of the job the update that reaches the target loss is first made",
        "life",
    ),
    INTERVAL: Metric(
        "s",
        "the interval between checkpoints that every: optimal chose: of work, where a horizon is "
        "followed, else of time; empty where every is a time",
        "choice",
    ),
    "cost_per_hour": Metric(
        "/h", "price of the machines, and of what they send, in an hour", "price"
    ),
    "cost_per_million_examples": Metric(
        "", "price of a million examples in applied gradients", "price"
    ),
    "cost_to_target": Metric("", "price of the time to the target loss", "price", of_values=True),
    SENT: Metric("bytes/s", "bytes from machine to machine per second", "case"),
    COMPUTED: Metric("gradients", "gradients that each worker computed, on average", "case"),
    "bytes_per_step": Metric(
        "bytes",
        "bytes sent over the network once the variables are there, divided by the steps",
        "program",
    ),
    "messages_per_step": Metric(
        "messages",
        "messages sent over the network once the variables are there, divided by the steps",
        "program",
    ),
}
# What programs of variables have, in words that are right there: a step is an update.
_OF_A_PROGRAM: Final = {
    "simulated_time": "",
    "updates": "steps of the program",
    "updates_per_s": "steps per second of simulated time, once the variables are there",
    **{
        name: one.description
        for name, one in _four("step_time", "s", "time from the end of a step to the next").items()
    },
    "share_compute": f"{_SHARE} computing",
    "share_read": f"{_SHARE} reading variables, or waiting for their first values",
    "share_write": f"{_SHARE} writing variables",
    "share_barrier": f"{_SHARE} waiting for other replicas, or for the outside",
    **dict.fromkeys(("link_bytes", "busiest_link", "bytes_per_step", "messages_per_step"), ""),
}
OF_PROGRAMS: Final = {
    name: TABLE[name]._replace(description=said or TABLE[name].description)
    for name, said in _OF_A_PROGRAM.items()
}


def _those_of(*of: Of) -> dict[str, Metric]:
    return {name: one for name, one in TABLE.items() if one.of in of}


METRICS: Final = _those_of("run", "comparison")
COMPARISONS: Final = _those_of("comparison")
COSTS: Final = _those_of("price")


def metrics(scenario: AnyScenario) -> dict[str, Metric]:
    """What is measured of runs of a scenario, in words that are right there."""
    if not isinstance(scenario, Scenario):
        return OF_PROGRAMS
    if scenario.failures is None:
        return METRICS
    inside = in_run(scenario.failures)
    return {
        name: one._replace(description=(one.interrupted if inside else one.calm) or one.description)
        for name, one in _those_of("run", "comparison", "life").items()
    }


def throughput(scenario: AnyScenario) -> str:
    """The metric that is a throughput: examples/s, where hosts fail those kept; steps/s."""
    if not isinstance(scenario, Scenario):
        return STEPS
    return "examples_per_s" if scenario.failures is None else KEPT


def bounded(target: str, scenario: AnyScenario) -> str:
    """The metric that a target bounds."""
    return throughput(scenario) if target == "throughput" else target


def ageing_by(counts: Sequence[str], metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics in the words of what staleness counts, of one strategy or several (`Round`)."""
    said = {"updates": _STALENESS, "exchanges": _EXCHANGES}
    unit, about = " or ".join(counts), ", or ".join(said[each] for each in counts)
    return {
        name: metric._replace(unit=unit, description=metric.description.replace(_STALENESS, about))
        if name.startswith("staleness")
        else metric
        for name, metric in metrics.items()
    }


def measure(
    trace: Trace,
    gradients: GradientTable,
    worker_time: NDArray[np.int64],
    target: float | None,
    common_end: int,
    window: Window | None = None,
) -> dict[str, float]:
    """Every metric of one run but the COMPARISONS; nan where it does not exist.

    `worker_time`: see the function of this name; `target` is a loss, `common_end` (ns) the time
    that every run of the comparison lasted. Rates, shares, and the staleness and age of
    gradients are of what came in the `window`, as `worker_time` must be; without one, of all.
    """
    window = window or Window(0, trace.end)
    applied = float(
        gradients.of_parts(np.float64, lambda rows: rows.weight[rows.used_in(window)]).sum()
    )
    kept = trace.steps if trace.rolled_back is None else trace.steps[trace.kept_steps]
    updates = int(window.holds(kept).sum())
    lasted = window.length
    inside = (kept >= window.start) & (kept <= window.end)
    values = {
        "simulated_time": trace.end / NANOSECONDS,
        "updates": float(trace.global_step),
        "updates_per_s": _per_second(updates, lasted),
        "gradients_per_s": _per_second(applied, lasted),
        "examples_per_s": _per_second(applied * trace.batch_size, lasted),
        **_named("step_time", np.diff(kept[inside]), NANOSECONDS),
        **_named("iteration_time", _iteration_times(gradients, trace.workers, window), NANOSECONDS),
        **_freshness(trace, gradients, window),
        **_time_split(worker_time),
        **_traffic(trace),
        **_fates(trace, gradients, worker_time, window),
        **_learning(trace, target, common_end),
    }
    assert set(values) | set(COMPARISONS) == set(METRICS), "a metric is missing or unexplained"
    return values


def measure_program(
    trace: Trace, worker_time: NDArray[np.int64], window: Window
) -> dict[str, float]:
    """Every metric of one run of a program of variables; as `measure`."""
    steps = len(trace.steps)
    values = {
        "simulated_time": trace.end / NANOSECONDS,
        "updates": float(steps),
        "updates_per_s": _per_second(steps, window.length),
        **_named("step_time", np.diff(trace.steps, prepend=window.start), NANOSECONDS),
        "step_time_mean": window.length / NANOSECONDS / steps,  # to the last digit
        **_time_split(worker_time),
        **_traffic(trace),
        "bytes_per_step": trace.moved / steps,
        "messages_per_step": trace.messages / steps,
    }
    return {name: values[name] for name in OF_PROGRAMS}


def worker_time(trace: Trace, window: Window | None = None) -> NDArray[np.int64]:
    """Time in ns of every worker on every activity, shape (workers, activities), in a window.

    The spans of a worker must tile its lifetime: no gap, no overlap, from 0 to the end.
    """
    split = np.zeros((trace.workers, len(Phase)), dtype=np.int64)
    inside, tiled = np.zeros_like(split), True
    for rows in trace.span_rows.of_each(Span._fields.index("worker"), trace.workers):
        worker, phase, start, end, _ = rows.T
        np.add.at(split, (worker, phase), end - start)
        if window is not None:
            np.add.at(inside, (worker, phase), window.clipped(start, end))
        same = worker[1:] == worker[:-1]
        if not (start[1:] == end[:-1])[same].all():
            order = np.lexsort((end, start, worker))
            tiled &= bool((start[order][1:] == end[order][:-1])[same].all())
    assert (split.sum(axis=1) == trace.end).all(), (
        f"{trace.strategy}: the parts of a worker's time do not sum to its lifetime"
    )
    assert tiled, f"{trace.strategy}: a worker's spans overlap or leave a gap"
    return split if window is None or window == (0, trace.end) else inside


def computed_per_worker(
    trace: Trace, gradients: GradientTable, after: int = 0, micro_batches: int = 1
) -> float:
    """How many gradients a worker computed to the end, from `after` (ns) on; mean over workers.

    A gradient is of so many `micro_batches`.
    """
    return int((gradients.computed >= after).sum()) / (trace.workers * micro_batches)


def share_of_applied(trace: Trace, gradients: GradientTable) -> NDArray[np.float64]:
    """Each worker's share of all applied gradients, shape (workers,); nan if there are none."""
    weights = np.zeros(trace.workers)
    for rows in gradients.parts():
        np.add.at(weights, rows.worker, rows.weight)
    total = weights.sum()
    return weights / total if total > 0 else np.full(trace.workers, np.nan)


def left_out(trace: Trace, gradients: GradientTable, per_update: int) -> float:
    """Share of the micro-batches of all updates that went into none; nan without an update."""
    whole = trace.global_step * per_update
    return 1.0 - int(gradients.used.sum()) / whole if whole else math.nan


def _per_second(count: float, lasted: int) -> float:
    return count * NANOSECONDS / lasted if lasted > 0 else math.nan


def _named(name: str, values: NDArray[np.number[Any]], scale: float) -> dict[str, float]:
    """The metrics of `_four` of values that nobody else has: they are put in another order."""
    mean, p50, p95, p99, _ = (part / scale for part in spread(values, overwrite=True))
    return {f"{name}_mean": mean, f"{name}_p50": p50, f"{name}_p95": p95, f"{name}_p99": p99}


def _iteration_times(gradients: GradientTable, workers: int, window: Window) -> NDArray[np.int64]:
    found, count = np.empty(len(gradients.rows), dtype=np.int64), 0
    wanted = [GradientRow._fields.index(name) for name in ("worker", "read", "read_step")]
    for rows in gradients.rows.of_each(wanted[0], workers, wanted):
        worker, read, step = rows.T
        if ((read[1:] < read[:-1]) & (worker[1:] == worker[:-1])).any():
            order = np.lexsort((read, worker))
            worker, read, step = worker[order], read[order], step[order]
        again = (read[1:] != read[:-1]) | (step[1:] != step[:-1])  # micro-batches share a read
        inside = (read[:-1] >= window.start) & (read[1:] <= window.end) & again
        times = np.diff(read)[(worker[1:] == worker[:-1]) & inside]
        found[count : count + len(times)] = times
        count += len(times)
    return found[:count]


def _freshness(trace: Trace, gradients: GradientTable, window: Window) -> dict[str, float]:
    age = spread(
        gradients.of_parts(np.int64, lambda rows: (rows.applied - rows.read)[rows.used_in(window)]),
        overwrite=True,
    )
    copies = spread(trace.copy_staleness)
    staleness = gradients.staleness_in(window)
    assert (staleness >= 0).all(), f"{trace.strategy}: a gradient was applied before it was read"
    stalest = float(staleness.max()) if len(staleness) else math.nan
    return {
        **_named("staleness", staleness, 1),
        "staleness_max": stalest,
        "age_mean": age.mean / NANOSECONDS,
        "age_p95": age.p95 / NANOSECONDS,
        "copy_staleness_mean": copies.mean,
        "copy_staleness_max": copies.maximum,
    }


def _time_split(split: NDArray[np.int64]) -> dict[str, float]:
    lifetime = int(split.sum())
    return {
        f"share_{name}": total / lifetime if lifetime > 0 else math.nan
        for name, total in zip(ACTIVITIES, split.sum(axis=0).tolist(), strict=True)
    }


def _traffic(trace: Trace) -> dict[str, float]:
    used = [utilization(link.moved, link.bandwidth, trace.end) for link in trace.links]
    return {
        "link_bytes": math.fsum(link.moved for link in trace.links) if used else math.nan,
        "busiest_link": max(used) if used else math.nan,
    }


def utilization(moved: float, bandwidth: float, duration: int) -> float:
    """Bytes moved as a share of what a link of this bandwidth (bytes/s) can in `duration` ns."""
    capacity = bandwidth * duration / NANOSECONDS
    return moved / capacity if capacity > 0 else math.nan


class Carried(NamedTuple):
    """What a link carried, as the mean over replications: bytes/s, bytes, and share of capacity."""

    bandwidth: float
    moved: float
    utilization: float


def carried(
    runs: Iterable[tuple[str, int, Sequence[LinkRow]]],
) -> dict[str, dict[str, Carried]]:
    """By link, what it carried in each alternative; a run: its alternative, end (ns) and links."""
    found: dict[str, dict[str, list[Carried]]] = {}
    for label, end, links in runs:
        for name, bandwidth, moved in links:
            used = utilization(moved, bandwidth, end)
            one = Carried(bandwidth, moved, used)
            found.setdefault(name, {}).setdefault(label, []).append(one)
    return {
        name: {
            label: Carried(*map(_mean_of_known, zip(*each, strict=True)))
            for label, each in of.items()
        }
        for name, of in found.items()
    }


def _mean_of_known(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _fates(
    trace: Trace, gradients: GradientTable, split: NDArray[np.int64], window: Window
) -> dict[str, float]:
    counts = np.bincount(gradients.fates, minlength=len(Outcome)).tolist()
    assert sum(counts) == len(trace.gradient_rows), "every gradient has exactly one outcome"
    counts[Outcome.DROPPED] += counts.pop(Outcome.LOST)
    wasted = float(gradients.of_parts(np.float64, partial(_wasted, window)).sum())
    computing = int(split[:, Phase.COMPUTE].sum())
    shares = share_of_applied(trace, gradients)
    return {
        "gradients_produced": float(len(trace.gradient_rows)),
        **{f"gradients_{name}": float(n) for name, n in zip(OUTCOMES, counts, strict=False)},
        "wasted_compute": wasted / computing if computing > 0 else math.nan,
        "applied_share_min": float(shares.min()),
        "applied_share_max": float(shares.max()),
    }


def _wasted(window: Window, gradients: GradientTable) -> NDArray[np.float64]:
    """How long each gradient was computed in vain, in a window (ns)."""
    unused = np.where(gradients.ended, 1.0 - gradients.weight, 0.0)
    # Of one that was never computed to the end, what was computed until it was given up.
    until = np.where(gradients.computed < 0, gradients.applied, gradients.computed)
    return np.asarray(window.clipped(gradients.compute_start, until) * unused)


def _learning(trace: Trace, target: float | None, common_end: int) -> dict[str, float]:
    goal = next(
        (row for row in trace.evaluations if target is not None and row.loss <= target), None
    )
    # The others do not depend on what loss was waited for.
    rows = [row for row in trace.evaluations if not row.off_grid]
    last = rows[-1] if rows and not trace.model_lost else None
    moments = np.array([row.time for row in rows], dtype=np.int64)
    losses = np.array([row.loss for row in rows], dtype=np.float64)
    common = latest(moments, losses, np.array(list(COMMON_TIMES.values())) * common_end)
    apart = [row.divergence for row in rows]
    return {
        "final_loss": last.loss if last else math.nan,
        "final_accuracy": last.accuracy if last else math.nan,
        **dict(zip(COMMON_TIMES, common.tolist(), strict=True)),
        "time_to_target": goal.time / NANOSECONDS if goal else math.nan,
        "updates_to_target": float(goal.global_step) if goal else math.nan,
        "divergence_mean": math.fsum(apart) / len(apart) if apart else math.nan,
        "divergence_max": max(apart, default=math.nan),
    }


# Of collectives what a round sends is counted in the third one: by then syncs that are sent ahead,
# or applied late, come as regularly as all later ones.
_COUNTED: Final = (2, 3)
_VARIANCE: Final = next(lever for lever in LEVERS if lever.key == "variance")
_CARRYING: Final = [int(Phase.READ), int(Phase.WRITE)]


def sent_per_second(
    scenario: Scenario,
    trace: Trace,
    window: Window,
    spent: NDArray[np.int64],
    spent_in_window: NDArray[np.int64],
) -> float:
    """Bytes from machine to machine in a second of the window in which rates are measured.

    Where all workers meet, every round sends as much, before its updates or after: a run that ends
    with a round's last update has not sent what follows it. So the bytes of a round are spread over
    its updates. Else the bytes of a run are those of its reads and writes, and the window has the
    share of the time that these take (`spent`, see `worker_time`) which lies in it.
    """
    (index,) = (i for i, one in enumerate(scenario.strategies) if one.label == trace.strategy)
    strategy = scenario.strategies[index]
    disturbed = scenario.events or in_run(scenario.failures) or trace.standstill is not None
    if window.length <= 0 or math.isnan(trace.sent):
        return trace.sent * 0.0
    if strategy.sends.to in ("workers", "sums", "copies") and len(trace.steps) and not disturbed:
        updates = int(window.holds(trace.steps).sum())
        whole = strategy.round.of == "step" and trace.end == trace.steps[-1]
        each = trace.sent / len(trace.steps) if whole else _sent_per_update(scenario, index)
        return each * updates * NANOSECONDS / window.length
    carrying = int(spent[:, _CARRYING].sum())
    share = int(spent_in_window[:, _CARRYING].sum()) / carrying if carrying else 1.0
    lasted = window.length if carrying else trace.end
    return trace.sent * share * NANOSECONDS / lasted


@lru_cache(maxsize=256)
def _sent_per_update(scenario: Scenario, index: int) -> float:
    """Bytes from machine to machine for each update, in a round of steady compute times."""
    only = without(alone(scenario, index), [_VARIANCE])
    strategy = only.strategies[0]
    each = updates_per_round(strategy, only.cluster_of(strategy))
    changes = {"failures": None, "targets": type(only.targets)()}
    first, last = (
        run_one(Run(times_only(only.model_copy(update={**changes, "stop": stop})), 0, 0)).sent
        for stop in (Stop(global_steps=each * often, equal_examples=False) for often in _COUNTED)
    )
    return (last - first) / (each * (_COUNTED[1] - _COUNTED[0]))
