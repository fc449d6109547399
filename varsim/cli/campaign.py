"""What sweeps and plans share: the directory that keeps their runs, and how runs are made."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import typer

from varsim.cli.console import USAGE, complain
from varsim.cli.progress import SweepProgress

if TYPE_CHECKING:
    from varsim.scenario.plan import Question
    from varsim.scenario.sweep.space import Sweep
    from varsim.study.sweep.campaign import Watcher
    from varsim.study.sweep.case import Case
    from varsim.study.sweep.execution import Backend
    from varsim.study.sweep.store import Store

Kind: TypeAlias = Literal["sweep", "plan"]


def claim(
    file: Path, out: Path | None, kind: Kind, asked: "Sweep | Question", part: str = ""
) -> Path:
    """The directory for what comes of a scenario file; results of the same kind are gone on from.

    Where others lie there, or the file itself, the command ends. Where results of something else
    are there, it is said. `part`: what the name of the directory ends with if none is given.
    """
    from varsim.report.files.directory import (
        NAMES,
        Asked,
        NotARunError,
        check_target,
        kinds_of,
        replaced,
    )

    default = Path("reports") / f"{asked.name}-{kind}{part}"
    directory = out or default
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
    if other := replaced(directory, [kind], Asked(asked.name, asked.sha256)):
        complain(f"varsim: {other}; its runs are kept")
    return directory


def _refuse(why: str, directory: Path, default: Path) -> NoReturn:
    other = default if default != directory else Path(f"{default}-2")
    complain(f"varsim: {why}: name another directory, say --out {other}")
    raise typer.Exit(USAGE)


@contextmanager
def opened(directory: Path, then: str) -> Iterator["Store"]:
    """The runs that a directory keeps; of those that cannot be read it says what `then` happens."""
    from varsim.study.sweep.store import Store

    with Store(directory) as store:
        if store.aside is not None:
            complain(f"varsim: {store.told(then)}")
        yield store


@contextmanager
def making(
    store: "Store",
    cases: "Sequence[Case]",
    jobs: int | None,
    scheduler: str | None,
    quiet: bool,
    told: Callable[[str, float], str],
) -> Iterator["tuple[Backend, Watcher]"]:
    """What makes runs, and what shows how far it is; interrupted, it says how to go on.

    `told` says in words which case, by its key, is the best so far.
    """
    from varsim.study.sweep.execution import backend
    from varsim.units import counted

    progress = SweepProgress(quiet, told)
    try:
        with backend(cases, jobs, scheduler) as made_by, progress:
            yield made_by, progress.show
    except KeyboardInterrupt:
        complain(
            f"varsim: {counted(progress.done, 'run is', 'runs are')} kept in {store.path}; the "
            "same command goes on from there"
        )
        raise
