"""What misleads about a scenario, whatever is made of it: notes of all products."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.cluster.description.stop import Stop
from varsim.report.told import Note, Number, Value
from varsim.report.wording import names
from varsim.scenario.fitting import MemoryLimits, Misfit
from varsim.scenario.training import Scenario
from varsim.study import tails
from varsim.study.unsaid import (
    optimizer_gains,
    optimizer_time,
    overlap_gains,
    pushed_late,
    sigma_gains,
)
from varsim.study.work import Done
from varsim.units import counted, format_bytes, format_seconds
from varsim.values import presets
from varsim.values.distribution import Weibull

if TYPE_CHECKING:
    from varsim.study.plan.cell import Cell

# Gradients of so many updates that are in vain at first are told of.
_MANY_UPDATES: Final = 10
_AS_NEW: Final = 0.05  # by which more or fewer failures are told
_LONG_LIFE: Final = 200.0  # times the mean; over a longer time that is not worked out
_MATTERS: Final = 0.02  # more throughput that is worth a word, or time that pushes take
_MUCH: Final = 0.05  # less throughput that is worth one
# With fewer reads of replicas that go on alone, what they take is not known.
_FEW_READS: Final = 2


def of_scenario(scenario: Scenario) -> Iterator[Note]:
    """What misleads about its compute times and failures; mostly nothing."""
    for found in (memory, guess, contradicted, presets_alone, lockstep, heavy_tail, drops_at_first):
        yield from found(scenario)
    yield from new_at_first(scenario)


def of_points(
    scenarios: Sequence[Scenario], *more: Callable[[Scenario], Iterator[Note]]
) -> Iterator[Note]:
    """What misleads at some of many points, once each."""
    found = dict[str, Note]()
    for scenario in scenarios:
        for each in (of_scenario, *more):
            for note in each(scenario):
                found.setdefault(note.code, note)
    yield from found.values()


def memory(scenario: Scenario) -> Iterator[Note]:
    """Which strategies do not fit into the memory of their devices or servers."""
    named, alike = names(scenario), dict[Misfit, list[str]]()
    for one in scenario.strategies:
        for misfit in scenario.misfits(one)[:1]:
            alike.setdefault(misfit, []).append(named[one.label])
    for misfit, who in alike.items():
        sizes = {"needs": Number(misfit.needs, unit="B"), "has": Number(misfit.has, unit="B")}
        yield Note("memory", {"who": tuple(who), **sizes, "where": misfit.where})


def kept(scenario: Scenario) -> Iterator[Note]:
    """What the fullest device keeps, where the scenario gives limits of memory and all fit."""
    if scenario.memory == MemoryLimits() or any(map(scenario.too_large, scenario.strategies)):
        return
    total, who = max((scenario.memory_of(one).total, one.label) for one in scenario.strategies)
    yield Note("memory-kept", {"who": names(scenario)[who], "needs": Number(total, unit="B")})


def guess(scenario: Scenario) -> Iterator[Note]:
    """That the step time is a guess, and how far off it may be."""
    device = scenario.cluster.device
    if device is None or not scenario.cluster.doubt(scenario.workload):
        return
    step = device.step_time(scenario.workload)
    mean = Number(step.seconds, unit="s")
    if step.measured is not None:
        yield Note("guess-measured", {"mean": mean})
    else:
        low, high = map(Number, device.within)
        yield Note("guess", {"mean": mean, "low": low, "high": high})


def contradicted(scenario: Scenario) -> Iterator[Note]:
    """That the efficiency given contradicts what was measured."""
    device = scenario.cluster.device
    if device is not None and (reason := device.contradicted(scenario.workload)):
        yield Note("contradicted", {"reason": reason})


def presets_alone(scenario: Scenario) -> Iterator[Note]:
    """How far published all-reduces are off, where nothing was measured on this cluster."""
    cluster, device = scenario.cluster, scenario.cluster.device
    reduced = [one for one in scenario.strategies if one.sends[:2] == ("gradients", "workers")]
    known = device is not None and device.preset is not None and device.efficiency is None
    own = cluster.overheads or cluster.overlap_pace or cluster.server_update
    if not (reduced and known) or own or cluster.network.preset is None:
        return
    errors = [f"{model} {100 * error:+.0f} %" for model, error in presets.preset_errors().items()]
    yield Note("presets", {"errors": tuple(errors)})


def lockstep(scenario: Scenario) -> Iterator[Note]:
    """That workers whose compute times are all the same queue as a convoy."""
    cluster, named = scenario.cluster, names(scenario)
    law, update = cluster.compute_distribution(scenario.workload), cluster.server_update
    if law.varies or (update is not None and update.time is not None and update.time.varies):
        return
    who = tuple(
        named[one.label]
        for one in scenario.strategies
        if one.round.of == "iteration"
        and one.uses_servers
        and one.workers(scenario.cluster_of(one)) > 1
    )
    if who:
        yield Note("lockstep", {"mean": Number(law.expectation(), unit="s"), "who": who})


def heavy_tail(scenario: Scenario) -> Iterator[Note]:
    """That steps have no finite variance, so that intervals are too narrow."""
    if heavy := tails.heavy(scenario):
        index = min(tails.law_of(scenario, one).tail() for one in heavy)
        yield Note("heavy-tail", {"index": Number(index)})


def few_spells(scenario: Scenario, gradients: Mapping[str, float]) -> Iterator[Note]:
    """That runs hold too few spells for intervals; `gradients`: see `tails.in_few_spells`."""
    if short := tails.in_few_spells(scenario, gradients):
        who = min(short, key=short.__getitem__)
        yield Note("few-spells", {"who": names(scenario)[who], "count": Number(short[who])})


def drops_at_first(scenario: Scenario) -> Iterator[Note]:
    """Which strategies drop the gradients of many updates before they come into their rhythm."""
    for one in scenario.strategies:
        vain, why = one.dropped_at_first()
        if vain >= _MANY_UPDATES * one.gradients_per_update(scenario.cluster_of(one)):
            who = names(scenario)[one.label]
            yield Note("drops-at-first", {"who": who, "count": vain, "why": why})


def new_at_first(scenario: Scenario) -> Iterator[Note]:
    """How much more or less often new members fail than the mean of their law says."""
    failures = scenario.failures
    if failures is None or failures.strike != "always":
        return
    lasts = failures.horizon or scenario.stop.time
    for one in failures.of:
        law = one.between
        if lasts is None or not isinstance(law, Weibull) or lasts > _LONG_LIFE * law.mean:
            continue
        times = law.renewals(lasts) * law.mean / lasts
        if abs(times - 1) > _AS_NEW:
            about = {"times": Number(times), "lasts": Number(lasts, unit="days")}
            yield Note("new-at-first", {"domain": one.domain, **about})


def unsaid(scenario: Scenario, sent: Mapping[str, float]) -> Iterator[Note]:
    """What the scenario leaves out and would matter: overlap, spread, the optimizer.

    `sent`: the share of time in which workers of each strategy push gradients.
    """
    named = names(scenario)
    overlapping = {one.updates_copies for one in scenario.strategies if one.overlaps}
    gains = {} if True in overlapping else overlap_gains(scenario)
    best = max(gains, key=gains.__getitem__, default=None)
    if best is not None and gains[best] > 1 + _MATTERS:
        yield Note("overlap", {"who": named[best], "times": Number(gains[best])})
    late = [] if False in overlapping else [one.label for one in pushed_late(scenario)]
    late = [label for label in late if sent[label] > _MATTERS]
    if late:
        share = Number(max(sent[label] for label in late), unit="share")
        yield Note("pushed-late", {"who": tuple(named[label] for label in late), "share": share})
    for sigma, slower in list(sigma_gains(scenario).items())[-1:]:
        yield from _slower("shared-device", slower, named, sigma=f"{sigma:g}")
    time = Number(optimizer_time(scenario), unit="s")
    yield from _slower("optimizer-time", optimizer_gains(scenario), named, time=time)


def _slower(
    code: str, gains: Mapping[str, float], named: Mapping[str, str], **more: Value
) -> Iterator[Note]:
    """That throughput is lower, with whom most."""
    worst = min(gains, key=gains.__getitem__, default=None)
    if worst is not None and gains[worst] < 1 - _MUCH:
        less = Number(1 - gains[worst], unit="part")
        yield Note(code, {"who": named[worst], "share": less, **more})


def memory_of_cells(cells: "Sequence[Cell]") -> Iterator[Note]:
    """Which cells are not run as they do not fit into memory, by strategy."""
    counts = Counter(names(cell.point.scenario)[cell.label] for cell in cells)
    if counts:
        (misfit, *_) = cells[0].point.scenario.misfits(cells[0].strategy)
        sizes = {"needs": Number(misfit.needs, unit="B"), "has": Number(misfit.has, unit="B")}
        who = tuple(f"{count:,} of {name}" for name, count in counts.items())
        yield Note("memory-cells", {"who": who, **sizes, "where": misfit.where})


def memory_counted(scenario: Scenario) -> Iterator[Note]:
    """What is not counted of the memory that is told of, and which size a device has."""
    every = [scenario.memory_of(one) for one in scenario.strategies]
    limits, sizes = scenario.memory, scenario.memory.sizes(scenario.cluster)
    missing = ["activations"] * (limits.activations is None)
    missing += ["optimizer state"] * any(kept.optimizer is None for kept in every)
    asked = limits != MemoryLimits() or any(one.shards for one in scenario.strategies)
    if missing and asked:
        yield Note("memory-parts", {"missing": tuple(missing)})
    if sizes and any(min(sizes) < kept.total <= max(sizes) for kept in every):
        yield Note("memory-sizes", {"sizes": tuple(map(format_bytes, sorted(sizes)))})


def equal_examples(scenario: Scenario) -> Iterator[Note]:
    """That runs are compared over equal examples, if `global_steps` means that here."""
    steps, most = scenario.stop.global_steps, scenario.largest_update
    if steps is None or most is None or not scenario.stop.equal_examples:
        return
    largest = min(
        (
            one
            for one in scenario.strategies
            if one.gradients_per_update(scenario.cluster_of(one)) == most
        ),
        key=lambda one: one.round.varies,
    )
    examples = Number(steps * most * scenario.workload.batch_size)
    about = {"updates": counted(steps, "update"), "who": names(scenario)[largest.label]}
    yield Note("equal-examples", {"examples": examples, **about})


def longer(stop: Stop, rules: Collection[str], short: Sequence[Done]) -> str:
    """What makes short runs long enough: the limits that ended them, in proportion."""
    more = 1.2 * max(one.needed / one.gradients if one.gradients else math.inf for one in short)
    if math.isinf(more):
        return "; raise the limits in stop"
    typed = []
    if "time" in rules and stop.time is not None:
        typed.append(f"'stop.time={format_seconds(stop.time * more)}'")
    if {"global_steps", "examples"} & set(rules) and stop.global_steps is not None:
        typed.append(f"stop.global_steps={math.ceil(stop.global_steps * more)}")
    elif "examples" in rules and stop.examples is not None:
        typed.append(f"stop.examples={math.ceil(stop.examples * more)}")
    said = f"; for longer runs: {' '.join(f'--set {each}' for each in typed)}" if typed else ""
    few = any(one.gradients < _FEW_READS * one.period for one in short if one.period > 1)
    return (
        f"{said}, or more: the run has hardly any reads, which take time" if said and few else said
    )
