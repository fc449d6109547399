"""Measured files made into part of a scenario."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from varsim.cli.console import USAGE, complain, write

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


def check_options(
    files: bool, with_files: Mapping[str, object], without: Mapping[str, object]
) -> None:
    """Refuse options that have no effect with files, or without them."""
    for given, needs in ((with_files, True), (without, False)):
        for name, value in given.items():
            if value is not None and files is not needs:
                why = "there are no files" if needs else "files are measured, not recorded runs"
                raise typer.BadParameter(f"{name} has no effect: {why}")


def calibrate(
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
        complain(f"varsim: {out} is measured; it is not overwritten: give another --out")
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
    from varsim.report.files.claim import NotARunError, check_file
    from varsim.report.files.sweep import put

    if found.csv is not None and beside.resolve() in measured_too:
        complain(f"varsim: {beside} is measured; it is not overwritten: give another --out")
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
        csv = found.csv
        put(beside, lambda path: path.write_text(csv, encoding="utf-8", newline="\n"))
        write(f"written: {beside}")
    text = f"{MARK}\n{text}"
    put(out, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
    write(f"written: {out}")
