"""What stragglers cost, told of step times that somebody measured."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from varsim.cli import options
from varsim.cli.console import USAGE, complain, show


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
    every: options.All = False,
) -> None:
    """Tell what stragglers cost, from measured step times.

    How much longer a step that waits for all workers takes, whom it waits for, what one or two
    backup workers would save, and the device-hours that are spent waiting.
    """
    options.check_all(every, format)
    if out is not None:
        from varsim.report.files.directory import check_target

        check_target(out, "stragglers")
    from varsim.calibration.forms import Options, read_files
    from varsim.calibration.measurement import UnreadableError
    from varsim.calibration.steps import equal_times, of_common_steps
    from varsim.report.products.stragglers import report

    try:
        read = read_files(files, Options(unit=unit), lambda _: None)
        steps = read.steps
        if steps is None:
            raise UnreadableError([f"{files[0].name}: no step times; see varsim calibrate"])
        found = of_common_steps(steps)
        if found is None:
            raise UnreadableError([f"{steps.source}: no step that all workers have"])
    except UnreadableError as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None
    left = sum(map(len, steps.rows.values())) - found.table.size
    numbers = list(steps.rows)
    note = equal_times(steps, found)
    told = report(found, steps.source, numbers, left, read.recorded, note)
    show(told, format, [], every=every)
    if out is not None:
        from varsim.report.files.keeping import put_report

        put_report(told, out)
        complain(f"written: {out / 'stragglers.json'}, heat_map.png")
