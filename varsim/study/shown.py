"""What came of runs is shown as its command prints it: by `varsim.tell`, at the front door.

Nothing in this layer names what tells, draws or writes results.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from pandas import DataFrame


class Shown:
    """A result that is told of: in a terminal, a notebook, and in files.

    `product`: of which command it is.
    """

    product: ClassVar[
        Literal["run", "check", "compare", "explain", "sweep", "plan", "tune", "story"]
    ]

    @cached_property
    def report(self) -> Any:
        """What is told of it, as data (see varsim.report)."""
        import varsim

        return varsim.tell(self)

    def answer(self) -> str:
        """What it comes to: at most three sentences, one per line."""
        text: str = self.report.answer
        return text

    def frame(self) -> "DataFrame":
        """All its numbers, as the command gives them with `--format csv`."""
        from pandas import DataFrame

        data = self.report.data
        return DataFrame(list(data.rows), columns=list(data.columns))

    def table(self) -> "DataFrame":
        """The main numbers as text, one row per alternative, the best first."""
        return self.report.frame()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table must know besides, each with its code."""
        lines: tuple[str, ...] = self.report.lines
        return lines

    @property
    def plot(self) -> Any:
        """Its plots by name: `result.plot.timeline()` draws one and returns matplotlib Axes."""
        return self.report.gallery()

    def timeline(self) -> Any:
        """The timeline to walk through, for a notebook; ValueError where there are no workers."""
        return self.report.timeline()

    def save(self, directory: str | Path, *, rows: bool = False) -> Path:
        """Write the files that `varsim run` writes, and return the place of the page.

        `rows`: every row, too, as with `--rows`.

        Raises ValueError if `directory` holds something else, OSError if it cannot be written.
        """
        place: Path = self.report.save(self, Path(directory), rows=rows)
        return place

    def __repr__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        text: str = self.report.html()
        return text


class OfRuns(Shown):
    """What came of many runs: `runs` has a row for each of them."""

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
        """One row per alternative and replication: which it is, then a column per metric."""
        from pandas import DataFrame

        return DataFrame(self.run_rows, columns=self.run_columns)
