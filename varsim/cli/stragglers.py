"""What stragglers cost, told of step times that somebody measured."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from varsim.cli.console import USAGE, complain, write

if TYPE_CHECKING:
    from varsim.study.stragglers import Stragglers


def stragglers(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="CSV of step times (worker,step,seconds, or a column per worker), or traces of "
            "torch.profiler (one per rank).",
        ),
    ],
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(help="Unit of times in a CSV whose header has none."),
    ] = None,
    format: Annotated[
        Literal["table", "json"], typer.Option("--format", help="Text, or all numbers as JSON.")
    ] = "table",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the numbers and a map of worker by step there."),
    ] = None,
) -> None:
    """Tell what stragglers cost, from measured step times.

    How much longer a step takes that waits for all workers, whom it waits for, what one or two
    backup workers would save, and the device-hours that are spent waiting.
    """
    import numpy as np

    if out is not None:
        from varsim.report.files.claim import check_target

        check_target(out, "stragglers")
    from varsim.calibration.forms import Options, read_files
    from varsim.calibration.measurement import UnreadableError
    from varsim.study.stragglers import stragglers as measured

    try:
        read = read_files(files, Options(unit=unit), lambda _: None)
        steps = read.steps
        if steps is None:
            raise UnreadableError([f"{files[0].name}: no step times; see varsim calibrate"])
        common = steps.common()
        if not common:
            raise UnreadableError([f"{steps.source}: no step that all workers have"])
    except UnreadableError as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None
    found = measured(np.array(common))
    left = sum(map(len, steps.rows.values())) - found.table.size
    numbers = list(steps.rows)
    as_json = json.dumps(_as_json(found, numbers, left), indent=2, allow_nan=False)
    if format == "json":
        write(as_json)
    else:
        for line in (*_lines(found, steps.source, numbers, left), *read.recorded):
            write(line)
    if out is not None:
        from varsim.report.files.claim import put_into
        from varsim.report.plots.plot import draw_one
        from varsim.report.plots.stragglers import PLOT

        def fill(path: Path) -> None:
            draw_one(PLOT, found, path)
            (path / "stragglers.json").write_text(f"{as_json}\n", encoding="utf-8", newline="\n")

        put_into(out, "stragglers", fill)
        complain(f"written: {out / 'stragglers.json'}, heat_map.png, heat_map.svg")


def _as_json(found: "Stragglers", numbers: Sequence[int], left: int) -> dict[str, Any]:
    from varsim.scenario.provenance import MADE_BY

    steps, workers = found.table.shape
    backups = [each._asdict() for each in found.backups]
    return {
        "made_by": MADE_BY,
        "kind": "stragglers",
        "workers": workers,
        "worker_numbers": list(numbers),
        "steps": steps,
        "rows_left_out": left,
        "mean_seconds": found.mean,
        "barrier_mean_seconds": found.barrier_mean,
        "barrier_over_mean": found.slowdown,
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


def _lines(found: "Stragglers", source: str, numbers: Sequence[int], left: int) -> Iterator[str]:
    from varsim.study.stragglers import sentences
    from varsim.units import format_seconds

    steps, workers = found.table.shape
    yield (
        f"{source}: {workers} worker{'s' * (workers > 1)}, {steps:,} steps, "
        f"mean {format_seconds(found.mean)}"
    )
    if left:
        yield f"Left out: {left:,} times of steps that not all workers have."
    yield from sentences(found)
    if workers > 1:
        yield ""
        yield f"{'worker':>8} {'mean':>9} {'slowdown alone':>15} {'comes last':>11}"
        for number, mean, alone, last in zip(
            numbers, found.worker_means, found.worker_slowdowns, found.last, strict=True
        ):
            yield f"{number:>8} {format_seconds(mean):>9} {alone:>15.4f} {100 * last:>9.1f} %"
        yield "slowdown alone: the mean step, over the mean time, if all others took the mean."
