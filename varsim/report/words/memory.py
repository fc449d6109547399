"""Whether what devices and servers keep fits their memory, in words."""

from collections.abc import Iterator, Mapping, Sequence

from varsim.cluster.memory import Memory
from varsim.report.words.names import mention
from varsim.report.words.phrases import capital, joined
from varsim.scenario.fitting import MemoryLimits
from varsim.scenario.training import Scenario
from varsim.units import format_bytes


def memory(scenario: Scenario, *, always: bool = False) -> list[str]:
    """What each device and server keeps, where it is sharded, limited, or does not fit; or nothing.

    `always`: in any case, where anything is known of the memory there is.
    """
    every, limits = scenario.strategies, scenario.memory
    asked = limits != MemoryLimits() or (always and scenario.knows_memory)
    if not asked and not any(one.shards or scenario.too_large(one) for one in every):
        return []
    sizes, found = limits.sizes(scenario.cluster), _kept(scenario)
    parts = "parameters, gradients and optimizer state, without activations, which are not given"
    if limits.activations is not None:
        parts = "parameters, gradients, optimizer state and activations"
    said = [
        f"Memory that each device needs for {parts}: {'; '.join(_each(scenario, found, sizes))}."
    ]
    served = _served(scenario) if asked else {}
    if served:
        room = () if limits.server is None else (limits.server,)
        said.append(
            f"Memory that the fullest server needs: {'; '.join(_each(scenario, served, room))}."
        )
    return [*said, *_doubts(scenario, [*found.values(), *served.values()])]


def misfit(scenario: Scenario) -> str:
    """Which strategies do not fit, in sentences; empty where none is known not to."""
    said = []
    for where, all_of_it in (("device", _kept(scenario)), ("server", _served(scenario))):
        large = {
            one.mention: all_of_it[one.label].total
            for one in scenario.strategies
            if any(found.where == where for found in scenario.misfits(one))
        }
        if not large:
            continue
        limits = scenario.memory
        room = limits.server if where == "server" else max(limits.sizes(scenario.cluster))
        assert room is not None, "something exceeds it"
        one, before = len(large) == 1, ""
        if where == "device" and limits.activations is None:
            before = " before any activation"
        said.append(
            f"{capital(joined(list(large)))} {'does' if one else 'do'} not fit into "
            f"the {format_bytes(room)} of a {where}, with {format_bytes(min(large.values()))} or "
            f"more{before}: {'its' if one else 'their'} times are as if {'it' if one else 'they'} "
            "did."
        )
    return " ".join(said)


def too_large(scenario: Scenario, label: str) -> str:
    """What follows the name of a strategy that is known not to fit; empty of any other."""
    found = [one.where for one in scenario.misfits(scenario.strategy(label))]
    return f" (too large for its {found[0]})" if found else ""


def _kept(scenario: Scenario) -> dict[str, Memory]:
    return {one.label: scenario.memory_of(one) for one in scenario.strategies}


def _served(scenario: Scenario) -> dict[str, Memory]:
    every = {one.label: scenario.server_memory_of(one) for one in scenario.strategies}
    return {label: kept for label, kept in every.items() if kept is not None}


def _each(scenario: Scenario, found: Mapping[str, Memory], sizes: Sequence[float]) -> Iterator[str]:
    alike: dict[Memory, list[str]] = {}
    for label, kept in found.items():
        alike.setdefault(kept, []).append(mention(scenario, label))
    for kept, labels in alike.items():
        further = [f"{format_bytes(size)} of {what}" for what, size in kept.further]
        if kept.whole:
            further.append(f"{format_bytes(kept.whole)} of buckets held whole for a while")
        of = f"{kept.per_parameter} bytes a parameter" if kept.per_parameter else ""
        if further:
            of += (", and " if len(further) == 1 else ", ") * bool(of) + joined(further)
        fits = ""
        if sizes and kept.total > max(sizes):
            fits = f", which does not fit into {format_bytes(max(sizes))}"
        elif sizes and kept.total > min(sizes):
            fits = f", which fits into {format_bytes(max(sizes))} and not into the smaller size"
        yield f"{joined(labels)} {format_bytes(kept.total)} ({of}){fits}"


def _doubts(scenario: Scenario, found: Sequence[Memory]) -> Iterator[str]:
    sizes = scenario.memory.sizes(scenario.cluster)
    if any(kept.optimizer is None for kept in found):
        yield (
            "The scenario has no workload.optimizer: its state, which may be most of it, is not "
            "counted."
        )
    if not sizes:
        yield (
            "The memory of the devices is not known, so neither is whether this fits: name a "
            "device (varsim list devices)."
        )
    elif any(
        min(sizes) < scenario.memory_of(one).total <= max(sizes) for one in scenario.strategies
    ):
        device = scenario.cluster.device
        assert device is not None, "its memory is known"
        every = " or ".join(map(format_bytes, sorted(sizes)))
        yield f"{device.preset} comes with {every}: memory.device says which it is."
