"""Parameter servers: closed queues at one that takes time, and pushes that meet in its links."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from validation.finding import NotRunError, Verdict
from validation.points import laws
from validation.points.collectives import sent
from validation.points.estimate import (
    Estimate,
    Measured,
    columns,
    exactly,
    inverse,
    mean,
    until_sure,
)
from validation.points.laws import LawOf
from validation.points.parameters import Count, Positive, Whole
from validation.points.scenario import NANOSECONDS, column, ran, scenario, slow_motion
from validation.points.staleness import interval, long_enough, staleness, started
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario

# Workers around a parameter server that takes time for every gradient: closed queues.
#
# Strategy `none` with `server_update`: a worker computes, its gradient waits for a thread of the
# server and is applied, and the worker goes on. Only computing and applying take time. The rate of
# a run is that between updates long after its start; a replication is many times as long as
# anything lasts in it.


_UPDATES: Final = 2_500  # of a replication, or more with many workers
_MANY: Final = 1_000  # workers that keep a server busy


def markov(N: Count, Z: Positive, S: Positive) -> Measured:
    """ps-mm1n, with utilisation, mean response and mean number at the server."""
    return _served(N, laws.exponential(Z), laws.exponential(S), S)


def constant_service(N: Count, Z: Positive, S: Positive) -> Measured:
    """ps-md1n."""
    measured = _served(N, laws.exponential(Z), laws.constant(S), S)
    return {name: measured[name] for name in ("", "utilisation", "mean_response")}


def gamma_service(N: Count, Z: Positive, S: Positive) -> Measured:
    """ps-mg1n-gamma4."""
    law = {"kind": "gamma", "mean": S, "shape": 4.0}
    return {"": _served(N, laws.exponential(Z), law, S)[""]}


def several_servers(N: Count, c: Count, Z: Positive, S: Positive) -> Measured:
    """ps-mmcn: as many threads of one server."""
    return {"": _served(N, laws.exponential(Z), laws.exponential(S), S, threads=c)[""]}


def constant_times(N: Count, Z: Positive, S: Positive) -> Measured:
    """ps-det, and how many workers keep the server just busy: its rate over that of one alone."""
    measured = exactly(_constant_rate(N, Z, S))
    if 0 < Z <= _MANY * S:
        busy, alone = _constant_rate(math.ceil(Z / S) + 2, Z, S), _constant_rate(1, Z, S)
        measured["saturation_N"] = Estimate(busy / alone)
    return measured


def _constant_rate(workers: int, Z: float, S: float) -> float:
    """Updates per second in ten rounds of all workers, after ten others, in slow motion."""
    slower = slow_motion(21 * (Z + workers * S))
    law, service = laws.constant(Z * slower), laws.constant(S * slower)
    trace = ran(_scenario(workers, law, service, 1, 21 * workers))
    first, last = (int(trace.steps[rounds * workers]) for rounds in (10, 20))
    return 10 * workers / ((last - first) / NANOSECONDS / slower)


def saturated_staleness(N: Count, Z: Positive, S: Positive) -> Measured:
    """ps-stale-saturated."""
    updates = long_enough(N, _UPDATES)
    described = _scenario(N, laws.exponential(Z), laws.exponential(S), 1, updates)
    return until_sure(lambda r: [float(staleness(ran(described, r)).mean())], columns(""))


def synchronous(N: Count, Z: Positive, S: Positive) -> Measured:
    """sync-serial-ps: `backup_workers` that waits for all; its step ends when all are served."""
    return {"": _step(N, laws.exponential(Z), laws.exponential(S), 1)}


def synchronous_constant(N: Count, c: Count, Z: Positive, S: Positive) -> Measured:
    """sync-serial-ps-det."""
    slower = slow_motion(3 * (Z + N * S))
    law, service = laws.constant(Z * slower), laws.constant(S * slower)
    trace = ran(_synchronous(N, law, service, c, 3))
    return exactly(int(trace.steps[1] - trace.steps[0]) / NANOSECONDS / slower)


def _step(workers: int, law: LawOf, service: LawOf, threads: int) -> Estimate:
    steps = max(6_000 // workers, 10)
    described = _synchronous(workers, law, service, threads, steps)
    found = until_sure(lambda r: [ran(described, r).end / NANOSECONDS / steps], columns(""))
    return found[""]


def _synchronous(workers: int, law: LawOf, service: LawOf, threads: int, steps: int) -> Scenario:
    strategy = {"kind": "backup_workers", "replicas_to_aggregate": workers}
    served = {"time": service, "threads": threads}
    return scenario(strategy, workers, law, {"global_steps": steps}, server_update=served)


def _served(
    workers: int, law: LawOf, service: LawOf, mean_service: float, threads: int = 1
) -> Measured:
    """Rate, utilisation, mean response and mean number at the server of an asynchronous run.

    The mean number is that of Little's law, from the rate and the responses of the same run.
    """
    described = _scenario(workers, law, service, threads, long_enough(workers, _UPDATES))

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        return [interval(trace), _response(trace)]

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        rate = inverse(mean([row[0] for row in rows]))
        assert rate.half_width is not None
        return {
            "": rate,
            "utilisation": Estimate(rate.value * mean_service, rate.half_width * mean_service),
            "mean_response": mean([row[1] for row in rows]),
            "mean_at_server": mean([row[1] / row[0] for row in rows]),
        }

    return until_sure(replication, reduced)


def _scenario(workers: int, law: LawOf, service: LawOf, threads: int, updates: int) -> Scenario:
    served = {"time": service, "threads": threads}
    stop = {"global_steps": updates}
    return scenario({"kind": "none"}, workers, law, stop, server_update=served)


def _response(trace: Trace) -> float:
    """Mean seconds from the arrival of a gradient at the server to its application."""
    taken = (column(trace, "applied") - column(trace, "computed"))[: trace.global_step]
    return float(taken[started(len(taken), trace.workers) :].mean()) / NANOSECONDS


# Workers and parameter servers exchange gradients all at once: pushes over fair links.
#
# One step of strategy `none`: read, compute, push; everybody at the same moments, in slow motion.


class Exchange(NamedTuple):
    """Seconds until all have what they read, and from the end of computing until all is pushed."""

    pulling: float
    pushing: float


def dedicated(w: Count, k: Count, M: Positive, B: Positive) -> Measured:
    """ps-dedicated-sync: how long all push."""
    return exactly(_exchanged(w, k, M, B, B).pushing)


def incast(w: Count, k: Count, M: Positive, b: Positive, B: Positive) -> Measured:
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


def colocated(w: Count, M: Positive, B: Positive) -> Measured:
    """ps-colocated-sync: pull and push, one phase after the other."""
    found = _exchanged(w, w, M, B, B, servers_on="workers")
    return exactly(found.pulling + found.pushing)


def byteps(w: Count, k: Whole, M: Positive, B: Positive) -> Measured:
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
