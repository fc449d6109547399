"""Parameter servers: closed queues at one that takes time, and pushes that meet in its links."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from validation.finding import NotRunError, Verdict
from validation.points import laws
from validation.points.estimate import (
    Answer,
    Estimate,
    Measured,
    average,
    family,
    inverse,
    mean,
    times,
    until_sure,
)
from validation.points.laws import LawOf
from validation.points.parameters import Count, Positive, Whole
from validation.points.scenario import (
    NANOSECONDS,
    Part,
    column,
    period,
    ran,
    scenario,
    sent,
    slow_motion,
)
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
_NONE: Final[Part] = {"kind": "none"}


def _served(
    N: int, law: LawOf, service: LawOf, steps: int, threads: int = 1, strategy: Part = _NONE
) -> Scenario:
    served = {"time": service, "threads": threads}
    return scenario(strategy, N, law, steps, server_update=served)


def _all_of(N: int) -> Part:
    """The strategy whose step ends when the gradients of all are served."""
    return {"kind": "backup_workers", "replicas_to_aggregate": N}


def _queue(N: int, Z: float, S: float, service: LawOf, threads: int = 1) -> Measured:
    """Rate, utilisation, mean response and mean number at the server of an asynchronous run.

    The mean number is that of Little's law, from the rate and the responses of the same run.
    """
    described = _served(N, laws.exponential(Z), service, long_enough(N, _UPDATES), threads)

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        return [interval(trace), _response(trace)]

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        rate = inverse(mean([row[0] for row in rows]))
        return {
            "": rate,
            "utilisation": times(S, rate),
            "mean_response": mean([row[1] for row in rows]),
            "mean_at_server": mean([row[1] / row[0] for row in rows]),
        }

    return until_sure(replication, reduced)


def _response(trace: Trace) -> float:
    """Mean seconds from the arrival of a gradient at the server to its application."""
    taken = (column(trace, "applied") - column(trace, "computed"))[: trace.global_step]
    return float(taken[started(len(taken), trace.workers) :].mean()) / NANOSECONDS


@family("ps-mm1n")
def _markov(N: Count, Z: Positive, S: Positive) -> Answer:
    return _queue(N, Z, S, laws.exponential(S))


@family("ps-md1n")
def _constant_service(N: Count, Z: Positive, S: Positive) -> Answer:
    measured = _queue(N, Z, S, laws.constant(S))
    return {name: measured[name] for name in ("", "utilisation", "mean_response")}


@family("ps-mg1n-gamma4")
def _gamma_service(N: Count, Z: Positive, S: Positive) -> Answer:
    return _queue(N, Z, S, {"kind": "gamma", "mean": S, "shape": 4.0})[""]


@family("ps-mmcn")
def _several_threads(N: Count, c: Count, Z: Positive, S: Positive) -> Answer:
    return _queue(N, Z, S, laws.exponential(S), c)[""]


@family("ps-det")
def _constant_times(N: Count, Z: Positive, S: Positive) -> Answer:
    """Also how many workers keep the server just busy: its rate over that of one alone."""
    measured = {"": Estimate(_constant_rate(N, Z, S))}
    if 0 < Z <= _MANY * S:
        busy, alone = _constant_rate(math.ceil(Z / S) + 2, Z, S), _constant_rate(1, Z, S)
        measured["saturation_N"] = Estimate(busy / alone)
    return measured


def _constant_rate(workers: int, Z: float, S: float) -> float:
    """Updates per second in ten rounds of all workers, after ten others, in slow motion."""
    slower = slow_motion(21 * (Z + workers * S))
    law, service = laws.constant(Z * slower), laws.constant(S * slower)
    trace = ran(_served(workers, law, service, 21 * workers))
    return 10 * workers / (period(trace, 10 * workers, 20 * workers) / slower)


@family("ps-stale-saturated")
def _saturated_staleness(N: Count, Z: Positive, S: Positive) -> Answer:
    updates = long_enough(N, _UPDATES)
    described = _served(N, laws.exponential(Z), laws.exponential(S), updates)
    return average(lambda number: float(staleness(ran(described, number)).mean()))


@family("sync-serial-ps")
def _synchronous(N: Count, Z: Positive, S: Positive) -> Answer:
    steps = max(6_000 // N, 10)
    law, service = laws.exponential(Z), laws.exponential(S)
    described = _served(N, law, service, steps, strategy=_all_of(N))
    return average(lambda number: ran(described, number).end / NANOSECONDS / steps)


@family("sync-serial-ps-det")
def _synchronous_constant(N: Count, c: Count, Z: Positive, S: Positive) -> Answer:
    slower = slow_motion(3 * (Z + N * S))
    law, service = laws.constant(Z * slower), laws.constant(S * slower)
    return period(ran(_served(N, law, service, 3, c, _all_of(N))), 0, 1) / slower


# Workers and parameter servers exchange gradients all at once: pushes over fair links.
#
# One step of strategy `none`: read, compute, push; everybody at the same moments, in slow motion.


class _Exchange(NamedTuple):
    """Seconds until all have what they read, and from the end of computing until all is pushed."""

    pulling: float
    pushing: float


@family("ps-dedicated-sync")
def _dedicated(w: Count, k: Count, M: Positive, B: Positive) -> Answer:
    """How long all push."""
    return _exchanged(w, k, M, B, B).pushing


@family("ps-incast")
def _incast(w: Count, k: Count, M: Positive, b: Positive, B: Positive) -> Answer:
    """Also the fewest servers with which a push takes as long as with any number."""

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


@family("ps-colocated-sync")
def _colocated(w: Count, M: Positive, B: Positive) -> float:
    """Pull and push, one phase after the other."""
    found = _exchanged(w, w, M, B, B, servers_on="workers")
    return found.pulling + found.pushing


@family("ps-byteps-optimal")
def _byteps(w: Count, k: Whole, M: Positive, B: Positive) -> Answer:
    """Without dedicated servers (k = 0) all of them are on the workers."""
    if k:
        raise NotRunError(
            Verdict.OUT_OF_SCOPE,
            "servers on machines of their own and on those of the workers, in one scenario, with "
            "unequal shares of the tensors: varsim has either of them, with equal shares",
        )
    return _colocated(w, M, B)


def _exchanged(
    workers: int, servers: int, size: float, rate: float, server_rate: float, **more: Any
) -> _Exchange:
    """The first step of all workers."""
    slower = slow_motion(2 * size * (1 / rate + workers / (servers * server_rate)))
    network = {"bandwidth": rate / slower, "latency": 0.0, "sharing": "fair"}
    if server_rate != rate:
        network["server_bandwidth"] = server_rate / slower
    described = scenario(
        _NONE,
        workers,
        laws.constant(1.0),
        workers,
        network=network,
        workload=sent(size),
        parameter_servers=servers,
        **more,
    )
    trace = ran(described)
    start, computed, arrived = (
        column(trace, name)[:workers] for name in ("compute_start", "computed", "arrived")
    )
    return _Exchange(
        float(start.max()) / NANOSECONDS / slower,
        float((arrived - computed).max()) / NANOSECONDS / slower,
    )
