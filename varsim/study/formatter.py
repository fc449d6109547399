"""How each alternative begins, shown as `check` prints it, by the name of a module."""

from collections.abc import Iterable
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class Checked(list[T]):
    """How each alternative begins, shown as `check` prints it; by a module, `told_by`.

    `more` is what its function `beginnings` takes besides.
    """

    def __init__(self, begun: Iterable[T], told_by: str, *more: object) -> None:
        super().__init__(begun)
        self._told_by, self._more = told_by, more

    def __repr__(self) -> str:
        return "\n".join(import_module(self._told_by).beginnings(self, *self._more))
