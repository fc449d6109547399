"""Presets by name: devices, links, failure rates, model profiles, from the tables in `data`."""

import csv
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Final, TypeVar

from varsim.core.refusal import RefusalError

# The column of hardware.csv that holds the dense peak of each precision, in TFLOP/s.
PRECISIONS: Final[Mapping[str, str]] = {
    "fp32": "fp32_tflops",
    "tf32": "tf32_tensor_tflops_dense",
    "fp16": "fp16_tflops_dense",
    "bf16": "bf16_tensor_tflops_dense",
}

# The column that holds the best matrix product somebody measured, in TFLOP/s.
MATRIX_PRODUCTS: Final[Mapping[str, str]] = {"bf16": "measured_best_bf16_matmul_tflops"}

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class DevicePreset:
    """An accelerator: its dense peak in FLOP/s for each precision somebody published.

    `matrix_products`: the same as somebody measured it, by a search for the fastest product.
    `memory`: bytes, of every size that there is; `memory_bandwidth`: bytes/s, None where unknown.
    """

    name: str
    title: str
    year: int
    peaks: Mapping[str, float]
    matrix_products: Mapping[str, float]
    memory: tuple[float, ...]
    memory_bandwidth: float | None
    source: str

    @property
    def default_precision(self) -> str:
        """What frameworks compute float32 in where nothing is said: tf32 where there is any."""
        return "tf32" if "tf32" in self.peaks else "fp32"


@dataclass(frozen=True, slots=True)
class MeasuredSpeed:
    """Published training speeds of a model on one device: examples/s by batch size.

    `speeds`: (batch, examples/s), the smallest batch first.
    """

    device: str
    model: str
    precision: str
    framework: str
    hardware: str
    speeds: tuple[tuple[int, float], ...]
    source: str

    @property
    def batches(self) -> str:
        """The batch sizes in words: `64` or `1 to 128`."""
        least, most = self.speeds[0][0], self.speeds[-1][0]
        return str(least) if least == most else f"{least} to {most}"

    def step_time(self, batch: int) -> float:
        """Seconds per step: on straight lines between the measured batches, beyond in proportion.

        Proportion makes batches that are smaller than all measured ones too fast.
        """
        for (below, slow), (above, fast) in pairwise(self.speeds):
            if below <= batch <= above:
                share = (batch - below) / (above - below)
                return (1 - share) * (below / slow) + share * (above / fast)
        return batch / self.speeds[0 if batch < self.speeds[0][0] else -1][1]

    def distance(self, batch: int) -> float:
        """Ratio of a batch to the nearest measured one, at least 1."""
        return max(self.speeds[0][0] / batch, batch / self.speeds[-1][0], 1.0)


@dataclass(frozen=True, slots=True)
class LinkPreset:
    """A link: payload bytes/s per direction; seconds for a small message, None where unknown."""

    name: str
    title: str
    kind: str
    bandwidth: float
    latency: float | None
    source: str

    @property
    def per_node(self) -> bool:
        """Whether all links of a node of several devices are meant, not one."""
        return self.kind.endswith("per node")


@dataclass(frozen=True, slots=True)
class Failures:
    """How often machines of so many GPUs failed, per machine and day."""

    name: str
    title: str
    gpus: int
    per_day: float
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The sizes and FLOPs of a model: `tensors` holds parameter counts in forward order.

    `blocks`: how many tensors in a row make up each of its blocks, such as a transformer layer.
    """

    name: str
    kind: str
    parameters: int
    tensors: tuple[int, ...]
    blocks: tuple[int, ...]
    train_flops_per_example: float
    example: str
    source: str


@dataclass(frozen=True, slots=True)
class ProfiledLayer:
    """A layer of a profile: its backward pass in ms, to be used in proportion, and its bytes."""

    name: str
    backward: float
    parameter_bytes: int


def device_peak(name: str, precision: str) -> float:
    """Dense peak of a device in FLOP/s; ValueError names the precisions that exist."""
    peaks = device(name).peaks
    if precision not in peaks:
        raise RefusalError(
            f"{name} has no peak in {precision!r}; it has: {', '.join(peaks)}", "precision"
        )
    return peaks[precision]


def device_matrix_product(name: str, precision: str) -> float:
    """Best matrix product measured on a device in FLOP/s; ValueError where nobody measured."""
    measured = device(name).matrix_products
    if precision not in measured:
        known = f"only in {', '.join(measured)}" if measured else "in no precision"
        message = f"no matrix product of {name} was measured in {precision}, {known}"
        raise RefusalError(message, "precision")
    return measured[precision]


def device(name: str) -> DevicePreset:
    """The device of that name; ValueError with the nearest names if there is none."""
    return _found(name, devices(), "device", "devices")


def link(name: str) -> LinkPreset:
    """The link of that name; ValueError with the nearest names if there is none."""
    return _found(name, links(), "link", "links")


@cache
def model(name: str) -> ModelProfile:
    """The model profile of that name; ValueError with the nearest names if there is none."""
    row = _found(name, _model_rows(), "model", "models")
    tensors = _rows(f"model_tensors/{name}.csv")
    blocks = groupby(_block(tensor["name"]) for tensor in tensors)
    return ModelProfile(
        name=name,
        kind=row["kind"],
        parameters=int(row["parameters"]),
        tensors=tuple(int(tensor["parameters"]) for tensor in tensors),
        blocks=tuple(len(list(group)) for _, group in blocks),
        train_flops_per_example=float(row["train_flops_per_example"]),
        example=row["example"],
        source=row["source"],
    )


def _block(tensor: str) -> str:
    """The module of a tensor of that name that is numbered, as `layers.3`; else the first one.

    Where no part of the name is a number, as in `rnn0.bias` or `Mixed_5b.conv.weight`, the first
    part in which there is one; of tensors beside all those, one name for all.
    """
    parts = tensor.split(".")[:-1]
    for numbered in (str.isdigit, lambda part: any(map(str.isdigit, part))):
        for place, part in enumerate(parts):
            if numbered(part):
                return ".".join(parts[: place + 1])
    return ""


@cache
def preset_errors() -> Mapping[str, float]:
    """How far published all-reduce jobs, by their models, were off their presets.

    0.06: 6 % more throughput was simulated than measured. `python -m validation` writes the table.
    """
    return {row["model"]: float(row["error"]) for row in _rows("preset_errors.csv")}


@cache
def devices() -> Mapping[str, DevicePreset]:
    """All devices by name, oldest first."""
    found = {}
    for row in _rows("hardware.csv"):
        found[row["name"]] = DevicePreset(
            row["name"],
            row["device"],
            int(row["year"]),
            _rates(row, PRECISIONS),
            _rates(row, MATRIX_PRODUCTS),
            tuple(float(f"{size}e9") for size in row["memory_gb"].split(" or ")),
            float(f"{row['memory_bw_GBps']}e9") if row["memory_bw_GBps"] else None,
            row["source"],
        )
    return MappingProxyType(found)


@cache
def all_measured_speeds() -> tuple[MeasuredSpeed, ...]:
    """Every measured training speed, a curve over the batches of each, in the table's order."""
    keys = ("device", "model", "precision", "framework", "hardware", "source")
    found: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for row in _rows("measured_speeds.csv"):
        speed = int(row["batch"]), float(row["examples_per_s"])
        found.setdefault(tuple(row[key] for key in keys), []).append(speed)
    return tuple(
        MeasuredSpeed(device, model, precision, framework, hardware, tuple(sorted(speeds)), source)
        for (device, model, precision, framework, hardware, source), speeds in found.items()
    )


def measured_speeds(device: str, model: str, precision: str) -> tuple[MeasuredSpeed, ...]:
    """Those of a model on a device in a precision; none where nobody measured it."""
    wanted = device, model, precision
    return tuple(
        one for one in all_measured_speeds() if (one.device, one.model, one.precision) == wanted
    )


@cache
def measured_shares() -> tuple[float, float]:
    """The least and the greatest share of a peak that any measured speed is, at its best batch."""
    shares = [
        max(speed for _, speed in one.speeds)
        * model(one.model).train_flops_per_example
        / device_peak(one.device, one.precision)
        for one in all_measured_speeds()
    ]
    return min(shares), max(shares)


@cache
def links() -> Mapping[str, LinkPreset]:
    """All links by name."""
    found = {
        row["name"]: LinkPreset(
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


def failures(name: str) -> Failures:
    """The failure rate of that name; ValueError with the nearest names if there is none."""
    return _found(name, failure_rates(), "failure rate", "failures")


@cache
def failure_rates() -> Mapping[str, Failures]:
    """All failure rates by name."""
    found = {
        row["name"]: Failures(
            row["name"],
            row["title"],
            int(row["gpus_per_machine"]),
            float(row["per_machine_day"]),
            row["source"],
            row["note"],
        )
        for row in _rows("failures.csv")
    }
    return MappingProxyType(found)


def layer_profiles() -> tuple[str, ...]:
    """The names of all layer profiles; one with the name of a model is of that model."""
    found = files("varsim").joinpath("data", "layer_profiles").iterdir()
    return tuple(sorted(file.name.removesuffix(".csv") for file in found))


@cache
def layer_profile(name: str) -> tuple[ProfiledLayer, ...]:
    """The profiled layers of that name in forward order; ValueError if there are none."""
    known = dict.fromkeys((*layer_profiles(), "by_flops", "by_bytes"))
    if name not in known or name in ("by_flops", "by_bytes"):
        near = _nearest(name, known, 1)
        hint = f"did you mean {near[0]!r}? (" if near else "("
        message = f"unknown layers {name!r}; {hint}one of: {', '.join(known)})"
        raise RefusalError(message, "layers")
    return tuple(
        ProfiledLayer(row["layer"], float(row["backward_ms"]), int(row["parameter_bytes"]))
        for row in _rows(f"layer_profiles/{name}.csv")
    )


@cache
def tensor_flops(name: str) -> tuple[float, ...]:
    """FLOPs of a forward pass for one example, for every tensor of a model in forward order.

    A matrix or kernel of n parameters that is used at k positions takes 2 n k; what else is
    computed (products of activations, embeddings used again) is counted with the tensor before it.
    """
    uses = [row for row in _rows("tensor_uses.csv") if fnmatchcase(name, row["model"])]
    return tuple(_flops(tensor, uses) for tensor in _rows(f"model_tensors/{name}.csv"))


def _flops(tensor: Mapping[str, str], uses: Iterable[Mapping[str, str]]) -> float:
    for row in uses:
        if fnmatchcase(tensor["name"], row["tensors"]):
            many = int(row["uses"]) if "x" in tensor["shape"] else 0
            return float(2 * int(tensor["parameters"]) * many + int(row["flops_besides"]))
    return 0.0


def models() -> Mapping[str, ModelProfile]:
    """All model profiles by name."""
    return {name: model(name) for name in _model_rows()}


@cache
def _model_rows() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in _rows("models.csv")}


def _rates(row: Mapping[str, str], columns: Mapping[str, str]) -> Mapping[str, float]:
    """FLOP/s by precision, where there are any."""
    return MappingProxyType(
        {
            precision: float(row[column] + "e12")
            for precision, column in columns.items()
            if row[column]
        }
    )


def _rows(path: str) -> list[dict[str, str]]:
    text = files("varsim").joinpath("data", *path.split("/")).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _found(name: str, table: Mapping[str, Row], noun: str, plural: str) -> Row:
    if name in table:
        return table[name]
    near = _nearest(name, table)
    hint = f"nearest: {', '.join(near)}; " if near else ""
    message = f"unknown {noun} {name!r}; {hint}`varsim list {plural}` shows all"
    raise RefusalError(message, "model" if noun == "model" else "preset")


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
