"""Workers and parameter servers exchange gradients all at once: pushes over fair links.

One step of strategy `none`: read, compute, push; everybody at the same moments, in slow motion.
"""

from typing import Any, NamedTuple

from validation.finding import Verdict
from validation.points import laws
from validation.points.collectives import sent
from validation.points.estimate import Estimate, Measured, exactly
from validation.points.outcome import NotRunError
from validation.points.scenario import NANOSECONDS, column, ran, scenario, slow_motion


class Exchange(NamedTuple):
    """Seconds until all have what they read, and from the end of computing until all is pushed."""

    pulling: float
    pushing: float


def dedicated(w: int, k: int, M: float, B: float) -> Measured:  # noqa: N803  (as in the family)
    """ps-dedicated-sync: how long all push."""
    return exactly(_exchanged(w, k, M, B, B).pushing)


def incast(w: int, k: int, M: float, b: float, B: float) -> Measured:  # noqa: N803
    """ps-incast, and the fewest servers with which a push takes as long as with any number."""

    def waits(servers: int) -> bool:
        return _exchanged(w, servers, M, b, B).pushing > M / b * (1 + 1e-9)

    few, enough = 0, 1
    while waits(enough):
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if waits(middle) else (few, middle)
    return {
        "": Estimate(_exchanged(w, k, M, b, B).pushing),
        "smallest_k_without_incast": Estimate(float(enough)),
    }


def colocated(w: int, M: float, B: float) -> Measured:  # noqa: N803
    """ps-colocated-sync: pull and push, one phase after the other."""
    found = _exchanged(w, w, M, B, B, servers_on="workers")
    return exactly(found.pulling + found.pushing)


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
    workers: int, servers: int, size: float, rate: float, server_rate: float, **more: Any
) -> Exchange:
    """The first step of all workers."""
    slower = slow_motion(2 * size * (1 / rate + workers / (servers * server_rate)))
    network = {"bandwidth": rate / slower, "latency": 0.0, "sharing": "fair"}
    if server_rate != rate:
        network["server_bandwidth"] = server_rate / slower
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
    trace = ran(described)
    start, computed, arrived = (
        column(trace, name)[:workers] for name in ("compute_start", "computed", "arrived")
    )
    return Exchange(
        float(start.max()) / NANOSECONDS / slower,
        float((arrived - computed).max()) / NANOSECONDS / slower,
    )
