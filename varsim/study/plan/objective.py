"""What a plan makes as small as it can: costs, times, machines, waste."""

from collections.abc import Mapping

from varsim.scenario.plan import OBJECTIVES, Machines
from varsim.study.cost import COSTS
from varsim.study.goodput import KEPT
from varsim.study.sweep.case import SENT


def known(name: str, machines: Machines) -> bool:
    """Whether an objective is known without simulating anything."""
    if name == "cost_per_hour":
        return machines.prices is not None and not machines.prices.gigabyte
    return name in ("workers", "parameter_servers")


def free(name: str, machines: Machines) -> int:
    """How many of its machines an objective takes no account of."""
    prices = machines.prices if name in COSTS else None
    priced = prices is not None and prices.device_hour, prices is not None and prices.server_hour
    workers = 0 if name == "workers" or priced[0] else machines.workers
    return workers + (0 if name == "parameter_servers" or priced[1] else machines.servers)


def value(name: str, machines: Machines, measured: Mapping[str, float]) -> float:
    """An objective in one run; nan where it does not exist."""
    objective = OBJECTIVES[name]
    if objective.metric:
        return measured[objective.metric]
    if name in COSTS:
        return costs(machines, measured)[name]
    assert objective.floor is not None
    return objective.floor(machines)


def costs(machines: Machines, measured: Mapping[str, float]) -> dict[str, float]:
    """What one run costs, by the names in COSTS; nothing without prices."""
    if machines.prices is None:
        return {}
    speed = measured.get(KEPT, measured["examples_per_s"])
    return machines.prices.costs(machines.hourly, measured[SENT], speed, measured["time_to_target"])
