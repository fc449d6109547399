"""Whether what replicas keep fits the memory of their devices, in words."""

import math
from collections.abc import Iterator

from varsim.cluster.memory import Memory
from varsim.scenario.training import Scenario
from varsim.units import format_bytes


def memory(scenario: Scenario) -> list[str]:
    """What each replica keeps, where it is sharded or does not fit; else nothing."""
    room = scenario.cluster.device_memory
    found = _kept(scenario)
    every = scenario.strategies
    if not any(strategy.shards or scenario.too_large(strategy) for strategy in every):
        return []
    return [
        "Memory that each device needs for parameters, gradients and optimizer state; activations, "
        f"which no scenario says, come on top: {'; '.join(_each(found, room))}.",
        *_doubts(found, room),
    ]


def misfit(scenario: Scenario) -> str:
    """Which strategies do not fit, in a sentence; empty where none is known not to."""
    room, found = scenario.cluster.device_memory, _kept(scenario)
    large = {label: kept.total for label, kept in found.items() if kept.total > (room or math.inf)}
    if room is None or not large:
        return ""
    return (
        f"{' and '.join(map(repr, large))} {'does' if len(large) == 1 else 'do'} not fit into the "
        f"{format_bytes(room)} of a device, with {format_bytes(min(large.values()))} or more "
        "before any activation: the times are those with enough memory."
    )


def too_large(scenario: Scenario, label: str) -> str:
    """What follows the name of a strategy that does not fit its device; empty of any other."""
    (strategy,) = (one for one in scenario.strategies if one.label == label)
    return " (too large for its device)" if scenario.too_large(strategy) else ""


def _kept(scenario: Scenario) -> dict[str, Memory]:
    return {
        strategy.label: kept
        for strategy in scenario.strategies
        if (kept := scenario.memory_of(strategy)) is not None
    }


def _each(found: dict[str, Memory], room: float | None) -> Iterator[str]:
    alike: dict[Memory, list[str]] = {}
    for label, kept in found.items():
        alike.setdefault(kept, []).append(f"'{label}'")
    for kept, labels in alike.items():
        of = f"{kept.per_parameter} bytes a parameter"
        if kept.whole:
            of += f", and {format_bytes(kept.whole)} of buckets that are whole meanwhile"
        fits = ""
        if room is not None and kept.total > room:
            fits = f", which does not fit into {format_bytes(room)}"
        yield f"{' and '.join(labels)} {format_bytes(kept.total)} ({of}){fits}"


def _doubts(found: dict[str, Memory], room: float | None) -> Iterator[str]:
    if any(kept.optimizer is None for kept in found.values()):
        yield "Problem timing has no optimizer: its state, which may be most of it, is not counted."
    if room is None:
        yield (
            "How much memory the devices have is not known, so nobody can say here whether it "
            "fits: name a device (varsim list devices)."
        )
