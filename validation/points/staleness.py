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
    Estimate,
    Measured,
    columns,
    controlled,
    exactly,
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
from validation.points.scenario import NANOSECONDS, Part, column, ran, scenario
from varsim.cluster.record.trace import Outcome, Phase, Span, Trace
from varsim.scenario.training import Scenario

_UPDATES: Final = 8_000  # of a replication, or more with many workers
_GRADIENTS: Final = 1_000  # of a replication whose steps are independent
_START: Final = 0.05  # share of them that is not measured
_TIES: Final = (
    "all workers finish at the same instants, where all updates come before the next read"
)
_ROUNDS: Final = 100  # of all workers, in a replication at least
_START_ROUNDS: Final = 30  # of them that are not measured, at least: some computations are long


def staleness(trace: Trace, worker: int | None = None) -> NDArray[np.int64]:
    """Of the applied gradients after the start-up, in updates; of all workers or of one."""
    used = column(trace, "outcome") == Outcome.APPLIED
    found: NDArray[np.int64] = (column(trace, "applied_step") - column(trace, "read_step"))[used]
    whose = column(trace, "worker")[used]
    start = started(len(found), trace.workers)
    found, whose = found[start:], whose[start:]
    return found if worker is None else found[whose == worker]


def long_enough(workers: int, updates: int = _UPDATES) -> int:
    """How many updates a replication has: so many, or enough rounds of all workers."""
    return max(updates, _ROUNDS * workers)


def started(updates: int, workers: int) -> int:
    """How many updates of a replication are not measured, as all workers started together."""
    return max(round(_START * updates), _START_ROUNDS * workers)


def asynchronous(P: Count, law: Law) -> Measured:
    """stale-async-mean."""
    of_minutes(100 * P)
    described = scenario({"kind": "none"}, P, laws.named(law), {"global_steps": long_enough(P)})
    if law == "deterministic":
        return {"": Estimate(float(staleness(ran(described)).mean()))}
    return until_sure(lambda r: [float(staleness(ran(described, r)).mean())], columns(""))


def distribution(P: Count) -> Measured:
    """stale-async-p0: the shares of gradients of staleness 0 to 4, and the variance."""
    of_minutes(100 * P)
    stop = {"global_steps": long_enough(P, 5 * _UPDATES)}
    described = scenario({"kind": "none"}, P, laws.exponential(1.0), stop)

    def replication(number: int) -> list[float]:
        found = staleness(ran(described, number))
        return [*(float((found == missed).mean()) for missed in range(5)), _variance(found, P - 1)]

    names = ("", *(f"pmf_first5[{missed}]" for missed in range(1, 5)), "variance")
    measured = until_sure(replication, columns(*names))
    return {**measured, "pmf_first5[0]": measured[""]}


def _variance(found: NDArray[np.int64], centre: float) -> float:
    """Mean square distance from the mean staleness, which is known by counting alone."""
    return float(((found - centre) ** 2).mean())


def of_a_slow_worker(rates: Positives) -> Measured:
    """stale-hetero-worker: of worker 0.

    It misses the more the longer it computes: its computing times, whose mean the law says, are
    the control.
    """
    of_minutes(150 * sum(rates) / rates[0])
    updates = round(150 * sum(rates) / rates[0])
    described = scenario(
        {"kind": "none"},
        len(rates),
        laws.exponential(1.0),
        {"global_steps": updates},
        **slowed(rates),
    )

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


def k_batch_sync_step(P: Count, K: Count, law: Law, mean: Positive) -> Measured:
    """rt-kbatchsync: independent steps, with the first K gradients, whoever they come from."""
    steps = max(_GRADIENTS // K, 20)
    strategy: Part = {"kind": "k_batch_sync", "k": K}
    described = scenario(strategy, P, laws.named(law, mean), {"global_steps": steps})
    return until_sure(lambda r: [ran(described, r).end / NANOSECONDS / steps], columns(""))


def k_async_interval(P: Count, K: OfP, law: Law, mean: Positive) -> Measured:
    """rt-kasync; with K = P distinct workers it is a barrier, whose steps are independent."""
    if K == P:
        return {"": step_time(P, K, laws.named(law, mean))}
    return {"": update_interval({"kind": "k_async", "k": K}, P, laws.named(law, mean))}


def k_batch_async_interval(P: Count, K: Count, law: Law, mean: Positive) -> Measured:
    """rt-kbatchasync."""
    return {"": update_interval({"kind": "k_batch_async", "k": K}, P, laws.named(law, mean))}


def k_async(P: Count, K: OfP, law: Law) -> Measured:
    """stale-kasync."""
    only_if(law != "deterministic", _TIES)
    return mean_staleness({"kind": "k_async", "k": K}, P, laws.named(law), P / K - 1)


def k_batch_async(P: Count, K: Count, law: Law) -> Measured:
    """stale-kbatchasync."""
    only_if(law != "deterministic", _TIES)
    return mean_staleness({"kind": "k_batch_async", "k": K}, P, laws.named(law), (P - 1) / K)


def k_batch_async_fresh(P: Count, K: Count) -> Measured:
    """stale-kbatchasync-p0: the share of gradients of staleness 0."""
    described = updates_of({"kind": "k_batch_async", "k": K}, P, laws.exponential(1.0))

    def replication(number: int) -> list[float]:
        return [float((staleness(ran(described, number)) == 0).mean())]

    return until_sure(replication, columns(""))


def mean_staleness(strategy: Part, workers: int, law: LawOf, centre: float) -> Measured:
    """Of gradients after the start-up, and their variance about a `centre`: the mean by theory."""
    described = updates_of(strategy, workers, law)

    def replication(number: int) -> list[float]:
        found = staleness(ran(described, number))
        return [float(found.mean()), _variance(found, centre)]

    return until_sure(replication, columns("", "variance"))


def updates_of(strategy: Part, workers: int, law: LawOf) -> Scenario:
    """Long enough a run, counted in gradients, of a strategy with `k` of them in an update."""
    of_one = strategy.get("k", 1)
    return scenario(strategy, workers, law, {"global_steps": long_enough(workers) // of_one})


def update_interval(strategy: Part, workers: int, law: LawOf) -> Estimate:
    """Mean time from update to update."""
    described, of_one = updates_of(strategy, workers, law), strategy.get("k", 1)
    return until_sure(lambda r: [interval(ran(described, r), of_one)], columns(""))[""]


def interval(trace: Trace, gradients: int = 1) -> float:
    """Mean seconds from update to update, after the start-up, over whole rounds of all workers.

    `gradients`: in one update.
    """
    steps: Sequence[int] = trace.steps.tolist()
    rounds = trace.workers // math.gcd(trace.workers, gradients)
    start = started(len(steps) * gradients, trace.workers) // gradients
    start += (len(steps) - 1 - start) % rounds
    return (steps[-1] - steps[start]) / NANOSECONDS / (len(steps) - 1 - start)


# Bounded staleness: how often workers iterate of whom none may run ahead of the slowest.
#
# Strategy `ssp` (Ho et al., 2013), in which nothing takes time but computing. With exponential
# times the clocks of the workers, less that of the slowest, are a Markov chain.


_OF_CLOCKS: Final = 16_000  # of a replication
_OF_SLOWEST: Final = 20  # of constant times, iterations of the slowest that are measured
_BETWEEN: Final = 0.618  # of a round: rarely when anybody ends

# Of every worker the clock, less that of the slowest.
State: TypeAlias = tuple[int, ...]


class _Course(NamedTuple):
    """Of a replication: seconds from update to update, shares of waiting by worker, states seen."""

    interval: float
    waited: Sequence[float]
    states: frozenset[State]


def two_workers(rate: Positive, s: Whole) -> Measured:
    """ssp-two-exp."""
    found = several([rate, rate], s)
    return {name: found[name] for name in ("", "max_lead_observed")}


def several(rates: Positives, s: Whole) -> Measured:
    """ssp-n-exp: workers are slowed down by factors of one law."""
    described = scenario(
        {"kind": "ssp", "staleness": s},
        len(rates),
        laws.exponential(1.0),
        {"global_steps": _OF_CLOCKS},
        **slowed(rates),
    )

    def replication(number: int) -> _Course:
        trace = ran(described, number, record=True)
        return _Course(interval(trace), _waited(trace), frozenset(_states(trace)))

    return until_sure(replication, _reduced)


def constant(times: Positives, s: Whole) -> Measured:
    """ssp-det: while the slowest iterates often, when the others are as far ahead as they may."""
    slowest = max(times)
    begun = _rounds_of_start_up(times, s)
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
    return exactly(float(counted) / (_OF_SLOWEST * slowest))


def _rounds_of_start_up(times: Sequence[float], s: int) -> int:
    """How often the slowest iterates until no faster worker can be farther ahead of it.

    In each of its iterations a worker of time t gets ahead by slowest / t - 1, up to s + 1.
    """
    slowest = max(times)
    longest = max((time / (slowest - time) for time in times if time < slowest), default=0.0)
    return 1 + math.ceil((s + 1) * longest)


def _waited(trace: Trace) -> list[float]:
    """Shares of the time after the start-up in which each worker waits for the slowest."""
    since = trace.steps[started(len(trace.steps), trace.workers)]
    spans = dict(zip(Span._fields, trace.spans.T, strict=True))
    taken = np.clip(spans["end"] - np.maximum(spans["start"], since), 0, None)
    taken *= spans["phase"] == Phase.BARRIER
    shares: NDArray[np.float64] = np.bincount(spans["worker"], taken) / (trace.end - since)
    return [float(share) for share in shares]


def _states(trace: Trace) -> set[State]:
    """Clocks of all workers less that of the slowest, after each iteration of anybody."""
    used = column(trace, "outcome") == Outcome.APPLIED
    in_order = np.argsort(column(trace, "applied")[used], kind="stable")
    by_whom = column(trace, "worker")[used][in_order]
    clocks = np.cumsum(by_whom[:, None] == np.arange(trace.workers), axis=0)
    ahead = clocks - clocks.min(axis=1, keepdims=True)
    return set(map(tuple, np.unique(ahead, axis=0).tolist()))


def _reduced(courses: Sequence[_Course]) -> Measured:
    states = frozenset[State]().union(*(course.states for course in courses))
    waited = zip(*(course.waited for course in courses), strict=True)
    return {
        "": inverse(mean([course.interval for course in courses])),
        **{f"blocked_fraction_per_worker[{i}]": mean(share) for i, share in enumerate(waited)},
        "max_lead_observed": Estimate(float(max(map(max, states)))),
        "chain_states": Estimate(float(len(states))),
    }
