"""The commands on what was measured: calibrate, stragglers, validate."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from varsim.cli import options
from varsim.cli.console import OUT_OF_BOUNDS, complain, refuse, show, write

if TYPE_CHECKING:
    from varsim.calibration.forms import FormOptions
    from varsim.calibration.fragment import Fragment
    from varsim.calibration.recorded.runs import Run
    from varsim.report.told import Report

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
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The recorded run to describe; default: that of most ranks."
        ),
    ] = None,
    format: Annotated[
        Literal["yaml", "json"], typer.Option("--format", help="YAML, or JSON.")
    ] = "yaml",
) -> None:
    """Turn measurements into a scenario, or into a part of one.

    With files, a part: latency and bandwidth, or the distribution of compute times. From recorded
    runs (--runs), a whole scenario.
    """
    _check_options(
        bool(files),
        {"--as": form, "--size": size, "--collective": collective, "--ranks": ranks, "--unit": unit}
        | {"--workers-per-node": workers_per_node, "--idle": idle},
        {"--runs": runs, "--run": run},
    )
    if out is not None and format == "json":
        raise typer.BadParameter("--format json has no effect: --out writes YAML")
    if files:
        from varsim.calibration.forms import FormOptions

        asked = FormOptions(form, collective, ranks, unit, idle)
        _fit(files, asked, size, workers_per_node, out, quiet, format)
    elif runs is not None:
        _describe(runs, run, out, format)
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

    measured_too = {file.resolve() for file in files}
    _refuse_measured(out, measured_too)
    beside = _beside(out)
    try:
        measured = read_files(files, asked, _said(quiet))
        found = fragment(measured, size, None if beside is None else beside.name, per_node)
    except UnreadableError as error:
        refuse(str(error))
    if found.csv is not None:
        _refuse_measured(beside, measured_too)
    _hand_over(found, out, format, f"{MARK}\n")


def _describe(folder: Path, run: str | None, out: Path | None, format: str) -> None:
    """Print the scenario of a recorded run, or write it to `out`."""
    from varsim.calibration.measurement import UnreadableError
    from varsim.calibration.recorded.described import described

    beside = _beside(out)
    try:
        found = described(read(folder), run, None if beside is None else beside.name, MARK)
    except UnreadableError as error:
        refuse(str(error))
    _hand_over(found, out, format)


def _beside(out: Path | None) -> Path | None:
    """The CSV of step times that may be written beside a scenario."""
    if out is None:
        return None
    if out == (beside := out.with_suffix(".csv")):
        refuse(f"what is written is YAML: not {out}, but {out.with_suffix('.yaml')}")
    return beside


def _hand_over(found: "Fragment", out: Path | None, format: str, head: str = "") -> None:
    """Print what was fitted, or write it to `out` below `head`, and its CSV beside it."""
    beside = _beside(out)
    if out is None or beside is None:
        _show(found.lines, format)
        return
    from varsim.report.files.directory import check_file, put_file

    check_file(out, MARK, "varsim calibrate")
    if found.csv is not None:
        # A table has no room for a mark: its fragment, which names it, is there and has one.
        ours = out.exists() and beside.name in out.read_text(encoding="utf-8", errors="replace")
        check_file(beside, "" if ours else "\0", "varsim calibrate")
        put_file(beside, found.csv)
        write(f"written: {beside}")
    put_file(out, head + "".join(f"{line}\n" for line in found.lines))
    write(f"written: {out}")


def _refuse_measured(file: Path | None, measured: set[Path]) -> None:
    if file is not None and file.resolve() in measured:
        refuse(f"{file} is one of the measurements and is not overwritten: give another --out")


def _said(quiet: bool) -> Callable[[str], None]:
    """Passes on what is said meanwhile, unless it is to be quiet."""
    return lambda what: None if quiet else complain(f"varsim: {what}")


def _show(lines: Sequence[str], format: str) -> None:
    """Print YAML with remarks as comments, or both as JSON."""
    if format == "yaml":
        write("".join(f"{line}\n" for line in lines), end="")
        return
    from varsim.report.products.recorded import document
    from varsim.scenario.writing import to_json

    write(to_json(document(lines)), end="")


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
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIO",
            show_default=False,
            help="What predicts the runs, as varsim calibrate --runs makes it from others.",
        ),
    ] = None,
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

    By a scenario, where one is given. Without, the runs of one kind are split into two halves, and
    each half is predicted from the other.
    """
    options.check_all(every, format)
    if runs is None:
        raise typer.BadParameter(
            "name the folder of your recorded runs: --runs DIR. The validation of varsim itself "
            "runs in its repository: python -m validation"
        )
    if out is not None:
        from varsim.report.files.directory import check_target

        check_target(out, "validation")
    if file is None:
        told, worst, off = _by_halves(runs, quiet)
    else:
        told, worst, off = _by_scenario(file, runs)
    closing = []
    if out is not None:
        by = "" if file is None else f" {file}"
        command = f"varsim validate{by} --runs {runs} --out {out}"
        closing.append(f"report: {write_measured(command, told, out)}")
    show(told, format, closing, every=every)
    if max_error is not None and off > max_error:
        complain(
            f"varsim: {worst} is off by {100 * off:.2f} %, which is more than {100 * max_error:g} %"
        )
        raise typer.Exit(OUT_OF_BOUNDS)


def _by_halves(runs: Path, quiet: bool) -> "tuple[Report, str, float]":
    """Predict each half of the runs from the other; the farthest run, and how far it is off."""
    from varsim.calibration.recorded.comparison import compare
    from varsim.report.products.recorded import off, report

    comparison = compare(read(runs), _said(quiet))
    if not comparison.predictions:
        refuse("nothing is computed in any of these runs; there is nothing to predict")
    return report(comparison), comparison.worst.run, off(comparison)


def _by_scenario(file: Path, runs: Path) -> "tuple[Report, str, float]":
    """Predict the runs by a scenario; the farthest run, and how far it is off."""
    from varsim.calibration.recorded.described import fitted_to
    from varsim.calibration.recorded.forecast import forecasts, worst
    from varsim.calibration.recorded.runs import RunFileError
    from varsim.report.products.recorded import forecast_report
    from varsim.scenario.loading import load_scenario, read_text
    from varsim.scenario.training import Scenario

    scenario = load_scenario(file)
    if not isinstance(scenario, Scenario):
        refuse(f"{file} is of {scenario.kind}; recorded runs are of training")
    try:
        found = forecasts(scenario, read(runs))
    except RunFileError as error:
        refuse(str(error))
    if not found:
        refuse("nothing is computed in any of these runs; there is nothing to predict")
    farthest = worst(found)
    told = forecast_report(found, str(file), fitted_to(read_text(file)))
    return told, farthest.run, abs(farthest.off)


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
