"""Results that were saved, read back: their numbers, their runs, and what was told of them."""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from varsim.report.files.directory import KINDS, Kind, NotARunError, facts_in, kinds_of
from varsim.report.files.save import FORMS, SWEPT
from varsim.scenario.fault import known
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.study.verdict import Ranking, ranked

if TYPE_CHECKING:
    from pandas import DataFrame

_READ: Final[tuple[Kind, ...]] = ("run", "sweep", "plan", "tune", "compare")
_SCENARIO: Final = {"sweep": SWEPT, "plan": "plan.yaml", "tune": "tuned.yaml"}
_TEXTS: Final = ("unit", "note", "standing", "failure")  # columns in which nothing is said as ""
_MET: Final = ("the answer", "met")  # verdicts of a plan


class Saved:
    """Result that was saved: numbers, runs, ranking and answer, read from its files.

    `directory`, `kind` and `name` say what it is; `facts` is all of it as plain data.
    """

    def __init__(self, directory: Path, kind: Kind, facts: Mapping[str, Any]) -> None:
        self.directory, self.kind, self.facts = directory, kind, facts
        self.name: str = facts["name"]

    def answer(self) -> str:
        """Answer the question of the scenario, as it was saved.

        Returns
        -------
        str
            One sentence per line.

        """
        return "\n".join(note["text"] for note in self.facts["headline"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader of the numbers needs, each with its code in brackets."""
        return tuple(f"{note['text']}  [{note['code']}]" for note in self.facts["notes"])

    @property
    def scenario(self) -> Any:
        """The scenario that was run; of a plan its answer, of `tune` that at the best rates."""
        import varsim

        self._is_no_comparison("scenarios")
        return varsim.load(self.directory / _SCENARIO.get(self.kind, "scenario.yaml"))

    def frame(self) -> "DataFrame":
        """Return all its numbers, as they were saved.

        Returns
        -------
        pandas.DataFrame
            As `frame()` of the result itself.

        """
        from pandas import read_csv

        tables = [name for name, form in FORMS.get(self.kind, {}).items() if form == "csv"]
        frame = read_csv(
            self.directory / (tables or ["summary.csv"])[0],
            dtype=dict.fromkeys(_TEXTS, str),
            keep_default_na=False,  # a strategy may be called None
            na_values=[""],
        )
        return frame.fillna({name: "" for name in _TEXTS if name in frame})

    @cached_property
    def runs(self) -> "DataFrame":
        """Runs: one row per alternative and replication."""
        from pandas import DataFrame

        self._is_no_comparison("runs")
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
        """Rank the alternatives by one metric.

        Of a plan those that meet the targets, by number; of `tune` each strategy at its best rate,
        with fresh seeds.

        Parameters
        ----------
        metric : str
            A column of `runs`.
        highest : bool, default False
            Whether the highest is the best.

        Returns
        -------
        Ranking or None
            None where none has the metric.

        Raises
        ------
        ValueError
            With the nearest name, if there is no such metric.

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

    def _is_no_comparison(self, what: str) -> None:
        if self.kind == "compare":
            raise ValueError(
                f"a saved comparison has no {what}: frame() has its numbers and ratios"
            )

    def __repr__(self) -> str:
        return f"<{KINDS[self.kind].said} {self.name} in {self.directory}>\n{self.answer()}"


def read(directory: str | Path) -> Any:
    """Read what `run`, `sweep`, `plan`, `tune` or `compare`, or their `save`, left in a directory.

    Parameters
    ----------
    directory : str or Path
        The directory of a report.

    Returns
    -------
    Saved or SweepTable
        Numbers, runs, ranking and answer as they were saved; a sweep is made anew from its runs,
        and of a comparison there are numbers and answer.

    Raises
    ------
    FileExistsError
        If no such results were saved there.
    ValueError
        If runs of a sweep are missing.

    Examples
    --------
    >>> import tempfile, varsim
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = varsim.run("slow_worker", strategies=["single"])
    ...     page = result.save(folder)
    ...     print(varsim.read(folder).answer() == result.answer())
    True

    """
    directory = Path(directory)
    for kind in _READ:
        if facts := facts_in(directory, kind):
            return _swept(directory) if kind == "sweep" else Saved(directory, kind, facts)
    for kind in kinds_of(directory):
        if (file := KINDS[kind].facts) and kind not in _READ:
            what = f"{KINDS[kind].said}, which is not read back: its numbers are in {file}"
            raise NotARunError(f"{directory} holds {what}")
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
