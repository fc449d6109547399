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

# Put on the heap by all strategies together, three seconds at most, and by one of them; and the
# pieces that are noted, of which each strategy is sure of its part of a half: what it leaves is
# there for those after it.
EVENTS: Final = 600_000
OF_ONE: Final = 150_000
PIECES: Final = 2_500_000
# A machine of more workers takes too long to be made once more.
MOST_WORKERS: Final = 2_000


class Watched(NamedTuple):
    """Loads of one run by the name of a link or of what a server does, all up to `until` (ns).

    Servers: `ps 0 handling` requests, `ps 0 applying` gradients, where that takes time.
    """

    until: int
    loads: dict[str, Load]


def loads(result: "Result") -> dict[str, Watched]:
    """The loads of the first run of every strategy, as far as a few seconds of work go.

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
    left, sure = PIECES, PIECES // (2 * len(asked))
    for later, (index, end) in zip(reversed(range(len(asked))), asked, strict=True):
        strategy = scenario.strategies[index]
        if strategy.workers(scenario.cluster_of(strategy)) > MOST_WORKERS:
            found.append((Watched(0, {}), []))
            continue
        noted = Loads(most := left - later * sure)
        job, _ = started(Run(timed, index, 0), record=False, loads=noted)
        job.end_after(min(EVENTS // len(asked), OF_ONE))
        job.carried_by(end)
        until = min(end, noted.until, job.clock.time if job.stopped_by == "events" else end)
        found.append((Watched(until, noted.found(until)), [*job.recorder.steps]))
        left -= most - noted.left
    return found
