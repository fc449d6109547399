"""Measurements as a YAML fragment of a scenario, with errors of the fit as comments."""

from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from varsim.calibration.compute_text import compute_part
from varsim.calibration.forms import Measurements, Options, read_files
from varsim.calibration.measurement import Transfer, TransferTable, UnreadableError, with_unit
from varsim.calibration.network_fit import (
    Line,
    around,
    described,
    fit,
    fit_cards,
    ring_time,
    rounded,
    split,
)
from varsim.units import format_seconds


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
    if per_node is not None and size is not None:
        raise UnreadableError(["--size has no effect: links of nodes are right for all sizes"])
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
            yaml.append(network.yaml)
    elif size is not None:
        raise UnreadableError(["--size has no effect: no transfers were measured"])
    elif per_node is not None:
        raise UnreadableError(["--workers-per-node has no effect: no transfers were measured"])
    if measured.steps is not None:
        compute = compute_part(measured.steps, beside)
        comments += compute.comments
        yaml += compute.yaml
        csv = compute.csv
    lines = (*(f"# {line}" for line in comments), "cluster:", *(f"  {line}" for line in yaml))
    return Fragment(lines, csv)


def calibrate(
    files: Sequence[str | Path],
    options: Options | None = None,
    *,
    size: float | None = None,
    per_node: int | None = None,
) -> Fragment:
    """Fragment of `cluster` from measured files: nccl-tests, tables, traces, step times.

    `options`: what the files do not say. Otherwise as `fragment`; raises UnreadableError, and
    OSError where there is no such file.
    """
    paths = [Path(file) for file in files]
    measured = read_files(paths, Options() if options is None else options, lambda line: None)
    return fragment(measured, size, None, per_node)


_WORST: Final = 0.10
_MOST_SHOWN: Final = 60


class NetworkPart(NamedTuple):
    """Lines of comment, and the line of YAML that stands under `cluster`."""

    comments: tuple[str, ...]
    yaml: str


def network_part(tables: Sequence[TransferTable], size: float | None) -> NetworkPart:
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
            [f"the times do not grow with the size{here}: no bandwidth is seen; use larger sizes"]
        )
    line = rounded(line)
    worst = max(used, key=lambda one: abs(line.error(one)))
    off = abs(line.error(worst))
    if size is None and off > _WORST:
        raise UnreadableError(
            [
                f"no latency and bandwidth are right for all sizes ({_bytes(worst.size)} is "
                f"{off:.0%} off): give --size, that of your messages"
            ]
        )
    yaml = (
        f"network: {{kind: star, bandwidth: {with_unit(line.bandwidth, 'rate')}, "
        f"latency: {with_unit(line.latency, 'time')}}}"
    )
    sizes = {one.size for one in used}
    comments = [*_sources(tables), *_fitted(used, size, line), *_residuals(tables, sizes, line)]
    return NetworkPart(tuple(comments), yaml)


def nodes_part(tables: Sequence[TransferTable], per_node: int) -> NetworkPart:
    """Nodes of so many workers: links inside, and one network card each.

    Raises UnreadableError where times say nothing of either.
    """
    inner, outer = split(tables, per_node)
    inside = fit([one for table in inner for one in table.transfers])
    if inside.per_byte <= 0:
        raise UnreadableError(["the times inside a node do not grow with the size"])
    inside = rounded(inside)
    cards = fit_cards(outer, per_node, inside)
    nodes = described(per_node, inside, cards)
    links = [
        f"bandwidth: {with_unit(one.bandwidth, 'rate')}, latency: {with_unit(one.latency, 'time')}"
        for one in (inside, cards)
    ]
    kind = f"kind: nodes, workers_per_node: {per_node}"
    yaml = f"network: {{{kind}, inside: {{{links[0]}}}, {links[1]}}}"
    comments = [
        *_sources(tables),
        "  inside a node fitted first, then the cards, on the network of nodes, as one card a node",
        f"  {'size':>14} {'measured':>10} {'modelled':>10} {'error':>8}",
    ]
    for table in [*inner, *outer]:
        assert table.collective is not None
        name, ranks = table.collective
        comments.append(f"  {table.what} ({table.source}):")
        for one in table.transfers:
            modelled = (
                inside.time(one) if table in inner else ring_time(name, ranks, one.size, nodes)
            )
            comments.append(
                f"  {_bytes(one.size):>14} {format_seconds(one.seconds):>10} "
                f"{format_seconds(modelled):>10} {modelled / one.seconds - 1:>+8.1%}"
            )
    return NetworkPart(tuple(comments), yaml)


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


def _fitted(used: Sequence[Transfer], size: float | None, line: Line) -> list[str]:
    """How well the line meets the times it was fitted to."""
    off = [abs(line.error(one)) for one in used]
    sizes = {one.size for one in used}
    of = "all sizes" if size is None else f"{_bytes(min(sizes))} to {_bytes(max(sizes))}"
    lines = [
        "  fitted by least squares of relative errors; fitted / measured - 1:",
        f"  a line for {of}: median error {median(off):.2%}, worst {max(off):.2%}",
    ]
    if len(sizes) == 1:
        lines.append("  one size cannot tell latency from bandwidth: the latency is set to 0")
    elif len(sizes) == 2:
        lines.append("  any line fits two sizes: the errors mean nothing")
    elif line.latency == 0:
        lines.append("  no latency can be seen in these sizes: it is set to 0")
    return lines


def _residuals(tables: Sequence[TransferTable], sizes: Collection[float], line: Line) -> list[str]:
    """One line per size, of all sizes: those that the line was not fitted to are marked."""
    lines = [f"  {'size':>14} {'measured':>10} {'this line':>10} {'error':>8}"]
    for table in tables:
        if len(tables) > 1:
            lines.append(f"  {table.what} ({table.source}):")
        by_size: dict[float, list[Transfer]] = {}
        for one in table.transfers:
            by_size.setdefault(one.size, []).append(one)
        stride = -(-len(by_size) // _MOST_SHOWN)
        if stride > 1:
            lines.append(f"  of every {stride} sizes one is shown:")
        for size in sorted(by_size)[::stride]:
            seconds = median(one.seconds for one in by_size[size])
            shown = by_size[size][0]._replace(seconds=seconds)
            mark = "" if size in sizes else "  (not its sizes)"
            lines.append(
                f"  {_bytes(size):>14} {format_seconds(seconds):>10} "
                f"{format_seconds(line.time(shown)):>10} {line.error(shown):>+8.1%}{mark}"
            )
    return lines


def _bytes(size: float) -> str:
    return f"{size:.0f} B" if size == int(size) else f"{size:g} B"
