"""The commands on what was measured: calibrate, stragglers, validate."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from varsim.cli import options
from varsim.cli.console import OUT_OF_BOUNDS, complain, refuse, show, write

if TYPE_CHECKING:
    from varsim.calibration.forms import FormOptions
    from varsim.calibration.recorded.runs import Run
    from varsim.report.told import Report

Halves: TypeAlias = Literal["first", "second", "all"]

# At the head of what is written to a file: by this it may be replaced.
MARK: Final = "# Made by varsim calibrate."
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?%")


def percent(text: str) -> float:
    """`4%` as a number."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a percentage (for example 4%)")
    return float(found[1]) / 100


def byte_size(text: str) -> float:
    """`100 MB` in bytes, above 0."""
    from varsim.core.units import parse

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
        typer.Option("--as", help="What the files are; default: detected from their content."),
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
            help="What nccl-tests measured, if the output does not say: all_reduce, ...",
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1_000_000,
            metavar="N",
            help="Ranks that took part in nccl-tests, if the output does not say.",
        ),
    ] = None,
    unit: options.Unit = None,
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
    quiet: options.Quiet = False,
    runs: options.Runs = None,
    half: Annotated[
        Halves, typer.Option(help="Use the first half of the runs, the second, or all.")
    ] = "first",
    format: Annotated[
        Literal["yaml", "json"], typer.Option("--format", help="A part of a scenario, or JSON.")
    ] = "yaml",
) -> None:
    """Turn measurements into part of a scenario.

    With files: latency and bandwidth, or the distribution of compute times. Without: the overheads
    of a cluster, from recorded runs (--runs, --half).
    """
    _check_options(
        bool(files),
        {"--as": form, "--size": size, "--collective": collective, "--ranks": ranks, "--unit": unit}
        | {"--workers-per-node": workers_per_node, "--idle": idle, "--out": out},
        {"--runs": runs, "--half": None if half == "first" else half},
    )
    if out is not None and format == "json":
        raise typer.BadParameter("--format json has no effect: --out writes YAML")
    if files:
        from varsim.calibration.forms import FormOptions

        asked = FormOptions(form, collective, ranks, unit, idle)
        _fit(files, asked, size, workers_per_node, out, quiet, format)
    elif runs is not None:
        _show_parts(_learnt(runs, half), format)
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
    asked: "FormOptions",
    size: float | None,
    per_node: int | None,
    out: Path | None,
    quiet: bool,
    format: str,
) -> None:
    """Print what the files say of a cluster, as YAML; or write it to `out`."""
    from varsim.calibration.forms import read_files
    from varsim.calibration.fragment import fragment
    from varsim.calibration.measurement import UnreadableError

    beside = None if out is None else out.with_suffix(".csv")
    measured_too = {file.resolve() for file in files}
    _refuse_measured(out, measured_too)
    if out is not None and out == beside:
        refuse(f"what is written is YAML: not {out}, but {out.with_suffix('.yaml')}")
    try:
        measured = read_files(files, asked, _said(quiet))
        found = fragment(measured, size, None if beside is None else beside.name, per_node)
    except UnreadableError as error:
        refuse(str(error))
    text = "".join(f"{line}\n" for line in found.lines)
    if out is None or beside is None:
        _show_parts([found.lines], format)
        return
    from varsim.report.files.directory import check_file, put_file

    if found.csv is not None:
        _refuse_measured(beside, measured_too)
    check_file(out, MARK, "varsim calibrate")
    if found.csv is not None:
        # A table has no room for a mark: its fragment, which names it, is there and has one.
        ours = out.exists() and beside.name in out.read_text(encoding="utf-8", errors="replace")
        check_file(beside, "" if ours else "\0", "varsim calibrate")
        put_file(beside, found.csv)
        write(f"written: {beside}")
    put_file(out, f"{MARK}\n{text}")
    write(f"written: {out}")


def _refuse_measured(file: Path | None, measured: set[Path]) -> None:
    if file is not None and file.resolve() in measured:
        refuse(f"{file} is one of the measurements and is not overwritten: give another --out")


def _said(quiet: bool) -> Callable[[str], None]:
    """Passes on what is said meanwhile, unless it is to be quiet."""
    return lambda what: None if quiet else complain(f"varsim: {what}")


def _learnt(folder: Path, half: Halves) -> list[list[str]]:
    """The overheads that half of a folder's runs tell of, a part of a scenario per family."""
    from varsim.calibration.recorded.comparison import calibrate_half, family_of
    from varsim.report.products.recorded import fragment

    runs, parts = read(folder), list[list[str]]()
    for family in dict.fromkeys(map(family_of, runs)):
        found = calibrate_half(runs, family, None if half == "all" else half)
        said = ["# nothing to be learnt"] if found is None else fragment(found)
        parts.append(
            [f"# overheads of {family}, {half if half == 'all' else f'{half} half'}", *said]
        )
    return parts


def _show_parts(parts: Sequence[Sequence[str]], format: str) -> None:
    """Print parts of a scenario, lines of YAML with remarks as comments; or both as JSON."""
    if format == "yaml":
        write("---\n".join("".join(f"{line}\n" for line in lines) for lines in parts), end="")
        return
    from varsim.report.products.recorded import document
    from varsim.scenario.writing import to_json

    write(to_json(document(parts)), end="")


def stragglers(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="CSV of step times (worker,step,seconds, or a column per worker), or traces of "
            "torch.profiler (one per rank).",
        ),
    ],
    unit: options.Unit = None,
    format: options.Data = "table",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the numbers and a map of worker by step there."),
    ] = None,
    every: options.All = False,
) -> None:
    """Show what stragglers cost, from measured step times.

    How much longer a step that waits for all workers takes, whom it waits for, what one or two
    backup workers would save, and the device-hours that are spent waiting.
    """
    options.check_all(every, format)
    if out is not None:
        from varsim.report.files.directory import check_target

        check_target(out, "stragglers")
    from varsim.calibration.forms import FormOptions, read_files
    from varsim.calibration.measurement import UnreadableError
    from varsim.calibration.steps import equal_times, of_common_steps
    from varsim.report.products.measurements import report

    try:
        read = read_files(files, FormOptions(unit=unit), lambda _: None)
        steps = read.steps
        if steps is None:
            raise UnreadableError(f"{files[0].name}: no step times; see varsim calibrate")
        found = of_common_steps(steps)
        if found is None:
            raise UnreadableError(f"{steps.source}: no step that all workers have")
    except UnreadableError as error:
        refuse(str(error))
    left = sum(map(len, steps.rows.values())) - found.table.size
    numbers = list(steps.rows)
    note = equal_times(steps, found)
    told = report(found, steps.source, numbers, left, read.recorded, note)
    show(told, format, [], every=every)
    if out is not None:
        from varsim.report.files.save import put_report

        put_report(told, out)
        complain(f"written: {out / 'stragglers.json'}, heat_map.png")


def validate(
    runs: options.Runs = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            parser=percent,
            metavar="PERCENT",
            help="Exit with 3 if a total time is off by more.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to write.")] = None,
    quiet: options.Quiet = False,
    format: options.Prose = "table",
    every: options.All = False,
) -> None:
    """Predict your own recorded runs, and report the errors.

    The runs of one kind are split into two halves; each half is predicted from the other.
    """
    options.check_all(every, format)
    if runs is None:
        raise typer.BadParameter(
            "name the folder of your recorded runs: --runs DIR. The validation of varsim itself "
            "runs in its repository: python -m validation"
        )
    from varsim.calibration.recorded.comparison import compare
    from varsim.report.products.recorded import off, report

    if out is not None:
        from varsim.report.files.directory import check_target

        check_target(out, "validation")
    comparison = compare(read(runs), _said(quiet))
    if not comparison.predictions:
        refuse("nothing is computed in any of these runs; there is nothing to predict")
    told, closing = report(comparison), []
    if out is not None:
        command = f"varsim validate --runs {runs} --out {out}"
        closing.append(f"report: {write_measured(command, told, out)}")
    show(told, format, closing, every=every)
    found = off(comparison)
    if max_error is not None and found > max_error:
        complain(
            f"varsim: {comparison.worst.run} is off by {100 * found:.2f} %, which is more than "
            f"{100 * max_error:g} %"
        )
        raise typer.Exit(OUT_OF_BOUNDS)


def read(folder: Path) -> "list[Run]":
    """The runs of a folder; ends with USAGE where they cannot be read, a line for each problem."""
    from varsim.calibration.recorded.runs import RunFileError, read_runs

    try:
        return read_runs(folder)
    except RunFileError as error:
        refuse(str(error))


def write_measured(command: str, told: "Report", out: Path) -> Path:
    """Write measured.md and its figure into a directory; the page. `command` made it."""
    from varsim.report import formats
    from varsim.report.charts.marks import write_all
    from varsim.report.files.directory import put

    about = "Predicted against measured total time, and the error of each run"
    text = formats.in_file(told, "md", {"measured.png": about})
    title, _, rest = text.partition("\n\n")
    page = f"{title}\n\nMade by `{command}`. Do not edit.\n\n{rest}"

    def fill(path: Path) -> None:
        write_all(told.drawn(), told.families, path, "png")
        (path / "measured.md").write_text(page, encoding="utf-8", newline="\n")

    put(out, "validation", fill)
    return out / "measured.md"
