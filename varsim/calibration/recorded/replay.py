"""Measured runs as scenarios: the same compute times, through the ordinary strategies."""

from typing import Any, Final

from varsim.calibration.recorded.runs import AsyncRun, CollectiveRun, Run, SyncRun, compute_tables
from varsim.cluster.overheads import Overheads
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study import simulation

# All processes were on one machine: what its loopback network takes is among the overheads.
_NO_NETWORK: Final = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come"}

# A variable of a few bytes, where no larger one travelled.
_FEW_BYTES: Final = 4

# A law of compute times has none of no length.
_NO_SLEEP: Final = 1e-9


class Replay:
    """A measured run, to be simulated with one set of overheads after the other."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._scenario = _scenario(run)

    def scenario(self, overheads: Overheads | None = None) -> Scenario:
        """The run's scenario on a cluster with these overheads; None: an ideal one."""
        cluster = self._scenario.cluster.model_copy(update={"overheads": overheads})
        return self._scenario.model_copy(update={"cluster": cluster})

    def trace(self, overheads: Overheads | None = None) -> Trace:
        """Simulate it."""
        return simulation.run_one(simulation.Run(self.scenario(overheads), 0, 0), record=False)

    def subject_to(self) -> frozenset[str]:
        """The names of the overheads that can occur in it."""
        (strategy,) = self._scenario.strategies
        return strategy.subject_to()

    @property
    def size(self) -> int:
        """Bytes that are read, and sent as a gradient, in each iteration."""
        return max(self.run.payload_bytes, _FEW_BYTES)


def _scenario(run: Run) -> Scenario:
    tables = tuple(tuple(max(time, _NO_SLEEP) for time in row) for row in compute_tables(run))
    cluster: dict[str, Any] = {
        "workers": len(tables),
        "compute": {"kind": "trace", "seconds": tables},
        "network": _NO_NETWORK,
    }
    events: tuple[dict[str, Any], ...] = ()
    if not isinstance(run, CollectiveRun):
        # Whole variables on one server each, as TensorFlow places them.
        placement = "partitioned" if run.ps == 1 else "round_robin"
        cluster |= {"parameter_servers": run.ps, "placement": placement}
    if isinstance(run, SyncRun):
        in_order = sorted(run.killed, key=lambda killed: killed.at)
        events = tuple({"at": dead.at, "kill": {"worker": dead.worker}} for dead in in_order)
    size = float(max(run.payload_bytes, _FEW_BYTES))
    return Scenario.model_validate(
        {
            "name": run.id,
            "replications": 1,
            "cluster": cluster,
            "workload": {"problem": {"kind": "timing", "size": size}, "batch_size": 1},
            "strategies": (_strategy(run),),
            "events": events,
            "stop": {"global_steps": run.steps},
        }
    )


def _strategy(run: Run) -> dict[str, Any]:
    match run:
        case SyncRun():
            return {
                "kind": "sync_replicas",
                "replicas_to_aggregate": run.aggregate,
                "total_num_replicas": run.total,
                "initial_tokens": run.init_tokens,
            }
        case AsyncRun():
            return {"kind": "none"}
        case CollectiveRun():
            return {"kind": "on_write"}
