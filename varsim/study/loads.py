"""Loads of links and servers over time: the first runs of a result, made once more and watched."""

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from varsim.cluster.loads import Load, Loads
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, started
from varsim.study.why.levers import times_only

if TYPE_CHECKING:
    from varsim.study.result import Result

# Put on the heap by all strategies together, about a second; and the pieces that are noted.
EVENTS: Final = 150_000
PIECES: Final = 1_000_000
# A machine of more workers takes too long to be made once more.
MOST_WORKERS: Final = 2_000


class Watched(NamedTuple):
    """Loads of one run by the name of a link or of what a server does, all up to `until` (ns).

    Servers: `ps 0 handling` requests, `ps 0 applying` gradients, where that takes time.
    """

    until: int
    loads: dict[str, Load]


def loads(result: "Result") -> dict[str, Watched]:
    """The loads of the first run of every strategy, as far as a second or two of work go.

    A run is a function of its scenario, so that what it did need not be kept. Values are left
    out where times do not depend on them.
    """
    labels = [one.label for one in result.scenario.strategies]
    asked = tuple((labels.index(name), result.trace(name).end) for name in result.strategies)
    again = _again(result.scenario, asked)
    found = {}
    for name, (watched, steps) in zip(result.strategies, again, strict=True):
        made = result.trace(name).steps
        same = np.array_equal(steps, made[: len(steps)])  # else it has a strategy that is no such
        found[name] = watched if same else Watched(0, {})
    return found


@lru_cache(maxsize=1)
def _again(
    scenario: Scenario, asked: tuple[tuple[int, int], ...]
) -> list[tuple[Watched, list[int]]]:
    """What some strategies show up to some moment (ns) each, and when their updates are."""
    stop = scenario.stop.model_copy(update={"loss": None})
    targets = scenario.targets.model_copy(update={"loss": None, "time_to_loss": None})
    timed = times_only(scenario.model_copy(update={"stop": stop, "targets": targets}))
    found: list[tuple[Watched, list[int]]] = []
    for index, end in asked:
        strategy = scenario.strategies[index]
        if strategy.workers(scenario.cluster_of(strategy)) > MOST_WORKERS:
            found.append((Watched(0, {}), []))
            continue
        noted = Loads(PIECES // len(asked))
        job, _ = started(Run(timed, index, 0), record=False, loads=noted)
        job.end_after(EVENTS // len(asked))
        job.carried_by(end)
        until = min(end, noted.until, job.clock.time if job.stopped_by == "events" else end)
        found.append((Watched(until, noted.found(until)), [*job.recorder.steps]))
    return found
