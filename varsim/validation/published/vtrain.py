"""All-reduce on one machine of NVLink: vTrain's look-up tables."""

from collections.abc import Sequence
from typing import ClassVar, Final

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit, step_time, timed
from varsim.validation.published.table import Row

_MIB: Final = 2**20
_SIZES: Final = tuple(size * _MIB for size in (1, 8, 64, 1024))
_RANKS: Final = (2, 8)


class Vtrain(Family):
    """A ring of 2 to 8 A100 behind NVSwitch; a step is one all-reduce and what starts it."""

    names = ("vtrain-allreduce-a100",)
    split = "2 and 8 GPUs with 1, 8, 64 and 1024 MiB; 3 to 7 GPUs and all other sizes predicted"
    parameters = (
        Parameter("launch", "s", 2e-5, 1e-6, 1e-3, "to start an all-reduce"),
        Parameter("latency", "s", 5e-6, 1e-7, 1e-4, "latency of one hop of the ring"),
        Parameter(
            "bandwidth", "bytes/s", 230e9, 1e10, 3e11, "what a GPU's NVLinks (300 GB/s) carry"
        ),
    )
    why: ClassVar[str] = (
        "NCCL goes from its low-latency protocols to the simple one at a few MiB, which a line of "
        "latency and bandwidth cannot follow: bus bandwidth as printed grows from 200 GB/s at "
        "128 MiB to 229 GB/s at 1 GiB, and 2 and 4 MiB take hardly longer than 1 MiB."
    )

    def is_calibrated_on(self, row: Row) -> bool:
        """Small and large, few and many."""
        return row.workers in _RANKS and _bytes(row) in _SIZES

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """All three together."""
        return fit(self.parameters, rows, self.predicted)

    def refuses(self, row: Row) -> str:
        """The size stands in the detail."""
        if not row.workers:
            return "the row does not say on how many GPUs"
        return "" if _bytes(row) else "its detail does not begin with a number of bytes"

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Nothing but all-reduces; starting one is all that is computed."""
        network = {
            "bandwidth": fitted["bandwidth"],
            "latency": fitted["latency"],
            "sharing": "first_come",
        }
        return timed(
            f"{row.experiment}-{row.workers}-{_bytes(row)}",
            row.workers,
            {"compute": {"kind": "constant", "value": fitted["launch"]}, "network": network},
            {"problem": {"size": float(_bytes(row))}},
            {"kind": "on_write", "collective": "ring"},
        )

    def predicted(self, row: Row, fitted: Fitted) -> float:
        """Milliseconds of one all-reduce."""
        return 1e3 * step_time(self.scenario(row, fitted))

    def label(self, row: Row) -> str:
        """GPUs and bytes."""
        return f"{row.workers} GPUs, {_bytes(row) // _MIB} MiB"


def _bytes(row: Row) -> int:
    """The size of the message; 0 where it is not said."""
    first = row.detail.split(" ", 1)[0]
    return int(first) if first.isascii() and first.isdigit() else 0
