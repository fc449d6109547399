"""What is measured of the life of a job among random failures: goodput, and where the rest went."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from varsim.cluster.description.recovery import goes_on, in_run
from varsim.cluster.record.trace import HOSTS, Attempt, Trace
from varsim.scenario.training import Scenario
from varsim.study.gradients import Gradients
from varsim.study.lives import life_of
from varsim.study.measure import METRICS, NANOSECONDS, Metric

_OF_ALL: Final = "share of all time of all workers, over the whole life of the job,"
# In the order in which the parts are told; they sum to 1.
PARTS: Final = {
    "goodput": ("productive", "in work that was kept, with its communication and waiting"),
    "life_checkpoint": ("checkpoint", "that completed checkpoints cost"),
    "life_lost": ("lost", "in work, and checkpoints, that a failure threw away"),
    "life_detection": ("detection", "until failures were noticed"),
    "life_repair": ("repair", "waiting for a spare host, or for the repair of one"),
    "life_restart": ("restart", "restarting, the reading of the checkpoint included"),
}
TO_TARGET: Final = "life_time_to_target"
KEPT: Final = "kept_examples_per_s"
SPEED: Final = "examples_per_s"
DOWN: Final = ("life_detection", "life_repair", "life_restart")
OF_LIVES: Final[dict[str, Metric]] = {
    **{name: Metric("fraction", f"{_OF_ALL} {about}") for name, (_, about) in PARTS.items()},
    "availability": Metric("fraction", f"{_OF_ALL} in which the job was not down"),
    KEPT: Metric(
        "1/s", "examples in updates that were kept, per second of the whole life of the job"
    ),
    "failures_per_day": Metric("1/d", "failures that met the job"),
    "interruptions": Metric("", "how often the job had to restart"),
    "cost_per_interruption": Metric("s", "time lost and down for each of them"),
    "steps_discarded": Metric("updates", "updates that were thrown away, and made again"),
    "spares_used": Metric("", "how often a spare host took over"),
    TO_TARGET: Metric(
        "s", "when in the life of the job the update that reaches the target loss is first made"
    ),
}
# Of a sweep and a plan, where `every: optimal` chooses it.
INTERVAL: Final = "checkpoint_interval"
INTERVALS: Final[dict[str, Metric]] = {
    INTERVAL: Metric(
        "s",
        "the interval between checkpoints that every: optimal chose: of work, where a horizon is "
        "followed, else of time; empty where every is a time",
    ),
}
# In other words: what is told of jobs that are undisturbed as they are simulated, and what where
# failures strike inside the run, and undo what was done.
_UNDISTURBED: Final = {
    "examples_per_s": "examples in applied gradients per second, as long as nothing fails",
}
_INTERRUPTED: Final = {
    "updates": "updates that were kept: how often global_step rose, except for those undone",
    "gradients_applied": "gradients applied to every variable, and not undone",
    "gradients_dropped": "gradients of which nothing is left: too stale, given up, lost with their "
    "worker, or undone",
    "wasted_compute": "compute time of dropped, lost and undone gradients, and of the dropped "
    "share of partly applied ones, of all compute time",
    "updates_to_target": "updates that the model was made of by then",
    "interruptions": "how often workers had to restart",
    "cost_per_interruption": "time of workers, all together, lost and down for each of them",
}


def metrics(scenario: Scenario) -> dict[str, Metric]:
    """METRICS, and OF_LIVES where hosts fail at random, in words that are right there."""
    if scenario.failures is None:
        return METRICS
    known = METRICS | OF_LIVES
    said = _INTERRUPTED if in_run(scenario.failures) else _UNDISTURBED
    return known | {name: Metric(known[name].unit, about) for name, about in said.items()}


def throughput(scenario: Scenario) -> str:
    """The metric that is a throughput: examples/s, and where hosts fail those that were kept."""
    return SPEED if scenario.failures is None else KEPT


def of_life(
    scenario: Scenario,
    trace: Trace,
    gradients: Gradients,
    measured: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Each of OF_LIVES of one run; nothing where no failures are followed.

    Where they strike inside the run, its workers are interrupted: all is of their time together.
    `measured`: METRICS of the run; without them it is not told when the target loss is reached.
    """
    life = trace.life
    if life is None:
        return {}
    total = dict(zip(Attempt._fields, life.sum(axis=0).tolist()[:HOSTS], strict=True))
    parts = {name: total[field] for name, (field, _) in PARTS.items()}
    whole, down = sum(parts.values()), sum(parts[name] for name in DOWN)
    often = int((life[:, Attempt._fields.index("failures")] > 0).sum())
    each, lasted = trace.global_step, whole
    inside = bool(in_run(scenario.failures))
    if inside:  # attempts are theirs, and steps their gradients
        often, each = len(life) - trace.workers, int(gradients.used.sum())
        lasted = whole // trace.workers
    kept = total["steps"]
    if goes_on(scenario.recovery):  # whose updates are of fewer examples
        steps = life[:, Attempt._fields.index("steps")]
        kept = float((steps * life[:, HOSTS]).sum()) / scenario.cluster.network.machines(
            trace.workers
        )
    away = (total["lost"] + down) / NANOSECONDS
    examples = float(gradients.weight.sum()) * trace.batch_size / max(1, each)
    return {
        **{name: part / whole for name, part in parts.items()},
        "availability": 1.0 - down / whole,
        KEPT: kept * examples * NANOSECONDS / lasted,
        "failures_per_day": total["failures"] * 86_400 * NANOSECONDS / lasted,
        "interruptions": float(often),
        "cost_per_interruption": away / often if often else math.nan,
        "steps_discarded": float(total["steps_lost"]),
        "spares_used": float(total["spares"]),
        TO_TARGET: _to_target(scenario, trace, measured or {}),
    }


def _to_target(scenario: Scenario, trace: Trace, measured: Mapping[str, float]) -> float:
    """When (s) the update that reaches the target is first made; nan where it never is."""
    assert trace.life is not None
    step = measured.get("updates_to_target", math.nan)
    if math.isnan(step) or not step:
        return step
    inside = bool(in_run(scenario.failures))
    if goes_on(scenario.recovery):
        return math.nan  # other updates than those whose loss is known
    if inside:
        time = round(measured["time_to_target"] * NANOSECONDS)
        until = np.searchsorted(trace.steps, time, side="right")
        return float(trace.steps[until - 1]) / NANOSECONDS
    made = life_of(scenario, trace).updates(int(step))
    return next((time / NANOSECONDS for time, number in made if number == step), math.nan)
