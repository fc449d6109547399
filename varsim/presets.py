"""Presets by name: devices, links and model profiles, read from the tables in `varsim/data`."""

import csv
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, TypeVar

# The column of hardware.csv that holds the dense peak of each precision, in TFLOP/s.
PRECISIONS: Final[Mapping[str, str]] = {
    "fp32": "fp32_tflops",
    "tf32": "tf32_tensor_tflops_dense",
    "fp16": "fp16_tflops_dense",
    "bf16": "bf16_tensor_tflops_dense",
}

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator: its dense peak in FLOP/s for each precision somebody published."""

    name: str
    title: str
    year: int
    peaks: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link: payload bytes/s per direction; seconds for a small message, None where unknown."""

    name: str
    title: str
    kind: str
    bandwidth: float
    latency: float | None
    source: str


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The sizes and FLOPs of a model: `tensors` holds parameter counts in forward order."""

    name: str
    kind: str
    parameters: int
    tensors: tuple[int, ...]
    train_flops_per_example: float
    example: str
    source: str


def device_peak(name: str, precision: str) -> float:
    """Dense peak of a device in FLOP/s; ValueError names the precisions that exist."""
    peaks = device(name).peaks
    if precision not in peaks:
        raise ValueError(f"{name} has no peak in {precision!r}; it has: {', '.join(peaks)}")
    return peaks[precision]


def device(name: str) -> Device:
    """The device of that name; ValueError with the nearest names if there is none."""
    return _found(name, devices(), "device", "devices")


def link(name: str) -> Link:
    """The link of that name; ValueError with the nearest names if there is none."""
    return _found(name, links(), "link", "links")


@cache
def model(name: str) -> ModelProfile:
    """The model profile of that name; ValueError with the nearest names if there is none."""
    row = _found(name, _model_rows(), "model", "models")
    return ModelProfile(
        name=name,
        kind=row["kind"],
        parameters=int(row["parameters"]),
        tensors=tuple(int(tensor["parameters"]) for tensor in _rows(f"model_tensors/{name}.csv")),
        train_flops_per_example=float(row["train_flops_per_example"]),
        example=row["example"],
        source=row["source"],
    )


@cache
def devices() -> Mapping[str, Device]:
    """All devices by name, oldest first."""
    found = {}
    for row in _rows("hardware.csv"):
        peaks = {
            precision: float(row[column] + "e12")
            for precision, column in PRECISIONS.items()
            if row[column]
        }
        found[row["name"]] = Device(
            row["name"], row["device"], int(row["year"]), MappingProxyType(peaks), row["source"]
        )
    return MappingProxyType(found)


@cache
def links() -> Mapping[str, Link]:
    """All links by name."""
    found = {
        row["name"]: Link(
            name=row["name"],
            title=row["link"],
            kind=row["kind"],
            # Decimal text first, so that 3.4 us is the float 3.4e-06 and not a neighbour of it.
            bandwidth=float(row["payload_GBps_per_direction"] + "e9"),
            latency=float(row["latency_us"] + "e-6") if row["latency_us"] else None,
            source=row["source"],
        )
        for row in _rows("links.csv")
    }
    return MappingProxyType(found)


def models() -> Mapping[str, ModelProfile]:
    """All model profiles by name."""
    return {name: model(name) for name in _model_rows()}


@cache
def _model_rows() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in _rows("models.csv")}


def _rows(path: str) -> list[dict[str, str]]:
    text = files("varsim").joinpath("data", *path.split("/")).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _found(name: str, table: Mapping[str, Row], noun: str, plural: str) -> Row:
    if name in table:
        return table[name]
    near = _nearest(name, table)
    hint = f"nearest: {', '.join(near)}; " if near else ""
    raise ValueError(f"unknown {noun} {name!r}; {hint}`varsim list {plural}` shows all")


def _nearest(name: str, names: Iterable[str], most: int = 4) -> list[str]:
    """Names that begin alike, then names spelled alike."""
    known = list(names)
    wanted = name.lower().replace("-", "_").replace(" ", "_")
    alike = difflib.get_close_matches(wanted, known, n=most, cutoff=0.6)
    prefixed = [
        candidate
        for candidate in known
        if wanted and (candidate.startswith(wanted) or wanted.startswith(candidate))
    ]
    return list(dict.fromkeys([*prefixed, *alike]))[:most]
