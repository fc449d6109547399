"""The command that makes measured files, or recorded runs, into part of a scenario."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from varsim.cli import recordings
from varsim.cli.console import USAGE, complain, write
from varsim.cli.options import Quiet, Runs

if TYPE_CHECKING:
    from varsim.calibration.forms import Options


# At the head of what is written to a file: by this it may be replaced.
MARK: Final = "# Made by varsim calibrate."


def byte_size(text: str) -> float:
    """`100 MB` in bytes, above 0."""
    from varsim.units import parse

    try:
        value = parse(text, "bytes")
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    if value <= 0:
        raise typer.BadParameter("a size must be above 0")
    return value


def collective_name(text: str) -> str:
    """One of the collectives that nccl-tests measure."""
    from varsim.calibration.measurement import COLLECTIVES

    if text not in COLLECTIVES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(COLLECTIVES)}")
    return text


def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            show_default=False,
            help="Output of nccl-tests (text or JSON), CSV (bytes,seconds or step times), traces "
            "of torch.profiler (one per rank).",
        ),
    ] = [],  # noqa: B006
    form: Annotated[
        Literal["nccl", "csv", "steps", "kineto"] | None,
        typer.Option("--as", help="What the files are; default: judged by their content."),
    ] = None,
    size: Annotated[
        float | None,
        typer.Option(
            parser=byte_size,
            metavar="SIZE",
            help="Message size to fit the network for, as in 100 MB; needed where no latency and "
            "bandwidth are right for all sizes.",
        ),
    ] = None,
    collective: Annotated[
        str | None,
        typer.Option(
            parser=collective_name,
            metavar="NAME",
            help="What nccl-tests measured, where no line says it: all_reduce, all_gather, ...",
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1_000_000,
            metavar="N",
            help="Ranks that took part in nccl-tests, where no line says it.",
        ),
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
            help="Fit a network of kind nodes: collectives of at most N ranks fit the links "
            "inside, those of more ranks the network cards.",
        ),
    ] = None,
    idle: Annotated[
        Literal["keep", "drop"] | None,
        typer.Option(
            help="For traces: whether time in which a GPU does nothing counts as compute; default: "
            "keep, as it is part of a step."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the YAML there, not to stdout.")
    ] = None,
    quiet: Quiet = False,
    runs: Runs = None,
    half: Annotated[
        recordings.Halves, typer.Option(help="Use the first half of the runs, the second, or all.")
    ] = "first",
) -> None:
    """Turn measurements into part of a scenario.

    With files: latency and bandwidth, or the law of compute times. Without: the overheads of a
    cluster, from recorded runs (--runs, --half).
    """
    _check_options(
        bool(files),
        {"--as": form, "--size": size, "--collective": collective, "--ranks": ranks, "--unit": unit}
        | {"--workers-per-node": workers_per_node, "--idle": idle, "--out": out},
        {"--runs": runs, "--half": None if half == "first" else half},
    )
    if files:
        from varsim.calibration.forms import Options

        options = Options(form, collective, ranks, unit, idle)
        _fit(files, options, size, workers_per_node, out, quiet)
    elif runs is not None:
        recordings.calibrate(runs, half)
    else:
        raise typer.BadParameter("name files of measurements, or recorded runs: --runs DIR")


def _check_options(
    files: bool, with_files: Mapping[str, object], without: Mapping[str, object]
) -> None:
    """Refuse options that have no effect with files, or without them."""
    for given, needs in ((with_files, True), (without, False)):
        for name, value in given.items():
            if value is not None and files is not needs:
                why = "there are no files" if needs else "files are measured, not recorded runs"
                raise typer.BadParameter(f"{name} has no effect: {why}")


def _fit(
    files: Sequence[Path],
    options: "Options",
    size: float | None,
    per_node: int | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Print what the files say of a cluster, as YAML; or write it to `out`.

    What cannot be read, or fitted, is complained of line by line, and the command ends with USAGE.
    """
    from varsim.calibration.forms import read_files
    from varsim.calibration.fragment import fragment
    from varsim.calibration.measurement import UnreadableError

    def said(what: str) -> None:
        if not quiet:
            complain(f"varsim: {what}")

    beside = None if out is None else out.with_suffix(".csv")
    measured_too = {file.resolve() for file in files}
    if out is not None and out.resolve() in measured_too:
        complain(
            f"varsim: {out} is one of the measurements and is not overwritten: give another --out"
        )
        raise typer.Exit(USAGE)
    if out is not None and out == beside:
        complain(f"varsim: what is written is YAML: not {out}, but {out.with_suffix('.yaml')}")
        raise typer.Exit(USAGE)
    try:
        measured = read_files(files, options, said)
        found = fragment(measured, size, None if beside is None else beside.name, per_node)
    except UnreadableError as error:
        for line in str(error).splitlines():
            complain(f"varsim: {line}")
        raise typer.Exit(USAGE) from None
    text = "".join(f"{line}\n" for line in found.lines)
    if out is None or beside is None:
        write(text, end="")
        return
    from varsim.report.files.directory import NotARunError, check_file, put_file

    if found.csv is not None and beside.resolve() in measured_too:
        complain(
            f"varsim: {beside} is one of the measurements and is not overwritten: "
            "give another --out"
        )
        raise typer.Exit(USAGE)
    try:
        check_file(out, MARK, "varsim calibrate")
        if found.csv is not None:
            # A table has no room for a mark: its fragment, which names it, is there and has one.
            ours = out.exists() and beside.name in out.read_text(encoding="utf-8", errors="replace")
            check_file(beside, "" if ours else "\0", "varsim calibrate")
    except NotARunError as error:
        complain(f"varsim: {error}")
        raise typer.Exit(USAGE) from None
    if found.csv is not None:
        put_file(beside, found.csv)
        write(f"written: {beside}")
    text = f"{MARK}\n{text}"
    put_file(out, text)
    write(f"written: {out}")
