"""All experiments that have scenarios."""

from collections.abc import Mapping
from typing import Final

from varsim.validation.published.adaptdl import AdaptDl
from varsim.validation.published.batch_curves import BatchCurves
from varsim.validation.published.cscs import P28xlarge, PizDaint
from varsim.validation.published.dl2 import Dl2
from varsim.validation.published.experiment import Family
from varsim.validation.published.hkbu import Hkbu
from varsim.validation.published.mxnet import MxnetScaling
from varsim.validation.published.tensorflow2017 import ManyMachines, OneMachine
from varsim.validation.published.vtrain import Vtrain

FAMILIES: Final[tuple[Family, ...]] = (
    BatchCurves(),
    OneMachine(),
    ManyMachines(),
    PizDaint(),
    P28xlarge(),
    MxnetScaling(),
    Hkbu(),
    Vtrain(),
    Dl2(),
    AdaptDl(),
)


_SPEEDS: Final = ("image/s", "images/s", "sample/s", "samples/s", "example/s", "examples/s")
_OTHERS: Final[Mapping[type[Family], tuple[str, ...]]] = {Vtrain: ("ms",), AdaptDl: ("s",)}


def units_of(family: Family) -> tuple[str, ...]:
    """In which units a family's predictions can be compared with a row; the first is its own."""
    return _OTHERS.get(type(family), _SPEEDS)


def family_of(experiment: str) -> Family | None:
    """The family that has scenarios for an experiment; None where there is none."""
    return next((family for family in FAMILIES if family.knows(experiment)), None)
