"""Measurements that somebody published, one row each, as they are read from CSV files.

Three layouts are known by their header: that of `published.csv` (any experiment), AdaptDL's times
for placements of replicas, and DL2's speeds for numbers of servers and workers.
"""

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from validation.references import REFERENCES
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
        return (
            *(self.system, self.model, self.hardware, self.interconnect, self.strategy),
            *(self.precision, self.batch, self.workers, self.nodes, self.detail, self.value),
        )

    @property
    def where(self) -> str:
        """Its source, and where it stands in the table."""
        return f"{self.source} ({self.file}, line {self.line})"


class _CellError(ValueError):
    """What is wrong with one cell."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(f"column {column!r}: {message}")


class _Cells(dict[str, str]):
    """The cells of a row by column, "" for one that is not there; _CellError for what is wrong."""

    def __missing__(self, column: str) -> str:
        return ""

    def number(self, column: str) -> float:
        try:
            value = float(self[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise _CellError(column, f"{self[column]!r} is not a number")
        return value

    def above_0(self, column: str) -> float:
        value = self.number(column)
        if value <= 0:
            raise _CellError(column, f"must be above 0, not {self[column]}")
        return value

    def count(self, column: str, *, empty: bool = False) -> int:
        """A whole number above 0; 0 for an empty cell where that is allowed."""
        text = self[column].strip()
        if empty and not text:
            return 0
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (1 <= value <= 10**6 and value == int(value)):
            raise _CellError(column, f"{text!r} is not a whole number from 1 to 1,000,000")
        return int(value)


def bundled_rows() -> list[Row]:
    """All measurements that come with varsim."""
    texts = ((name, (REFERENCES / name).read_text(encoding="utf-8")) for name in BUNDLED)
    return [row for name, text in texts for row in rows_of(text, name)]


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
            place = f"{name}:{reader.line_num}"
            if cells and len(cells) != len(header):
                wrong = f"{len(cells)} columns where the header has {len(header)}"
                problems.append(f"{place}: {wrong}")
            elif cells:
                try:
                    of_row = _Cells(zip(header, cells, strict=True))
                    rows.append(layout(of_row, name, reader.line_num))
                except _CellError as error:
                    problems.append(f"{place}: {error}")
    except csv.Error as error:
        problems.append(f"{name}:{reader.line_num}: {error}")
    if problems:
        left = len(problems) - _MOST_PROBLEMS
        more = [f"{name}: {left} more problems"] if left > 0 else []
        raise PublishedFileError("\n".join([*problems[:_MOST_PROBLEMS], *more]))
    if not rows:
        raise PublishedFileError(f"{name}: no measurement there")
    return rows


def _layout(header: list[str], name: str) -> Callable[[_Cells, str, int], Row]:
    """How the rows under this header are to be read."""
    missing = {columns: set(columns.split()) - set(header) for columns in _LAYOUTS}
    nearest = min(missing, key=lambda columns: len(missing[columns]))
    if missing[nearest]:
        lacks = ", ".join(sorted(missing[nearest]))
        raise PublishedFileError(f"{name}:1: the header lacks {lacks}")
    return _LAYOUTS[nearest]


_COPIED: Final = (
    *("experiment", "system", "model", "strategy", "metric", "unit", "detail", "status"),
    *("framework", "hardware", "interconnect", "precision"),
)


def _published(cells: _Cells, name: str, line: int) -> Row:
    if not cells["experiment"]:
        raise _CellError("experiment", "is empty")
    source, servers = cells["source"], cells["servers"]
    if cells["where_read"]:
        source += f", {cells['where_read']}"
    copied: dict[str, Any] = {column: cells[column] for column in _COPIED}
    return Row(
        file=name,
        line=line,
        batch=cells.count("batch_per_worker", empty=True),
        workers=cells.count("workers", empty=True),
        servers=int(servers) if servers.isascii() and servers.isdigit() else 0,
        servers_said=servers,
        value=cells.number("value"),
        source=source,
        **copied,
    )


def _adaptdl(cells: _Cells, name: str, line: int) -> Row:
    nodes, replicas = cells.count("nodes"), cells.count("replicas")
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
        batch=cells.count("batch_per_replica"),
        workers=replicas,
        nodes=nodes,
        metric="step time",
        value=cells.above_0("step_time_s"),
        unit="s",
        detail=f"placement {cells['placement'] or 'not said'}",
        source="AdaptDL (Qiao et al. 2021), times of data-parallel steps on T4 GPUs",
    )


def _dl2(cells: _Cells, name: str, line: int) -> Row:
    return Row(
        file=name,
        line=line,
        experiment=f"dl2-ps-{cells['model']}",
        system="MXNet",
        model=cells["model"],
        framework="MXNet",
        strategy=cells["mode"],
        batch=cells.count("global_batch"),
        workers=cells.count("workers"),
        servers=cells.count("servers"),
        servers_said=cells["servers"],
        metric="training throughput",
        value=cells.above_0("samples_per_s_total"),
        unit="sample/s",
        detail="the batch is that of all workers together",
        source="DL2 (Peng et al. 2019), speed of MXNet with parameter servers",
    )


# By the columns that a header has at least.
_LAYOUTS: Final[Mapping[str, Callable[[_Cells, str, int], Row]]] = {
    "experiment source system model strategy batch_per_worker workers servers metric value unit "
    "detail status": _published,
    "model nodes replicas placement batch_per_replica step_time_s": _adaptdl,
    "model mode global_batch servers workers samples_per_s_total": _dl2,
}


def experiments(rows: Iterable[Row]) -> Iterable[tuple[str, list[Row]]]:
    """Every experiment with its rows, in the order in which they first occur."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.experiment, []).append(row)
    return found.items()


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
