"""What misleads about a scenario, whatever is made of it: notes of all products."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from varsim.report.told import Note, Number
from varsim.report.wording import names
from varsim.scenario.fitting import MemoryLimits, Misfit
from varsim.scenario.training import Scenario
from varsim.study import tails
from varsim.values import presets
from varsim.values.distribution import Weibull

# Gradients of so many updates that are in vain at first are told of.
_MANY_UPDATES: Final = 10
_AS_NEW: Final = 0.05  # by which more or fewer failures are told
_LONG_LIFE: Final = 200.0  # times the mean; over a longer time that is not worked out


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
