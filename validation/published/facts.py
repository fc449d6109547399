"""What the cells of a row say in words: machines, lines, meshes, messages, servers."""

import re
from typing import Final

from validation.published.table import Row
from varsim.values import presets

SPEEDS: Final = ("image", "images", "sample", "samples", "example", "examples", "sequence", "token")

_PER_HOST: Final = re.compile(
    r"(\d+) (?:GPUs? )?per (?:node|host|machine|server)|nodes?(?:\(s\))? of (\d+)|(\d+)x "
)
# Machines whose name says how many GPUs they have.
_MACHINES: Final = {"p2.8xlarge": 8, "p2.16xlarge": 16, "p3.16xlarge": 8, "DGX-1": 8, "DGX-2": 16}
_GIGABITS: Final = re.compile(r"(\d+) ?(?:GbE|GbIB|Gbit/s|Gbps)|(?:Omni-Path|IB) (\d+)")
_LINES: Final = {"Aries": 84, "InfiniBand FDR": 56, "InfiniBand EDR": 100, "InfiniBand HDR": 200}
_SERVERS_OF: Final = re.compile(r"(\d+) hosts: (.*)")
_OF_MODEL: Final = re.compile(r"(\d+) \(([^)]+)\)")


def is_speed(row: Row) -> bool:
    """Whether examples per second were measured."""
    return row.unit in [f"{name}/s" for name in SPEEDS] and "throughput" in row.metric


def per_host(row: Row) -> int:
    """GPUs of a machine; 0 where the row does not say."""
    found = _PER_HOST.search(row.hardware)
    if found is not None:
        return int(next(filter(None, found.groups())))
    return next((gpus for name, gpus in _MACHINES.items() if name in row.hardware), 0)


def line_rate(row: Row) -> float:
    """Bytes/s of the line between machines; 0 where the row does not say."""
    found = _GIGABITS.search(row.interconnect)
    if found is not None:
        return float(next(filter(None, found.groups()))) / 8 * 1e9
    return next((gbit for name, gbit in _LINES.items() if name in row.interconnect), 0) / 8 * 1e9


def has_rdma(row: Row) -> bool:
    """Whether the network cards write to memory by themselves."""
    return any(word in row.interconnect for word in ("RDMA", "RoCE", "InfiniBand", "GbIB"))


def mesh(row: Row) -> str:
    """The hybrid mesh of NVLinks that the GPUs of a machine have; nothing where they have none.

    V100 and P100 behind NVLinks without a switch are those of a DGX-1, or of its like.
    """
    said = f"{row.hardware}, {row.interconnect}"
    if "NVLink" not in said or any(word in said for word in ("NVSwitch", "DGX-2", "4 per", "of 4")):
        return ""
    return next((f"dgx1_{gpu.lower()}" for gpu in ("V100", "P100") if gpu in said), "")


def message_bytes(row: Row) -> int:
    """The size of a message, with which the detail begins; 0 where it does not say."""
    first = row.detail.split(" ", 1)[0]
    return int(first) if first.isascii() and first.isdigit() else 0


def servers(row: Row, hosts: int) -> int:
    """Parameter servers: a number, or one per machine but for exceptions that are listed."""
    if row.servers:
        return row.servers
    for at, listed in _SERVERS_OF.findall(row.servers_said):
        for number, model in _OF_MODEL.findall(listed):
            if (int(at), model) == (hosts, row.model):
                return int(number)
    return hosts


def has_size(model: str) -> bool:
    """Whether there is a profile of a model."""
    return model in presets.models()


def size(model: str) -> int:
    """Bytes of a model's parameters, or of their gradients."""
    return 4 * presets.model(model).parameters
