"""When a run is one for the engine for times alone, and when that is worth compiling."""

from importlib.util import find_spec
from typing import Final

from varsim.cluster.description import Cluster
from varsim.cluster.flat.compiled import is_made
from varsim.cluster.flat.core import advance
from varsim.cluster.flat.reducing import AnyRules, Reading, Reducing, Summing
from varsim.cluster.flat.reductions import foretold
from varsim.cluster.flat.replicas import reduce_on
from varsim.cluster.flat.rules import Rules
from varsim.cluster.stop import Stop
from varsim.values.workload import Workload

# Gradients for which SimPy takes as long as it takes to read machine code, or to make it. By
# Python alone these functions take 1.4 to 1.7 times as long as SimPy: only tests do that.
_TO_LOAD: Final = 200_000
_TO_MAKE: Final = {advance: 4_000_000, reduce_on: 3_000_000}
# How many times as long SimPy takes for a gradient over fair links: where all flows meet in one,
# and for each server where they do not.
_HUB: Final = 4.0
_MESH: Final = 12.0
# With more flows at a time than so many SimPy, which has all rates in arrays, is as fast.
_MOST_FLOWS: Final = 1024
# And for a message of an all-reduce, over first-come links and over fair ones.
_MESSAGE: Final = 0.5
_FAIR_MESSAGE: Final = 1.5
NEVER: Final = 1 << 62
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
    if isinstance(rules, Reducing | Reading):
        return _unreduced(cluster, workload, rules, workers)
    return ""


def _unreduced(
    cluster: Cluster, workload: Workload, rules: Reducing | Reading, workers: int
) -> str:
    """Why its all-reduces are not for this engine; empty if they are."""
    if isinstance(rules, Reducing) and rules.drop is not None and workers == 1:
        return "a worker alone drops micro-batches"
    if isinstance(rules, Reducing) and rules.choice.has_agents:
        return "ranks send inside their groups and between them at once"
    return ""


def _unforeseen(
    cluster: Cluster, workload: Workload, rules: Reducing | Reading, workers: int
) -> str:
    """Why the times of its all-reduces do not follow from the recurrence; empty if they do."""
    network = cluster.network
    if network.kind in _EACH_ITS_OWN and not network.slow_links:
        return ""
    if isinstance(rules, Reading) and (workers == 1 or not rules.moves):
        return ""
    return foretold(cluster, workload, workers, rules)[0]


def in_arrays(cluster: Cluster, workload: Workload, rules: AnyRules, workers: int) -> bool:
    """Whether such a run is made in arrays, without machine code."""
    if isinstance(rules, Rules | Summing):
        return False
    if isinstance(rules, Reducing) and rules.drop is not None:
        return False
    return not _unforeseen(cluster, workload, rules, workers)


def can_compile() -> bool:
    """Whether what makes machine code is installed."""
    return find_spec("numba") is not None


def worth_compiling(rules: AnyRules) -> int:
    """For how many gradients of a run machine code is worth its start."""
    loop = advance if isinstance(rules, Rules) else reduce_on
    return _TO_LOAD if is_made(loop.__name__) else _TO_MAKE[loop]


def weight(cluster: Cluster, workload: Workload, rules: AnyRules, workers: int) -> float:
    """How long SimPy takes for a gradient beside one over first-come links, at least about.

    0 where machine code is no faster, or needed.
    """
    network = cluster.network
    if in_arrays(cluster, workload, rules, workers):
        return 0.0
    if isinstance(rules, Reducing | Reading):
        gradients = rules.every if isinstance(rules, Reading) else rules.micro_batches
        reason, messages = foretold(cluster, workload, workers, rules)
        if reason and network.sharing == "fair" and workers > _MOST_FLOWS:
            return 0.0
        each = _MESSAGE if network.sharing == "first_come" else _FAIR_MESSAGE
        return 1.0 + each * messages * bool(reason) / (workers * gradients)
    one = cluster.parameter_servers == 1 or cluster.placement == "partitioned"
    meet_in_one = network.kind == "star" and network.flows is None and one
    if isinstance(rules, Summing):
        each = _MESSAGE if network.sharing == "first_come" or meet_in_one else _FAIR_MESSAGE
        return 1.0 + each * _pieces(cluster, workload) / rules.micro_batches
    if network.sharing == "first_come":
        return 1.0
    if meet_in_one:
        return _HUB * (1.5 if network.message_overhead else 1.0)
    flows = cluster.workers * cluster.parameter_servers
    return _MESH * cluster.parameter_servers if flows <= _MOST_FLOWS else 0.0


def _pieces(cluster: Cluster, workload: Workload) -> int:
    """How many messages a worker's gradient and its sum take there and back, at least."""
    sizes, cut = workload.gradient_tensors(), cluster.partitioner
    return 2 * (len(sizes) if cut is None else sum(len(cut.cut(size)) for size in sizes))


def expected(stop: Stop, rules: AnyRules, workload: Workload, workers: int) -> int:
    """How many gradients a run takes, about; 0 where nothing but time ends it."""
    each = workers
    if isinstance(rules, Rules):
        each = max(rules.needed, rules.tokens, 1)
    elif isinstance(rules, Reducing | Summing):
        each = workers * rules.micro_batches
    counts = [] if stop.global_steps is None else [stop.global_steps * each]
    counts += [] if stop.examples is None else [stop.examples // workload.batch_size]
    return min(counts, default=0)
