"""When a run is one for the engine for times alone, and when that is worth compiling."""

import os
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args

from varsim.cluster.fast import ENGINE, Gate, Reading, Rules
from varsim.cluster.fast.arrays import foretold
from varsim.cluster.fast.compiled import is_made
from varsim.cluster.fast.start import Start
from varsim.cluster.workers.allreduce import Reducing

Engine: TypeAlias = Literal["auto", "simpy", "fast"]

# Gradients for which SimPy takes as long as it takes to read machine code, or to make it.
_TO_LOAD: Final = 200_000
_TO_MAKE: Final = 2_000_000
# How many times as long SimPy takes for a gradient over fair links, at least.
_FAIR: Final = 4.0
# Networks on whose links no two ranks' messages meet, whatever the collective.
_EACH_ITS_OWN: Final = ("star", "full_mesh")


class Picked(NamedTuple):
    """Whether runs are made by the engine for times alone, as far as it can.

    `against`: why it cannot make them.
    """

    fast: bool = False
    against: str = ""


def pick(start: Start, rules: Rules | None, among: float = 0.0) -> Picked:
    """Which engine makes a run: in arrays always, else where machine code is worth its start.

    Without numba no machine code is made. `among`: gradients of all runs that one process makes, if
    it makes many.
    """
    against = _against(start, rules)
    if against or not isinstance(rules, Gate):
        return Picked(not against and asked() != "simpy", against)
    if asked() != "auto" or not can_compile():
        return Picked(asked() == "fast" and can_compile())
    gain = _FAIR if start.cluster.network.sharing == "fair" else 1.0
    number = gain * max(start.gradients(rules.each), among)
    return Picked(number >= (_TO_LOAD if is_made() else _TO_MAKE))


def asked() -> Engine:
    """The engine that is asked for."""
    said = os.environ.get(ENGINE, "auto")
    check_engine(ENGINE, said)
    return cast(Engine, said)


def check_engine(name: str, said: str) -> None:
    """Raise ValueError where what the argument or variable of a name says is no engine."""
    if said not in get_args(Engine):
        raise ValueError(f"{name} is auto, simpy or fast, not {said!r}")


def can_compile() -> bool:
    """Whether what makes machine code is installed."""
    return find_spec("numba") is not None


def _against(start: Start, rules: Rules | None) -> str:
    """Why such a run is not one for this engine; empty if it is."""
    cluster, workload = start.cluster, start.workload
    if rules is None:
        return "the rules of this strategy are not among its own"
    if not workload.problem.times_only:
        return "values are worked out"
    if start.stop.loss is not None:
        return "a loss ends the run"
    if isinstance(rules, Reading | Reducing):
        return _unforeseen(start, rules)
    if len(workload.problem.variables()) > 1:
        return "servers add up the gradients of several variables"
    if any(slow.after or slow.until is not None for slow in cluster.stragglers):
        return "workers are slow at times"
    if cluster.overheads is not None or cluster.server_update is not None:
        return "servers take time for requests or updates"
    if cluster.network.sharing == "fair" and cluster.network.message_overhead:
        return "messages have an overhead on fair links"
    return ""


def _unforeseen(start: Start, rules: Reading | Reducing) -> str:
    """Why the times of its all-reduces do not follow from the recurrence; empty if they do."""
    network = start.cluster.network
    if isinstance(rules, Reducing) and rules.choice.has_agents:
        return "ranks send inside their groups and between them at once"
    if network.kind in _EACH_ITS_OWN and not network.slow_links:
        return ""
    if isinstance(rules, Reading) and (start.workers == 1 or not rules.moves):
        return ""
    return foretold(start, rules)
