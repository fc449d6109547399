"""The laws of compute times, by kind. A new law is a class in `laws` and a line here."""

from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.schema import one_of
from varsim.values.laws.base import BLOCK, Law, Stream
from varsim.values.laws.batch import BatchCurve
from varsim.values.laws.mixed import Component, Markov, Mixture
from varsim.values.laws.phases import Phases
from varsim.values.laws.simple import (
    Constant,
    Exponential,
    Gamma,
    Gumbel,
    Lognormal,
    Normal,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)
from varsim.values.laws.trace import MeasuredTimes

__all__ = ["BLOCK", "LAWS", "AnyLaw", "Law", "Stream", "check_no_batch"]

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
    "gumbel": Gumbel,
    "mixture": Mixture,
    "markov": Markov,
    "trace": MeasuredTimes,
    "batch_curve": BatchCurve,
    "phases": Phases,
}


def check_no_batch(law: Law) -> None:
    """Raise ValueError where a law needs a batch and there is none."""
    if law.needs_batch:
        raise ValueError("kind batch_curve has no use here: there are no batches")


if TYPE_CHECKING:
    AnyLaw: TypeAlias = Law
else:
    AnyLaw = one_of(LAWS)

# Laws that hold laws could not name the union of all of them before it existed.
for _law in (Component, Mixture, Markov):
    _law.model_rebuild(_types_namespace={"AnyLaw": AnyLaw})
