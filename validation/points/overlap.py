"""Wait-free back-propagation, buckets, and averaging now and then.

The exchange of a layer takes as long as a gradient of so many bytes between two workers (a ring of
two sends all of it once). In slow motion, in which sizes are many bytes and rounding is nothing.
"""

from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.collectives import sent
from validation.points.estimate import Estimate, Measured, columns, exactly, until_sure
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
    IDEAL,
    NANOSECONDS,
    Part,
    column,
    ran,
    scenario,
    slow_motion,
)
from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.buckets import Bucketing, ready_buckets
from varsim.learning.workload import Workload

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


def wait_free(
    tf: NotNegative, tb: Annotated[NotNegatives, _SOME], tc: Annotated[NotNegatives, _EACH_LAYER]
) -> Measured:
    """overlap-wfbp: the second iteration of `on_write` with a bucket per layer.

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
    described = scenario(
        strategy,
        2,
        law,
        {"global_steps": 2},
        network=_LINK,
        workload={"problem": {"kind": "timing"}, "layers": layers},
        **share,
    )
    steps = ran(described).steps
    return exactly(int(steps[1] - steps[0]) / NANOSECONDS / slower)


def uniform_layers(tf: NotNegative, L: Count, b: Positive, c: NotNegative) -> Measured:
    """overlap-uniform."""
    return wait_free(tf, [b] * L, [c] * L)


def ddp_buckets(model: str, bucket_cap_mb: Positive, first_bucket_mb: Positive) -> Measured:
    """ddp-buckets: as `on_write` cuts the gradients of a model."""
    workload = Workload.model_validate({"problem": {"kind": "timing"}, "model": model})
    cut = ready_buckets(workload, Bucketing("ddp", bucket_cap_mb * 2**20, first_bucket_mb * 2**20))
    sizes = [bucket.size for bucket in cut]
    numbers = (len(sizes), sizes[0], max(sizes), sizes[-1])
    return {name: Estimate(float(value)) for name, value in zip(BUCKETS, numbers, strict=True)}


BUCKETS: Final = (
    "number of buckets",
    "bytes of the first bucket",
    "bytes of the largest",
    "bytes of the last",
)


def local_steps(n: Count, H: Count, mu: Positive) -> Measured:
    """local-erlang: `on_read` with `write_back`, every H steps; time per local step."""
    rounds = max(6_000 // (n * H), 5)
    described = _averaging(H, n, laws.exponential(1 / mu), rounds * H, IDEAL)
    return until_sure(lambda r: [ran(described, r).end / NANOSECONDS / (rounds * H)], columns(""))


def averaging_less(tc: Positive, tm: NotNegative, H: Count) -> Measured:
    """local-comm-saving: the time per step with an average after every step, over that of H."""
    slower = slow_motion((4 * H + 1) * (tc + tm))
    compute, average = tc * slower, tm * slower
    return exactly(_per_step(compute, average, 1, 4 * H) / _per_step(compute, average, H, 4 * H))


def _per_step(compute: float, average: float, every: int, steps: int) -> float:
    """Seconds per step of whole rounds: from the first update after one to that after the last."""
    workload = sent(max(average * _RATE, 1.0))
    law = laws.constant(compute)
    trace: Trace = ran(_averaging(every, 2, law, steps + 1, _LINK, workload=workload))
    return int(trace.steps[-1] - trace.steps[0]) / NANOSECONDS / steps


def _averaging(every: int, workers: int, law: Part, steps: int, network: Part, **more: Any) -> Any:
    strategy = {"kind": "on_read", "read_every": every, "write_back": True}
    return scenario(strategy, workers, law, {"global_steps": steps}, network=network, **more)


def one_slow_worker(
    mode: Literal["sync", "async", "backup1"],
    n: Annotated[Count, _BACKUP],
    T: Positive,
    f: Positive,
) -> Measured:
    """slow-worker: used gradients per second.

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
    described = scenario(
        strategies[mode],
        n,
        laws.constant(T * slower),
        {"time": longest * slower},
        slow_workers=({"rank": n - 1, "factor": f},),
    )
    trace = ran(described)
    used = column(trace, "parts_applied") > 0
    applied, worker = column(trace, "applied")[used], column(trace, "worker")[used]
    if mode == "async":
        own = (applied[worker == rank] for rank in range(n))
        return exactly(sum((len(times) - 1) * slower / _seconds(times) for times in own))
    after_the_first = int((applied > trace.steps[0]).sum())
    return exactly(after_the_first * slower / _seconds(trace.steps))


def _seconds(times: NDArray[np.int64]) -> float:
    """From the first of these times (ns) to the last."""
    return int(times[-1] - times[0]) / NANOSECONDS
