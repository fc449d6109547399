"""The options of the command that calibrates."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from varsim.cli.calibration import byte_size, collective_name
from varsim.cli.options import Quiet, Runs
from varsim.cli.recordings import Halves


def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[FILE]...",
            show_default=False,
            help="Output of nccl-tests (text or JSON), CSV (bytes,seconds or step times), traces "
            "of torch.profiler (one per rank).",
        ),
    ] = [],  # noqa: B006
    form: Annotated[
        Literal["nccl", "csv", "steps", "kineto"] | None,
        typer.Option("--as", help="What the files are; default: told by what is in them."),
    ] = None,
    size: Annotated[
        float | None,
        typer.Option(
            parser=byte_size,
            metavar="SIZE",
            help="Message size that the network is to be right for, as in 100 MB; default: the "
            "largest measured.",
        ),
    ] = None,
    collective: Annotated[
        str | None,
        typer.Option(
            parser=collective_name,
            metavar="NAME",
            help="What nccl-tests measured, where it does not say so: all_reduce, all_gather, ...",
        ),
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(min=2, max=1_000_000, metavar="N", help="How many ranks it had.")
    ] = None,
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(help="Unit of times in a CSV whose header has none."),
    ] = None,
    workers_per_node: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Fit a network of kind nodes: collectives of at most N ranks tell the links "
            "inside, those of more the network cards.",
        ),
    ] = None,
    idle: Annotated[
        Literal["keep", "drop"] | None,
        typer.Option(
            help="Of traces: whether time in which a GPU does nothing counts as compute; default: "
            "keep, as a step takes it."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the YAML there, not to stdout.")
    ] = None,
    quiet: Quiet = False,
    runs: Runs = None,
    half: Annotated[
        Halves, typer.Option(help="Use the first, the second half of the runs, or all.")
    ] = "first",
) -> None:
    """Make measurements into part of a scenario.

    With files: latency and bandwidth, or the law of compute times. Without: the overheads of a
    cluster, from recorded runs (--runs, --half).
    """
    from varsim.cli import calibration

    calibration.check_options(
        bool(files),
        {"--as": form, "--size": size, "--collective": collective, "--ranks": ranks, "--unit": unit}
        | {"--workers-per-node": workers_per_node, "--idle": idle, "--out": out},
        {"--runs": runs, "--half": None if half == "first" else half},
    )
    if files:
        from varsim.calibration.forms import Options

        options = Options(form, collective, ranks, unit, idle)
        calibration.calibrate(files, options, size, workers_per_node, out, quiet)
    else:
        if runs is None:
            raise typer.BadParameter("measurements to read, or recorded runs: --runs DIR")
        from varsim.cli import recordings

        recordings.calibrate(runs, half)
