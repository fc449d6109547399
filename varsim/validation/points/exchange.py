"""Workers and parameter servers exchange gradients all at once: pushes over fair links.

One step of strategy `none`: read, compute, push; everybody at the same moments. A thousand times
slower than the formula says, so that rounding to a ns is nothing.
"""

from typing import Any, Final

from varsim.trace import Trace
from varsim.validation.finding import Verdict
from varsim.validation.points import laws
from varsim.validation.points.collectives import sent
from varsim.validation.points.estimate import Estimate, Measured, exactly
from varsim.validation.points.outcome import NotRunError
from varsim.validation.points.scenario import NANOSECONDS, column, ran, scenario

_SLOWER: Final = 1000.0


def dedicated(w: int, k: int, M: float, B: float) -> Measured:  # noqa: N803  (as in the family)
    """ps-dedicated-sync: how long all push."""
    return exactly(_pushing(_exchanged(w, k, M, B)))


def incast(w: int, k: int, M: float, b: float, B: float) -> Measured:  # noqa: N803
    """ps-incast, and the fewest servers with which a push takes as long as with any number."""
    least = next(
        shards
        for shards in range(1, w + 1)
        if _pushing(_exchanged(w, shards, M, b, B)) <= M / b * (1 + 1e-9)
    )
    return {
        "": Estimate(_pushing(_exchanged(w, k, M, b, B))),
        "smallest_k_without_incast": Estimate(float(least)),
    }


def colocated(w: int, M: float, B: float) -> Measured:  # noqa: N803
    """ps-colocated-sync: pull and push, one phase after the other."""
    trace = _exchanged(w, w, M, B, servers_on="workers")
    return exactly(_pulling(trace) + _pushing(trace))


def byteps(w: int, k: int, M: float, B: float) -> Measured:  # noqa: N803
    """ps-byteps-optimal: without dedicated servers (k = 0) all of them are on the workers."""
    if k:
        raise NotRunError(
            Verdict.OUT_OF_SCOPE,
            "servers on machines of their own and on those of the workers, in one scenario, with "
            "unequal shares of the tensors: varsim has either of them, with equal shares",
        )
    return colocated(w, M, B)


def _exchanged(
    workers: int, servers: int, size: float, rate: float, server_rate: float = 0.0, **more: Any
) -> Trace:
    """The first step of all workers."""
    network = {"bandwidth": rate / _SLOWER, "latency": 0.0, "sharing": "fair"}
    if server_rate:
        network["server_bandwidth"] = server_rate / _SLOWER
    described = scenario(
        {"kind": "none"},
        workers,
        laws.constant(1.0),
        {"global_steps": workers},
        network=network,
        workload=sent(size),
        parameter_servers=servers,
        **more,
    )
    return ran(described)


def _pushing(trace: Trace) -> float:
    """Seconds from the end of computing until the last gradient is there."""
    arrived, computed = column(trace, "arrived"), column(trace, "computed")
    return float((arrived - computed)[: trace.workers].max()) / NANOSECONDS / _SLOWER


def _pulling(trace: Trace) -> float:
    """Seconds from the start until the last worker computes."""
    start = column(trace, "compute_start")[: trace.workers]
    return float(start.max()) / NANOSECONDS / _SLOWER
