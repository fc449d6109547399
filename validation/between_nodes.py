"""All-reduces of several nodes, from the rates of one and of its cards: nccl-tests, measured.

NCCL makes a ring, or a tree, per network card. The fastest of rings and of a pipeline by nodes is
what its tuner would take. What it knows of them besides their rates is taken from its own model
(NVIDIA/nccl, src/graph/tuning.cc): the latency of a step, 1.4 times as much where rings of several
nodes are longer than a few kilobytes, and the share of the rate that trees reach at medium sizes.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from validation.finding import Finding, Verdict
from validation.points import laws
from validation.points.scenario import NANOSECONDS, Part, ran, scenario

ABOUT: Final = (
    "Bus bandwidth of all-reduces of two nodes of 8 GPUs, 16 MiB to 4 GiB (nccl-tests on AWS): "
    "predicted from the rate of one node, where one was measured, the rates of its network cards, "
    "and constants of NCCL's own model; no row of several nodes is fitted."
)
# Written down before anything was run.
BOUND: Final = "Each within 25 %, the median within 12 %."
GROUP: Final = "all-reduces between nodes"
_SOURCE: Final = "aws-samples/awsome-distributed-training (MIT-0)"
_DATA: Final = Path(__file__).parent / "data" / "references" / "nccl_all_reduce_aws.csv"
_WITHIN, _MEDIAN = 0.25, 0.12
_GPUS: Final = 8
_LEAST, _MOST = 2**24, 2**32  # bytes
_ONE_NODE: Final = "AWS Batch"  # how the name of its rows begins
_COMPUTING: Final = 10**9  # ns

# Of NCCL's model: seconds of a step of the protocol for large messages.
_NETWORK_STEP: Final = 14e-6
_NVLINK_STEP: Final = 3.4e-6
_PLATEAU: Final = 1.4
# What trees reach of their rate, by the power of two of the bytes; 1 from there on.
_TREES: Final = {24: 0.7, 25: 0.7, 26: 0.8, 27: 0.9, 28: 0.9}
_A100: Final = 235e9  # what it takes a node of them to reach at most (bytes/s)
_SEGMENTS: Final = (2, 4, 8, 16)


class Inside(NamedTuple):
    """The links of a node: bytes/s of a GPU, seconds of a step."""

    rate: float
    step: float


class Cluster(NamedTuple):
    """Nodes that were measured: how their rows are called, GPUs, cards, bytes/s of a card."""

    called: str
    gpu: str
    cards: int
    rate: float


_CLUSTERS: Final = (
    Cluster("2x p4de.24xlarge (", "A100", 4, 12.5e9),
    Cluster("2x p5.48xlarge (", "H100", 8, 50e9),
    Cluster("2x p5.48xlarge on EKS", "H100", 8, 50e9),
)
_CONTRADICTS: Final = "the same machines measured elsewhere were up to 2.2 times as fast"


class Row(NamedTuple):
    """A measured all-reduce: ranks, bytes, seconds."""

    cluster: str
    ranks: int
    size: int
    seconds: float

    @property
    def bus_bandwidth(self) -> float:
        """As nccl-tests has it (bytes/s)."""
        return bus_bandwidth(self.ranks, self.size, self.seconds)


def bus_bandwidth(ranks: int, size: float, seconds: float) -> float:
    """Bytes/s of every link, were the all-reduce a ring."""
    return 2 * (ranks - 1) / ranks * size / seconds


def findings() -> list[Finding]:
    """The median, and every row."""
    rows = measured()
    inside = {"A100": Inside(_A100, _NVLINK_STEP), "H100": fitted(rows)}
    found = [
        _of_row(row, cluster, inside[cluster.gpu])
        for cluster in _CLUSTERS
        for row in rows
        if row.cluster.startswith(cluster.called) and _LEAST <= row.size <= _MOST
    ]
    middle = median(abs(one.error or 0.0) for one in found)
    verdict = Verdict.PASS if middle <= _MEDIAN else Verdict.MISS
    what = f"all {len(found)} rows, 16 MiB to 4 GiB"
    bound = f"at most {_MEDIAN:.0%}"
    summed = Finding(
        GROUP,
        what,
        "median error of the bus bandwidth",
        "",
        0.0,
        middle,
        None,
        bound,
        verdict,
        _SOURCE,
    )
    return [summed, *found]


def measured() -> list[Row]:
    """All rows of the table."""
    with _DATA.open(encoding="utf-8") as file:
        return [
            Row(
                row["cluster"],
                int(row["ranks"]),
                int(row["bytes"]),
                float(row["time_us_out_of_place"]) / 1e6,
            )
            for row in csv.DictReader(file)
        ]


def fitted(rows: Sequence[Row]) -> Inside:
    """Links of one node: the line through its rows, of least squares of relative errors."""
    import numpy as np

    used = [r for r in rows if r.cluster.startswith(_ONE_NODE) and _LEAST <= r.size <= _MOST]
    steps = 2 * (_GPUS - 1)
    terms = np.array([(steps / r.seconds, steps / _GPUS * r.size / r.seconds) for r in used])
    (step, per_byte), *_ = np.linalg.lstsq(terms, np.ones(len(used)), rcond=None)
    return Inside(float(1 / per_byte), float(step))


def predicted(cluster: Cluster, inside: Inside, ranks: int, size: int) -> float:
    """Seconds that the fastest way takes."""
    share = _TREES.get(size.bit_length() - 1, 1.0)
    by_nodes: Part = {"collective": "hierarchical", "ranks_per_group": _GPUS}
    ways = [
        _seconds(_nodes(cluster, inside, _PLATEAU, 1.0), {}, ranks, size),
        *(
            _seconds(
                _nodes(cluster, inside, 1.0, share),
                {**by_nodes, "segment_size": size / segments},
                ranks,
                size,
            )
            for segments in _SEGMENTS
        ),
    ]
    return min(ways)


def _nodes(cluster: Cluster, inside: Inside, slower: float, share: float) -> Part:
    """Their network; steps take `slower` times as long, of rates a `share` is reached."""
    links = {"bandwidth": inside.rate, "latency": slower * inside.step, "efficiency": share}
    return {
        **{"kind": "nodes", "workers_per_node": _GPUS, "nics": cluster.cards, "inside": links},
        **{"bandwidth": cluster.rate, "latency": slower * _NETWORK_STEP, "efficiency": share},
    }


def _seconds(network: Part, more: Part, ranks: int, size: int) -> float:
    described = scenario(
        {"kind": "on_write", **more},
        ranks,
        laws.constant(1.0),
        {"global_steps": 1},
        network=network,
        workload={"problem": {"kind": "timing", "size": float(size)}},
    )
    return (int(ran(described).steps[0]) - _COMPUTING) / NANOSECONDS


def _of_row(row: Row, cluster: Cluster, inside: Inside) -> Finding:
    seconds = predicted(cluster, inside, row.ranks, row.size)
    got = bus_bandwidth(row.ranks, row.size, seconds)
    missed = abs(got / row.bus_bandwidth - 1) > _WITHIN
    return Finding(
        GROUP,
        f"{row.cluster}, {row.size >> 20} MiB",
        "bus bandwidth",
        "GB/s",
        row.bus_bandwidth / 1e9,
        got / 1e9,
        None,
        f"within {_WITHIN:.0%}",
        Verdict.MISS if missed else Verdict.PASS,
        _SOURCE,
        _CONTRADICTS if missed and "EKS" in row.cluster else "",
    )
