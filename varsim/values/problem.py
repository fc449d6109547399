"""The problems that can be trained, by kind. A new problem is a class and a line here."""

from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.values.digits import Digits
from varsim.values.embedding import Embedding
from varsim.values.linear_regression import LinearRegression
from varsim.values.quadratic import Quadratic
from varsim.values.schema import one_of
from varsim.values.task import BLOCK, Parameters, Problem, Task, VariableSpec
from varsim.values.timing import Timing

__all__ = ["BLOCK", "PROBLEMS", "AnyProblem", "Parameters", "Problem", "Task", "VariableSpec"]

PROBLEMS: Final[dict[str, type[Problem]]] = {
    "quadratic": Quadratic,
    "linear_regression": LinearRegression,
    "embedding": Embedding,
    "digits": Digits,
    "timing": Timing,
}

if TYPE_CHECKING:
    AnyProblem: TypeAlias = Problem
else:
    AnyProblem = one_of(PROBLEMS)
