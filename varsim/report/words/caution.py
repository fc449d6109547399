"""What misleads about compute times: guesses, and workers in step."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from varsim.cluster.accelerator import DEVICE_SIGMA
from varsim.report.words.life import new_at_first
from varsim.report.words.phrases import capital, digits, joined
from varsim.scenario.training import Scenario
from varsim.study import tails
from varsim.units import format_seconds
from varsim.values import presets

# Of sweeps; coverage of 3,000 intervals each, first 3 to 10 replications: 91 to 95 %.
STOPPED: Final = (
    "Replications ended once intervals were narrow enough (precision), sooner where that is "
    "chance: their 95 % intervals hold the truth in 90 % of the cases or more."
)

# Gradients of so many updates that are in vain at first are told of.
_MANY_UPDATES: Final = 10


def cautions(scenario: Scenario) -> list[str]:
    """What misleads, a sentence each; mostly nothing."""
    every = (
        *(caution(scenario) for caution in SINGLE),
        *in_vain(scenario),
        *new_at_first(scenario),
    )
    return [said for said in every if said]


def of_points(
    scenarios: Sequence[Scenario], *more: Callable[[Scenario], str | None]
) -> Iterator[str]:
    """What misleads at some of many points, once each, and at how many."""

    def vain(scenario: Scenario) -> str:
        return " ".join(in_vain(scenario))

    for caution in (*SINGLE, *more, vain):
        yield from at_points(scenarios, caution)


def at_points(
    scenarios: Sequence[Scenario], caution: Callable[[Scenario], str | None]
) -> Iterator[str]:
    """A caution of some of many points, once, and at how many."""
    if said := [text for scenario in scenarios if (text := caution(scenario))]:
        often = f" (At {len(said)} of {len(scenarios)} points.)" if len(scenarios) > 1 else ""
        yield said[0] + often


def in_vain(scenario: Scenario) -> Iterator[str]:
    """Which strategies drop the gradients of many updates before they come into their rhythm."""
    for strategy in scenario.strategies:
        vain, why = strategy.dropped_at_first()
        if vain >= _MANY_UPDATES * strategy.gradients_per_update(scenario.cluster_of(strategy)):
            who = capital(strategy.mention)
            yield f"{who} drops {vain:,} gradients after its first update: {why}."


def heavy_tail(scenario: Scenario) -> str:
    """That steps have no finite variance, and what that does to intervals; mostly empty."""
    heavy = tails.heavy(scenario)
    if not heavy:
        return ""
    law = min(tails.law_of(scenario, one).tail() for one in heavy)
    others = [one.mention for one in scenario.strategies if one not in heavy]
    finite = f" Steps of {joined(others)} have a finite one." if others else ""
    whose = joined([one.mention for one in heavy])
    return (
        f"Heavy tail: compute times have no finite variance (tail index {digits(law)}, not "
        f"above {tails.FINITE:g}), and neither have steps of {whose}: one may last as long as all "
        "others of a run. Intervals hold the truth less often than said, for the rate of long runs "
        "in about 60 of 100 cases at an index of 1.2, and longer runs are slower; "
        f"compare medians (step_time_p50).{finite}"
    )


def few_spells(scenario: Scenario, gradients: Mapping[str, float]) -> str:
    """That runs hold too few spells for intervals; `gradients`: see `in_few_spells`."""
    short = tails.in_few_spells(scenario, gradients)
    if not short:
        return ""
    who = min(short, key=short.__getitem__)
    steps = tails.correlation_time(scenario, scenario.strategy(who))
    more = math.ceil(tails.CORRELATION_TIMES / short[who]) if short[who] else math.inf
    instead = f" (stop), {more} times as long," if math.isfinite(more) else " (stop)"
    return (
        f"Short for spells: {digits(steps)} steps of a worker say as much as one (its correlation "
        f"time), and runs of {scenario.strategy(who).mention} last {digits(short[who])} "
        f"correlation times, not {tails.CORRELATION_TIMES}: intervals may often miss "
        f"the truth. Longer runs{instead} mend that, more replications do not."
    )


def spells_of_rows(rows: Mapping[str, tuple[Scenario, str, float]], what: str) -> Iterator[str]:
    """The same of many rows, by where they lie, each of one strategy: once, of the shortest."""
    lasted = {
        where: times
        for where, (scenario, label, gradients) in rows.items()
        for times in tails.in_few_spells(scenario, {label: gradients}).values()
    }
    if lasted:
        first = min(lasted, key=lasted.__getitem__)
        scenario, label, gradients = rows[first]
        yield (
            f"{few_spells(scenario, {label: gradients})} (In {len(lasted):,} of {len(rows):,} "
            f"{what}; the shortest: {first}.)"
        )


def contradicted(scenario: Scenario) -> str:
    """That the efficiency given contradicts what was measured; empty where it does not."""
    device = scenario.cluster.device
    said = "" if device is None else device.contradicted(scenario.workload)
    return f"The {said}" if said else ""


def to_the_ns(names: Sequence[str]) -> str:
    """That recorded times in queues make no exact numbers, of whom."""
    are = "is" if len(names) == 1 else "are"
    return (
        f"{capital(joined(list(names)))} {are} not exact: recorded times meet in queues, where a "
        "nanosecond decides who is first; times 1 ns off move rates by some 0.4 %."
    )


def bounds(scenario: Scenario) -> str:
    """How far off a guess may be, and how to see what that changes."""
    device = scenario.cluster.device
    assert device is not None
    known = "To see what another speed changes, sweep cluster.device.efficiency."
    if device.step_time(scenario.workload).measured is None:
        low, high = map(digits, device.within)
        return f"Judging by measurements, it may be {low} to {high} times as fast. {known}"
    return known


def from_presets(scenario: Scenario) -> str:
    """How far published jobs are off, where nothing was measured on this cluster; else empty.

    Of all-reduces alone: nothing like it is known of parameter servers.
    """
    cluster, device = scenario.cluster, scenario.cluster.device
    reduced = [one for one in scenario.strategies if one.sends[:2] == ("gradients", "workers")]
    known = device is not None and device.preset is not None and device.efficiency is None
    own = cluster.overheads or cluster.overlap_pace or cluster.server_update
    if not (reduced and known) or own or cluster.network.preset is None:
        return ""
    errors = presets.preset_errors()
    told = ", ".join(f"{model} {100 * error:+.0f} %" for model, error in errors.items())
    return (
        "From presets alone: nothing here was measured on this cluster. Published all-reduce jobs "
        f"of 256 and 512 GPUs are off by so much in throughput: {told}; ± is chance alone."
    )


# What measurements say of a scenario.
MEASURED: Final = (contradicted, from_presets)


def guessed(scenario: Scenario) -> str:
    """That the step time is a guess, and what would be surer; empty where it is none."""
    doubt = scenario.cluster.doubt(scenario.workload)
    if not doubt:
        return ""
    device = scenario.cluster.device
    assert device is not None
    mean = format_seconds(device.step_time(scenario.workload).seconds)
    return (
        f"The step time, {mean}, is a guess: {doubt}. A measured time is surer: "
        f"compute: {{kind: lognormal, mean: ..., sigma: {device.sigma or DEVICE_SIGMA:g}}} "
        "instead of device."
    )


def marching(scenario: Scenario) -> str:
    """That workers whose compute times are all the same queue as a convoy; empty where none do."""
    cluster = scenario.cluster
    distribution = cluster.compute_distribution(scenario.workload)
    update = cluster.server_update
    if distribution.varies or (
        update is not None and update.time is not None and update.time.varies
    ):
        return ""
    queueing = [
        one.mention
        for one in scenario.strategies
        if one.round.of == "iteration"
        and one.uses_servers
        and one.workers(scenario.cluster_of(one)) > 1
    ]
    if not queueing:
        return ""
    mean, share = format_seconds(distribution.expectation()), distribution.backward_share()
    instead = f"device with a sigma above 0 (default: {DEVICE_SIGMA:g})"
    if cluster.device is None:
        instead = f"compute: {{kind: lognormal, mean: {mean}, sigma: {DEVICE_SIGMA:g}}}"
        instead += "" if share is None else f" and backward_share: {share:.3g}"
    return (
        f"Every step computes for exactly {mean}: the workers of {joined(queueing)} queue at "
        "the servers in lockstep, always in the same order, and the rate is that of this convoy. "
        "Real step times vary by 1 % or more, which breaks it up; to see that, write "
        f"{instead}."
    )


# Each one sentence of a scenario, or nothing.
SINGLE: Final = (marching, guessed, *MEASURED, heavy_tail)
