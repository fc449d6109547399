"""Runs on the engine for times alone, whichever would make them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.seams import Run, Trace
from varsim import Scenario
from varsim.cluster.fast import ENGINE as ENGINE
from varsim.cluster.fast.compiled import compiled
from varsim.cluster.fast.start import NotCoveredError as NotCoveredError
from varsim.cluster.network.fair import FairShare
from varsim.study.gradients import times_only as times_only
from varsim.study.simulation import engine_of, fast_run

# Rooms that only long runs fill: what is too little here is made larger, or written away.
ROOMS = {
    "served._MOST_ROWS": 40,
    "served._SENDS": 0,
    "served._TOGETHER": 1,
    "draws._MANY": 0,
    "local._MANY": 50,
    "arrays.TOGETHER": 100,
}


def reason(scenario: Scenario) -> str:
    """Why the first strategy of a scenario cannot be made without SimPy; "" if it can."""
    return engine_of(scenario, scenario.strategies[0]).against


def is_picked(scenario: Scenario) -> bool:
    """Whether the first strategy's runs are made without SimPy, if nobody asks for that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE, "auto")
        return engine_of(scenario, scenario.strategies[0]).fast


def in_arrays(run: Run, interpreted: bool = True) -> Trace:
    """The trace that it makes; NotCoveredError where only the run shows that it cannot."""
    assert run.strategy is not None
    assert isinstance(run.scenario, Scenario)
    strategy = run.scenario.strategies[run.strategy]
    made = fast_run(run.scenario, strategy, run.replication, interpreted=interpreted)
    return made.trace(strategy.label)


@contextmanager
def without_hubs() -> Iterator[None]:
    """SimPy has all flows over fair links in the mesh: the same times but for rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FairShare.__init__, "__defaults__", (False,))
        yield


@contextmanager
def left_often(every: int | None) -> Iterator[None]:
    """Loops are left after so few events, and rooms are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE, "simpy")
        for place, number in ROOMS.items() if every else ():
            patch.setattr(f"varsim.cluster.fast.{place}", number)
        patch.setattr("varsim.cluster.fast.served._SLICE", every or 500_000)
        yield


def no_machine_code(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Machine code cannot be made: that raises this."""

    def refused() -> None:
        raise error

    compiled.cache_clear()
    patch.setattr("varsim.cluster.fast.compiled.cache_directory", refused)
