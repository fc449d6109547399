"""Measurements that somebody published, one row each, as they are read from CSV files.

Three layouts are known by their header: that of `published.csv` (any experiment), AdaptDL's times
for placements of replicas, and DL2's speeds for numbers of servers and workers.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from varsim.core import presets

BUNDLED: Final = ("published.csv", "published_adaptdl_t4.csv", "published_dl2_ps.csv")

_LARGEST_FILE: Final = 2**26
_MOST_PROBLEMS: Final = 20


class PublishedFileError(Exception):
    """A file that is not a table of measurements: one line for each problem."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement and what was measured.

    `workers`: what computes, GPUs or machines (0: not said). `nodes`: machines they are in (0: not
    said). `batch`: examples per worker and step (0: not said), except where an experiment keeps the
    batch of all workers together. `servers`: a number, where that is all that is said of them.
    `file`, `line`: where it stands.
    """

    file: str
    line: int
    experiment: str
    system: str
    model: str
    strategy: str
    metric: str
    value: float
    unit: str
    detail: str
    source: str
    batch: int
    workers: int
    framework: str = ""
    hardware: str = ""
    interconnect: str = ""
    precision: str = ""
    nodes: int = 0
    servers: int = 0
    servers_said: str = ""
    status: str = "seen in stored material"

    @property
    def content(self) -> tuple[object, ...]:
        """What was measured and what came out, without the names of experiment and file."""
        what = (self.system, self.model, self.hardware, self.interconnect, self.strategy)
        return (
            *what,
            self.precision,
            self.batch,
            self.workers,
            self.nodes,
            self.detail,
            self.value,
        )

    @property
    def where(self) -> str:
        """Its source, and where it stands in the table."""
        return f"{self.source} ({self.file}, line {self.line})"


Cells: TypeAlias = Mapping[str, str]


class _CellError(ValueError):
    """What is wrong with one cell."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(f"column {column!r}: {message}")


def bundled_rows() -> list[Row]:
    """All measurements that come with varsim."""
    folder = Path(__file__).parents[1] / "data" / "references"
    rows = []
    for name in BUNDLED:
        rows += rows_of((folder / name).read_text(encoding="utf-8"), name)
    return rows


def read_rows(path: Path) -> list[Row]:
    """All measurements of a file; PublishedFileError has a line for everything wrong with it."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise PublishedFileError(f"{path}: larger than {_LARGEST_FILE // 2**20} MiB")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PublishedFileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PublishedFileError(f"{path}: not UTF-8 text") from None
    return rows_of(text, str(path))


def rows_of(text: str, name: str) -> list[Row]:
    """The measurements of a table that is called `name` in messages."""
    reader = csv.reader(text.splitlines(), strict=True)
    rows: list[Row] = []
    problems: list[str] = []
    try:
        header = next(reader, [])
        layout = _layout(header, name)
        for cells in reader:
            line = reader.line_num
            if not cells:
                continue
            if len(cells) != len(header):
                problems.append(
                    f"{name}:{line}: {len(cells)} columns where the header has {len(header)}"
                )
                continue
            try:
                rows.append(layout(dict(zip(header, cells, strict=True)), name, line))
            except _CellError as error:
                problems.append(f"{name}:{line}: {error}")
    except csv.Error as error:
        problems.append(f"{name}:{reader.line_num}: {error}")
    if problems:
        left = len(problems) - _MOST_PROBLEMS
        more = [f"{name}: {left} more problems"] if left > 0 else []
        raise PublishedFileError("\n".join([*problems[:_MOST_PROBLEMS], *more]))
    if not rows:
        raise PublishedFileError(f"{name}: no measurement there")
    return rows


def _layout(header: list[str], name: str) -> Callable[[Cells, str, int], Row]:
    """How the rows under this header are to be read."""
    for columns, layout in _LAYOUTS.items():
        if columns <= set(header):
            return layout
    nearest = min(_LAYOUTS, key=lambda columns: len(columns - set(header)))
    missing = ", ".join(sorted(nearest - set(header)))
    raise PublishedFileError(f"{name}:1: the header lacks {missing}")


def _published(cells: Cells, name: str, line: int) -> Row:
    if not cells["experiment"]:
        raise _CellError("experiment", "is empty")
    source = cells["source"]
    if cells.get("where_read"):
        source += f", {cells['where_read']}"
    servers = cells["servers"]
    return Row(
        file=name,
        line=line,
        experiment=cells["experiment"],
        system=cells["system"],
        model=cells["model"],
        framework=cells.get("framework", ""),
        hardware=cells.get("hardware", ""),
        interconnect=cells.get("interconnect", ""),
        strategy=cells["strategy"],
        precision=cells.get("precision", ""),
        batch=_count(cells, "batch_per_worker", empty=True),
        workers=_count(cells, "workers", empty=True),
        servers=int(servers) if servers.isascii() and servers.isdigit() else 0,
        servers_said=servers,
        metric=cells["metric"],
        value=_number(cells, "value"),
        unit=cells["unit"],
        detail=cells["detail"],
        source=source,
        status=cells["status"],
    )


def _adaptdl(cells: Cells, name: str, line: int) -> Row:
    nodes, replicas = _count(cells, "nodes"), _count(cells, "replicas")
    if nodes > replicas:
        raise _CellError("nodes", f"{nodes} nodes for {replicas} replicas")
    return Row(
        file=name,
        line=line,
        experiment=f"adaptdl-t4-{cells['model']}",
        system="AdaptDL",
        model=cells["model"],
        framework="PyTorch",
        hardware="T4, 4 per node",
        strategy=cells["placement"],
        batch=_count(cells, "batch_per_replica"),
        workers=replicas,
        nodes=nodes,
        metric="step time",
        value=_above_0(cells, "step_time_s"),
        unit="s",
        detail=f"placement {cells['placement'] or 'not said'}",
        source="AdaptDL (Qiao et al. 2021), times of data-parallel steps on T4 GPUs",
    )


def _dl2(cells: Cells, name: str, line: int) -> Row:
    return Row(
        file=name,
        line=line,
        experiment=f"dl2-ps-{cells['model']}",
        system="MXNet",
        model=cells["model"],
        framework="MXNet",
        strategy=cells["mode"],
        batch=_count(cells, "global_batch"),
        workers=_count(cells, "workers"),
        servers=_count(cells, "servers"),
        servers_said=cells["servers"],
        metric="training throughput",
        value=_above_0(cells, "samples_per_s_total"),
        unit="sample/s",
        detail="the batch is that of all workers together",
        source="DL2 (Peng et al. 2019), speed of MXNet with parameter servers",
    )


def _columns(names: str) -> frozenset[str]:
    return frozenset(names.split())


_LAYOUTS: Final[Mapping[frozenset[str], Callable[[Cells, str, int], Row]]] = {
    _columns(
        "experiment source system model strategy batch_per_worker workers servers metric value "
        "unit detail status"
    ): _published,
    _columns("model nodes replicas placement batch_per_replica step_time_s"): _adaptdl,
    _columns("model mode global_batch servers workers samples_per_s_total"): _dl2,
}


def _number(cells: Cells, column: str) -> float:
    try:
        value = float(cells[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _CellError(column, f"{cells[column]!r} is not a number")
    return value


def _above_0(cells: Cells, column: str) -> float:
    value = _number(cells, column)
    if value <= 0:
        raise _CellError(column, f"must be above 0, not {cells[column]}")
    return value


def _count(cells: Cells, column: str, *, empty: bool = False) -> int:
    """A whole number above 0; 0 for an empty cell where that is allowed."""
    text = cells[column].strip()
    if empty and not text:
        return 0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (1 <= value <= 10**6 and value == int(value)):
        raise _CellError(column, f"{text!r} is not a whole number from 1 to 1,000,000")
    return int(value)


def experiments(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Every experiment with its rows, in the order in which they first occur."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.experiment, []).append(row)
    yield from found.items()


# What the cells of a row say in words: machines, lines, meshes, messages, servers.


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
