"""Fits of latency and bandwidth: a line, or pieces of it, and the links of nodes.

time = messages * latency + carried / bandwidth, neither below 0, by least squares of relative
errors. Where the worst error is above WORST the sizes are cut into pieces (protocols change with
the size): as few as bring every error below it, and of those the ones with the least squares; if
none do, their number is chosen by the Bayesian information criterion. A ring across nodes leaves
each by one link while its other hops stay inside, so its time is no line in that link's latency
and bandwidth: these are searched for on the network of nodes, given the links inside.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.calibration.measurement import Transfer, TransferTable, UnreadableError
from varsim.cluster.clock import Clock
from varsim.cluster.collectives import ring
from varsim.cluster.collectives.plan import Path, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.network import network
from varsim.cluster.topology.nodes import Inside, Nodes

WORST: Final = 0.10
MOST_PIECES: Final = 5
_FEWEST: Final = 3  # sizes of a piece; two are met exactly and prove nothing
_MOST_CUTS: Final = 80  # sizes at which a piece may begin
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


class Piece(NamedTuple):
    """A line and the sizes (bytes) it was fitted on, both included."""

    line: Line
    smallest: float
    largest: float
    worst: float


_Relative: TypeAlias = NDArray[np.float64]
_Table: TypeAlias = dict[tuple[int, int], tuple[Piece, float]]


def fit(transfers: Sequence[Transfer]) -> Line:
    """The line of least squares of relative errors; latency and time per byte are not below 0."""
    return _fit(_relative(transfers))


def fit_latency(transfers: Sequence[Transfer], per_byte: float) -> Line:
    """The same where the time per byte is known."""
    relative = _relative(transfers)
    messages, rest = relative[:, 0], 1 - relative[:, 1] * per_byte
    latency = float((messages * rest).sum() / (messages**2).sum())
    return rounded(Line(max(0.0, latency), per_byte))


def pieces(transfers: Sequence[Transfer]) -> list[Piece]:
    """One line where that is enough, else as many as are needed, from small sizes to large ones."""
    ordered = sorted(transfers, key=lambda one: one.size)
    firsts = [i for i, one in enumerate(ordered) if i == 0 or one.size > ordered[i - 1].size]
    whole, _ = _piece(ordered, _relative(ordered))
    if whole.worst <= WORST or len(firsts) < 2 * _FEWEST:
        return [whole]
    return _cut(ordered, firsts)


def _relative(transfers: Sequence[Transfer]) -> _Relative:
    """Messages and bytes per measured second."""
    rows = [(one.messages / one.seconds, one.carried / one.seconds) for one in transfers]
    return np.array(rows, dtype=np.float64)


def _fit(relative: _Relative) -> Line:
    """Least squares of relative @ (latency, per byte) - 1."""
    products = relative[:, :, None] * relative[:, None, :]
    (aa, ab), (_, bb) = products.sum(axis=0).tolist()
    a, b = relative.sum(axis=0).tolist()
    determinant = aa * bb - ab * ab
    if determinant > 1e-12 * aa * bb:
        latency, per_byte = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
        if latency >= 0 and per_byte >= 0:
            return Line(latency, per_byte)
    # On the border: of a line through 0 and one that does not rise the better. One size, or sizes
    # in one proportion to messages, say nothing of a latency: all is put down to the bandwidth.
    edges = [Line(0.0, b / bb), Line(a / aa, 0.0)]
    if determinant <= 1e-12 * aa * bb:
        return edges[0]
    return min(edges, key=lambda line: _squares(line, relative))


def _cut(ordered: Sequence[Transfer], firsts: Sequence[int]) -> list[Piece]:
    """The best way to cut, by dynamic programming over where the last piece begins."""
    stride = -(-len(firsts) // _MOST_CUTS)
    cuts = [*range(0, len(firsts), stride), len(firsts)]
    bounds = [*firsts, len(ordered)]
    relative = _relative(ordered)
    table: _Table = {}
    for start in cuts[:-1]:
        for end in cuts:
            if end - start >= _FEWEST:
                part = slice(bounds[start], bounds[end])
                table[start, end] = _piece(ordered[part], relative[part])
    count, total = len(firsts), len(ordered)
    best: dict[int, tuple[float, list[Piece]]] = {0: (0.0, [])}
    chosen: tuple[float, list[Piece]] = (math.inf, [])
    for number in range(1, MOST_PIECES + 1):
        limited = _limited(table, cuts, count, number)
        if limited:
            return limited
        best = _with_one_more(best, table, cuts, limited=False)
        if count in best:
            squares, made = best[count]
            cost = total * math.log(max(squares, 1e-300) / total) + 3 * number * math.log(total)
            chosen = min(chosen, (cost, made), key=lambda one: one[0])
    return chosen[1]


def _limited(table: _Table, cuts: Sequence[int], count: int, number: int) -> list[Piece]:
    """The best of so many pieces that have no error above WORST; nothing where there are none."""
    best: dict[int, tuple[float, list[Piece]]] = {0: (0.0, [])}
    for _ in range(number):
        best = _with_one_more(best, table, cuts, limited=True)
    return best[count][1] if count in best else []


def _with_one_more(
    best: dict[int, tuple[float, list[Piece]]],
    table: _Table,
    cuts: Sequence[int],
    *,
    limited: bool,
) -> dict[int, tuple[float, list[Piece]]]:
    """By where they end: the least squares with one more piece, and the pieces."""
    longer: dict[int, tuple[float, list[Piece]]] = {}
    for end in cuts:
        for start, (squares, made) in best.items():
            piece, more = table.get((start, end), (None, math.inf))
            if piece is None or (limited and piece.worst > WORST):
                continue
            if end not in longer or squares + more < longer[end][0]:
                longer[end] = (squares + more, [*made, piece])
    return longer


def piece_for(found: Sequence[Piece], size: float) -> Piece:
    """The piece that a size belongs to; between two the nearer by factor, beyond all the last."""
    for piece, following in pairwise(found):
        if size * size < piece.largest * following.smallest:
            return piece
    return found[-1]


def _piece(ordered: Sequence[Transfer], relative: _Relative) -> tuple[Piece, float]:
    """The line of these transfers, as it is printed, and its squares."""
    line = rounded(_fit(relative))
    worst = float(np.abs(_errors(line, relative)).max())
    return Piece(line, ordered[0].size, ordered[-1].size, worst), _squares(line, relative)


def rounded(line: Line) -> Line:
    """As it is printed: five digits of the latency and of the bandwidth."""
    latency = float(f"{line.latency:.{_DIGITS}g}")
    if line.per_byte == 0:
        return Line(latency, 0.0)
    return Line(latency, 1 / float(f"{1 / line.per_byte:.{_DIGITS}g}"))


def _squares(line: Line, relative: _Relative) -> float:
    return float((_errors(line, relative) ** 2).sum())


def _errors(line: Line, relative: _Relative) -> _Relative:
    return relative[:, 0] * line.latency + relative[:, 1] * line.per_byte - 1


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
