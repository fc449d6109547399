"""Parameter servers and all-reduces: scenarios, run by the ordinary code.

The others begin with the parameters on the workers; varsim's workers read them first. Times count
from the moment at which all have read, 0.4 s after the start.
"""

from typing import Any

from validation.peers.table import Got, Measured
from varsim.cluster.record.trace import GradientRow, Phase, Span, Trace
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one

SERVER: dict[str, Any] = {"bandwidth": 1.25e9, "latency": 0.0, "sharing": "fair"}
SIZE = 125e6


def parameter_server() -> Measured:
    """4 workers, 125 MB each way over links of 1.25 GB/s."""
    return {**_synchronous(), **_asynchronous()}


def ring_all_reduce() -> Measured:
    """102.4 MB at 12.5 GB/s, 5 us: from the end of compute, 0.1 s, to the first update."""
    network = {"bandwidth": 12.5e9, "latency": 5e-6, "sharing": "fair"}
    found = {}
    for workers in (4, 16):
        trace = _run({"kind": "on_write"}, workers, 0.1, network, 102.4e6, 1)
        time = (int(trace.steps[0]) - 100_000_000) / 1e6
        found[f"{workers} workers", "all-reduce"] = Got(time)
    return found


def _synchronous() -> dict[tuple[str, str], Got]:
    # The textbook's barrier: without the tokens that TensorFlow's queue has at the start.
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 4, "initial_tokens": 0}
    trace = _run(strategy, 4, 0.5, SERVER, SIZE, 4)
    reads = _read_ends(trace)
    begin = max(ends[0] for ends in reads)
    found = {
        ("synchronous", f"update {number}"): Got((int(step) - begin) / 1e9)
        for number, step in enumerate(trace.steps[:3].tolist(), 1)
    }
    found["synchronous", "last reply"] = Got((max(ends[3] for ends in reads) - begin) / 1e9)
    return found


def _asynchronous() -> dict[tuple[str, str], Got]:
    slow = ({"rank": 3, "factor": 2.0},)
    trace = _run({"kind": "none"}, 4, 0.5, SERVER, SIZE, 24, slow_workers=slow)
    reads = _read_ends(trace)
    begin = max(ends[0] for ends in reads)
    rows = [GradientRow(*row) for row in trace.gradients.tolist()]
    arrived = {(row.worker, row.iteration): row.arrived - begin for row in rows}
    found: dict[tuple[str, str], Got] = {}
    for step in range(5):
        times = {arrived[worker, step] for worker in range(3)}
        assert len(times) == 1, "the fast ones are equal"
        found["asynchronous", f"push {step + 1} of the fast"] = Got(times.pop() / 1e9)
        found["asynchronous", f"push {step + 1} of the slow"] = Got(arrived[3, step] / 1e9)
    found["asynchronous", "end"] = Got((reads[3][5] - begin) / 1e9)
    return found


def _read_ends(trace: Trace) -> list[list[int]]:
    """When the reads of each worker ended (ns)."""
    ends: list[list[int]] = [[] for _ in range(trace.workers)]
    for span in (Span(*row) for row in trace.spans.tolist()):
        if span.phase == Phase.READ:
            ends[span.worker].append(span.end)
    return [sorted(own) for own in ends]


def _run(
    strategy: dict[str, Any],
    workers: int,
    compute: float,
    network: dict[str, Any],
    size: float,
    steps: int,
    **cluster: Any,
) -> Trace:
    scenario = Scenario.model_validate(
        {
            "name": "peer",
            "replications": 1,
            "cluster": {
                "workers": workers,
                "compute": {"kind": "constant", "value": compute},
                "network": network,
                **cluster,
            },
            "workload": {"problem": {"kind": "timing", "size": size}, "batch_size": 1},
            "strategies": (strategy,),
            "stop": {"global_steps": steps},
        }
    )
    return run_one(Run(scenario, 0, 0))
