"""The directory of a run: filled whole or not at all, what others put there left alone."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from varsim.report import formats, page, sheet
from varsim.report.files.claim import (
    FACTS,
    FILES,
    RUN,
    Kind,
    check_target,
    kinds_of,
    previous_of,
    put_into,
)
from varsim.report.render import Format
from varsim.report.report import Report
from varsim.report.told import Report as Told
from varsim.scenario.provenance import to_json

T = TypeVar("T")

# What is written of a report beside its page and figures, and as what.
FORMS: Final[dict[Kind, dict[str, Format]]] = {
    "sweep": {"results.csv": "csv", "results.json": "json"},
    "plan": {"cells.csv": "csv", "plan.json": "json", "plan.md": "md"},
    "why": {"why.md": "md", "why.json": "json"},
    "stragglers": {"stragglers.json": "json"},
}
_DRAWN: Final = (".png", ".svg")


def put(directory: Path, fill: Callable[[Path], T]) -> T:
    """Have `fill(path)` write a run, then put that in place; returns what `fill` does.

    An older run in `directory` is replaced once the new one is complete; what else lies there is
    kept. Raises NotARunError if it holds no run, OSError if it cannot be written; then, and when
    interrupted, whatever was there before is untouched.
    """
    check_target(directory)
    target = directory.resolve()
    partial = target.with_name(f"{_partial(target)}{os.getpid()}")
    previous = previous_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        partial.mkdir()
        filled = fill(partial)
        _put_in_place(partial, target, previous)
    except OSError as error:
        if error.strerror is not None:  # said of what the caller knows, not of a file on its way
            error.filename = str(directory)
            del error.filename2
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return filled


def put_run(
    directory: Path,
    kind: Kind,
    files: Mapping[str, Iterable[str] | bytes],
    facts: dict[str, Any],
    report: Report | Callable[[Path], None] | None,
) -> None:
    """Put a run in its place: its files, its facts, and its report, or what a function writes."""

    def fill(path: Path) -> None:
        for name, parts in files.items():
            if isinstance(parts, bytes):
                (path / name).write_bytes(parts)
                continue
            with (path / name).open("w", encoding="utf-8", newline="") as file:
                file.writelines(parts)
        (path / FACTS[kind]).write_text(to_json(facts), encoding="utf-8", newline="\n")
        if callable(report):
            report(path)
        elif report is not None:
            page.write(report, path)

    put(directory, fill)


def put_report(report: Told, directory: Path, more: Mapping[str, str | bytes | None] = {}) -> None:
    """Put what is told of something where its files lie: as text, its page, its plots.

    Each file is there whole or as it was before; plots that the report no longer has go, and so do
    those of `more` of which there is nothing. Raises as `put_into` does.
    """
    plots = report.plots()

    def fill(path: Path) -> None:
        pictures = {f"{plot.name}.png": plot.title(subject) for plot, subject in plots}
        for name, format in FORMS[report.kind].items():
            text = formats.in_file(report, format, pictures)
            (path / name).write_bytes(text.encode())
        for name, content in more.items():
            if content is not None:
                raw = content.encode() if isinstance(content, str) else content
                (path / name).write_bytes(raw)
        if plots:
            from varsim.report.plots.plot import write_all

            write_all(plots, path)
        if report.kind in page.PAGES:
            sheet.write(report, path, beside=directory)

    put_into(directory, report.kind, fill)
    drawn = {f"{plot.name}.png" for plot, _ in plots}
    gone = {name for name in FILES[report.kind] - drawn if Path(name).suffix in _DRAWN}
    for name in gone | {name for name, content in more.items() if content is None}:
        (directory / name).unlink(missing_ok=True)


def head(question: str) -> str:
    """The comment that a written scenario begins with: what it is to answer, if that is known."""
    return "".join(f"{f'# {line}'.rstrip()}\n" for line in question.splitlines())


def _partial(target: Path) -> str:
    """What the directories are called in which a run is being written, but for the process."""
    return f".{target.name}.partial-"


def _remove_abandoned(target: Path) -> None:
    """What processes that were killed while writing this run have left behind."""
    for path in target.parent.iterdir():
        process = path.name.removeprefix(_partial(target))
        if process == path.name or not process.isdecimal() or _is_other(int(process)):
            continue
        if _is_ours(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    """Whether a directory is one in which a run was written: perhaps not yet all of it."""
    if path.is_symlink() or not path.is_dir():
        return False
    if set(kinds_of(path)) & set(RUN):  # then there may be links to what others put beside it
        return True
    names = frozenset[str]().union(*(FILES[kind] for kind in RUN))
    return all(one.name in names and one.is_file() for one in path.iterdir())


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
    ours = frozenset[str]().union(*(FILES[kind] for kind in kinds_of(source) if kind in RUN))
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
