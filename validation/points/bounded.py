"""Bounded staleness: how often workers iterate of whom none may run ahead of the slowest.

Strategy `ssp` (Ho et al., 2013), in which nothing takes time but computing. With exponential times
the clocks of the workers, less that of the slowest, are a Markov chain.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from validation.points import laws
from validation.points.estimate import Estimate, Measured, exactly, inverse, mean, until_sure
from validation.points.order_statistics import slowed
from validation.points.scenario import NANOSECONDS, column, ran, scenario
from validation.points.staleness import interval, started
from varsim.cluster.trace import Outcome, Phase, Span, Trace

_UPDATES: Final = 16_000  # of a replication
_CYCLES: Final = 20  # iterations of the slowest, of constant times

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
    """ssp-det: of the time in which the slowest iterates, when the others have to wait for it."""
    slowest = max(times)
    rates = [slowest / time for time in times]
    fill = 1 + s * max((1 / (rate - 1) for rate in rates if rate > 1), default=0)
    until = slowest * (round(fill) + 2 * _CYCLES)
    described = scenario(
        {"kind": "ssp", "staleness": s},
        len(times),
        laws.constant(slowest),
        {"time": until},
        **slowed(rates),
    )
    ends = ran(described).steps / NANOSECONDS
    counted = ((ends > until - (_CYCLES + 0.5) * slowest) & (ends <= until - slowest / 2)).sum()
    return exactly(float(counted) / (_CYCLES * slowest))


def _waited(trace: Trace) -> list[float]:
    """Shares of the time after the start-up in which each worker waits for the slowest."""
    since = trace.steps[started(len(trace.steps), trace.workers)]
    spans = dict(zip(Span._fields, trace.spans.T, strict=True))
    taken = np.clip(spans["end"] - np.maximum(spans["start"], since), 0, None)
    taken *= spans["phase"] == Phase.BARRIER
    shares: NDArray[np.float64] = np.bincount(spans["worker"], taken) / (trace.end - since)
    return shares.tolist()


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
