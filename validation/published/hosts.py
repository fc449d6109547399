"""Machines with several accelerators: a step inside one of them, and one of many of them.

Frameworks that add up gradients inside a machine first send one gradient per machine. So a worker
of the outer scenario is a machine, and what it computes takes as long as a step of the inner one.
"""

from collections.abc import Mapping
from functools import cache
from itertools import groupby
from statistics import NormalDist
from typing import Any, Final

from validation.published.experiment import timed
from varsim.scenario.training import Scenario
from varsim.values.workload import Workload

_AT_ONCE: Final = 1e15  # bytes/s


def unfilled(workers: int, per_host: int) -> str:
    """Why so many workers are not on whole machines, or a part of one; nothing where they are."""
    if workers <= per_host or workers % per_host == 0:
        return ""
    return f"{workers} GPUs do not fill machines of {per_host}"


def parameter_server(workers: int) -> dict[str, Any]:
    """Synchronous replicas in step: no tokens to begin with, so that nobody runs ahead."""
    return {"kind": "sync_replicas", "replicas_to_aggregate": workers, "initial_tokens": 0}


def overlapped_server(workers: int) -> dict[str, Any]:
    """The same, with gradients sent while the backward pass goes on."""
    return parameter_server(workers) | {"overlap": True}


def alone(compute: float) -> dict[str, Any]:
    """The cluster of one worker."""
    return {
        "compute": {"kind": "constant", "value": compute},
        "network": {"bandwidth": 1e9, "latency": 0.0},
    }


def slowest(count: int, spread: float) -> float:
    """How much longer than the mean the slowest of so many computes, on average.

    Their times are normal with a standard deviation of `spread` times the mean (Blom's score).
    """
    if count == 1:
        return 1.0
    return 1 + spread * NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def one_host(
    name: str,
    model: str,
    batch: int,
    gpus: int,
    compute: float,
    bus: float = 0.0,
    slowest: float = 1.0,
) -> Scenario:
    """All accelerators of a machine, one of them `slowest` times as long at a step as the others.

    `compute`: seconds of a step of one of these. Gradients are added up over the bus, of which each
    has `bus` bytes/s; 0: at once.
    """
    cluster = alone(compute)
    if gpus > 1 and bus:
        cluster["network"] = {"bandwidth": bus, "latency": 0.0, "sharing": "first_come"}
    elif gpus > 1:
        cluster["network"] = {"bandwidth": _AT_ONCE, "latency": 0.0, "sharing": "first_come"}
    if slowest != 1:
        cluster["slow_workers"] = ({"rank": 0, "factor": slowest},)
    workload = {"model": model, "batch_size": batch}
    return timed(name, gpus, cluster, workload, {"kind": "on_write"})


def many_hosts(
    name: str,
    model: str,
    batch: int,
    hosts: int,
    compute: float,
    servers: int,
    network: Mapping[str, Any],
    slowest: float = 1.0,
) -> Scenario:
    """Machines with parameter servers on which whole tensors lie in turn.

    `batch`: examples of one machine; `compute`: seconds of a step of one machine by itself.
    The servers are on the workers' machines, of which one takes `slowest` times as long.
    """
    cluster = _with_servers(compute, servers, network, slowest, "round_robin")
    workload = {"model": model, "batch_size": batch}
    return timed(name, hosts, cluster, workload, overlapped_server(hosts))


def many_exchanging_hosts(
    name: str,
    model: str,
    batch: int,
    hosts: int,
    compute: float,
    servers: int,
    network: Mapping[str, Any],
    slowest: float = 1.0,
    placement: str = "round_robin",
) -> Scenario:
    """The same, where a layer is pulled while others are computed and pushed.

    What the machines pull of a layer goes as soon as all of them have pushed their gradients of it.
    `placement`: how whole layers are dealt to the servers.
    """
    cluster = _with_servers(compute, servers, network, slowest, placement)
    workload = {"layers": layers_of(model), "batch_size": batch}
    strategy = {"kind": "on_write", "collective": "push_pull", "overlap": True}
    return timed(name, hosts, cluster, workload, strategy)


@cache
def layers_of(model: str) -> tuple[Mapping[str, float], ...]:
    """A model layer by layer, as a scenario lists them: tensors that are ready together are one."""
    whole = Workload.model_validate({"model": model, "problem": {"kind": "timing"}})
    tensors = whole.tensors()
    sizes: list[int] = []
    moments: list[float] = []
    for moment, group in groupby(
        zip(whole.ready_after(tensors), tensors, strict=True), key=lambda tensor: tensor[0]
    ):
        moments.append(moment)
        sizes.append(sum(size for _, size in group))
    ends = [*moments[1:], 0.0]
    return tuple(
        {"backward": moment - end, "size": size}
        for moment, end, size in zip(moments, ends, sizes, strict=True)
    )


def _with_servers(
    compute: float, servers: int, network: Mapping[str, Any], slowest: float, placement: str
) -> dict[str, Any]:
    """The cluster of machines that have the servers on them."""
    cluster: dict[str, Any] = {
        "compute": {"kind": "constant", "value": compute},
        "parameter_servers": servers,
        "servers_on": "workers",
        "network": network,
    }
    if servers > 1:
        cluster["placement"] = placement
    if slowest != 1:
        cluster["slow_workers"] = ({"rank": 0, "factor": slowest},)
    return cluster
