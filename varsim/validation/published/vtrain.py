"""All-reduce on one machine of NVLink: vTrain's look-up tables."""

from collections.abc import Sequence
from typing import ClassVar, Final

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit, step_time, timed
from varsim.validation.published.table import Row

_MIB: Final = 2**20
_LONG: Final = 8 * _MIB  # bytes
_SIZES: Final = tuple(size * _MIB for size in (1, 4, 8, 64, 1024))
_RANKS: Final = (2, 8)


class Vtrain(Family):
    """A ring of 2 to 8 A100 behind NVSwitch; a step is one all-reduce and what starts it.

    NCCL has protocols for short messages and one for long ones: each is a line of its own.
    """

    names = ("vtrain-allreduce-a100",)
    split = (
        "2 and 8 GPUs with 1 and 4 MiB for messages below 8 MiB, and with 8, 64 and 1024 MiB for "
        "the others; 3 to 7 GPUs and all other sizes predicted"
    )
    parameters = tuple(
        parameter._replace(
            name=f"{length} {parameter.name}", meaning=f"{parameter.meaning}, {length} messages"
        )
        for length in ("short", "long")
        for parameter in (
            Parameter("launch", "s", 2e-5, 1e-6, 1e-3, "to start an all-reduce"),
            Parameter("latency", "s", 5e-6, 1e-7, 1e-4, "latency of one hop of the ring"),
            Parameter(
                "bandwidth", "bytes/s", 230e9, 1e10, 3e11, "what a GPU's NVLinks (300 GB/s) carry"
            ),
        )
    )
    why: ClassVar[str] = (
        "Below 8 MiB times are not smooth: 2 MiB take 71 us on 3 GPUs, 56 us on 4 and 61 us on 5, "
        "and on 7 and 8 GPUs 4 MiB hardly longer than 1 MiB. Above, what 2 GPUs get of the links "
        "is a seventh less than what 8 get, and still grows from 256 MiB to 1 GiB."
    )

    def is_calibrated_on(self, row: Row) -> bool:
        """Small and large, few and many."""
        return row.workers in _RANKS and _bytes(row) in _SIZES

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """The three of short messages together, then those of long ones."""
        fitted: dict[str, float] = {}
        for length in ("short", "long"):
            own = [parameter for parameter in self.parameters if parameter.name.startswith(length)]
            fitted |= fit(own, [row for row in rows if _length(row) == length], self.predicted)
        return fitted

    def refuses(self, row: Row) -> str:
        """The size stands in the detail."""
        if not row.workers:
            return "the row does not say on how many GPUs"
        if not _RANKS[0] <= row.workers <= _RANKS[1]:
            return f"{row.workers} GPUs: rings of 2 to 8 are known"
        return "" if _bytes(row) else "its detail does not begin with a number of bytes"

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Nothing but all-reduces; starting one is all that is computed."""
        length = _length(row)
        network = {
            "bandwidth": fitted[f"{length} bandwidth"],
            "latency": fitted[f"{length} latency"],
            "sharing": "first_come",
        }
        return timed(
            f"{row.experiment}-{row.workers}-{_bytes(row)}",
            row.workers,
            {
                "compute": {"kind": "constant", "value": fitted[f"{length} launch"]},
                "network": network,
            },
            {"problem": {"size": float(_bytes(row))}},
            {"kind": "on_write", "collective": "ring"},
        )

    def predicted(self, row: Row, fitted: Fitted) -> float:
        """Milliseconds of one all-reduce."""
        return 1e3 * step_time(self.scenario(row, fitted))

    def label(self, row: Row) -> str:
        """GPUs and bytes."""
        return f"{row.workers} GPUs, {_bytes(row) // _MIB} MiB"


def _length(row: Row) -> str:
    """Which messages these are: the protocol goes by the size."""
    return "long" if _bytes(row) >= _LONG else "short"


def _bytes(row: Row) -> int:
    """The size of the message; 0 where it is not said."""
    first = row.detail.split(" ", 1)[0]
    return int(first) if first.isascii() and first.isdigit() else 0
