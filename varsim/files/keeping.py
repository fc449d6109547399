"""The directory of a run: filled whole or not at all, what others put there left alone."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from varsim.result.render import MADE_BY, is_sealed
from varsim.scenario import SCHEMA_VERSION

T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)

Kind: TypeAlias = Literal["training", "variables"]

# The file by which a run of each kind is known.
FACTS: Final[dict[Kind, str]] = {"training": "summary.json", "variables": "result.json"}


def _with_plots(files: str, plots: str) -> frozenset[str]:
    drawn = {f"{name}.{form}" for name in plots.split() for form in ("png", "svg")}
    return frozenset({*files.split(), *drawn})


# All that a run of each kind may consist of.
FILES: Final[dict[Kind, frozenset[str]]] = {
    "training": _with_plots(
        "report.html scenario.yaml summary.json summary.csv updates.csv spans.csv evaluations.csv "
        "steps.csv trace.json.gz",
        "throughput time_split timeline staleness loss_time loss_updates links",
    ),
    "variables": _with_plots(
        "report.html scenario.yaml result.json summary.csv runs.csv acts.csv sent.csv links.csv",
        "cost step crossover",
    ),
}


# Since this version of the engine files have checksums.
SEALED_SINCE: Final = 4
# So begins the file by which a run is known, even if it is damaged further on.
_BEGINS: Final = f'{{\n "made_by": "{MADE_BY}",'.encode()


class NotARunError(FileExistsError):
    """A directory that does not hold a run of ours: not to be replaced, not to be read."""


def put(directory: Path, fill: Callable[[Path], T]) -> T:
    """Have `fill(path)` write a run, then put that in place; returns what `fill` does.

    An older run in `directory` is replaced once the new one is complete; what else lies there is
    kept. Raises NotARunError if it holds no run, OSError if it cannot be written; then, and when
    interrupted, whatever was there before is untouched.
    """
    check_target(directory)
    target = directory.resolve()
    partial = target.with_name(f"{_partial(target)}{os.getpid()}")
    previous = target.with_name(f".{target.name}.previous")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        partial.mkdir()
        filled = fill(partial)
        _put_in_place(partial, target, previous)
    except OSError as error:
        if error.strerror is not None:  # said of what the caller knows, not of a file on its way
            error.filename, error.filename2 = str(directory), None
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return filled


def check_target(directory: Path) -> None:
    """Raise NotARunError if `put` would refuse to write there, or could not."""
    if directory.exists() and not kinds_of(directory):
        if not directory.is_dir():
            raise NotARunError(f"{directory} is a file; name a directory for the report")
        if any(directory.iterdir()):
            raise NotARunError(
                f"{directory} holds files that are not a varsim run; they are left alone: "
                "name another directory"
            )
    above = next(path for path in directory.resolve().parents if path.exists())
    if not above.is_dir():
        raise NotARunError(f"{above} is a file; {directory} cannot be made in it")
    if not os.access(above, os.W_OK | os.X_OK):
        raise NotARunError(f"no permission to write in {above}")


def kinds_of(directory: Path) -> list[Kind]:
    """What kinds of run a directory holds; two only where somebody copied one into another."""
    return [kind for kind in FACTS if _facts(directory, kind) is not None]


def facts_of(directory: Path, kind: Kind) -> dict[str, Any]:
    """What the file says by which a run of this kind is known.

    Raises NotARunError where there is no run of it that this version can read.
    """
    facts, file = _facts(directory, kind), directory / FACTS[kind]
    if facts is None:
        raise NotARunError(f"{directory} holds no varsim run: no {FACTS[kind]} written by varsim")
    with suppress(KeyError, TypeError):
        made = facts["provenance"]
        if made["schema"] != SCHEMA_VERSION:
            raise NotARunError(
                f"{directory} was written by varsim {made['varsim']} with scenario schema "
                f"{made['schema']}, this is schema {SCHEMA_VERSION}: run it again"
            )
        if made["engine"] < SEALED_SINCE:
            raise NotARunError(
                f"{file} was written by an earlier varsim, without checksums: run it again"
            )
    if not is_sealed(facts):
        raise damaged(file)
    return facts


def scenario_of(facts: dict[str, Any], directory: Path, model: type[S]) -> S:
    """The scenario of a run of which these are the facts; NotARunError if it is none any more."""
    try:
        # In a file quantities are text with units, so they are read as from a file.
        return model.model_validate_json(json.dumps(facts["scenario"]), context={"text": True})
    except ValueError as error:
        raise NotARunError(
            f"the scenario of {directory} is none for this version of varsim: run it again"
        ) from error


def checksums(directory: Path, tables: Iterable[str]) -> dict[str, str]:
    """The checksum of the file of each table, as it stands in the facts of a run."""
    return {name: _checksum((directory / f"{name}.csv").read_bytes()) for name in tables}


def sealed_table(directory: Path, name: str, facts: dict[str, Any]) -> bytes:
    """What is in the file of a table of a run of which these are the facts.

    Raises NotARunError where that is not what was written, OSError where it cannot be read.
    """
    content = (directory / f"{name}.csv").read_bytes()
    if _checksum(content) != facts["tables"][name]:
        raise damaged(directory / f"{name}.csv")
    return content


def damaged(file: Path) -> NotARunError:
    """What to say of a file that is not as varsim wrote it."""
    return NotARunError(
        f"{file} is damaged, or was changed since varsim wrote it: run its scenario again"
    )


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _facts(directory: Path, kind: Kind) -> dict[str, Any] | None:
    """What such a file says; nothing of a damaged one but that it is ours; None if it is not."""
    try:
        text = (directory / FACTS[kind]).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return {} if text.startswith(_BEGINS) else None
    return facts if isinstance(facts, dict) and facts.get("made_by") == MADE_BY else None


def _partial(target: Path) -> str:
    """What the directories are called in which a run is being written, but for the process."""
    return f".{target.name}.partial-"


def _remove_abandoned(target: Path) -> None:
    """What processes that were killed while writing this run have left behind."""
    for path in target.parent.iterdir():
        process = path.name.removeprefix(_partial(target))
        if process != path.name and process.isdecimal() and not _is_other(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def _is_other(process: int) -> bool:
    """Is this a process that runs, and not ourselves?"""
    if process == os.getpid():
        return False
    if os.name != "posix":  # elsewhere there is no asking without harm
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _carry(source: Path, target: Path) -> None:
    """Have what others put into `source` in both: as links, or else as copies."""
    ours = frozenset[str]().union(*(FILES[kind] for kind in kinds_of(source)))
    for path in source.iterdir():
        there = target / path.name
        if path.name in ours or there.exists() or there.is_symlink():
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, there, symlinks=True, copy_function=_link)
        else:
            _link(str(path), str(there))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):  # not on every file system, not to everybody's files
        shutil.copy2(source, target, follow_symlinks=False)


def _put_in_place(partial: Path, target: Path, previous: Path) -> None:
    """Two renames; should the second not happen, the first is undone.

    What is kept of the older run is in both before: there is no moment in which it is in neither.
    """
    if previous.exists():  # left by a run that was killed between or after them
        if target.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(target)
    if target.exists():
        _carry(target, partial)
    try:
        if target.exists():
            target.rename(previous)
        partial.rename(target)
    except BaseException:
        if previous.exists() and not target.exists():
            previous.rename(target)
        raise
    shutil.rmtree(previous, ignore_errors=True)
