"""Results that were saved, read back: their numbers, their runs, and what was told of them."""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from varsim.report.files.directory import KINDS, Kind, NotARunError, facts_in
from varsim.report.files.save import FORMS, SWEPT
from varsim.scenario.fault import known
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.study.verdict import Ranking, ranked

if TYPE_CHECKING:
    from pandas import DataFrame

_READ: Final[tuple[Kind, ...]] = ("run", "sweep", "plan", "tune")
_SCENARIO: Final = {"sweep": SWEPT, "plan": "plan.yaml", "tune": "tuned.yaml"}
_MET: Final = ("the answer", "met")  # verdicts of a plan


class Saved:
    """What a command, or `save`, left in a directory; `facts`: all of it as plain data."""

    def __init__(self, directory: Path, kind: Kind, facts: Mapping[str, Any]) -> None:
        self.directory, self.kind, self.facts = directory, kind, facts
        self.name: str = facts["name"]

    def answer(self) -> str:
        """What it came to, one sentence per line."""
        return "\n".join(note["text"] for note in self.facts["headline"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know besides, each with its code."""
        return tuple(f"{note['text']}  [{note['code']}]" for note in self.facts["notes"])

    @property
    def scenario(self) -> Any:
        """What was run; of a plan its answer, of a search for rates the best ones."""
        import varsim

        return varsim.load(self.directory / _SCENARIO.get(self.kind, "scenario.yaml"))

    def frame(self) -> "DataFrame":
        """All its numbers, as they were saved."""
        from pandas import read_csv

        tables = [name for name, form in FORMS.get(self.kind, {}).items() if form == "csv"]
        return read_csv(self.directory / (tables or ["summary.csv"])[0])

    @cached_property
    def runs(self) -> "DataFrame":
        """One row per alternative and replication."""
        from pandas import DataFrame

        if "run_columns" in self.facts:
            return DataFrame(self.facts["run_rows"], columns=self.facts["run_columns"])
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for one in self.facts["summary"]:
            for number, value in enumerate(one["values"]):
                key = one["strategy"], number
                row = rows.setdefault(key, dict(zip(("strategy", "replication"), key, strict=True)))
                row[one["metric"]] = math.nan if value is None else float(value)
        for one in self.facts["runs"]:
            rows[one["strategy"], one["replication"]]["stopped_by"] = one["stopped_by"]
        return DataFrame(rows.values())

    def ranking(self, metric: str, *, highest: bool = False) -> Ranking[Any] | None:
        """The alternatives by one metric; None where none has it.

        Of a plan those that meet the targets, by number; of a search for rates each strategy at its
        best, with fresh seeds.
        """
        runs = self.runs
        key = next(name for name in ("configuration", "strategy") if name in runs)
        known("metric", metric, [str(name) for name in runs.columns])
        once: set[Any] = set()
        if self.kind == "plan":
            table = self.frame()
            runs = runs[runs[key].isin(table[key][table["verdict"].isin(_MET)])]
            once = {*runs[key]} if (runs.groupby(key).size() == 1).all() else set()
        elif self.kind == "tune":
            runs = runs[runs["seeds"] == "fresh"]
        else:
            found = (one for one in self.facts.get("summary", ()) if one["metric"] == metric)
            once = {one["strategy"] for one in found if one["low"] is not None}
        return ranked(
            {one: tuple(map(float, own)) for one, own in runs.groupby(key, sort=False)[metric]},
            equal_within=EQUAL_WITHIN,
            highest=highest,
            exact=lambda one: one in once,
        )

    def __repr__(self) -> str:
        return f"<{KINDS[self.kind].said} {self.name} in {self.directory}>\n{self.answer()}"


def read(directory: str | Path) -> Any:
    """What was saved in a directory, by a command or by `save`.

    A sweep as it was, made anew from the runs that are kept there; else its numbers, see `Saved`.
    ValueError where runs of a sweep are missing, FileExistsError where nothing was saved.
    """
    directory = Path(directory)
    for kind in _READ:
        if facts := facts_in(directory, kind):
            return _swept(directory) if kind == "sweep" else Saved(directory, kind, facts)
    raise NotARunError(f"{directory} holds no results that were saved")


def _swept(directory: Path) -> Any:
    import varsim
    from varsim.study.grid import Grid
    from varsim.study.runs import Runs
    from varsim.study.store import Store

    study = Grid(varsim.load(directory / SWEPT))
    with Store(directory) as store:
        runs = Runs(store)
        study.begin(runs)
    if runs.todo:
        raise ValueError(f"{len(runs.todo)} runs are missing: varsim.sweep makes them")
    return study.table(runs)
