"""What is told of measured step times: what stragglers cost."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from varsim.report.notes import plain
from varsim.report.told import Chart, Column, Note, Number, Report, Table, Value
from varsim.scenario.writing import MADE_BY
from varsim.study.stragglers import ENOUGH, SAMPLED, Stragglers

_MOST_COLUMNS: Final = 600  # of the map
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
    notes = [*_measured(found, source, left), *([] if note else _notes(found))]
    notes += [Note("recorded", {"said": line}) for line in more if line]
    said = {"headline": tuple(_headline(found, numbers, note)), "notes": tuple(notes)}
    return Report(
        "stragglers",
        source,
        said["headline"],
        _table(found, numbers, note),
        said["notes"],
        facts=partial(document, found, numbers, left, note, said),
        pictures=partial(_pictures, found, numbers),
    )


def _pictures(found: Stragglers, numbers: Sequence[int]) -> tuple[Chart, ...]:
    """A map of worker by step: times over the mean of all; of many steps a cell is the mean."""
    steps = found.table.shape[0]
    groups = np.array_split(np.arange(steps), min(steps, _MOST_COLUMNS))
    rows = [
        {"x": int(group[0]), "row": numbers[worker], "mean": float(means[worker]), "best": False}
        for group in groups
        for means in [found.table[group].mean(axis=0) / found.mean]
        for worker in reversed(range(len(means)))  # the first on top
    ]
    of = "time / mean of all"
    return (Chart.of("heat_map", "heat", rows, "step", "worker", by=of, target=1.0),)


def _headline(found: Stragglers, numbers: Sequence[int], note: str) -> Iterator[Note]:
    """What waiting for the slowest costs, and what a backup would save; or why nobody knows."""
    if note:
        yield Note("times-hold-waiting", {"why": note})
    elif found.table.shape[1] == 1:
        yield Note("one-worker")
    else:
        yield Note(
            "waiting",
            {
                "barrier": Number(found.barrier_mean, unit="s"),
                "times": Number(found.slowdown),
                "share": Number(found.wasted_share, unit="share"),
            },
        )
        most = max(found.last)
        if most >= max(0.5, 1.5 / len(found.last)):
            who = str(numbers[found.last.index(most)])
            yield Note("comes-last", {"who": who, "share": Number(most, unit="share")})
        for backup in found.backups[:1]:
            saved, gain = (
                Number(one, unit="share") for one in (backup.time_saved, backup.rate_gain)
            )
            yield Note("one-backup", {"saved": saved, "gain": gain})


def _table(found: Stragglers, numbers: Sequence[int], note: str) -> Table:
    """A row per worker."""
    columns = [Column("mean", "mean", tuple(Number(one, unit="s") for one in found.worker_means))]
    if not note and found.table.shape[1] > 1:
        alone = tuple(map(Number, found.worker_slowdowns))
        last = tuple(Number(one, unit="share") for one in found.last)
        columns.append(Column("slowdown", "slowdown alone", alone, note="slowdown-alone"))
        columns.append(Column("last", "comes last", last))
    return Table(tuple(map(str, numbers)), tuple(columns), corner="worker", fold=False)


def _measured(found: Stragglers, source: str, left: int) -> Iterator[Note]:
    """What the times are of."""
    steps, workers = found.table.shape
    if left:
        yield Note("times-left-out", {"count": left})
    if steps < ENOUGH:
        yield Note("few-steps", {"count": steps})
    of: dict[str, Value] = {"workers": workers, "steps": steps}
    yield Note("step-times", {"source": source, **of, "mean": Number(found.mean, unit="s")})


def _notes(found: Stragglers) -> Iterator[Note]:
    """What the statistics say besides."""
    if found.table.shape[1] == 1:
        return
    if found.dependent:
        how = "together" if found.slowdown < found.independent else "in turn"
        yield Note("slow-alike", {"how": how, "times": Number(found.independent)})
    yield Note("slowdown-alone")
    for backup in found.backups[1:2]:
        saved, gain = (Number(one, unit="share") for one in (backup.time_saved, backup.rate_gain))
        yield Note("two-backups", {"saved": saved, "gain": gain})
    yield Note(
        "spread",
        {
            "within": Number(found.cv_within_step, unit="share"),
            "all": Number(found.cv_all, unit="share"),
        },
    )
    if found.autocorrelation:
        lags = tuple(f"{value:.2f} ({lag})" for lag, value in found.autocorrelation.items())
        yield Note("autocorrelation", {"lags": ", ".join(lags)})
    if found.equal_to_previous >= SAMPLED:
        yield Note("sampled", {"share": Number(found.equal_to_previous, unit="share")})


def document(
    found: Stragglers,
    numbers: Sequence[int],
    left: int,
    note: str,
    said: Mapping[str, tuple[Note, ...]],
) -> dict[str, Any]:
    """All numbers as plain data; with a `note` those of waiting are None."""
    steps, workers = found.table.shape
    backups = [each._asdict() for each in found.backups]
    whole = {
        "made_by": MADE_BY,
        "kind": "stragglers",
        **{part: [plain(one) for one in notes] for part, notes in said.items()},
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
