"""Where the results of a sweep or plan go: no place in which they would replace others."""

from pathlib import Path
from typing import Literal, TypeAlias

import typer

from varsim.commands.console import USAGE, complain

Kind: TypeAlias = Literal["sweep", "plan"]


def free(directory: Path, kind: Kind, file: Path, default: Path) -> Path:
    """The directory, for what comes of a scenario file; results of the same kind are gone on from.

    Where others lie there, or the file itself, the command ends. `default` is the directory that
    is used where none is named.
    """
    from varsim.files.keeping import kinds_of
    from varsim.plan.files import holds_plan
    from varsim.sweep.files import begins_sweep

    there = ""
    if kinds_of(directory):
        there = "the report of a run"
    elif kind == "sweep" and holds_plan(directory):
        there = "a plan"
    elif kind == "plan" and begins_sweep(directory) and not holds_plan(directory):
        there = "a sweep"
    elif _replaced(directory, kind, file):
        there = f"{file.name}, which would be replaced"
    if not there:
        return directory
    other = default if default != directory else Path(f"{default}-2")
    complain(f"varsim: {directory} holds {there}: name another directory, say --out {other}")
    raise typer.Exit(USAGE)


def _replaced(directory: Path, kind: Kind, file: Path) -> bool:
    """Whether a result has the name and place of the file, and is not one that is gone on from."""
    from varsim.sweep.store import FILE

    resumed = kind == "sweep" and (directory / FILE).exists()
    return not resumed and file.resolve() == (directory / f"{kind}.yaml").resolve()
