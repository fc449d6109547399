"""Remarks on what a scenario leaves unsaid, where that matters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.cluster.accelerator import DEVICE_SIGMA
from varsim.report.words.names import mention
from varsim.report.words.phrases import digits, joined
from varsim.scenario.training import Scenario
from varsim.study.unsaid import (
    SHARED_SIGMAS,
    optimizer_gains,
    optimizer_time,
    overlap_gains,
    pushed_late,
    sigma_gains,
)
from varsim.units import format_seconds

if TYPE_CHECKING:
    from varsim.study.beginning import Beginning

# Overlap is worth a word from so much more throughput on, what is a guess from so much less.
_MATTERS: Final = 0.02
_MUCH: Final = 0.05


def without_overlap(scenario: Scenario, gains: Mapping[str, float]) -> Iterator[str]:
    """Whose gradients wait for the end of the backward pass, and what DDP gains there.

    Nothing where a strategy beside them shows it.
    """
    if any(one.overlaps and one.updates_copies for one in scenario.strategies):
        return
    said = [
        f"{mention(scenario, label)} {digits(gain)} times as fast"
        for label, gain in gains.items()
        if gain > 1 + _MATTERS
    ]
    if said:
        yield (
            "PyTorch's DDP all-reduces buckets during the backward pass; here gradients wait for "
            f"its end. With overlap: true (in strategies): {', '.join(said)}."
        )


def pushed_at_the_end(scenario: Scenario, sent: Mapping[str, float]) -> Iterator[str]:
    """Whose gradients are pushed to servers after the backward pass, by these shares of the time.

    Nothing where a strategy beside them shows what it changes.
    """
    if any(one.overlaps and not one.updates_copies for one in scenario.strategies):
        return
    late = [one for one in pushed_late(scenario) if sent.get(one.label, 0.0) > _MATTERS]
    if late:
        first, *others = [(percent(sent[one.label]), one.mention) for one in late]
        said = [f"{first[0]} of workers' time in {first[1]}"]
        said += [f"{share} in {who}" for share, who in others]
        yield (
            "Gradients are pushed to servers after the backward pass, which takes "
            f"{joined(said)}; overlap: true (in strategies) pushes them layer by layer during it, "
            "as MXNet does: try what that changes."
        )


def of_check(scenario: Scenario, begun: Sequence["Beginning"]) -> Iterator[str]:
    """All that is unsaid and matters, of a scenario that begins so."""
    yield from without_overlap(scenario, overlap_gains(scenario))
    sent = {one.strategy.label: one.shares.get("write", 0.0) for one in begun}
    yield from pushed_at_the_end(scenario, sent)
    spread = sigma_gains(scenario)
    hit = [
        label
        for label in [one.label for one in scenario.strategies]
        if any(gains.get(label, 1.0) < 1 - _MUCH for gains in spread.values())
    ]
    if hit:
        said = [
            f"{mention(scenario, label)} "
            + " and ".join(
                f"{percent(1 - gains[label])}" for gains in spread.values() if label in gains
            )
            for label in hit
        ]
        sigmas = joined([f"{sigma:g}" for sigma in SHARED_SIGMAS])
        yield (
            f"Step times vary by cluster.device.sigma {DEVICE_SIGMA:g}, as of GPUs that nobody "
            f"shares. With {sigmas}, as on shared clusters, throughput is lower: {', '.join(said)}."
        )
    slower = [
        f"{mention(scenario, label)} {percent(1 - gain)}"
        for label, gain in optimizer_gains(scenario).items()
        if gain < 1 - _MUCH
    ]
    if slower:
        time = format_seconds(float(f"{optimizer_time(scenario):.2g}"))
        yield (
            "The optimizer takes no time here. Reading and writing what it updates takes "
            f"cluster.optimizer_time: {time} at least, with which throughput is lower: "
            f"{', '.join(slower)}."
        )


def percent(share: float) -> str:
    """A share as text, `83 %`."""
    size = round(100 * share, 1) + 0.0
    return f"{size:.0f} %" if abs(size) >= 9.5 or size == 0 else f"{size:.1f} %"
