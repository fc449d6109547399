"""Recorded cases of distributed variables: how they are read, and tensors compared."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

DATA: Final = Path(__file__).parent.parent / "data" / "variables"

# One JSON object of a case file, as written there.
Record = dict[str, Any]
Values = NDArray[Any]


class Case(NamedTuple):
    """One recorded case, and the tolerance of its file by dtype."""

    record: Record
    tolerance: Mapping[str, Mapping[str, float]]

    @property
    def name(self) -> str:
        """What the case is called in a test report."""
        name: str = self.record["id"]
        return name

    @property
    def status(self) -> str:
        """contract, quirk or detail."""
        status: str = self.record["status"]
        return status

    def equal(self, got: Values, wanted: Record) -> bool:
        """Do dtype and shape agree, and all elements within the tolerance?"""
        value = array(wanted)
        if got.dtype != value.dtype or got.shape != value.shape:
            return False
        allowed = self.record.get("tolerance") or self.tolerance.get(value.dtype.name)
        if allowed is None:
            return bool(np.array_equal(got, value))
        return bool(np.allclose(got, value, allowed["rtol"], allowed["atol"], equal_nan=True))


def cases(folder: Path) -> list[Case]:
    """All cases of all files of this format in a folder and below it."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") == 1:
            found += [Case(record, content["tolerance"]) for record in content["cases"]]
    return found


def array(record: Record) -> Values:
    """The array that a tensor of a case file describes."""
    dtype = np.dtype(record["dtype"])
    data = record["data"]
    if dtype.kind == "c":
        data = [complex(*map(float, pair)) for pair in data]
    elif dtype.kind == "f":
        data = [float(number) for number in data]
    return np.array(data, dtype).reshape(record["shape"])
