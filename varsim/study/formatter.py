"""Who puts results into words: a result knows numbers only, and asks by the name of a module.

That is imported when it is first asked; nothing here imports what tells, draws or writes results.
"""

import html
from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")


class Teller(Protocol):
    """What can be said of a result."""

    def answer(self, result: Any) -> str:
        """What the comparison says, in sentences, one per line."""

    def notes(self, result: Any) -> tuple[str, ...]:
        """What a reader of the table must know besides."""

    def table(self, result: Any) -> "DataFrame":
        """The main numbers as text."""

    def report(self, result: Any) -> Any:
        """All there is to tell."""


class Shown:
    """What came of many runs, shown as its command prints it; by a module, `told_by`."""

    told_by: ClassVar[str]

    @property
    def plot(self) -> Any:
        """Its plots by name: `result.plot.timeline()` draws one and returns matplotlib Axes."""
        return self._notebook.Gallery(self._teller.report(self).plots())

    def __repr__(self) -> str:
        text: str = self._notebook.printed(self._teller.report(self))
        return text

    def _repr_html_(self) -> str:
        text: str = self._notebook.shown(self._teller.report(self))
        return text

    @property
    def _notebook(self) -> Any:
        return import_module("varsim.report.notebook")

    @property
    def _teller(self) -> Teller:
        return cast(Teller, import_module(self.told_by))


class Checked(list[T]):
    """How each alternative begins, shown as `check` prints it; by a module, `told_by`.

    `more` is what its function `beginnings` takes besides.
    """

    def __init__(self, begun: Iterable[T], told_by: str, *more: object) -> None:
        super().__init__(begun)
        self._told_by, self._more = told_by, more

    def __repr__(self) -> str:
        return "\n".join(import_module(self._told_by).beginnings(self, *self._more))


class Told(Shown):
    """A result that says in words what it comes to."""

    def answer(self) -> str:
        """What the comparison says, in sentences, one per line."""
        return self._teller.answer(self)

    def table(self) -> "DataFrame":
        """The main numbers as text, one row per alternative."""
        return self._teller.table(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the tables must know besides."""
        return self._teller.notes(self)

    def timeline(self) -> Any:
        """The timeline to walk through, for a notebook; ValueError where there are no workers."""
        return self._notebook.timeline(self._teller.report(self))

    def save(self, directory: str | Path) -> Path:
        """Write the files that `varsim run` writes, and return the place of the page.

        Raises ValueError if `directory` holds something else, OSError if it cannot be written.
        """
        page: Path = self._notebook.written(self, self._teller.report(self), directory)
        return page

    def _repr_html_(self) -> str:
        def said(lines: Iterable[str]) -> str:
            return "".join(f"<p>{html.escape(line)}</p>" for line in lines)

        name = html.escape(cast(Any, self).scenario.name)
        table = self.table().T.to_html()  # on its side: alternatives are few, numbers are many
        return f"<h4>{name}</h4>{said(self.answer().splitlines())}{table}{said(self.notes)}"
