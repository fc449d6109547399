"""Data-parallel steps of three networks on T4 GPUs, for any placement: AdaptDL."""

from collections.abc import Sequence
from typing import ClassVar, Final

from validation.published.experiment import (
    Family,
    Fitted,
    Parameter,
    constant,
    extremes,
    fit,
    late,
    slowest,
    step_time,
    timed,
)
from validation.published.table import Row, has_size, per_host, size
from varsim.scenario.training import Scenario

# Which model profile is trained under which name (cifar10: ResNet-18).
_PROFILES: Final = {"bert": "bert_base", "imagenet": "resnet50"}
_RESNET18_BYTES: Final = 44_695_848
_RESNET18_LAYERS: Final = 18
_RESNET18: Final = "cifar10"


class AdaptDl(Family):
    """PyTorch's rings with 25 MiB buckets, begun during the backward pass.

    A ring goes at the pace of its slowest hop: inside a machine, between two machines, or between
    more. So replicas are on a star of such hops, wherever they are placed. One of them is the
    slowest; how different they are is told for every network by a machine with four of them.
    """

    split = (
        "one replica, and one full machine, of every network given (the latter for how different "
        "replicas are); of the network with the most bytes the smallest and the largest batch with "
        "one or all replicas of every machine. All else predicted"
    )
    units = ("s",)
    by_hand = ("18 layers of ResNet-18 in four stages",)
    parameters = (
        Parameter("inside", "bytes/s", 3e9, 2e8, 15.75e9, "a ring inside a machine"),
        Parameter("two", "bytes/s", 5e8, 1e8, 6.25e9, "a ring through two machines"),
        Parameter("more", "bytes/s", 8e8, 1e8, 6.25e9, "a ring through more machines"),
        Parameter("hop", "s", 2e-4, 1e-6, 1e-2, "latency of a hop between machines"),
        Parameter("spread", "share", 0.05, 1e-3, 0.5, "of the replicas' compute times"),
    )
    why: ClassVar[str] = (
        "Noise of a shared network, for a whole run at a time. Many placements were measured with "
        "their machines in another order, too, a ring of the same hops: to take one time for the "
        "other misses 17 of 680 rows of cifar10 and 9 of 496 of imagenet, varsim misses 12 and "
        "none of them."
    )

    def knows(self, row: Row) -> bool:
        return row.metric == "step time" and row.nodes > 0

    def is_given(self, row: Row) -> bool:
        return row.nodes == 1 and row.workers in (1, per_host(row))

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        rows = [row for row in rows if row.workers > 1]
        most = max((_bytes(row.model) for row in rows), default=0)
        largest = [row for row in rows if _bytes(row.model) == most]
        even = [r for r in largest if r.workers in (r.nodes, per_host(r) * r.nodes)]
        return extremes(even, lambda row: row.batch)

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Single replicas as they are; one machine; more machines."""
        fitted = {_alone(row.model, row.batch): row.value for row in rows if row.workers == 1}
        inside, *between, spread = self.parameters
        machine = [row for row in rows if row.nodes == 1 < row.workers]
        more = [row for row in rows if row.nodes > 1]
        telling = {row.model for row in more}
        for model in sorted({row.model for row in machine}, key=lambda model: model not in telling):
            unknown = [spread._replace(name=_spread(model))]
            if inside.name not in fitted:
                unknown.append(inside)
            own = [row for row in machine if row.model == model]
            fitted |= fit(unknown, own, self.predicted, fitted)
        return fitted | fit(between, more, self.predicted, fitted)

    def refuses(self, row: Row) -> str:
        if not _bytes(row.model):
            return f"{row.model}: its size is not known"
        return "" if row.batch else "the row does not say its batch"

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Replicas on a star of the slowest hop."""
        where = "inside" if row.nodes == 1 else "two" if row.nodes == 2 else "more"
        hop = fitted["hop"] if row.nodes > 1 else 0.0
        network = {"bandwidth": fitted[where], "latency": hop, "sharing": "first_come"}
        cluster = {"compute": constant(_step_alone(row, fitted)), "network": network}
        strategy: dict[str, object] = {"kind": "on_write"}
        if row.workers > 1:
            strategy |= {"overlap": True, "bucketing": "ddp"}
            cluster |= late(slowest(row.workers, fitted[_spread(row.model)]))
        model = {"model": _PROFILES.get(row.model, row.model)}
        workload = {
            "batch_size": row.batch,
            **(_resnet18() if row.model == _RESNET18 else model),
        }
        name = f"adaptdl-{row.model}-{where}-{row.workers}-{row.batch}"
        return timed(name, row.workers, cluster, workload, strategy)

    def explains(self, row: Row) -> str:
        """Noise, and what stands out besides."""
        if row.model == "cifar10" and row.nodes == 2:
            return (
                f"{self.why} Through two machines cifar10 got 0.5 GB/s where bert, which tells the "
                "rate, got 0.4."
            )
        if row.model == "imagenet" and row.nodes > 4:
            return (
                f"{self.why} With every batch up to 40, imagenet on 16 machines is faster with 24 "
                "replicas than with 16, 20, 28, 32 or 40."
            )
        return self.why

    def predicted(self, row: Row, fitted: Fitted) -> float:
        return step_time(self.scenario(row, fitted))

    def label(self, row: Row) -> str:
        placed = row.strategy or f"{row.workers} on {row.nodes} nodes"
        return f"placement {placed}, batch {row.batch}"


def _bytes(model: str) -> int:
    """Of its parameters; 0 where nobody knows them."""
    profile = _PROFILES.get(model, model)
    if model == _RESNET18:
        return _RESNET18_BYTES
    return size(profile) if has_size(profile) else 0


def _spread(model: str) -> str:
    """What the spread of a network's replicas is called, which is given with its machine."""
    return f"spread in a machine by {model}"


def _alone(model: str, batch: int) -> str:
    """What the time of a step of one replica is called."""
    return f"{model} with batch {batch}"


def _step_alone(row: Row, fitted: Fitted) -> float:
    """Seconds that a replica needs by itself; a batch that nobody measured lies on a line.

    That is the line through the two next to it, or through the last two.
    """
    name, start = _alone(row.model, row.batch), _alone(row.model, 0).removesuffix("0")
    batches = sorted(int(one.removeprefix(start)) for one in fitted if one.startswith(start))
    if name in fitted or len(batches) < 2:
        return fitted[name]
    upper = min(max(1, sum(batch < row.batch for batch in batches)), len(batches) - 1)
    small, large = batches[upper - 1], batches[upper]
    first, last = fitted[_alone(row.model, small)], fitted[_alone(row.model, large)]
    return first + (last - first) * (row.batch - small) / (large - small)


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
