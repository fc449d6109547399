"""Where commands may write: places that are free, or hold results of the same kind.

One rule for all of them. A directory is written to if it does not exist, is empty, or holds what a
command of the same kind wrote; then its own files are replaced, and all others are kept. A file is
replaced if the same command wrote it. Links and directories under the names of files are never
replaced.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar

from varsim.scenario.provenance import MADE_BY, provenance
from varsim.study.sweep.store import STORE, is_runs_file

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.scenario.variables import VariablesScenario

T = TypeVar("T")

Kind: TypeAlias = Literal[
    "training", "variables", "sweep", "plan", "tune", "why", "story", "validation", "stragglers"
]
RUN: Final[tuple[Kind, ...]] = ("training", "variables")

# The file by which a directory is known, and what its `kind` says.
FACTS: Final[dict[Kind, str]] = {
    "training": "summary.json",
    "variables": "result.json",
    "sweep": "results.json",
    "plan": "plan.json",
    "why": "why.json",
    "stragglers": "stragglers.json",
}
NAMES: Final[dict[Kind, str]] = {
    "training": "the report of a run",
    "variables": "the report of a run",
    "sweep": "a sweep",
    "plan": "a plan",
    "why": "the explanation of a scenario",
    "validation": "a validation report",
    "stragglers": "step times that were looked at",
}
_VALIDATED: Final = (b"Made by `varsim validate", b"Made by `python -m validation")
_SECTIONS: Final = "closed_forms peers published measured_runs identities"


def _with_plots(files: str, plots: str) -> frozenset[str]:
    drawn = {f"{name}.{form}" for name in plots.split() for form in ("png", "svg")}
    return frozenset({*files.split(), *drawn})


# All that the results of each kind may consist of.
FILES: Final[dict[Kind, frozenset[str]]] = {
    "training": _with_plots(
        "report.html scenario.yaml summary.json summary.csv updates.csv spans.csv evaluations.csv "
        "steps.csv links.csv lives.csv sends.csv trace.json.gz",
        "throughput time_split timeline staleness loss loss_time loss_updates links life",
    ),
    "variables": _with_plots(
        "report.html scenario.yaml result.json summary.csv runs.csv acts.csv sent.csv links.csv",
        "cost step crossover",
    ),
    "sweep": _with_plots(
        "report.html sweep.yaml results.json results.csv runs.jsonl",
        "throughput time_to_target staleness wasted final_loss heat scaling pareto",
    ),
    "plan": _with_plots(
        "report.html plan.yaml plan.json plan.md cells.csv runs.jsonl",
        "pareto",
    ),
    "why": _with_plots("why.html why.md why.json", "why"),
    "validation": _with_plots(
        "index.html index.md lines.csv measured.md "
        + " ".join(f"{section}.md" for section in _SECTIONS.split()),
        "measured agreement " + " ".join(f"errors_{section}" for section in _SECTIONS.split()),
    ),
    "stragglers": _with_plots("stragglers.json", "heat_map"),
}
# So begins a file of facts, even if it is damaged further on.
_BEGINS: Final = f'"made_by": "{MADE_BY}",'.encode()


class NotARunError(FileExistsError):
    """A place that does not hold what is needed there: not to be replaced, not to be read."""


class Asked(NamedTuple):
    """What results are of: the name of a scenario, and the hash of all that was asked."""

    name: str
    sha256: str

    @classmethod
    def of(cls, scenario: "Scenario | VariablesScenario") -> Self:
        """What a run of a scenario is asked."""
        return cls(scenario.name, str(provenance(scenario)["scenario_sha256"]))


def check_target(directory: Path, *kinds: Kind) -> None:
    """Raise NotARunError if results of one of these kinds may not be written there, or cannot.

    Without kinds: of a run.
    """
    kinds = kinds or RUN
    if directory.exists():
        if not directory.is_dir():
            raise NotARunError(f"{directory} is a file; name a directory for the report")
        if any(directory.iterdir()) and not set(kinds) & set(kinds_of(directory)):
            what = NAMES[kinds[0]].removeprefix("the report of ").replace("a run", "a varsim run")
            raise NotARunError(
                f"{directory} holds files that are not {what}; they are left alone: "
                "name another directory"
            )
        for name in sorted(frozenset[str]().union(*(FILES[kind] for kind in kinds))):
            path = directory / name
            if path.is_symlink() or (path.exists() and not path.is_file()):
                what = "a link" if path.is_symlink() else "no file"
                raise NotARunError(
                    f"{path} is {what}; it is left alone: name another directory, or move it away"
                )
        if not os.access(directory, os.W_OK | os.X_OK):
            raise NotARunError(f"no permission to write in {directory}")
    if directory.exists() and not set(kinds) & set(RUN):
        return  # only runs are put in the place of a directory
    above = next((path for path in directory.resolve().parents if path.exists()), Path("/"))
    if not above.is_dir():
        raise NotARunError(f"{above} is a file; {directory} cannot be made in it")
    if in_the_way := _in_the_way(directory.resolve()):
        raise NotARunError(
            f"{in_the_way} is in the way, and was not written by varsim: move it away"
        )
    if not os.access(above, os.W_OK | os.X_OK):
        raise NotARunError(f"no permission to write in {above}")


def kinds_of(directory: Path) -> list[Kind]:
    """What kinds of results a directory holds; several only where somebody put them together."""
    found: list[Kind] = [kind for kind in FACTS if facts_in(directory, kind) is not None]
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
    path = directory / FACTS[kind]
    try:
        text = path.read_bytes() if path.is_file() else b""
        facts = json.loads(text)
    except (ValueError, RecursionError):
        named = f'"kind": "{kind}"'.encode() in text[:500] or kind in RUN
        return {} if _BEGINS in text[:100] and named else None
    ours = isinstance(facts, dict) and facts.get("made_by") == MADE_BY
    return facts if ours and (kind in RUN or facts.get("kind") == kind) else None


def replaced(directory: Path, kinds: Sequence[Kind], asked: Asked) -> str:
    """What to say of results of another scenario that are replaced; empty where there are none."""
    for kind in kinds:
        facts = facts_in(directory, kind)
        if facts is None:
            continue
        if not facts:
            return f"{NAMES[kind]} in {directory}, which was damaged, is replaced"
        name, provenance = facts.get("name"), facts.get("provenance")
        if name != asked.name:
            return f"{NAMES[kind]} of {name!r} in {directory} is replaced by that of {asked.name!r}"
        made = provenance if isinstance(provenance, dict) else {}
        if asked.sha256 not in (facts.get("asked_sha256"), made.get("scenario_sha256")):
            return (
                f"{NAMES[kind]} of {name!r} in {directory}, with other settings or by another "
                "version, is replaced"
            )
    return ""


def check_file(path: Path, mark: str, by: str) -> None:
    """Raise NotARunError if a file is in the way that does not have a mark of ours at its head."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        what = "a link" if path.is_symlink() else "no file"
        raise NotARunError(f"{path} is {what}; it is left alone: name another file")
    if path.exists() and mark.encode() not in _head(path):
        raise NotARunError(f"{path} already exists, and was not written by {by}: name another file")
    if not path.resolve().parent.is_dir():
        raise NotARunError(f"cannot write {path}: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
        raise NotARunError(f"no permission to write {path}")


def put_into(directory: Path, kind: Kind, fill: Callable[[Path], T]) -> T:
    """Have `fill(path)` write files aside, then put each in its place in `directory`.

    What else lies there is kept. Raises NotARunError as `check_target` does, OSError if it cannot
    be written.
    """
    check_target(directory, kind)
    partial = directory / f".{kind}.partial-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        try:
            filled = fill(partial)
            for path in sorted(partial.iterdir()):
                path.replace(directory / path.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        if error.strerror is not None:  # said of what the caller knows
            error.filename = str(directory)
            del error.filename2
        raise
    return filled


def previous_of(target: Path) -> Path:
    """Where an older run is kept while another takes its place."""
    return target.with_name(f".{target.name}.previous")


def _in_the_way(target: Path) -> Path | None:
    previous = previous_of(target)
    if previous.is_symlink():
        return previous
    if not previous.exists() or set(kinds_of(previous)) & set(RUN):
        return None
    return previous if not previous.is_dir() or any(previous.iterdir()) else None


def _just_began(directory: Path) -> bool:
    """Whether nothing lies there but what a sweep or plan begins with, its runs still empty."""
    runs, began = directory / STORE, {STORE, f"{STORE}-journal", "sweep.yaml"}
    empty = runs.is_file() and runs.stat().st_size == 0
    return empty and all(one.name in began for one in directory.iterdir())


def _head(path: Path) -> bytes:
    """The beginning of a file; nothing where there is none."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(4000)
    return b""
