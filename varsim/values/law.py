"""The laws of compute times, by kind. A new law is a class in `laws` and a line here."""

from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.schema import one_of
from varsim.values.laws.base import BLOCK, Law, Stream
from varsim.values.laws.mixed import Component, Markov, Mixture
from varsim.values.laws.simple import (
    Constant,
    Exponential,
    Gamma,
    Lognormal,
    Normal,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)
from varsim.values.laws.trace import MeasuredTimes

__all__ = ["BLOCK", "LAWS", "AnyLaw", "Law", "Stream"]

LAWS: Final[dict[str, type[Law]]] = {
    "constant": Constant,
    "uniform": Uniform,
    "normal": Normal,
    "exponential": Exponential,
    "shifted_exponential": ShiftedExponential,
    "lognormal": Lognormal,
    "gamma": Gamma,
    "weibull": Weibull,
    "pareto": Pareto,
    "mixture": Mixture,
    "markov": Markov,
    "trace": MeasuredTimes,
}

if TYPE_CHECKING:
    AnyLaw: TypeAlias = Law
else:
    AnyLaw = one_of(LAWS)

# Laws that hold laws could not name the union of all of them before it existed.
for _law in (Component, Mixture, Markov):
    _law.model_rebuild(_types_namespace={"AnyLaw": AnyLaw})
