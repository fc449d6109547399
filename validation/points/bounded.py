"""Bounded staleness: how often workers iterate of whom none may run ahead of the slowest.

Strategy `ssp` (Ho et al., 2013), in which nothing takes time but computing. With exponential times
the clocks of the workers, less that of the slowest, are a Markov chain.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.estimate import Estimate, Measured, exactly, inverse, mean, until_sure
from validation.points.order_statistics import slowed
from validation.points.scenario import NANOSECONDS, column, ran, scenario
from validation.points.staleness import interval, started
from varsim.cluster.record.trace import Outcome, Phase, Span, Trace

_UPDATES: Final = 16_000  # of a replication
_ROUNDS: Final = 20  # of constant times, iterations of the slowest that are measured
_BETWEEN: Final = 0.618  # of a round: rarely when anybody ends

# Of every worker the clock, less that of the slowest.
State: TypeAlias = tuple[int, ...]


class _Course(NamedTuple):
    """Of a replication: seconds from update to update, shares of waiting by worker, states seen."""

    interval: float
    waited: Sequence[float]
    states: frozenset[State]


def two_workers(rate: float, s: int) -> Measured:
    """ssp-two-exp."""
    found = several([rate, rate], s)
    return {name: found[name] for name in ("", "max_lead_observed")}


def several(rates: list[float], s: int) -> Measured:
    """ssp-n-exp: workers are slowed down by factors of one law."""
    described = scenario(
        {"kind": "ssp", "staleness": s},
        len(rates),
        laws.exponential(1.0),
        {"global_steps": _UPDATES},
        **slowed(rates),
    )

    def replication(number: int) -> _Course:
        trace = ran(described, number, record=True)
        return _Course(interval(trace), _waited(trace), frozenset(_states(trace)))

    return until_sure(replication, _reduced)


def constant(times: list[float], s: int) -> Measured:
    """ssp-det: while the slowest iterates often, when the others are as far ahead as they may."""
    slowest = max(times)
    begun = rounds_of_start_up(times, s)
    described = scenario(
        {"kind": "ssp", "staleness": s},
        len(times),
        laws.constant(slowest),
        {"time": (begun + _ROUNDS + 1) * slowest},
        **slowed([slowest / time for time in times]),
    )
    ended = ran(described).steps / (NANOSECONDS * slowest)
    since = begun + _BETWEEN
    counted = ((ended > since) & (ended <= since + _ROUNDS)).sum()
    return exactly(float(counted) / (_ROUNDS * slowest))


def rounds_of_start_up(times: Sequence[float], s: int) -> int:
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
