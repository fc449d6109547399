"""Nodes from collectives inside one and across several: links inside first, then the cards.

Across nodes a ring leaves each node by one link, while its other hops stay inside; its time is not
a line in latency and bandwidth of that link. So these are searched for which the ring, carried out
on the network of nodes, takes the measured times, by least squares of relative errors.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from varsim.calibration.line import Line, fit, rounded
from varsim.calibration.measurement import Transfer, TransferTable, UnreadableError
from varsim.cluster.clock import Clock
from varsim.cluster.collectives import ring
from varsim.cluster.collectives.plan import Path, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.network import network
from varsim.cluster.topology.nodes import Inside, Nodes

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
        nodes = described(per_node, inside, _line(point))
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
    return rounded(_line(np.asarray(found.x).tolist()))


def _line(point: Sequence[float]) -> Line:
    latency = math.exp(point[0])
    return Line(0.0 if latency <= _LEAST else latency, math.exp(point[1]))
