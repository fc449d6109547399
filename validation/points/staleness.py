"""Asynchronous updates: how many others come between a read and the update made from it.

Nothing takes time but computing, and a worker reads again at once after its own update (strategy
`none`; Zhang et al., 2016). Of K gradients per update (K-async, K-batch-async; Dutta et al., 2018)
K = 1 is this, and K = P with distinct workers is a barrier.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.estimate import (
    Answer,
    Estimate,
    Measured,
    average,
    columns,
    controlled,
    family,
    inverse,
    mean,
    until_sure,
)
from validation.points.laws import LawOf
from validation.points.order_statistics import slowed, step_time
from validation.points.parameters import (
    Count,
    Law,
    OfP,
    Positive,
    Positives,
    Whole,
    of_minutes,
    only_if,
)
from validation.points.scenario import NANOSECONDS, Part, column, ran, scenario, spans
from varsim.cluster.record.trace import Outcome, Phase, Trace
from varsim.scenario.training import Scenario

_UPDATES: Final = 8_000  # of a replication, or more with many workers
_START: Final = 0.05  # share of them that is not measured
_ROUNDS: Final = 100  # of all workers, in a replication at least
_START_ROUNDS: Final = 30  # of them that are not measured, at least: some computations are long
_TIES: Final = (
    "all workers finish at the same instants, where all updates come before the next read"
)
_NONE: Final[Part] = {"kind": "none"}


def staleness(trace: Trace) -> NDArray[np.int64]:
    """Of the applied gradients after the start-up, in updates."""
    used = column(trace, "outcome") == Outcome.APPLIED
    found: NDArray[np.int64] = (column(trace, "applied_step") - column(trace, "read_step"))[used]
    return found[started(len(found), trace.workers) :]


def long_enough(workers: int, updates: int = _UPDATES) -> int:
    """How many updates a replication has: so many, or enough rounds of all workers."""
    return max(updates, _ROUNDS * workers)


def started(updates: int, workers: int) -> int:
    """How many updates of a replication are not measured, as all workers started together."""
    return max(round(_START * updates), _START_ROUNDS * workers)


def interval(trace: Trace, gradients: int = 1) -> float:
    """Mean seconds from update to update, after the start-up, over whole rounds of all workers.

    `gradients`: in one update.
    """
    steps: Sequence[int] = trace.steps.tolist()
    rounds = trace.workers // math.gcd(trace.workers, gradients)
    start = started(len(steps) * gradients, trace.workers) // gradients
    start += (len(steps) - 1 - start) % rounds
    return (steps[-1] - steps[start]) / NANOSECONDS / (len(steps) - 1 - start)


def _variance(found: NDArray[np.int64], centre: float) -> float:
    """Mean square distance from the mean staleness, which is known by counting alone."""
    return float(((found - centre) ** 2).mean())


@family("stale-async-mean")
def _asynchronous(P: Count, law: Law) -> Answer:
    of_minutes(100 * P)
    described = scenario(_NONE, P, laws.named(law), long_enough(P))
    if law == "deterministic":
        return float(staleness(ran(described)).mean())
    return average(lambda number: float(staleness(ran(described, number)).mean()))


@family("stale-async-p0")
def _distribution(P: Count) -> Answer:
    """The shares of gradients of staleness 0 to 4, and the variance."""
    of_minutes(100 * P)
    described = scenario(_NONE, P, laws.exponential(1.0), long_enough(P, 5 * _UPDATES))

    def replication(number: int) -> list[float]:
        found = staleness(ran(described, number))
        return [*(float((found == missed).mean()) for missed in range(5)), _variance(found, P - 1)]

    names = ("", *(f"pmf_first5[{missed}]" for missed in range(1, 5)), "variance")
    measured = until_sure(replication, columns(*names))
    return {**measured, "pmf_first5[0]": measured[""]}


@family("stale-hetero-worker")
def _of_a_slow_worker(rates: Positives) -> Answer:
    """Of worker 0, which misses the more the longer it computes.

    Its computing times, whose mean the law says, are the control.
    """
    of_minutes(150 * sum(rates) / rates[0])
    updates = round(150 * sum(rates) / rates[0])
    described = scenario(_NONE, len(rates), laws.exponential(1.0), updates, **slowed(rates))

    def replication(number: int) -> list[float]:
        trace = ran(described, number)
        own = (column(trace, "worker") == 0) & (column(trace, "outcome") == Outcome.APPLIED)
        missed = (column(trace, "applied_step") - column(trace, "read_step"))[own]
        computed = (column(trace, "computed") - column(trace, "compute_start"))[own]
        # A run ends in the middle of a computation, more often of a long one: the same number of
        # them each time.
        kept = slice(3, 103)
        return [float(missed[kept].mean()), float(computed[kept].mean()) / NANOSECONDS]

    def reduced(rows: Sequence[Sequence[float]]) -> Measured:
        values, controls = [row[0] for row in rows], [row[1:] for row in rows]
        return {"": controlled(values, controls, [1 / rates[0]])}

    return until_sure(replication, reduced)


# K gradients in an update.


def _updates_of(kind: str, P: int, K: int, law: LawOf) -> Scenario:
    """Long enough a run, counted in gradients, of a strategy with K of them in an update."""
    return scenario({"kind": kind, "k": K}, P, law, long_enough(P) // K)


def _interval(kind: str, P: int, K: int, law: LawOf) -> Estimate:
    """Mean time from update to update."""
    described = _updates_of(kind, P, K, law)
    return average(lambda number: interval(ran(described, number), K))


def _staleness(kind: str, P: int, K: int, law: str, centre: float) -> Measured:
    """Of gradients after the start-up, and their variance about a `centre`: the mean by theory."""
    only_if(law != "deterministic", _TIES)
    described = _updates_of(kind, P, K, laws.named(law))

    def replication(number: int) -> list[float]:
        found = staleness(ran(described, number))
        return [float(found.mean()), _variance(found, centre)]

    return until_sure(replication, columns("", "variance"))


@family("rt-kbatchsync")
def _k_batch_sync_step(P: Count, K: Count, law: Law, mean: Positive) -> Answer:
    """Independent steps, with the first K gradients, whoever they come from."""
    steps = max(1_000 // K, 20)
    described = scenario({"kind": "k_batch_sync", "k": K}, P, laws.named(law, mean), steps)
    return average(lambda number: ran(described, number).end / NANOSECONDS / steps)


@family("rt-kasync")
def _k_async_interval(P: Count, K: OfP, law: Law, mean: Positive) -> Answer:
    """With K = P distinct workers it is a barrier, whose steps are independent."""
    if K == P:
        return step_time(P, K, laws.named(law, mean))
    return _interval("k_async", P, K, laws.named(law, mean))


@family("rt-kbatchasync")
def _k_batch_async_interval(P: Count, K: Count, law: Law, mean: Positive) -> Answer:
    return _interval("k_batch_async", P, K, laws.named(law, mean))


@family("stale-kasync")
def _k_async(P: Count, K: OfP, law: Law) -> Answer:
    return _staleness("k_async", P, K, law, P / K - 1)


@family("stale-kbatchasync")
def _k_batch_async(P: Count, K: Count, law: Law) -> Answer:
    return _staleness("k_batch_async", P, K, law, (P - 1) / K)


@family("stale-kbatchasync-p0")
def _k_batch_async_fresh(P: Count, K: Count) -> Answer:
    """The share of gradients of staleness 0."""
    described = _updates_of("k_batch_async", P, K, laws.exponential(1.0))
    return average(lambda number: float((staleness(ran(described, number)) == 0).mean()))


# Bounded staleness: how often workers iterate of whom none may run ahead of the slowest.
#
# Strategy `ssp` (Ho et al., 2013), in which nothing takes time but computing. With exponential
# times the clocks of the workers, less that of the slowest, are a Markov chain.


_OF_CLOCKS: Final = 16_000  # of a replication
_OF_SLOWEST: Final = 20  # of constant times, iterations of the slowest that are measured
_BETWEEN: Final = 0.618  # of a round: rarely when anybody ends

# Of every worker the clock, less that of the slowest.
_State: TypeAlias = tuple[int, ...]


class _Course(NamedTuple):
    """Of a replication: seconds from update to update, shares of waiting by worker, states seen."""

    interval: float
    waited: Sequence[float]
    states: frozenset[_State]


@family("ssp-two-exp")
def _two_workers(rate: Positive, s: Whole) -> Answer:
    found = _several([rate, rate], s)
    return {name: found[name] for name in ("", "max_lead_observed")}


@family("ssp-n-exp")
def _several(rates: Positives, s: Whole) -> Measured:
    """Workers are slowed down by factors of one law."""
    strategy, law = {"kind": "ssp", "staleness": s}, laws.exponential(1.0)
    described = scenario(strategy, len(rates), law, _OF_CLOCKS, **slowed(rates))

    def replication(number: int) -> _Course:
        trace = ran(described, number, record=True)
        return _Course(interval(trace), _waited(trace), frozenset(_states(trace)))

    return until_sure(replication, _reduced)


@family("ssp-det")
def _constant(times: Positives, s: Whole) -> Answer:
    """While the slowest iterates often, when the others are as far ahead as they may."""
    slowest = max(times)
    # In each iteration of the slowest a worker of time t gets ahead by slowest / t - 1, up to
    # s + 1: so often, until no faster worker can be farther ahead of it.
    longest = max((time / (slowest - time) for time in times if time < slowest), default=0.0)
    begun = 1 + math.ceil((s + 1) * longest)
    of_minutes(begun * slowest * sum(1 / time for time in times))
    described = scenario(
        {"kind": "ssp", "staleness": s},
        len(times),
        laws.constant(slowest),
        {"time": (begun + _OF_SLOWEST + 1) * slowest},
        **slowed([slowest / time for time in times]),
    )
    ended = ran(described).steps / (NANOSECONDS * slowest)
    since = begun + _BETWEEN
    counted = ((ended > since) & (ended <= since + _OF_SLOWEST)).sum()
    return float(counted) / (_OF_SLOWEST * slowest)


def _waited(trace: Trace) -> list[float]:
    """Shares of the time after the start-up in which each worker waits for the slowest."""
    since = trace.steps[started(len(trace.steps), trace.workers)]
    of = spans(trace)
    taken = np.clip(of["end"] - np.maximum(of["start"], since), 0, None)
    taken *= of["phase"] == Phase.BARRIER
    shares: NDArray[np.float64] = np.bincount(of["worker"], taken) / (trace.end - since)
    return [float(share) for share in shares]


def _states(trace: Trace) -> set[_State]:
    """Clocks of all workers less that of the slowest, after each iteration of anybody."""
    used = column(trace, "outcome") == Outcome.APPLIED
    in_order = np.argsort(column(trace, "applied")[used], kind="stable")
    by_whom = column(trace, "worker")[used][in_order]
    clocks = np.cumsum(by_whom[:, None] == np.arange(trace.workers), axis=0)
    ahead = clocks - clocks.min(axis=1, keepdims=True)
    return set(map(tuple, np.unique(ahead, axis=0).tolist()))


def _reduced(courses: Sequence[_Course]) -> Measured:
    states = frozenset[_State]().union(*(course.states for course in courses))
    waited = zip(*(course.waited for course in courses), strict=True)
    return {
        "": inverse(mean([course.interval for course in courses])),
        **{f"blocked_fraction_per_worker[{i}]": mean(share) for i, share in enumerate(waited)},
        "max_lead_observed": Estimate(float(max(map(max, states)))),
        "chain_states": Estimate(float(len(states))),
    }
