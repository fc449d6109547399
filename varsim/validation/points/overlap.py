"""Wait-free back-propagation, buckets, and averaging now and then.

The exchange of a layer takes as long as on a link of one byte per second a gradient of so many
bytes, between two workers (a ring of two sends all of it once). Times are a thousand million times
as long as the formula says: sizes are whole bytes then, and rounding is nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

from varsim.trace import Trace
from varsim.validation.points import laws
from varsim.validation.points.collectives import sent
from varsim.validation.points.estimate import Estimate, Measured, columns, exactly, until_sure
from varsim.validation.points.scenario import IDEAL, NANOSECONDS, Part, ran, scenario
from varsim.values.buckets import Bucketing, ready_buckets
from varsim.values.workload import Workload

_BYTES: Final = 1e6  # per second of the formula
_SLOWER: Final = 100.0
_LINK: Final = {"bandwidth": _BYTES / _SLOWER, "latency": 0.0, "sharing": "fair"}


def wait_free(tf: float, tb: list[float], tc: list[float]) -> Measured:
    """overlap-wfbp: the second iteration of `on_write` with a bucket per layer."""
    layers = tuple(
        {"backward": backward, "size": exchange * _BYTES}
        for backward, exchange in zip(tb, tc, strict=True)
    )
    described = scenario(
        {"kind": "on_write", "overlap": True, "bucketing": "layers"},
        2,
        {"kind": "phases", "forward": tf * _SLOWER, "backward": sum(tb) * _SLOWER},
        {"global_steps": 2},
        network=_LINK,
        workload={"problem": {"kind": "timing"}, "layers": layers},
    )
    steps = ran(described).steps
    return exactly(int(steps[1] - steps[0]) / NANOSECONDS / _SLOWER)


def uniform_layers(tf: float, L: int, b: float, c: float) -> Measured:  # noqa: N803
    """overlap-uniform."""
    return wait_free(tf, [b] * L, [c] * L)


def ddp_buckets(model: str, bucket_cap_mb: float, first_bucket_mb: float) -> Measured:
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


def local_steps(n: int, H: int, mu: float) -> Measured:  # noqa: N803
    """local-erlang: `on_read` with `write_back`, every H steps; time per local step."""
    rounds = max(6_000 // (n * H), 5)
    described = _averaging(H, n, laws.exponential(1 / mu), rounds * H, IDEAL)
    return until_sure(lambda r: [ran(described, r).end / NANOSECONDS / (rounds * H)], columns(""))


def averaging_less(tc: float, tm: float, H: int) -> Measured:  # noqa: N803
    """local-comm-saving: the time per step with an average after every step, over that of H."""
    return exactly(_per_step(tc, tm, 1, 4 * H) / _per_step(tc, tm, H, 4 * H))


def _per_step(compute: float, average: float, every: int, steps: int) -> float:
    """Seconds per step of whole rounds: from the first update after one to that after the last."""
    law = laws.constant(compute * _SLOWER)
    described = _averaging(every, 2, law, steps + 1, _LINK, **{"workload": sent(average * _BYTES)})
    trace: Trace = ran(described)
    return int(trace.steps[-1] - trace.steps[0]) / NANOSECONDS / _SLOWER / steps


def _averaging(every: int, workers: int, law: Part, steps: int, network: Part, **more: Any) -> Any:
    strategy = {"kind": "on_read", "read_every": every, "write_back": True}
    return scenario(strategy, workers, law, {"global_steps": steps}, network=network, **more)


def one_slow_worker(mode: str, n: int, T: float, f: float) -> Measured:  # noqa: N803
    """slow-worker: used gradients per second."""
    strategies: dict[str, Part] = {
        "sync": {"kind": "on_write"},
        "async": {"kind": "none"},
        "backup1": {"kind": "backup_workers", "replicas_to_aggregate": n - 1},
    }
    if mode not in strategies:
        raise ValueError(f"mode {mode!r} is none of {', '.join(strategies)}")
    stop = {"time": 10 * f * T}
    described = scenario(
        strategies[mode],
        n,
        laws.constant(T),
        stop,
        slow_workers=({"rank": n - 1, "factor": f},),
    )
    used: Sequence[int] = ran(described).gradients[:, -1].tolist()
    return exactly(sum(used) / stop["time"])
