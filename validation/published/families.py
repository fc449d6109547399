"""All experiments that have scenarios."""

from collections.abc import Iterator, Sequence
from typing import Final

from validation.published.adaptdl import AdaptDl
from validation.published.allreduce import AllReduces
from validation.published.batch_curves import BatchCurves
from validation.published.dl2 import Dl2
from validation.published.experiment import Family
from validation.published.hkbu import Hkbu
from validation.published.machines import Machines
from validation.published.one_machine import OneMachine
from validation.published.table import Row

FAMILIES: Final[tuple[Family, ...]] = (
    BatchCurves(),
    Hkbu(),
    OneMachine(),
    Machines(),
    AllReduces(),
    Dl2(),
    AdaptDl(),
)


def family_of(row: Row) -> Family | None:
    """The family that has scenarios for a row; None where there is none."""
    return next((family for family in FAMILIES if family.knows(row)), None)


def settings(rows: Sequence[Row]) -> Iterator[tuple[Family, str, list[Row]]]:
    """The rows of every family and setting, in the order in which they first occur."""
    found: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        for number, family in enumerate(FAMILIES):
            if family.knows(row):
                found.setdefault((number, family.setting(row)), []).append(row)
                break
    for (number, setting), own in sorted(found.items(), key=lambda item: item[0][0]):
        yield FAMILIES[number], setting, own
