"""Wait-free back-propagation, buckets, and averaging now and then.

The exchange of a layer takes as long as a gradient of so many bytes between two workers (a ring of
two sends all of it once). In slow motion, in which sizes are many bytes and rounding is nothing.
"""

from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.estimate import Answer, Estimate, average, family
from validation.points.parameters import (
    Count,
    NotNegative,
    NotNegatives,
    Positive,
    of_minutes,
    only_if,
    together,
)
from validation.points.scenario import (
    NANOSECONDS,
    Part,
    column,
    layered,
    period,
    ran,
    scenario,
    sent,
    slow_motion,
)
from varsim.cluster.workers.allreduce import Bucketing, ready_buckets
from varsim.learning.workload import Workload
from varsim.scenario.training import Scenario

_RATE: Final = 1e6  # bytes/s
_LEAST_STEPS: Final = 4.5  # of a slow worker
_LINK: Final = {"bandwidth": _RATE, "latency": 0.0, "sharing": "fair"}
_EACH_LAYER: Final = together(
    lambda tc, given: len(given["tb"]) == len(tc),
    "parameters.tb and parameters.tc must have a number for each layer",
)
_SOME: Final = together(lambda tb, _: sum(tb) > 0, "parameters.tb must not all be 0")
_BACKUP: Final = together(
    lambda n, given: given["mode"] != "backup1" or n > 1,
    "parameters.n must be above 1: one worker has no backup",
)


@family("overlap-wfbp")
def _wait_free(
    tf: NotNegative, tb: Annotated[NotNegatives, _SOME], tc: Annotated[NotNegatives, _EACH_LAYER]
) -> Answer:
    """The second iteration of `on_write` with a bucket per layer.

    What takes no time to be exchanged is one byte, which is nothing here.
    """
    slower = slow_motion(2 * (tf + sum(tb) + sum(tc)))
    layers = tuple(
        {"backward": backward, "size": max(exchange * slower * _RATE, 1.0)}
        for backward, exchange in zip(tb, tc, strict=True)
    )
    strategy: Part = {"kind": "on_write", "bucketing": "layers"}
    law, share = laws.constant((tf + sum(tb)) * slower), {}
    if sum(tb[:-1]):  # else all gradients are ready at once, and overlap would be refused
        strategy = {**strategy, "overlap": True}
        if tf:
            law = {"kind": "phases", "forward": tf * slower, "backward": sum(tb) * slower}
        else:
            share = {"backward_share": 1.0}
    described = scenario(strategy, 2, law, 2, network=_LINK, workload=layered(layers), **share)
    return period(ran(described)) / slower


@family("overlap-uniform")
def _uniform_layers(tf: NotNegative, L: Count, b: Positive, c: NotNegative) -> Answer:
    return _wait_free(tf, [b] * L, [c] * L)


@family("ddp-buckets")
def _ddp_buckets(model: str, bucket_cap_mb: Positive, first_bucket_mb: Positive) -> Answer:
    """As `on_write` cuts the gradients of a model."""
    workload = Workload.model_validate({"problem": {"kind": "timing"}, "model": model})
    cut = ready_buckets(workload, Bucketing("ddp", bucket_cap_mb * 2**20, first_bucket_mb * 2**20))
    sizes = [bucket.size for bucket in cut]
    return {
        "number of buckets": Estimate(float(len(sizes))),
        "bytes of the first bucket": Estimate(float(sizes[0])),
        "bytes of the largest": Estimate(float(max(sizes))),
        "bytes of the last": Estimate(float(sizes[-1])),
    }


def _averaging(every: int, workers: int, law: Part, steps: int, **more: Any) -> Scenario:
    strategy = {"kind": "on_read", "read_every": every, "write_back": True}
    return scenario(strategy, workers, law, steps, **more)


@family("local-erlang")
def _local_steps(n: Count, H: Count, mu: Positive) -> Answer:
    """`on_read` with `write_back`, every H steps; time per local step."""
    steps = max(6_000 // (n * H), 5) * H
    described = _averaging(H, n, laws.exponential(1 / mu), steps)
    return average(lambda number: ran(described, number).end / NANOSECONDS / steps)


@family("local-comm-saving")
def _averaging_less(tc: Positive, tm: NotNegative, H: Count) -> Answer:
    """The time per step with an average after every step, over that of H."""
    steps = 4 * H
    slower = slow_motion((steps + 1) * (tc + tm))
    law, size = laws.constant(tc * slower), sent(max(tm * slower * _RATE, 1.0))

    def per_step(every: int) -> float:
        described = _averaging(every, 2, law, steps + 1, network=_LINK, workload=size)
        return period(ran(described)) / steps

    return per_step(1) / per_step(H)


@family("slow-worker")
def _one_slow_worker(
    mode: Literal["sync", "async", "backup1"],
    n: Annotated[Count, _BACKUP],
    T: Positive,
    f: Positive,
) -> Answer:
    """Used gradients per second.

    From update to update where all workers make them together; else each worker's own, in sum.
    """
    strategies: dict[str, Part] = {
        "sync": {"kind": "on_write"},
        "async": {"kind": "none"},
        "backup1": {"kind": "backup_workers", "replicas_to_aggregate": n - 1},
    }
    why = "with f below 1 all wait for the others, not for this worker: the formula is another"
    only_if(mode == "async" or f >= 1, why)
    of_minutes(n * max(f, 1.0))
    longest = _LEAST_STEPS * T * max(f, 1.0)
    slower = slow_motion(longest)
    slow = ({"rank": n - 1, "factor": f},)
    law, stop = laws.constant(T * slower), {"time": longest * slower}
    trace = ran(scenario(strategies[mode], n, law, stop, slow_workers=slow))
    used = column(trace, "parts_applied") > 0
    applied, worker = column(trace, "applied")[used], column(trace, "worker")[used]
    if mode == "async":
        own = (applied[worker == rank] for rank in range(n))
        return sum((len(times) - 1) * slower / _seconds(times) for times in own)
    return int((applied > trace.steps[0]).sum()) * slower / _seconds(trace.steps)


def _seconds(times: NDArray[np.int64]) -> float:
    """From the first of these times (ns) to the last."""
    return int(times[-1] - times[0]) / NANOSECONDS
