"""Measurements as a YAML fragment of a scenario, with errors of the fit as comments.

Latency and bandwidth: time = messages * latency + carried / bandwidth, neither below 0, by least
squares of relative errors. Protocols change with the size, so that no line may be right for all
sizes; then the line is that of the sizes around the one asked for. A ring across nodes leaves each
by one link while its other hops stay inside, so its time is no line in that link's latency and
bandwidth: these are searched for on the network of nodes, given the links inside.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.compute import compute_part
from varsim.calibration.forms import FormOptions, Measurements, read_files
from varsim.calibration.measurement import (
    MeasuredPart,
    MeasuredTransfer,
    TransferTable,
    UnreadableError,
    with_unit,
)
from varsim.cluster.clock import Clock
from varsim.cluster.collectives import algorithms, plan
from varsim.cluster.collectives.carrying import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.network.network import network
from varsim.cluster.network.topologies import Inside, Nodes
from varsim.core.units import format_seconds

_AROUND: Final = 8.0  # a size is near another up to this factor
_FEWEST: Final = 3  # sizes of a line; two are met exactly and prove nothing
_DIGITS: Final = 5


class Line(NamedTuple):
    """Seconds per message and per byte."""

    latency: float
    per_byte: float

    def time(self, one: MeasuredTransfer) -> float:
        """What a transfer takes on this line (s)."""
        return one.messages * self.latency + one.carried * self.per_byte

    def error(self, one: MeasuredTransfer) -> float:
        """How far off that is, relative to what was measured."""
        return self.time(one) / one.seconds - 1

    @property
    def bandwidth(self) -> float:
        """Bytes per second; infinite where times do not depend on the size."""
        return 1 / self.per_byte if self.per_byte > 0 else math.inf


def fit(transfers: Sequence[MeasuredTransfer]) -> Line:
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


def around(transfers: Sequence[MeasuredTransfer], size: float) -> list[MeasuredTransfer]:
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
    "all_reduce": algorithms.ring_all_reduce,
    "all_gather": algorithms.all_gather,
    "reduce_scatter": algorithms.reduce_scatter,
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
        name, ranks = table.collective or ("", 0)
        if not name:
            wrong.append(f"{table.source}: messages from host to host: inside nodes or outside?")
        elif ranks <= per_node:
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
        raise UnreadableError(*wrong)
    return inside, outside


def ring_time(name: str, ranks: int, size: float, nodes: Nodes) -> float:
    """Seconds that a ring takes on nodes where nothing else happens."""
    joined = network(Clock(), nodes)
    places = [joined.routing.worker(rank) for rank in range(ranks)]

    def path(source: int, target: int) -> plan.MessagePath:
        return plan.MessagePath(joined, joined.routing.route(places[source], places[target]))

    return (
        max(Recurrence(plan.CollectivePlan(RINGS[name](ranks), size, path)).ends([0] * ranks)) / 1e9
    )


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

    measured: list[tuple[str, int, MeasuredTransfer]] = [
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
            "the times across nodes do not grow with the size: measure larger sizes"
        )
    first = [math.log(max(start.latency, _LEAST)), math.log(start.per_byte)]
    found = least_squares(errors, first, diff_step=1e-4, xtol=1e-10, ftol=1e-14)
    return rounded(_line_at(np.asarray(found.x).tolist()))


def _line_at(point: Sequence[float]) -> Line:
    latency = math.exp(point[0])
    return Line(0.0 if latency <= _LEAST else latency, math.exp(point[1]))


class Fragment(NamedTuple):
    """Lines of YAML, and the CSV of step times that they name, if they do."""

    lines: tuple[str, ...]
    csv: str | None = None

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def fragment(
    measured: Measurements, size: float | None, beside: str | None, per_node: int | None = None
) -> Fragment:
    """A part of `cluster`: network and compute, whichever was measured.

    `size` (bytes): the messages for which the network is to be right; it has to be given where no
    line is right for all sizes. `per_node`: workers of a node, where the network is to be of kind
    nodes. `beside`: the name of a CSV that may be written beside the fragment; without one all is
    in the YAML. Of traces alone the network is left out where it cannot be fitted. Raises
    UnreadableError where nothing can be.
    """
    comments = list(measured.notes)
    yaml: list[str] = []
    csv = None
    if not measured.transfers:
        for option, given in (("--size", size), ("--workers-per-node", per_node)):
            if given is not None:
                raise UnreadableError(f"{option} has no effect: no transfers were measured")
    if per_node is not None and size is not None:
        raise UnreadableError("--size has no effect: links of nodes are right for all sizes")
    if measured.transfers:
        try:
            if per_node is None:
                network = network_part(measured.transfers, size)
            else:
                network = nodes_part(measured.transfers, per_node)
        except UnreadableError as error:
            if size is not None or per_node is not None or not measured.traced:
                raise
            comments.append(f"network: left out: {error}")
        else:
            comments += network.comments
            yaml += network.yaml
    if measured.steps is not None:
        compute = compute_part(measured.steps, beside)
        comments += compute.comments
        yaml += compute.yaml
        csv = compute.csv
    lines = (*(f"# {line}" for line in comments), "cluster:", *(f"  {line}" for line in yaml))
    return Fragment(lines, csv)


def calibrate(
    files: str | Path | Sequence[str | Path],
    options: FormOptions | None = None,
    *,
    size: float | None = None,
    per_node: int | None = None,
) -> Fragment:
    r"""Fit parts of a cluster to measured files.

    Parameters
    ----------
    files : str or Path, or sequence of these
        Output of nccl-tests, tables of times, profiler traces, step times; any of them together.
    options : FormOptions, optional
        What the files do not say: their form, the collective, the ranks, the unit of times.
    size : float, optional
        Size of your messages (bytes): the line is fitted to the sizes around it.
    per_node : int, optional
        Workers of a node; a network of nodes is fitted, inside and across.

    Returns
    -------
    Fragment
        YAML for a scenario's `cluster` (`lines`), with the errors of the fit as comments.

    Raises
    ------
    UnreadableError
        With what is wrong in each file, or where no line fits.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile, varsim
    >>> from pathlib import Path
    >>> times = [(step, 0.1 + 0.01 * (step % 3)) for step in range(50)]
    >>> rows = [f"{step},{rank},{time}" for rank in (0, 1) for step, time in times]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "steps.csv"
    ...     _ = file.write_text("\n".join(["step,worker,seconds", *rows]))
    ...     print(varsim.calibrate(file).lines[-1])
      compute: {kind: uniform, low: 100 ms, high: 120.001 ms}

    """
    paths = [Path(one) for one in ([files] if isinstance(files, str | Path) else files)]
    measured = read_files(paths, FormOptions() if options is None else options, lambda line: None)
    return fragment(measured, size, None, per_node)


_WORST: Final = 0.10
_MOST_SHOWN: Final = 60


def network_part(tables: Sequence[TransferTable], size: float | None) -> MeasuredPart:
    """The line of the sizes around `size` (bytes), or of all.

    Raises UnreadableError where times say nothing of a bandwidth, and where no line is right for
    all sizes but none is asked for.
    """
    transfers = [one for table in tables for one in table.transfers]
    used = transfers if size is None else around(transfers, size)
    line = fit(used)
    if line.per_byte <= 0:
        here = "" if size is None else f" around {_bytes(size)}"
        raise UnreadableError(
            f"the times do not grow with the size{here}: no bandwidth is seen; use larger sizes"
        )
    line = rounded(line)
    worst = max(used, key=lambda one: abs(line.error(one)))
    off = abs(line.error(worst))
    if size is None and off > _WORST:
        raise UnreadableError(
            f"no latency and bandwidth are right for all sizes ({_bytes(worst.size)} is "
            f"{100 * off:.0f} % off): give --size, that of your messages"
        )
    sizes = {one.size for one in used}

    def this(_: TransferTable, one: MeasuredTransfer) -> float:
        return line.time(one)

    comments = [
        *_sources(tables),
        *_fitted(used, size, line),
        *_residuals(tables, "this line", this, sizes),
    ]
    return MeasuredPart(tuple(comments), (f"network: {{kind: star, {_link(line)}}}",))


def nodes_part(tables: Sequence[TransferTable], per_node: int) -> MeasuredPart:
    """Nodes of so many workers: links inside, and one network card each.

    Raises UnreadableError where times say nothing of either.
    """
    inner, outer = split(tables, per_node)
    inside = fit([one for table in inner for one in table.transfers])
    if inside.per_byte <= 0:
        raise UnreadableError("the times inside a node do not grow with the size")
    inside = rounded(inside)
    cards = fit_cards(outer, per_node, inside)
    nodes = described(per_node, inside, cards)

    def modelled(table: TransferTable, one: MeasuredTransfer) -> float:
        if table in inner or table.collective is None:
            return inside.time(one)
        return ring_time(*table.collective, one.size, nodes)

    comments = [
        *_sources(tables),
        "  inside a node fitted first, then the cards, on the network of nodes, as one card a node",
        *_residuals([*inner, *outer], "modelled", modelled),
    ]
    links = f"inside: {{{_link(inside)}}}, {_link(cards)}"
    yaml = f"network: {{kind: nodes, workers_per_node: {per_node}, {links}}}"
    return MeasuredPart(tuple(comments), (yaml,))


def _link(line: Line) -> str:
    """YAML of a bandwidth and a latency."""
    rate, time = with_unit(line.bandwidth, "rate"), with_unit(line.latency, "time")
    return f"bandwidth: {rate}, latency: {time}"


def _sources(tables: Sequence[TransferTable]) -> list[str]:
    lines = []
    for table in tables:
        sizes = [one.size for one in table.transfers]
        lines += [
            f"network, from {table.source}: {table.what}",
            f"  {len(sizes)} times of {len(set(sizes))} sizes, {_bytes(min(sizes))} to "
            f"{_bytes(max(sizes))}",
            f"  in varsim's model: time = {table.formula}",
            *(f"  {note}" for note in table.notes),
        ]
    return lines


def _fitted(used: Sequence[MeasuredTransfer], size: float | None, line: Line) -> list[str]:
    """How well the line meets the times it was fitted to."""
    off = [abs(line.error(one)) for one in used]
    sizes = {one.size for one in used}
    of = "all sizes" if size is None else f"{_bytes(min(sizes))} to {_bytes(max(sizes))}"
    lines = [
        "  fitted by least squares of relative errors; fitted / measured - 1:",
        f"  a line for {of}: median error {100 * median(off):.2f} %, worst {100 * max(off):.2f} %",
    ]
    if len(sizes) == 1:
        lines.append("  one size cannot tell latency from bandwidth: the latency is set to 0")
    elif len(sizes) == 2:
        lines.append("  any line fits two sizes: the errors mean nothing")
    elif line.latency == 0:
        lines.append("  no latency can be seen in these sizes: it is set to 0")
    return lines


def _residuals(
    tables: Sequence[TransferTable],
    head: str,
    modelled: Callable[[TransferTable, MeasuredTransfer], float],
    fitted: Collection[float] | None = None,
) -> Iterator[str]:
    """One line per size, of all sizes: those that were not `fitted` are marked."""
    yield f"  {'size':>14} {'measured':>10} {head:>10} {'error':>8}"
    for table in tables:
        if len(tables) > 1:
            yield f"  {table.what} ({table.source}):"
        by_size: dict[float, list[MeasuredTransfer]] = {}
        for one in table.transfers:
            by_size.setdefault(one.size, []).append(one)
        stride = -(-len(by_size) // _MOST_SHOWN)
        if stride > 1:
            yield f"  of every {stride} sizes one is shown:"
        for size in sorted(by_size)[::stride]:
            seconds = median(one.seconds for one in by_size[size])
            time = modelled(table, by_size[size][0])
            mark = "" if fitted is None or size in fitted else "  (not its sizes)"
            yield (
                f"  {_bytes(size):>14} {format_seconds(seconds):>10} {format_seconds(time):>10} "
                f"{100 * (time / seconds - 1):>+7.1f} %{mark}"
            )


def _bytes(size: float) -> str:
    return f"{size:.0f} B" if size == int(size) else f"{size:g} B"
