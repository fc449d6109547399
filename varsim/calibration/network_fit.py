"""Fits of latency and bandwidth: a line, and the links of nodes.

time = messages * latency + carried / bandwidth, neither below 0, by least squares of relative
errors. Protocols change with the size, so that no line may be right for all sizes; then the line is
that of the sizes around the one asked for. A ring across nodes leaves each by one link while its
other hops stay inside, so its time is no line in that link's latency and bandwidth: these are
searched for on the network of nodes, given the links inside.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.measurement import Transfer, TransferTable, UnreadableError
from varsim.cluster.clock import Clock
from varsim.cluster.collectives import ring
from varsim.cluster.collectives.plan import Path, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.network.network import network
from varsim.cluster.network.topologies import Inside, Nodes

_AROUND: Final = 8.0  # a size is near another up to this factor
_FEWEST: Final = 3  # sizes of a line; two are met exactly and prove nothing
_DIGITS: Final = 5


class Line(NamedTuple):
    """Seconds per message and per byte."""

    latency: float
    per_byte: float

    def time(self, one: Transfer) -> float:
        """What a transfer takes on this line (s)."""
        return one.messages * self.latency + one.carried * self.per_byte

    def error(self, one: Transfer) -> float:
        """How far off that is, relative to what was measured."""
        return self.time(one) / one.seconds - 1

    @property
    def bandwidth(self) -> float:
        """Bytes per second; infinite where times do not depend on the size."""
        return 1 / self.per_byte if self.per_byte > 0 else math.inf


def fit(transfers: Sequence[Transfer]) -> Line:
    """The line of least squares of relative errors; latency and time per byte are not below 0."""
    relative = np.array([(one.messages, one.carried) for one in transfers], dtype=np.float64)
    relative /= np.array([[one.seconds] for one in transfers])
    # Least squares of relative @ (latency, per byte) - 1.
    (aa, ab), (_, bb) = (relative.T @ relative).tolist()
    a, b = relative.sum(axis=0).tolist()
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        # One size, or sizes in one proportion to messages, say nothing of a latency.
        return Line(0.0, b / bb)
    latency, per_byte = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if latency >= 0 and per_byte >= 0:
        return Line(latency, per_byte)
    # On the border: of a line through 0 and one that does not rise the better.
    edges = (Line(0.0, b / bb), Line(a / aa, 0.0))
    return min(edges, key=lambda line: sum(line.error(one) ** 2 for one in transfers))


def around(transfers: Sequence[Transfer], size: float) -> list[Transfer]:
    """Those of the sizes near one (bytes), by factor; of the three nearest at least."""
    apart = {one.size: abs(math.log(one.size / size)) for one in transfers}
    reach = max(math.log(_AROUND), *sorted(apart.values())[:_FEWEST])
    return [one for one in transfers if apart[one.size] <= reach]


def rounded(line: Line) -> Line:
    """As it is printed: five digits of the latency and of the bandwidth."""
    latency = float(f"{line.latency:.{_DIGITS}g}")
    if line.per_byte == 0:
        return Line(latency, 0.0)
    return Line(latency, 1 / float(f"{1 / line.per_byte:.{_DIGITS}g}"))


RINGS: Final[dict[str, Callable[[int], Schedule]]] = {
    "all_reduce": ring.all_reduce,
    "all_gather": ring.all_gather,
    "reduce_scatter": ring.reduce_scatter,
}
_LEAST: Final = 1e-9  # s of latency, which is searched for by its logarithm
_MOST_RANKS: Final = 1024


def split(
    tables: Sequence[TransferTable], per_node: int
) -> tuple[list[TransferTable], list[TransferTable]]:
    """The tables of one node, and those across nodes. Raises UnreadableError where one is missing.

    Also for a collective across nodes that is no ring, or leaves a node half filled.
    """
    wrong = []
    inside, outside = [], []
    for table in tables:
        if table.collective is None:
            wrong.append(f"{table.source}: messages from host to host: inside nodes or outside?")
            continue
        name, ranks = table.collective
        if ranks <= per_node:
            inside.append(table)
        elif name not in RINGS:
            wrong.append(
                f"{table.source}: {name} across nodes cannot be fitted, only rings can: "
                f"{', '.join(RINGS)}"
            )
        elif ranks % per_node or ranks > _MOST_RANKS:
            wrong.append(
                f"{table.source}: {ranks} ranks are not whole nodes of {per_node} workers, "
                f"or more than {_MOST_RANKS}"
            )
        else:
            outside.append(table)
    for found, where in (
        (inside, f"of at most {per_node} ranks, inside one"),
        (outside, "of more ranks, across several"),
    ):
        if not found and not wrong:
            wrong.append(f"nodes of {per_node} workers need a collective {where}; there is none")
    if wrong:
        raise UnreadableError(wrong)
    return inside, outside


def ring_time(name: str, ranks: int, size: float, nodes: Nodes) -> float:
    """Seconds that a ring takes on nodes where nothing else happens."""
    joined = network(Clock(), nodes)
    places = [joined.routing.worker(rank) for rank in range(ranks)]

    def path(source: int, target: int) -> Path:
        return Path(joined, joined.routing.route(places[source], places[target]))

    return max(Recurrence(Plan(RINGS[name](ranks), size, path)).ends([0] * ranks)) / 1e9


def described(per_node: int, inside: Line, outside: Line) -> Nodes:
    """Nodes with these links."""
    return Nodes(
        workers_per_node=per_node,
        inside=Inside(bandwidth=inside.bandwidth, latency=inside.latency),
        bandwidth=outside.bandwidth,
        latency=outside.latency,
    )


def fit_cards(tables: Sequence[TransferTable], per_node: int, inside: Line) -> Line:
    """Latency and time per byte of the network cards, one a node, given the links inside."""
    from scipy.optimize import least_squares

    measured: list[tuple[str, int, Transfer]] = [
        (*table.collective, one)
        for table in tables
        if table.collective is not None
        for one in table.transfers
    ]

    def errors(point: Sequence[float]) -> list[float]:
        nodes = described(per_node, inside, _line_at(point))
        return [
            ring_time(name, ranks, one.size, nodes) / one.seconds - 1
            for name, ranks, one in measured
        ]

    start = fit([one for _, _, one in measured])
    if start.per_byte <= 0:
        raise UnreadableError(
            ["the times across nodes do not grow with the size: measure larger sizes"]
        )
    first = [math.log(max(start.latency, _LEAST)), math.log(start.per_byte)]
    found = least_squares(errors, first, diff_step=1e-4, xtol=1e-10, ftol=1e-14)
    return rounded(_line_at(np.asarray(found.x).tolist()))


def _line_at(point: Sequence[float]) -> Line:
    latency = math.exp(point[0])
    return Line(0.0 if latency <= _LEAST else latency, math.exp(point[1]))
