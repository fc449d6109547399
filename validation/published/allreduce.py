"""Times of all-reduces: tables of NCCL and others, by the bytes and the GPUs."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import varsim
from validation.networks import HybridMesh, most_rings
from validation.published.experiment import (
    Family,
    Fitted,
    Parameter,
    constant,
    extremes,
    fit,
    step_time,
    timed,
)
from validation.published.table import Row, mesh, message_bytes
from varsim.scenario.training import Scenario

_MIB: Final = 2**20
_LONG: Final = 8 * _MIB  # bytes
_MOST_RANKS: Final = 256
_UNITS: Final[Mapping[str, float]] = {"ms": 1e3, "s": 1.0, "us": 1e6}


class AllReduces(Family):
    """A ring; a step is one all-reduce and what starts it.

    NCCL has protocols for short messages and one for long ones: each is a line of its own. On a
    hybrid mesh as many rings as fit, and through the host's memory where none does.
    """

    split = (
        "the fewest and the most GPUs with the smallest and the largest message below 8 MiB and "
        "above, and where GPUs have no ring of NVLinks, one such number of them; all others "
        "predicted"
    )
    units = tuple(_UNITS)
    left_out = ("experiment",)  # what is called a model is a size
    parameters = tuple(
        parameter._replace(
            name=f"{length} {parameter.name}", meaning=f"{parameter.meaning}, {length} messages"
        )
        for length in ("short", "long")
        for parameter in (
            Parameter("launch", "s", 2e-5, 1e-6, 1e-2, "to start an all-reduce"),
            Parameter("latency", "s", 5e-6, 1e-7, 1e-3, "latency of one hop of the ring"),
            Parameter("bandwidth", "bytes/s", 2e10, 1e8, 1e12, "of a hop; of a mesh, of a link"),
            Parameter("host", "bytes/s", 8e9, 1e8, 3e10, "of a hop through the host"),
        )
    )
    by_hand = ("8 MiB, above which a message is long",)
    why: ClassVar[str] = (
        "Below 8 MiB times are not smooth: on A100, 2 MiB take 71 us on 3 GPUs, 56 us on 4 and "
        "61 us on 5, and on 7 and 8 GPUs 4 MiB hardly longer than 1 MiB. Above, what 2 GPUs get of "
        "the links is a seventh less than what 8 get, and still grows from 256 MiB to 1 GiB."
    )
    given_alone = False

    def knows(self, row: Row) -> bool:
        return "all-reduce time" in row.metric

    def setting(self, row: Row) -> str:
        """Machines are those that the row describes; the library counts."""
        return f"{row.system} on {row.hardware}, {row.interconnect}"

    def refuses(self, row: Row) -> str:
        """The size stands in the detail."""
        if not row.workers:
            return "the row does not say on how many GPUs"
        if row.workers == 1:
            return "one GPU has nothing to reduce"
        if row.workers > _MOST_RANKS:
            return f"{row.workers} GPUs: a single ring of at most {_MOST_RANKS} is simulated"
        if mesh(row) and row.workers > 8:
            return f"{row.workers} GPUs, of which a hybrid mesh has 8"
        return "" if message_bytes(row) else "its detail does not begin with a number of bytes"

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        """Small and large, few and many; of those without a ring, the fewest GPUs."""
        ringed = [row for row in rows if _rings(row)]
        without = [row for row in rows if not _rings(row)]
        fewest = min((row.workers for row in without), default=0)
        chosen = extremes(ringed, lambda row: row.workers)
        chosen += [row for row in without if row.workers == fewest]
        told: list[Row] = []
        for length in ("short", "long"):
            own = [row for row in chosen if _length(row) == length]
            for workers in dict.fromkeys(row.workers for row in own):
                told += extremes([row for row in own if row.workers == workers], message_bytes)
        return told

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Those of short messages together, then those of long ones; hosts by themselves."""
        fitted: dict[str, float] = {}
        for length in ("short", "long"):
            of = [one for one in self.parameters if one.name.startswith(length)]
            host = [one for one in of if one.name.endswith("host")]
            hops = [one for one in of if one not in host]
            own = [row for row in rows if _length(row) == length]
            fitted |= fit(hops, [row for row in own if _rings(row)], self.predicted)
            fitted |= fit(host, [row for row in own if not _rings(row)], self.predicted, fitted)
        return fitted

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Nothing but all-reduces; starting one is all that is computed."""
        of = {name: f"{_length(row)} {name}" for name in ("launch", "latency", "bandwidth", "host")}
        hop = {"bandwidth": fitted[of["bandwidth"]], "latency": fitted[of["latency"]]}
        network: dict[str, object] = {**hop, "sharing": "first_come"}
        if mesh(row):
            varsim.register(HybridMesh)
            host = hop if _rings(row) else {**hop, "bandwidth": fitted[of["host"]]}
            network |= {"kind": "hybrid_mesh", "joined": mesh(row), "host": host}
        return timed(
            f"{row.experiment}-{row.workers}-{message_bytes(row)}",
            row.workers,
            {"compute": constant(fitted[of["launch"]]), "network": network},
            {"problem": {"size": float(message_bytes(row))}},
            {"kind": "on_write", "collective": "ring"},
        )

    def predicted(self, row: Row, fitted: Fitted) -> float:
        """In the row's unit."""
        return _UNITS[row.unit] * step_time(self.scenario(row, fitted))

    def label(self, row: Row) -> str:
        size = message_bytes(row)
        said = f"{size / _MIB:.4g} MiB" if size >= _MIB / 8 else f"{size} bytes"
        return f"{row.workers} GPUs, {said}"


def _length(row: Row) -> str:
    """Which messages these are: the protocol goes by the size."""
    return "long" if message_bytes(row) >= _LONG else "short"


def _rings(row: Row) -> int:
    """Rings that the GPUs have at once; those behind a switch, or on a bus, one."""
    if not mesh(row):
        return 1
    described = {"kind": "hybrid_mesh", "joined": mesh(row), "bandwidth": 1.0, "latency": 0.0}
    described["host"] = {"bandwidth": 1.0, "latency": 0.0}
    return most_rings(HybridMesh.model_validate(described).table, row.workers)
