"""One machine: variables in its memory, on its GPUs, copied to every GPU; and one GPU alone."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import varsim
from validation.networks import HybridMesh
from validation.published.experiment import (
    Family,
    Fitted,
    Parameter,
    alone,
    extremes,
    fit,
    overlapped_server,
    timed,
)
from validation.published.table import Row, has_size, is_speed, mesh, per_host, size
from varsim.scenario.training import Scenario

# Training on one machine: variables in its memory, on its GPUs, or a copy on every GPU.


_PCIE: Final = 15.75e9  # bytes/s: a GPU's 16 lanes of PCIe 3
_HOST: Final = 4 * _PCIE  # two GPUs share a switch of the DGX-1, or a board of K80s
_NVLINK: Final = 80e9  # the four links of a P100
_LINKS: Final = 9e11  # those of a B200
_MEANINGS: Final = {
    "cpu": (_HOST, "all GPUs together from and to the host's memory"),
    "gpu": (_PCIE, "PCIe of a GPU"),
    "replicated": (_NVLINK, "PCIe or NVLink of a GPU"),
    "all-reduce": (_LINKS, "NVLink or PCIe of a GPU; of a mesh, one of its links"),
}


class OneMachine(Family):
    """Variables in the host's memory, on the GPUs in turn, or a copy on every GPU.

    What TensorFlow calls replicated it reduces after the backward pass; other all-reduces begin
    with it, in PyTorch's buckets, and use all rings of a mesh.
    """

    split = (
        "1 GPU of every network and batch given; for each place of the variables the most GPUs of "
        "the network with the fewest and of that with the most bytes, with the largest batch; all "
        "other rows predicted"
    )
    parameters = tuple(
        Parameter(place, "bytes/s", 8e9, 1e8, most, meaning)
        for place, (most, meaning) in _MEANINGS.items()
    )
    by_hand = ("10 us of latency inside a machine",)
    why: ClassVar[str] = (
        "Scaling is not smooth: resnet50 on the DGX-1 loses 4 % per GPU from 1 to 2 of them, and "
        "gains 3 % from 2 to 8; vgg16 with batch 32 loses 25 % from 4 to 8, with batch 64 it loses "
        "7 %, more than equal bytes in half the time explain; alexnet loses as many milliseconds "
        "as vgg16 with half its bytes."
    )

    def knows(self, row: Row) -> bool:
        return is_speed(row) and bool(_place(row))

    def refuses(self, row: Row) -> str:
        """There is one machine."""
        most = per_host(row) or 8
        if row.workers > most:
            return f"{row.workers} GPUs, of which a machine has {most}"
        return super().refuses(row)

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        """For every place both ends of the networks, on most GPUs."""
        told: list[Row] = []
        for place in _MEANINGS:
            own = [row for row in rows if _place(row) == place]
            most = max((row.workers for row in own), default=0)
            ends = extremes(
                [row for row in own if row.workers == most], lambda row: size(row.model)
            )
            largest = {row.model: row for row in sorted(ends, key=lambda row: row.batch)}
            told += largest.values()
        return told

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Every rate from the rows that tell it."""
        fitted = {_compute(row): row.batch / row.value for row in rows if row.workers == 1}
        for parameter in self.parameters:
            own = [row for row in rows if row.workers > 1 and _place(row) == parameter.name]
            fitted |= fit([parameter], own, self.predicted, fitted)
        return fitted

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Every GPU is a worker; copies are all-reduced after the backward pass."""
        cluster = alone(fitted[_compute(row)])
        strategy: dict[str, Any] = {"kind": "on_write"}
        if row.workers > 1:
            place = _place(row)
            rate = fitted[place]
            network: dict[str, Any] = {"bandwidth": rate, "latency": 10e-6}
            if place == "all-reduce":
                strategy |= {"overlap": True, "bucketing": "ddp"}
                if mesh(row):
                    varsim.register(HybridMesh)
                    host = {"bandwidth": _PCIE, "latency": 10e-6}
                    network |= {"kind": "hybrid_mesh", "joined": mesh(row), "host": host}
            if place in ("cpu", "gpu"):
                strategy = overlapped_server(row.workers)
            if place == "cpu":
                network |= {"bandwidth": _PCIE, "server_bandwidth": rate}
            if place == "gpu":
                cluster |= {"parameter_servers": row.workers, "placement": "round_robin"}
                cluster["servers_on"] = "workers"
            cluster["network"] = network
        workload = {"model": row.model, "batch_size": row.batch}
        name = f"{row.experiment}-{row.model}-{row.workers}"
        return timed(name, row.workers, cluster, workload, strategy)


def _place(row: Row) -> str:
    """Where the variables are; nothing where the row does not say."""
    for copied in ("replicated", "all-reduce"):
        if row.strategy.startswith(copied) and "asynchronous" not in row.strategy:
            return copied
    place = row.strategy.removeprefix("parameter_server on ")
    return place if place != row.strategy and place in ("cpu", "gpu") else ""


def _compute(row: Row) -> str:
    return f"{row.model} with batch {row.batch}{row.precision and f' in {row.precision}'}"


# How long one accelerator takes for a batch, by its size: a fixed part and one per example.


class BatchCurves(Family):
    """One device: seconds per batch = fixed + per_example x batch, for each network by itself."""

    split = "the smallest and the largest batch of a network; the batches between predicted"
    bound = 0.04
    parameters = (
        Parameter("fixed", "s", 0.03, 1e-4, 1.0, "of a batch of any size"),
        Parameter("per_example", "s", 0.01, 1e-5, 1.0, "of one more example"),
    )
    why: ClassVar[str] = (
        "A straight line cannot follow libraries that choose other kernels for other batches: "
        "inception_v3 on the V100 is up to 8 % off it in the middle."
    )
    given_alone = False

    def knows(self, row: Row) -> bool:
        return is_speed(row) and row.strategy == "single device"

    def setting(self, row: Row) -> str:
        """Every network on every device has a curve of its own."""
        return f"{row.model} ({row.precision or 'precision not said'}) by {super().setting(row)}"

    def refuses(self, row: Row) -> str:
        """Curves are those of one GPU."""
        if not row.workers:
            return "the row does not say on how many workers"
        if row.workers > 1:
            return "more than the one GPU of a single device"
        return "" if row.batch else "the row does not say its batch"

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        return extremes(rows, lambda row: row.batch)

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """The line through two points."""
        if not rows:
            return {}
        small, *_, large = sorted([*rows, *rows], key=lambda row: row.batch)
        if small.batch == large.batch:
            return {}
        first, last = (row.batch / row.value for row in (small, large))
        slope = (last - first) / (large.batch - small.batch)
        return {"fixed": first - slope * small.batch, "per_example": slope}

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        law = {"kind": "batch_curve", **{name: fitted[name] for name in ("fixed", "per_example")}}
        model = {"model": row.model} if has_size(row.model) else {"problem": {"size": 1e6}}
        return timed(
            f"{row.experiment}-{row.model}-{row.batch}",
            1,
            {**alone(0.0), "compute": law},
            {**model, "batch_size": row.batch},
            {"kind": "on_write"},
        )
