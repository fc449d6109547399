"""Data-parallel steps of three networks on T4 GPUs, for any placement: AdaptDL."""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit, step_time, timed
from varsim.validation.published.table import Row

# Which model profile is trained under which name (cifar10: ResNet-18).
_PROFILES: Final = {"bert": "bert_base", "imagenet": "resnet50"}
_RESNET18_BYTES: Final = 44_695_848
_RESNET18_LAYERS: Final = 18


class AdaptDl(Family):
    """PyTorch's rings with 25 MiB buckets, begun during the backward pass.

    A ring goes at the pace of its slowest hop: inside a machine, between two machines, or between
    more. So replicas are on a star of such hops, wherever they are placed.
    """

    names = ("adaptdl-t4-*",)
    split = (
        "one replica of every network (its batch curve), and bert with its smallest and its "
        "largest batch (4 and 12) and one or four replicas on every machine; all else of bert, and "
        "all distributed rows of imagenet and cifar10, predicted"
    )
    parameters = (
        Parameter("inside", "bytes/s", 3e9, 2e8, 15.75e9, "a ring inside a machine"),
        Parameter("two", "bytes/s", 5e8, 1e8, 6.25e9, "a ring through two machines"),
        Parameter("more", "bytes/s", 8e8, 1e8, 6.25e9, "a ring through more machines"),
        Parameter("hop", "s", 2e-4, 1e-6, 1e-2, "latency of a hop between machines"),
    )
    why: ClassVar[str] = (
        "Times on a shared cloud network: from one placement to the next they jump by a third and "
        "more, up and down again (cifar10, batch 32: 2+2 0.148 s, 3+3 0.243 s, 4+4 0.185 s), which "
        "nothing that depends on the number of replicas explains."
    )

    def is_calibrated_on(self, row: Row) -> bool:
        """See `split`."""
        if row.workers == 1:
            return True
        even = row.workers in (row.nodes, 4 * row.nodes)
        return row.model == "bert" and row.batch in (4, 12) and even

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Batch curves of single replicas; then the network from bert alone."""
        curves: dict[str, float] = {}
        for model in dict.fromkeys(row.model for row in rows):
            single = [row for row in rows if row.workers == 1 and row.model == model]
            curves |= _curve(model, single)
        many = [row for row in rows if row.workers > 1]
        return {**curves, **fit(self.parameters, many, self.predicted, curves)}

    def refuses(self, row: Row) -> str:
        """Known networks."""
        if row.model not in (*_PROFILES, "cifar10"):
            return f"{row.model}: its size is not known"
        return super().refuses(row)

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Replicas on a star of the slowest hop."""
        compute = {
            "kind": "batch_curve",
            "fixed": fitted[f"{row.model} fixed"],
            "per_example": fitted[f"{row.model} per_example"],
        }
        where = "inside" if row.nodes == 1 else "two" if row.nodes == 2 else "more"
        network = {
            "bandwidth": fitted[where],
            "latency": fitted["hop"] if row.nodes > 1 else 0.0,
            "sharing": "first_come",
        }
        strategy: dict[str, object] = {"kind": "on_write"}
        if row.workers > 1:
            strategy |= {"overlap": True, "bucketing": "ddp"}
        workload: dict[str, object] = {"batch_size": row.batch}
        if row.model in _PROFILES:
            workload["model"] = _PROFILES[row.model]
        else:
            workload |= _resnet18()
        return timed(
            f"adaptdl-{row.model}-{where}-{row.workers}-{row.batch}",
            row.workers,
            {"compute": compute, "network": network},
            workload,
            strategy,
        )

    def predicted(self, row: Row, fitted: Fitted) -> float:
        """Seconds of a step."""
        return step_time(self.scenario(row, fitted))

    def label(self, row: Row) -> str:
        """Placement and batch."""
        placed = row.strategy or f"{row.workers} on {row.nodes} nodes"
        return f"placement {placed}, batch {row.batch}"


def _curve(model: str, rows: Sequence[Row]) -> dict[str, float]:
    """The line through the times of one replica, by relative least squares."""
    times = np.array([row.value for row in rows])
    batches = np.array([row.batch for row in rows])
    columns = np.stack([1 / times, batches / times], axis=1)
    fixed, each = np.linalg.lstsq(columns, np.ones(len(rows)), rcond=None)[0].tolist()
    return {f"{model} fixed": float(f"{fixed:.4g}"), f"{model} per_example": float(f"{each:.4g}")}


def _resnet18() -> dict[str, object]:
    """Layers of ResNet-18 in four stages, whose weights grow fourfold at equal work."""
    sizes = [4.0**stage for stage in range(4) for _ in range(_RESNET18_LAYERS // 4)]
    total = sum(sizes)
    return {
        "layers": tuple(
            {"backward": 1.0, "size": max(1, round(_RESNET18_BYTES * size / total))}
            for size in sizes
        )
    }
