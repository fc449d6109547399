"""Who puts results into words: registered here by kind, and asked by `repr`, answer and table.

A result itself knows numbers only, and imports nothing that tells them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from pandas import DataFrame

# Kind of result -> the module that tells it, imported when it is first asked.
TELLERS: Final = {
    "training": "varsim.report.training",
    "variables": "varsim.report.variables",
}


class Teller(Protocol):
    """What can be said of a result."""

    def answer(self, result: Any) -> str:
        """What the comparison says, in sentences, one per line."""

    def notes(self, result: Any) -> tuple[str, ...]:
        """What a reader of the table must know besides."""

    def table(self, result: Any) -> "DataFrame":
        """The main numbers as text."""


def teller(kind: str) -> Teller:
    """Who tells results of this kind."""
    return cast(Teller, import_module(TELLERS[kind]))
