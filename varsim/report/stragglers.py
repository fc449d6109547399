"""The report of what stragglers cost, by step times that somebody measured."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from varsim.report.report import Figure, Report, Text
from varsim.scenario.provenance import MADE_BY
from varsim.study.stragglers import ENOUGH, SAMPLED, Stragglers
from varsim.units import format_seconds

# What no times tell that contain the barrier.
_OF_WAITING: Final = (
    *("barrier_over_mean", "independent_barrier_over_mean", "slow_together", "worker_slowdowns"),
    *("worker_shares_of_last", "one_backup", "two_backups", "device_hours_wasted", "wasted_share"),
)


def report(
    found: Stragglers,
    source: str,
    numbers: Sequence[int],
    left: int,
    more: Sequence[str] = (),
    note: str = "",
) -> Report:
    """What there is to tell of the times of these workers, and `more`.

    `source`: where they are from; `left`: how many times were left out; `note`: why they say
    nothing of waiting, which is then left out.
    """
    from varsim.report.plots.stragglers import PLOT

    lines = (*_lines(found, source, numbers, left, note), *more)
    facts = partial(document, found, numbers, left, note)
    blocks = (Text(lines), Figure(PLOT, found))
    return Report("stragglers", source, lines, (), blocks, {}, facts=facts)


def document(
    found: Stragglers, numbers: Sequence[int], left: int, note: str = ""
) -> dict[str, Any]:
    """All numbers as plain data; with a `note` those of waiting are None."""
    steps, workers = found.table.shape
    backups = [each._asdict() for each in found.backups]
    whole = {
        "made_by": MADE_BY,
        "kind": "stragglers",
        "workers": workers,
        "worker_numbers": list(numbers),
        "steps": steps,
        "rows_left_out": left,
        "mean_seconds": found.mean,
        "barrier_mean_seconds": found.barrier_mean,
        "barrier_over_mean": found.slowdown,
        "independent_barrier_over_mean": found.independent,
        "slow_together": found.dependent and found.slowdown < found.independent,
        "sum_of_barriers_seconds": found.barrier_mean * steps,
        "worker_means": list(found.worker_means),
        "worker_slowdowns": list(found.worker_slowdowns),
        "worker_shares_of_last": list(found.last),
        "cv_within_step_mean": found.cv_within_step,
        "cv_all": found.cv_all,
        **dict(zip(("one_backup", "two_backups"), backups, strict=False)),
        "device_hours": found.barrier_mean * steps * workers / 3600,
        "device_hours_wasted": found.wasted / 3600,
        "wasted_share": found.wasted_share,
        "autocorrelation": {str(lag): value for lag, value in found.autocorrelation.items()},
        "share_equal_to_previous": found.equal_to_previous,
    }
    return {**whole, **dict.fromkeys(_OF_WAITING), "note": note} if note else whole


def _lines(
    found: Stragglers, source: str, numbers: Sequence[int], left: int, note: str
) -> Iterator[str]:
    steps, workers = found.table.shape
    yield (
        f"{source}: {workers} worker{'s' * (workers > 1)}, {steps:,} steps, "
        f"mean {format_seconds(found.mean)}"
    )
    if left:
        yield f"Left out: {left:,} times of steps that not all workers have."
    if note:
        yield note
        return
    yield from sentences(found)
    if workers > 1:
        yield ""
        yield f"{'worker':>8} {'mean':>9} {'slowdown alone':>15} {'comes last':>11}"
        for number, mean, alone, last in zip(
            numbers, found.worker_means, found.worker_slowdowns, found.last, strict=True
        ):
            yield f"{number:>8} {format_seconds(mean):>9} {alone:>15.4f} {100 * last:>9.1f} %"
        yield "slowdown alone: mean step over mean time, if all others always took the mean time."


def sentences(found: Stragglers) -> Iterator[str]:
    """What the statistics say, one sentence a line."""
    steps, workers = found.table.shape
    if steps < ENOUGH:
        yield f"Only {steps} step{'s' * (steps > 1)}: too few to say what is usual."
    if workers == 1:
        yield "One worker only: from its times alone, waiting for others cannot be told."
        return
    hours = found.barrier_mean * steps * workers / 3600
    yield (
        f"Waiting for the slowest: {format_seconds(found.barrier_mean)} a step, "
        f"{found.slowdown:.4g} times the mean; {100 * found.wasted_share:.3g} % of "
        f"{hours:.3g} device-hours (one device a worker) are spent waiting: "
        f"{found.wasted / 3600:.3g}."
    )
    if found.dependent:
        how = "together" if found.slowdown < found.independent else "in turn"
        yield (
            f"Workers are slow {how}: drawn for each worker by itself, the same times would make "
            f"that {found.independent:.4g} times the mean. Play whole steps in a scenario (kind: "
            "trace, replay: cycle): with a law of each worker's own, what backups or asynchrony "
            "save is wrong."
        )
    for count, backup in enumerate(found.backups, start=1):
        who = "one worker" if count == 1 else f"{count} workers"
        yield (
            f"Waiting for all but {who}: {100 * backup.time_saved:.3g} % less time, "
            f"{100 * backup.rate_gain:.3g} % more steps a second, without the gradients of the "
            f"slowest {'one' if count == 1 else count}."
        )
    yield (
        f"Spread: coefficient of variation {100 * found.cv_within_step:.3g} % within a step, "
        f"{100 * found.cv_all:.3g} % of all."
    )
    if found.autocorrelation:
        said = ", ".join(f"{value:.2f} ({lag})" for lag, value in found.autocorrelation.items())
        yield f"Autocorrelation of a worker's steps, by lag: {said}."
    if found.equal_to_previous >= SAMPLED:
        yield (
            f"{100 * found.equal_to_previous:.0f} % of the times equal the worker's time before: "
            "that looks like samples, not like every step measured."
        )
