"""What came of runs is shown as its command prints it: by `varsim.tell`, at the front door.

Nothing in this layer names what tells, draws or writes results.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from pandas import DataFrame


class Shown:
    """A result that shows itself: in a terminal, in a notebook, and in files.

    `repr` and a notebook show table, answer and notes, as its command prints them.
    """

    # What users are offered: completed in notebooks, told in the documentation. The rest is for
    # reports.
    offers: ClassVar[tuple[str, ...]] = (
        *("answer", "frame", "table", "notes", "plot", "timeline", "save", "report"),
    )
    product: ClassVar[
        Literal["run", "check", "compare", "explain", "sweep", "plan", "tune", "story"]
    ]

    @cached_property
    def report(self) -> Any:
        """The report as data: headline, table, notes and charts (see `varsim.tell`)."""
        import varsim

        return varsim.tell(self)

    def answer(self) -> str:
        """Answer the question of the scenario in at most three sentences.

        Returns
        -------
        str
            One sentence per line.

        """
        text: str = self.report.answer
        return text

    def frame(self) -> "DataFrame":
        """Return all numbers: those of the command's `--format csv`, or else of its table.

        Returns
        -------
        pandas.DataFrame
            One row per alternative (of a run: per strategy and metric).

        """
        from pandas import DataFrame

        data = self.report.data
        return DataFrame(list(data.rows), columns=list(data.columns))

    def table(self) -> "DataFrame":
        """Return the table that the command prints, as text.

        Returns
        -------
        pandas.DataFrame
            One row per alternative, the best first.

        """
        return self.report.frame()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader of the table needs, each with its code in brackets."""
        lines: tuple[str, ...] = self.report.lines
        return lines

    @property
    def plot(self) -> Any:
        """Plots by name: `result.plot.timeline()` draws one; `dir(result.plot)` names all."""
        return self.report.gallery()

    def timeline(self) -> Any:
        """Return the timeline to walk through, which a notebook shows.

        Returns
        -------
        Timeline
            `save(path)` writes it as a page of its own.

        Raises
        ------
        ValueError
            If it has no workers, as a sweep.

        """
        return self.report.timeline()

    def save(self, directory: str | Path, *, rows: bool = False) -> Path:
        """Write the files that the command writes.

        Parameters
        ----------
        directory : str or Path
            Made if it is not there; a report that was there is replaced.
        rows : bool, default False
            Every row, too: spans, updates and the like, as with `--rows`.

        Returns
        -------
        Path
            The page of the report.

        Raises
        ------
        ValueError
            If `directory` holds something else.
        OSError
            If it cannot be written.

        """
        place: Path = self.report.save(self, Path(directory), rows=rows)
        return place

    def __dir__(self) -> list[str]:
        return list(self.offers)

    def __repr__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        text: str = self.report.html()
        return text


class OfRuns(Shown):
    """What came of many runs: `runs` has a row for each of them."""

    offers = (*Shown.offers, "ranking", "runs", "sha256")

    @property
    def run_columns(self) -> list[str]:
        """The columns of `runs`."""
        raise NotImplementedError

    @property
    def run_rows(self) -> list[list[object]]:
        """The rows of `runs`."""
        raise NotImplementedError

    @cached_property
    def runs(self) -> "DataFrame":
        """Each run: which alternative and replication it is, then a column per metric."""
        from pandas import DataFrame

        return DataFrame(self.run_rows, columns=self.run_columns)
