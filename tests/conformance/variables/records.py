"""Recorded cases of distributed variables: how they are read, and tensors compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.conformance.cases import DATA as ALL
from tests.conformance.files import files, of_variables

DATA: Final = ALL / "variables"

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
            return bool(np.array_equal(got, value, equal_nan=value.dtype.kind == "c"))
        if value.dtype.name == "bfloat16":
            got, value = got.astype(np.float32), value.astype(np.float32)
        return bool(np.allclose(got, value, allowed["rtol"], allowed["atol"], equal_nan=True))


def cases(folder: Path) -> list[Case]:
    """All cases of all files of this format in a folder and below it."""
    return [
        Case(record, content["tolerance"])
        for content in files(folder).values()
        if of_variables(content)
        for record in content["cases"]
    ]


def is_in_sample(case: Case) -> bool:
    """All cases but random programs, of which every eighth: they are replayed on a cluster, too."""
    topic, _, number = case.name.partition("/")
    return topic != "random" or int(number) % 8 == 0


def array(record: Record) -> Values:
    """The array that a tensor of a case file describes."""
    if record["dtype"] == "bfloat16":
        import ml_dtypes  # noqa: F401 - makes this dtype known to numpy
    dtype = np.dtype(record["dtype"])
    data = record["data"]
    if dtype.kind == "c":
        data = [complex(*map(float, pair)) for pair in data]
    elif "float" in dtype.name:
        data = [float(number) for number in data]
    return np.array(data, dtype).reshape(record["shape"])
