"""When a run is one for the engine for times alone, and when that is worth compiling."""

from importlib.util import find_spec
from typing import Final

from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.fast.compiled import is_made
from varsim.cluster.fast.reductions import foretold
from varsim.cluster.fast.rules import AnyRules, Gate, Reading, Reducing
from varsim.learning.workload import Workload

# Gradients for which SimPy takes as long as it takes to read machine code, or to make it.
_TO_LOAD: Final = 200_000
_TO_MAKE: Final = 2_000_000
# How many times as long SimPy takes for a gradient over fair links, at least.
_FAIR: Final = 4.0
# Networks on whose links no two ranks' messages meet, whatever the collective.
_EACH_ITS_OWN: Final = ("star", "full_mesh")


def uncovered(
    cluster: Cluster, workload: Workload, stop: Stop, rules: AnyRules, workers: int
) -> str:
    """Why such a run is not one for this engine; empty if it is."""
    if not workload.problem.times_only:
        return "values are worked out"
    if stop.loss is not None:
        return "a loss ends the run"
    if not isinstance(rules, Gate):
        return _unforeseen(cluster, workload, rules, workers)
    if len(workload.problem.variables()) > 1:
        return "servers add up the gradients of several variables"
    if any(slow.after or slow.until is not None for slow in cluster.slow_workers):
        return "workers are slow at times"
    if cluster.overheads is not None or cluster.server_update is not None:
        return "servers take time for requests or updates"
    if cluster.network.sharing == "fair" and cluster.network.message_overhead:
        return "messages have an overhead on fair links"
    return ""


def _unforeseen(
    cluster: Cluster, workload: Workload, rules: Reducing | Reading, workers: int
) -> str:
    """Why the times of its all-reduces do not follow from the recurrence; empty if they do."""
    network = cluster.network
    if isinstance(rules, Reducing) and rules.choice.has_agents:
        return "ranks send inside their groups and between them at once"
    if network.kind in _EACH_ITS_OWN and not network.slow_links:
        return ""
    if isinstance(rules, Reading) and (workers == 1 or not rules.moves):
        return ""
    return foretold(cluster, workload, workers, rules)


def can_compile() -> bool:
    """Whether what makes machine code is installed."""
    return find_spec("numba") is not None


def worth_compiling() -> int:
    """For how many gradients of a run machine code is worth its start."""
    return _TO_LOAD if is_made() else _TO_MAKE


def weight(cluster: Cluster, rules: AnyRules) -> float:
    """How long SimPy takes for a gradient beside one over first-come links, at least about.

    0 where machine code is not needed: of all-reduces, which are made in arrays.
    """
    if not isinstance(rules, Gate):
        return 0.0
    return _FAIR if cluster.network.sharing == "fair" else 1.0
