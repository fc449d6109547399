"""What a scenario leaves unsaid, and how much faster or slower it would be with it.

Beginnings, times only, with the same draws: as it is, and with one key given. None of it is a new
estimate: whatever networks, buckets and laws do counts as in the run. Twenty rounds are enough for
a percent, take a tenth of a second on eight workers, and never more than `check` itself.
"""

import math
from typing import Final

from varsim.cluster.description.device import DEVICE_SIGMA
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.study.beginning import begin
from varsim.study.why.levers import alone, overlapped, with_overlap
from varsim.values import presets

# Spreads of step times on clusters that are shared (see data/SOURCES.md).
SHARED_SIGMAS: Final = (0.05, 0.1)
_FP32: Final = 4  # bytes


def overlap_gains(scenario: Scenario) -> dict[str, float]:
    """How many times as fast strategies would be if they sent gradients in the backward pass.

    By their labels; without those that do, cannot, or of which too little was seen.
    """
    found = {}
    for index, strategy in enumerate(scenario.strategies):
        own = alone(scenario, index)
        if (other := overlapped(own)) is not None:
            found[strategy.label] = _speedup(own, other)
    return {label: gain for label, gain in found.items() if math.isfinite(gain)}


def pushed_late(scenario: Scenario) -> list[Strategy]:
    """Those that push gradients to servers after the backward pass, and could do so during it.

    How much faster they would be is not worked out: messages by layer take too many events for a
    beginning, and where servers are the bottleneck they are slower (0.9 to 1.3 times as fast in
    bundled scenarios that push for 6 to 31 % of the time).
    """
    return [
        one
        for one in scenario.strategies
        if one.uses_servers and not one.updates_copies and with_overlap(scenario, one) is not None
    ]


def sigma_gains(scenario: Scenario) -> dict[float, dict[str, float]]:
    """The same of other spreads of step times, by these; nothing where a scenario chooses one."""
    device = scenario.cluster.device
    if device is None or device.sigma != DEVICE_SIGMA:
        return {}
    return {
        sigma: _gains(scenario, device=device.model_copy(update={"sigma": sigma}))
        for sigma in SHARED_SIGMAS
    }


def optimizer_time(scenario: Scenario) -> float:
    """How long (s) an update of a worker's copy at least takes; 0 where it is known or counted.

    Gradient, parameters and slots pass the device's memory once, parameters and slots back again.
    Step times that somebody measured hold the update already; those that follow from FLOPs do not.
    """
    cluster, workload, device = scenario.cluster, scenario.workload, scenario.cluster.device
    if cluster.optimizer_time is not None or device is None or device.preset is None:
        return 0.0
    rate = presets.device(device.preset).memory_bandwidth
    if rate is None or device.step_time(workload).measured is not None:
        return 0.0
    slots = 0 if workload.optimizer is None else workload.optimizer.numbers_each
    number = workload.size() / workload.bytes_per_parameter
    return number * _FP32 * (3 + 2 * slots) / rate


def optimizer_gains(scenario: Scenario) -> dict[str, float]:
    """The same where workers take `optimizer_time` for their own copies."""
    copies = [one.label for one in scenario.strategies if one.updates_copies]
    if not copies or not (time := optimizer_time(scenario)):
        return {}
    gains = _gains(scenario, optimizer_time=time)
    return {label: gain for label, gain in gains.items() if label in copies}


def _gains(scenario: Scenario, **changes: object) -> dict[str, float]:
    """The speed-ups of all strategies on a cluster that is changed."""
    cluster = scenario.cluster.model_copy(update=changes)
    other = scenario.model_copy(update={"cluster": cluster})
    pairs = zip(begin(scenario), begin(other), strict=True)
    gains = {one.strategy.label: one.update / changed.update for one, changed in pairs}
    return {label: gain for label, gain in gains.items() if math.isfinite(gain)}


def _speedup(scenario: Scenario, other: Scenario) -> float:
    (before,), (after,) = begin(scenario), begin(other)
    return before.update / after.update
