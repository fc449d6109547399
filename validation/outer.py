"""Training across slow links, as others simulated and measured it: how busy it keeps devices.

DiLoCo's tables say what bandwidth it takes for a compute utilisation (CU): computing time over all
time, of a long run. They are simulations of their authors, on a grid of bandwidths. Here two
workers, between whom a ring sends each number once, train so many equal layers, a third of a step
in the forward pass; gradients, outer ones after H steps, are reduced layer by layer, as the
backward pass makes them. (That a layer's next forward pass waits for its own reduction only would
save nothing: the first layer is reduced last.) How many bits a parameter is sent in the tables do
not say: the small model tells it, and the large one is predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from validation.finding import Finding, Section, Verdict
from validation.points.scenario import Part, layered, period, ran, scenario, sent
from validation.references import table

SECTION: Final = Section(
    "slow_links",
    "Training across slow links",
    "How busy devices are that train across slow links: the bandwidths that DiLoCo's authors "
    "simulated for a compute utilisation (CU), and what INTELLECT-1 measured. Bits per parameter "
    "are fitted to the 1B rows of the first table, data parallel and DiLoCo; its 10B rows are "
    "predicted. Of INTELLECT-1 the time of its all-reduce is given.",
    # Written down before anything was run.
    "DiLoCo's bandwidths lie on a grid of 20.7 %: each that is predicted on its point or the next "
    "one, and 8 of the 10 on it. INTELLECT-1's utilisation within 0.1 percentage points, its last "
    "digit. All other rows are reported without a bound.",
)
_TABLE: Final = "Streaming DiLoCo (2501.18512), table of compute utilisation"
_LAWS: Final = "DiLoCo scaling laws (2503.09799), table 6"
_REPORT: Final = "INTELLECT-1 (2412.01152), table 2"
_GRID: Final = np.logspace(-1, 3, 50)  # bandwidths that were tried, Gbit/s
_TARGETS: Final = (50, 80, 90, 95, 99)  # percent
_BANDWIDTHS: Final = "DiLoCo's bandwidths"
_SCALING: Final = "DiLoCo's scaling laws"
_UTILISATION: Final = "INTELLECT-1's utilisation"
GROUPS: Final = (_BANDWIDTHS, _SCALING, _UTILISATION)
_ON_POINT: Final = 0.8
_RULED: Final = ("data_parallel", "diloco")  # methods of which it is known how they send
_WHOLE: Final = (
    "a fragment is sent whole after its turn, of whole steps, and waited for; there it may not be"
)
_LAYERS: Final = 48  # of 10B, where a table does not say
_ASSUMED: Final = f"{_LAYERS} layers are assumed, and the bits that another table tells"
_UNKNOWN: Final = "how long what is sent may be under way is not given"
_WORKERS: Final = 2
_BYTES: Final = 1e6  # of a layer; only how long that takes counts
_PRECISE: Final = 1e-4
_NODES: Final = 14  # of INTELLECT-1, at most
_DIGIT: Final = 0.001


class Row(NamedTuple):
    """A way to train a model; `printed`: Gbit/s for each target, in order.

    `fragments` of layers take turns, all within `inner_steps`; 0: no row of those that are run.
    """

    model: str
    parameters: float
    layers: int
    step: float
    method: str
    inner_steps: int
    fragments: int
    printed: tuple[float, ...]

    @property
    def name(self) -> str:
        """What it is called in a report."""
        every = f", H {self.inner_steps}" if self.inner_steps > 1 else ""
        return f"{self.model}, {self.method.replace('_', ' ')}{every}"

    @property
    def round(self) -> int:
        """Steps in which all fragments have their turn: nearly H, where turns are not of whole."""
        return max(1, round(self.inner_steps / self.fragments)) * self.fragments


def findings() -> list[Finding]:
    """Both of DiLoCo's tables, and INTELLECT-1's."""
    first, second = _rows("diloco_bandwidth.csv"), _rows("diloco_scaling_laws.csv")
    bits = fitted_bits([row for row in first if row.model == "1B" and row.method in _RULED])
    found = [one for row in first for one in _of_row(row, bits)]
    judged = [one for one in found if one.verdict in (Verdict.PASS, Verdict.MISS)]
    more = [one for row in second for one in _of_row(row, bits, _LAWS)]
    return [_in_sum(judged, bits), *found, *more, *_intellect()]


def seconds_to_send(row: Row, busy: float) -> float:
    """How long all parameters may take over the links for a CU of `busy`."""
    from scipy.optimize import brentq

    computing = row.round * row.step
    # At most all of the sending is waited for, and at least it fits into the time.
    least, most = computing * (1 / busy - 1), computing / busy
    late = brentq(lambda sent: _round_time(row, sent) - most, 0.99 * least, most, rtol=_PRECISE)
    return float(late)


def _round_time(row: Row, seconds: float) -> float:
    """From sync to sync of all fragments; all parameters take so many seconds to send."""
    if row.method == "data_parallel":
        strategy: Part = {"kind": "on_write", "bucketing": "layers", "overlap": True}
    else:
        cut = {"fragments": row.fragments} if row.fragments > 1 else {"overlap": True}
        strategy = {"kind": "diloco", "inner_steps": row.round, **cut}
    described = scenario(
        strategy,
        _WORKERS,
        {"kind": "phases", "forward": row.step / 3, "backward": 2 * row.step / 3},
        2 * row.round + 1,
        network=_link(row.layers * _BYTES / seconds),
        workload=layered(({"backward": 1.0, "size": _BYTES},) * row.layers),
    )
    return period(ran(described), row.round, 2 * row.round)


def grid_point(gigabits: float) -> int:
    """The first bandwidth that was tried and is enough."""
    return int(np.searchsorted(_GRID, gigabits * (1 - _PRECISE)))


def printed_point(gigabits: float) -> int:
    """Which of the bandwidths that were tried is printed so."""
    return int(np.abs(np.log(_GRID / gigabits)).argmin())


def fitted_bits(rows: Sequence[Row]) -> float:
    """Bits per parameter with which most values are those printed: the middle of such numbers."""
    spans = [
        tuple(_GRID[point + side] / _gigabits(row, target, 1.0) for side in (-1, 0))
        for row in rows
        for target, printed in zip(_TARGETS, row.printed, strict=True)
        for point in [printed_point(printed)]
    ]
    ends = sorted(end for span in spans for end in span)
    middles = [(one + other) / 2 for one, other in pairwise(ends)]
    kept = [sum(low < bits <= high for low, high in spans) for bits in middles]
    return float(middles[kept.index(max(kept))])


def _gigabits(row: Row, target: int, bits: float) -> float:
    """Gbit/s that are needed."""
    return bits * row.parameters / seconds_to_send(row, target / 100) / 1e9


def _of_row(row: Row, bits: float, source: str = _TABLE) -> Iterator[Finding]:
    """Every target of a row."""
    group = _BANDWIDTHS if source == _TABLE else _SCALING
    for target, printed in zip(_TARGETS, row.printed, strict=True):
        name = f"{row.name}, CU {target} %"
        line = Finding(group, name, "bandwidth", "Gbit/s", printed, source=source, why=_UNKNOWN)
        if row.fragments:
            point = grid_point(_gigabits(row, target, bits))
            line = replace(line, got=float(_GRID[point]), verdict=Verdict.REPORTED, why=_WHOLE)
            if source == _LAWS:
                line = replace(line, why=_ASSUMED)
            elif row.method in _RULED and row.model == "1B":
                verdict = Verdict.CALIBRATED
                line = replace(line, bound=str(verdict), verdict=verdict, why="")
            elif row.method in _RULED:
                off = abs(point - printed_point(printed))
                line = line.held(off <= 1, "on the grid point, or the next")
        yield line


def _in_sum(judged: Sequence[Finding], bits: float) -> Finding:
    """How many predictions are on the very grid point."""
    hit = sum(one.got == _GRID[printed_point(one.expected)] for one in judged)
    name = f"{len(judged)} values of 10B, at the {bits:.2f} bits per parameter that 1B tells"
    share, what = hit / len(judged), "share on the grid point"
    line = Finding(_BANDWIDTHS, name, what, "", 1.0, share, source=_TABLE)
    return line.held(hit >= _ON_POINT * len(judged), f"at least {_ON_POINT:.0%}")


def _intellect() -> Iterator[Finding]:
    """Nodes whose outer all-reduce takes as long as it did."""
    for row in table("intellect1_utilisation.csv"):
        steps, computing = int(row["inner_steps"]), float(row["computing_s"])
        once_round = 2 * (_NODES - 1) / _NODES * _BYTES
        described = scenario(
            {"kind": "diloco", "inner_steps": steps},
            _NODES,
            {"kind": "constant", "value": computing / steps},
            2 * steps + 1,
            network=_link(once_round / float(row["all_reduce_s"])),
            workload=sent(_BYTES),
        )
        expected = float(row["utilisation"])
        got = computing / period(ran(described), steps, 2 * steps)
        name = f"{row['region']}, all-reduce of {row['all_reduce_s']} s every {steps} steps"
        line = Finding(
            _UTILISATION, name, "compute utilisation", "1", expected, got, source=_REPORT
        )
        yield line.held(abs(got - expected) <= _DIGIT, f"within {_DIGIT:g}")


def _link(bandwidth: float) -> Part:
    """A network of nothing but its bandwidth (bytes/s)."""
    return {"bandwidth": bandwidth, "latency": 0.0, "sharing": "fair"}


def _rows(file: str) -> list[Row]:
    """One of DiLoCo's tables."""
    return [_row(cells) for cells in table(file)]


def _row(cells: Mapping[str, str]) -> Row:
    layers = int(cells.get("layers") or _LAYERS)
    in_turn = int(cells.get("fragment_layers") or layers)
    known = cells["method"] in _RULED or cells["tau"] == "0"
    return Row(
        cells.get("model") or cells["architecture"],
        float(cells["params"]),
        layers,
        float(cells["step_s"]),
        cells["method"],
        int(cells["inner_steps"]),
        layers // in_turn if known else 0,
        tuple(float(cells[f"gbit_cu{target}"]) for target in _TARGETS),
    )
