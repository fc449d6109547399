"""Where the results of a sweep or plan go: no place in which they would replace others."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import typer

from varsim.cli.console import USAGE, complain

if TYPE_CHECKING:
    from varsim.report.files.claim import Asked

Kind: TypeAlias = Literal["sweep", "plan"]


def claim(directory: Path, kind: Kind, file: Path, default: Path, asked: "Asked") -> Path:
    """The directory, for what comes of a scenario file; results of the same kind are gone on from.

    Where others lie there, or the file itself, the command ends. `default` is the directory that
    is used where none is named. Where results of something else are there, it is said.
    """
    from varsim.report.files.claim import NAMES, NotARunError, check_target, kinds_of, replaced

    there = kinds_of(directory)
    others = [other for other in there if other not in (kind, "validation", "why", "stragglers")]
    if others and kind not in there:
        _refuse(f"{directory} holds {NAMES[others[0]]}", directory, default)
    if kind not in there and file.resolve() == (directory / f"{kind}.yaml").resolve():
        _refuse(f"{directory} holds {file.name}, which would be replaced", directory, default)
    try:
        check_target(directory, kind)
    except NotARunError as error:
        complain(f"varsim: {error}")
        raise typer.Exit(USAGE) from None
    if other := replaced(directory, [kind], asked):
        complain(f"varsim: {other}; its runs are kept")
    return directory


def _refuse(why: str, directory: Path, default: Path) -> NoReturn:
    other = default if default != directory else Path(f"{default}-2")
    complain(f"varsim: {why}: name another directory, say --out {other}")
    raise typer.Exit(USAGE)
