"""What could be otherwise: scenarios in which one cause of waiting is taken away.

The draws stay the same: compute times come from streams keyed by name, so a cause that is taken
away moves no other number.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from varsim.cluster.description.recovery import in_run
from varsim.cluster.description.servers import OF_SERVERS, Overheads
from varsim.core.distribution import Constant
from varsim.core.schema import Model
from varsim.core.stream import keyed
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy

M = TypeVar("M", bound=Model)

# What is carried, or computed, at this pace takes less than half a nanosecond.
INFINITE_RATE: Final = 1e18
NO_TIME: Final = 1e-12

# What belongs to the servers: their requests, but not the update loop's own step.
_OF_A_SERVER: Final = (*sorted(OF_SERVERS), "commit")
_NONE: Final = Overheads()


class Lever(NamedTuple):
    """One cause: what is taken away, what time it stands for, and how a scenario is without it.

    `apply` takes a scenario of one strategy, and returns None where there is nothing to take away.
    Without `has_part` it is tried by itself alone: it takes away some of what another does.
    """

    key: str
    title: str  # of the counterfactual
    cause: str  # of the time that it takes away
    apply: Callable[[Scenario], Scenario | None]
    has_part: bool = True


def alone(scenario: Scenario, index: int) -> Scenario:
    """The scenario of one of its strategies, on the cluster that this one has."""
    only = scenario.with_only((scenario.strategies[index],))
    strategy = only.strategies[0]
    if _can_overlap(strategy):  # what counts only then is not forgotten
        only = only.model_copy(
            update={
                "cluster": _with(only.cluster, backward_share=scenario.cluster.backward_share),
                "workload": _with(only.workload, layers=scenario.workload.layers),
            }
        )
    own = strategy.model_copy(update={"on": None})
    return only.model_copy(update={"cluster": only.cluster_of(strategy), "strategies": (own,)})


def levers(scenario: Scenario) -> list[Lever]:
    """Those that change something in a scenario of one strategy, in their fixed order."""
    return [lever for lever in LEVERS if lever.apply(scenario) is not None]


def without(scenario: Scenario, taken: "list[Lever]") -> Scenario:
    """The scenario with all of these taken away."""
    for lever in taken:
        scenario = lever.apply(scenario) or scenario
    return scenario


def _no_deaths(scenario: Scenario) -> Scenario | None:
    return scenario.model_copy(update={"events": ()}) if scenario.events else None


def _no_stragglers(scenario: Scenario) -> Scenario | None:
    if not any(slow.rank < _workers(scenario) for slow in scenario.cluster.stragglers):
        return None
    return _on(scenario, slow_workers=())


def _no_variance(scenario: Scenario) -> Scenario | None:
    distribution = scenario.cluster.compute_distribution(scenario.workload)
    seen: set[float] = set()
    for rank in range(min(_workers(scenario), 8)):
        seen.update(next(distribution.together(rank, keyed(scenario.seed, 0))).tolist())
    mean = distribution.expectation()
    if len(seen) == 1 or not math.isfinite(mean) or mean <= 0:
        return None
    return _on(scenario, device=None, compute=Constant(value=mean))


def _no_slow_links(scenario: Scenario) -> Scenario | None:
    if not any(slow.rank < _workers(scenario) for slow in scenario.cluster.network.slow_links):
        return None
    return _on(scenario, network=_with(scenario.cluster.network, slow_links=()))


def _free_server(scenario: Scenario) -> Scenario | None:
    if not scenario.strategies[0].traits.uses_servers:
        return None
    cluster = scenario.cluster
    changes: dict[str, Any] = {"server_update": None}
    if cluster.overheads is not None:
        kept = _with(cluster.overheads, **{name: getattr(_NONE, name) for name in _OF_A_SERVER})
        changes["overheads"] = kept if kept.given else None
    if getattr(cluster, "servers_on", "dedicated") == "dedicated":
        changes["network"] = _with(cluster.network, server_bandwidth=INFINITE_RATE)
    changed = _on(scenario, **changes)
    return None if changed == scenario else changed


def _no_overheads(scenario: Scenario) -> Scenario | None:
    free = _free_server(scenario) or scenario  # what is not the servers' is left then
    return None if free.cluster.overheads is None else _on(scenario, overheads=None)


def _infinite_uplinks(scenario: Scenario) -> Scenario | None:
    network = scenario.cluster.network
    if network.kind != "racks" or not _communicates(scenario):
        return None
    free = {"uplink_bandwidth": INFINITE_RATE, "oversubscription": None}
    return _on(scenario, network=_with(network, **free))


def _infinite_bandwidth(scenario: Scenario) -> Scenario | None:
    if not _communicates(scenario):
        return None
    return _on(scenario, network=_of_infinite_bandwidth(scenario.cluster.network))


def _infinite_but_for_ports(scenario: Scenario) -> Scenario | None:
    cluster = scenario.cluster
    network = cluster.network
    dedicated = getattr(cluster, "servers_on", "dedicated") == "dedicated"
    if not scenario.strategies[0].traits.uses_servers or not dedicated:
        return None
    if "server_bandwidth" not in type(network).model_fields:
        return None
    links = _with(_of_infinite_bandwidth(network), server_bandwidth=network.server_rate)
    return _on(scenario, network=links)


def _no_latency(scenario: Scenario) -> Scenario | None:
    network = scenario.cluster.network
    changed = _of_no_latency(network)
    if not _communicates(scenario) or changed == network:
        return None
    return _on(scenario, network=changed)


def _instant_compute(scenario: Scenario) -> Scenario | None:
    return _on(scenario, device=None, compute=Constant(value=NO_TIME), optimizer_time=None)


def overlapped(scenario: Scenario) -> Scenario | None:
    """With gradients all-reduced in the backward pass; None where they are, or cannot be."""
    strategy = scenario.strategies[0]
    if not _can_overlap(strategy) or strategy.workers(scenario.cluster) == 1:
        return None
    changed = with_overlap(scenario, strategy)
    return None if changed is None else scenario.model_copy(update={"strategies": (changed,)})


def with_overlap(scenario: Scenario, strategy: Strategy) -> Strategy | None:
    """One that sends gradients in the backward pass; None where it does, or that is refused."""
    if "overlap" not in type(strategy).model_fields or strategy.traits.overlaps:
        return None
    try:
        changed = type(strategy).model_validate({**dict(strategy), "overlap": True})
        changed.check(scenario.cluster_of(strategy))
        changed.check_workload(scenario.workload_of(strategy))
        changed.check_events((*scenario.events, *in_run(scenario.failures)))
    except ValueError:
        return None
    return changed


def _can_overlap(strategy: Strategy) -> bool:
    """Whether workers with copies of their own add gradients up once all are computed."""
    could = "overlap" in type(strategy).model_fields and not strategy.traits.overlaps
    return could and strategy.traits.updates_copies and strategy.sends.what == "gradients"


# First what can be bought or configured away, outermost first; what is left in the end is compute.
LEVERS: Final = (
    Lever("deaths", "no deaths", "deaths and restarts", _no_deaths),
    Lever("server", "free servers", "servers", _free_server),
    Lever("overheads", "no software overheads", "software overheads", _no_overheads),
    Lever("uplinks", "unlimited rack uplinks", "uplinks of racks", _infinite_uplinks),
    Lever("slow_links", "no slow links", "slow links", _no_slow_links),
    Lever("bandwidth", "infinite bandwidth", "bandwidth", _infinite_bandwidth),
    Lever(
        "links", "infinite bandwidth but at servers", "", _infinite_but_for_ports, has_part=False
    ),
    Lever("latency", "no latency", "latency", _no_latency),
    Lever("overlap", "overlap: true", "", overlapped, has_part=False),
    Lever("stragglers", "no stragglers", "stragglers", _no_stragglers),
    Lever("variance", "no variance", "varying compute times", _no_variance),
    Lever("compute", "instant compute", "mean compute", _instant_compute),
)


def _workers(scenario: Scenario) -> int:
    return scenario.strategies[0].workers(scenario.cluster)


def _communicates(scenario: Scenario) -> bool:
    return _workers(scenario) > 1 or scenario.strategies[0].traits.uses_servers


def _on(scenario: Scenario, **changes: Any) -> Scenario:
    """The scenario with another cluster; what that has no field for is left out."""
    return scenario.model_copy(update={"cluster": _with(scenario.cluster, **changes)})


def _with(model: M, **changes: Any) -> M:
    known = {name: value for name, value in changes.items() if name in type(model).model_fields}
    return model.model_copy(update=known)


def _of_infinite_bandwidth(network: Any) -> Any:
    """A network, with what is inside its nodes, in which only latency takes time."""
    changed = _with(
        network,
        preset=None,
        bandwidth=INFINITE_RATE,
        latency=network.delay,
        server_bandwidth=None,
        slow_links=(),
        uplink_bandwidth=getattr(network, "uplink_bandwidth", None) and INFINITE_RATE,
        flows=_default(network, "flows"),
        flow_bandwidth=_default(network, "flow_bandwidth"),
    )
    inside = getattr(network, "inside", None)
    return changed if inside is None else _with(changed, inside=_of_infinite_bandwidth(inside))


def _of_no_latency(network: Any) -> Any:
    """A network, with what is inside its nodes, in which only bytes take time."""
    changes: dict[str, Any] = {"message_overhead": 0.0}
    if network.delay:
        changes["latency"] = 0.0
    if getattr(network, "uplink_latency", None):
        changes["uplink_latency"] = 0.0
    inside = getattr(network, "inside", None)
    if inside is not None:
        changes["inside"] = _of_no_latency(inside)
    return _with(network, **changes)


def _default(model: Model, name: str) -> Any:
    info = type(model).model_fields.get(name)
    return None if info is None else info.get_default(call_default_factory=True)
