"""When a run is one for the engine for times alone, and when that is worth compiling."""

from importlib.util import find_spec
from typing import Final

from varsim.cluster.description import Cluster
from varsim.cluster.flat.compiled import is_loaded, is_made
from varsim.cluster.stop import Stop
from varsim.values.workload import Workload

# As many gradients as are interpreted while machine code is read from the cache, or made.
_TO_LOAD: Final = 100_000
_TO_MAKE: Final = 3_000_000
NEVER: Final = 1 << 62


def uncovered(cluster: Cluster, workload: Workload, stop: Stop) -> str:
    """Why such a run is not one for this engine, whatever the strategy; empty if it is."""
    network = cluster.network
    if not workload.problem.times_only:
        return "values are worked out"
    if stop.loss is not None:
        return "a loss ends the run"
    if network.sharing != "first_come":
        return f"links are shared ({network.sharing})"
    if network.forwarding != "cut_through":
        return f"the network forwards with {network.forwarding}"
    return ""


def worth_compiling() -> int:
    """After how many gradients of a run machine code is worth its start."""
    if is_loaded():
        return 0
    if find_spec("numba") is None:
        return NEVER
    return _TO_LOAD if is_made() else _TO_MAKE
