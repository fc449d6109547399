"""Where commands may write: places that are free, or hold results of the same kind.

One rule for all of them. A directory is written to if it does not exist, is empty, or holds what a
command of the same kind wrote; then its own files are replaced, and all others are kept. A file is
replaced if the same command wrote it. Links and directories under the names of files are never
replaced.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar

from varsim.scenario.writing import MADE_BY, provenance
from varsim.study.store import STORE, is_runs_file

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.scenario.variables import VariablesScenario

T = TypeVar("T")

Kind: TypeAlias = Literal[
    "run",
    "check",
    "sweep",
    "plan",
    "tune",
    "compare",
    "why",
    "story",
    "validation",
    "calibration",
    "stragglers",
]

_VALIDATED: Final = (b"Made by `varsim validate", b"Made by `python -m validation")
_SECTIONS: Final = (
    "closed_forms peers published measured_runs presets slow_links between_nodes sharded "
    "interruptions faults identities"
)


class Leaves(NamedTuple):
    """What results of a kind leave: how that is called, and all that it may consist of.

    `facts`: the file by which a directory is known.
    """

    said: str
    facts: str
    page: str
    files: frozenset[str]

    @classmethod
    def of(cls, said: str, facts: str, page: str, files: str, plots: str) -> Self:
        """Names with blanks between them; plots without what their forms add."""
        drawn = {f"{name}.{form}" for name in plots.split() for form in ("png", "svg")}
        return cls(said, facts, page, frozenset({*f"{facts} {page} {files}".split(), *drawn}))


KINDS: Final[dict[Kind, Leaves]] = {
    "run": Leaves.of(
        *("the report of a run", "summary.json", "report.html"),
        "scenario.yaml summary.csv updates.csv spans.csv evaluations.csv steps.csv links.csv "
        "attempts.csv sends.csv acts.csv sent.csv trace.json.gz animation.svg",
        "throughput step_time time_split timeline staleness loss loss_time loss_updates links life",
    ),
    "sweep": Leaves.of(
        *("a sweep", "results.json", "report.html", "sweep.yaml results.csv runs.jsonl"),
        "throughput time_to_target staleness wasted final_loss heat scaling pareto",
    ),
    "plan": Leaves.of(
        *("a plan", "plan.json", "report.html", "plan.yaml plan.md configurations.csv runs.jsonl"),
        "pareto",
    ),
    "tune": Leaves.of(
        *("the best learning rates", "rates.json", "report.html", "rates.csv tuned.yaml", "")
    ),
    "compare": Leaves.of(
        *("a comparison", "comparison.json", "report.html", "comparison.csv", "comparison")
    ),
    "why": Leaves.of("the explanation of a scenario", "why.json", "why.html", "why.md", "why"),
    "validation": Leaves.of(
        *("a validation report", "", "index.html"),
        " ".join(["index.md lines.csv measured.md", *(f"{one}.md" for one in _SECTIONS.split())]),
        "measured agreement",
    ),
    "stragglers": Leaves.of(
        "step times that were looked at", "stragglers.json", "", "", "heat_map"
    ),
}
# What a sweep or a plan begins with, before there are results.
_BEGUN: Final = frozenset({STORE, "sweep.yaml"})
# Where files lie until all are written, by process; then all of them, until each is in its place.
_ASIDE: Final = ".varsim-"
_WHOLE: Final = f"{_ASIDE}whole"
_GONE: Final = "gone-"  # with a name: an older file that has no successor
# So begins a file of facts, even if it is damaged further on.
_BEGINS: Final = f'"made_by": "{MADE_BY}",'.encode()


class NotARunError(FileExistsError):
    """A place that does not hold what is needed there: not to be replaced, not to be read."""


class Origin(NamedTuple):
    """What results are of: the name of a scenario, and the hash of all that was asked."""

    name: str
    sha256: str

    @classmethod
    def of(cls, scenario: "Scenario | VariablesScenario") -> Self:
        """What a run of a scenario is asked."""
        return cls(scenario.name, str(provenance(scenario)["scenario_sha256"]))


def check_target(directory: Path, kind: Kind = "run") -> None:
    """Raise NotARunError if results of this kind may not be written there, or cannot."""
    if not directory.exists():
        above = next((path for path in directory.resolve().parents if path.exists()), Path("/"))
        if not above.is_dir():
            raise NotARunError(f"{above} is a file; {directory} cannot be made in it")
        if not os.access(above, os.W_OK | os.X_OK):
            raise NotARunError(f"no permission to write in {above}")
        return
    if not directory.is_dir():
        raise NotARunError(f"{directory} is a file; name a directory for the report")
    _finish(directory)
    there = [one for one in directory.iterdir() if not one.name.startswith(_ASIDE)]
    if there and kind not in kinds_of(directory):
        what = KINDS[kind].said.removeprefix("the report of ").replace("a run", "a varsim run")
        raise NotARunError(
            f"{directory} holds files that are not {what}; they are left alone: "
            "name another directory"
        )
    for name in sorted(KINDS[kind].files):
        _check_place(directory / name, "directory, or move it away")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise NotARunError(f"no permission to write in {directory}")


def _check_place(path: Path, another: str) -> None:
    """Raise NotARunError where a link or a directory is in the place of a file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        what = "a link" if path.is_symlink() else "no file"
        raise NotARunError(f"{path} is {what}; it is left alone: name another {another}")


def kinds_of(directory: Path) -> list[Kind]:
    """What kinds of results a directory holds; several only where somebody put them together."""
    found: list[Kind] = [kind for kind in KINDS if facts_in(directory, kind) is not None]
    if is_runs_file(directory / STORE) or _just_began(directory):  # under way, or interrupted
        began: Kind = "sweep" if (directory / "sweep.yaml").exists() else "plan"
        found += [began] if began not in found and not {"sweep", "plan"} & set(found) else []
    heads = [_head(directory / name) for name in ("index.md", "measured.md")]
    if any(mark in head for mark in _VALIDATED for head in heads):
        found.append("validation")
    return found


def facts_in(directory: Path, kind: Kind) -> dict[str, Any] | None:
    """What the file says by which results of this kind are known; None if it is not one of ours.

    Nothing of a damaged one but that it is ours.
    """
    path = directory / KINDS[kind].facts
    try:
        text = path.read_bytes() if path.is_file() else b""
        facts = json.loads(text)
    except (ValueError, RecursionError):
        named = f'"kind": "{kind}"'.encode() in text[:500] or kind == "run"
        return {} if _BEGINS in text[:100] and named else None
    ours = isinstance(facts, dict) and facts.get("made_by") == MADE_BY
    return facts if ours and (kind == "run" or facts.get("kind") == kind) else None


def replaced(directory: Path, kind: Kind, asked: Origin) -> str:
    """What to say of results of another scenario that are replaced; empty where there are none."""
    facts = facts_in(directory, kind)
    if facts is None:
        return ""
    what = f"replacing {KINDS[kind].said}"
    if not facts:
        return f"{what} in {directory}, which was damaged"
    name, provenance = facts.get("name"), facts.get("provenance")
    if name != asked.name:
        return f"{what} of {name!r} in {directory} with that of {asked.name!r}"
    made = provenance if isinstance(provenance, dict) else {}
    if asked.sha256 in (facts.get("asked_sha256"), made.get("scenario_sha256")):
        return ""
    return f"{what} of {name!r} in {directory}, made with other settings or by another version"


def check_file(path: Path, mark: str, by: str) -> None:
    """Raise NotARunError if a file is in the way that does not have a mark of ours at its head."""
    _check_place(path, "file")
    if path.exists() and mark.encode() not in _head(path):
        raise NotARunError(f"{path} already exists, and was not written by {by}: name another file")
    if not path.resolve().parent.is_dir():
        raise NotARunError(f"cannot write {path}: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
        raise NotARunError(f"no permission to write {path}")


def put(directory: Path, kind: Kind, fill: Callable[[Path], T]) -> T:
    """Have `fill(path)` write files aside, then put them in the place of all results of its kind.

    Never half: nothing in `directory` changes until all are written; should the process be killed
    from then on, what comes next finishes it. Older results without a successor go; what others
    put there is kept, and so are the runs and the space of a sweep. Raises NotARunError as
    `check_target` does, OSError if it cannot be written.
    """
    check_target(directory, kind)
    made, aside = not directory.exists(), directory / f"{_ASIDE}{os.getpid()}"
    with said_of(directory):
        directory.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(directory)
        try:
            aside.mkdir()
            filled = fill(aside)
            written = {path.name for path in aside.iterdir()}
            older = kind != "validation" and kind in kinds_of(directory)
            gone = KINDS[kind].files - written - _BEGUN if older else ()
            for name in filter(lambda name: (directory / name).exists(), gone):
                (aside / f"{_GONE}{name}").touch()
            aside.rename(directory / _WHOLE)
            _finish(directory)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            if made:
                with suppress(OSError):
                    directory.rmdir()  # unless something is there now
    return filled


def put_file(path: Path, text: str) -> None:
    """Write one file: it is there whole or as it was before."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    with said_of(path):
        try:
            partial.write_text(text, encoding="utf-8", newline="\n")
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


@contextmanager
def said_of(path: Path) -> Iterator[None]:
    """An OSError in there is said of a path that the caller knows."""
    try:
        yield
    except OSError as error:
        if error.strerror is not None:
            error.filename = str(path)
            del error.filename2
        raise


def _finish(directory: Path) -> None:
    """Put what lies there whole into its place; what is to go, goes."""
    whole = directory / _WHOLE
    if not whole.is_dir() or whole.is_symlink():
        return
    for path in sorted(whole.iterdir()):
        if path.name.startswith(_GONE):
            (directory / path.name.removeprefix(_GONE)).unlink(missing_ok=True)
            path.unlink()
        else:
            path.replace(directory / path.name)
    whole.rmdir()


def _remove_abandoned(directory: Path) -> None:
    """What processes that were killed while they wrote there have left behind."""
    for path in directory.glob(f"{_ASIDE}*"):
        process = path.name.removeprefix(_ASIDE)
        if process == str(os.getpid()) or (process.isdecimal() and not _runs(int(process))):
            shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    """Whether there is such a process; as if, where there is no asking without harm."""
    try:
        if os.name == "posix":
            os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _just_began(directory: Path) -> bool:
    """Whether nothing lies there but what a sweep or plan begins with, its runs still empty."""
    runs = directory / STORE
    empty = runs.is_file() and runs.stat().st_size == 0
    return empty and all(one.name in _BEGUN for one in directory.iterdir())


def _head(path: Path) -> bytes:
    """The beginning of a file; nothing where there is none."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(4000)
    return b""
