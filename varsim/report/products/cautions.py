"""What misleads about a scenario, whatever is made of it; and what one must know of a run."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from varsim.core import presets
from varsim.core.distribution import Weibull
from varsim.core.units import counted, format_bytes, format_seconds
from varsim.report.products import failures
from varsim.report.told import Note, Number, Value
from varsim.report.wording import names, ranks
from varsim.report.wording import target as target_said
from varsim.scenario.fitting import MemoryLimits, Misfit
from varsim.scenario.targets import counted as machines_of
from varsim.scenario.training import AnyScenario, Scenario
from varsim.scenario.use import replays_in_queues
from varsim.study import verdict
from varsim.study.beginning import (
    optimizer_gains,
    optimizer_time,
    overlap_gains,
    pushed_late,
    sigma_gains,
)
from varsim.study.gradients import NANOSECONDS
from varsim.study.verdict import DIFFERENT, Done, ratio

if TYPE_CHECKING:
    from varsim.cluster.record.trace import Trace
    from varsim.study.candidate import Candidate
    from varsim.study.result import Result


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
    scenarios: Sequence[AnyScenario], *more: Callable[[Scenario], Iterator[Note]]
) -> Iterator[Note]:
    """What misleads at some of many points, once each."""
    found = dict[str, Note]()
    for scenario in [one for one in scenarios if isinstance(one, Scenario)]:
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
        and one.traits.uses_servers
        and one.workers(scenario.cluster_of(one)) > 1
    )
    if who:
        yield Note("lockstep", {"who": who})


def heavy_tail(scenario: Scenario) -> Iterator[Note]:
    """That steps have no finite variance, so that intervals are too narrow."""
    if heavy := verdict.heavy(scenario):
        index = min(verdict.law_of(scenario, one).tail() for one in heavy)
        yield Note("heavy-tail", {"index": Number(index)})


def few_spells(scenario: AnyScenario, gradients: Mapping[str, float]) -> Iterator[Note]:
    """That runs hold too few spells for intervals; `gradients`: see `verdict.in_few_spells`."""
    if not isinstance(scenario, Scenario):
        return
    if short := verdict.in_few_spells(scenario, gradients):
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
    """How much more or less often new members fail than the mean of their distribution says."""
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


def after_backward(
    scenario: Scenario, sent: Mapping[str, float], gains: Callable[[], Mapping[str, float]]
) -> Iterator[Note]:
    """Whose gradients are sent after the backward pass, which takes time, where none overlaps.

    `sent`: the share of time in which workers of each strategy send them; `gains`: how many times
    as fast each would be with overlap. Both by the labels of those that are looked at.
    """
    named = names(scenario)
    overlapping = {one.traits.updates_copies for one in scenario.strategies if one.traits.overlaps}
    if True not in overlapping:
        known = {label: gain for label, gain in gains().items() if label in sent}
        best = max(known, key=known.__getitem__, default="")
        if best and known[best] > 1 + _MATTERS:
            yield Note("overlap", {"who": named[best], "times": Number(known[best])})
    pushed = [] if False in overlapping else [one.label for one in pushed_late(scenario)]
    late = {label: sent[label] for label in pushed if sent.get(label, 0.0) > _MATTERS}
    if late:
        share = Number(max(late.values()), unit="part")
        yield Note("pushed-late", {"who": tuple(map(named.__getitem__, late)), "share": share})


def unsaid(scenario: Scenario) -> Iterator[Note]:
    """What the scenario leaves out and would matter: spread, the optimizer."""
    named = names(scenario)
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


def too_large(some: "Sequence[Candidate]") -> Iterator[Note]:
    """Which configurations are not run as they do not fit into memory, by strategy."""
    counts = Counter(names(one.point.scenario)[one.label] for one in some)
    if counts:
        (misfit, *_) = some[0].scenario.misfits(some[0].strategy)
        sizes = {"needs": Number(misfit.needs, unit="B"), "has": Number(misfit.has, unit="B")}
        who = tuple(f"{count:,} of {name}" for name, count in counts.items())
        yield Note("memory-left-out", {"who": who, **sizes, "where": misfit.where})


def memory_counted(scenario: Scenario) -> Iterator[Note]:
    """What is not counted of the memory that is told of, and which size a device has."""
    every = [scenario.memory_of(one) for one in scenario.strategies]
    limits, sizes = scenario.memory, scenario.memory.sizes(scenario.cluster)
    missing = ["activations"] * (limits.activations is None)
    missing += ["optimizer state"] * any(kept.optimizer is None for kept in every)
    asked = limits != MemoryLimits() or any(one.traits.shards for one in scenario.strategies)
    if missing and asked:
        yield Note("memory-parts", {"missing": tuple(missing)})
    if sizes and any(min(sizes) < kept.total <= max(sizes) for kept in every):
        yield Note("memory-sizes", {"sizes": tuple(map(format_bytes, sorted(sizes)))})


def unpriced(scenarios: Sequence[AnyScenario]) -> Iterator[Note]:
    """The machines that cost nothing in any of them, as they have no price."""
    prices = scenarios[0].prices
    if prices is None:
        return
    trained = [one for one in scenarios if isinstance(one, Scenario)]
    every = [machines_of(s, one.cluster_of(s)) for one in trained for s in one.strategies]
    kinds = {"workers": "device_hour", "parameter servers": "server_hour"}
    for place, (what, key) in enumerate(kinds.items()):
        if any(one[place] for one in every) and not getattr(prices, key):
            yield Note("no-price", {"what": what, "key": key})


def equal_examples(scenario: Scenario) -> Iterator[Note]:
    """That runs are compared over equal examples, if `global_steps` means that and ends them."""
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
    count = steps * most * scenario.workload.batch_size
    if scenario.stop.examples is not None and scenario.stop.examples < count:
        return
    examples = Number(count)
    about = {"updates": counted(steps, "update"), "who": names(scenario)[largest.label]}
    yield Note("equal-examples", {"examples": examples, **about})


def longer(scenario: Scenario, rules: Collection[str], short: Sequence[Done]) -> str:
    """What makes short runs long enough: the limits that ended them or would next, in proportion.

    `rules`: those that ended the runs.
    """
    more = 1.2 * max(one.needed / one.gradients if one.gradients else math.inf for one in short)
    if math.isinf(more):
        return "; raise the limits in stop"
    stop, typed = scenario.stop, []
    lasted = max(one.time for one in short)
    if stop.time is not None and ("time" in rules or lasted * more > stop.time):
        typed.append(f"'stop.time={format_seconds(min(stop.time, lasted) * more)}'")
    if {"global_steps", "examples"} & set(rules):
        typed += _more_work(scenario, more)
    said = f"; for longer runs: {' '.join(f'--set {each}' for each in typed)}" if typed else ""
    few = any(one.gradients < _FEW_READS * one.period for one in short if one.period > 1)
    return (
        f"{said}, or more: the run has hardly any reads, which take time" if said and few else said
    )


def _more_work(scenario: Scenario, more: float) -> Iterator[str]:
    """What is typed for runs with `more` times the examples: the limits that would end them."""
    stop = scenario.stop
    most = max(one.gradients_per_update(scenario.cluster_of(one)) for one in scenario.strategies)
    each = {"global_steps": most * scenario.workload.batch_size, "examples": 1}
    limits = {key: getattr(stop, key) for key in each if getattr(stop, key) is not None}
    least = min((limit * each[key] for key, limit in limits.items()), default=0)
    for key, limit in limits.items():
        share = least / (limit * each[key])
        if share * more > 1:
            yield f"stop.{key}={math.ceil(limit * share * more)}"


# Strategies that differ by more in gradients per update are not compared by loss at one rate.
_VERY_UNEQUAL: Final = 1.5
# In a few steps a loss may grow so many times at a rate that is right.
_ASTRAY: Final = 10.0
# An asynchronous run is as fast in its second half as in its first, but for so much.
_SETTLED: Final = 1.1


def rate(scenario: Scenario, strategy: str) -> str:
    """The learning rate of a strategy, and its optimizer where that is not plain SGD."""
    rule = scenario.workload_of(scenario.strategy(strategy)).update_rule()
    return rule.told.removeprefix("learning rate ")


def shared_rate(result: "Result") -> Note | None:
    """That one learning rate is used for updates of very different sizes, if it is."""
    if not result.scenario.workload.has_values:
        return None
    sizes: dict[str, list[float]] = {}
    for name in result.compared:
        applied, updates = (
            sum(result.values(name, metric)) for metric in ("gradients_per_s", "updates_per_s")
        )
        if applied > 0 and updates > 0:
            sizes.setdefault(rate(result.scenario, name), []).append(applied / updates)
    return one_rate(sizes.values())


def one_rate(sizes: Iterable[Sequence[float]]) -> Note | None:
    """That updates of one learning rate are very different: their sizes in gradients, by rate."""
    worst = max(sizes, key=lambda one: max(one) / min(one), default=[1.0])
    if max(worst) <= _VERY_UNEQUAL * min(worst):
        return None
    low, high = (Number(round(one, 2)) for one in (min(worst), max(worst)))
    return Note("shared-rate", {"low": low, "high": high})


class Remarks:
    """The notes of a result; `named`: its strategies; `left_out`: those too short to rank."""

    def __init__(
        self, result: "Result", named: dict[str, str], left_out: Mapping[str, Done]
    ) -> None:
        self.result, self.scenario = result, result.scenario
        self.named, self.left_out = named, left_out

    def _who(self, labels: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.named[label] for label in labels)

    def notes(self) -> Iterator[Note]:
        """What a reader must know besides the numbers, the most important first."""
        result, scenario = self.result, self.scenario
        yield from self._standstills()
        yield from memory(scenario)
        if scenario.workload.has_values:
            yield from self._models_lost()
            yield from self._diverged()
            yield from filter(None, [shared_rate(self.result)])
        yield from self._short_runs()
        yield from self._unequal_work()
        yield from self._undecided()
        yield from self._some_reach()
        yield from failures.notes(result, self.named)
        yield from self._scale()
        yield from (one for one in of_scenario(scenario) if one.code != "memory")
        gradients = {name: one.gradients for name, one in result.done.items()}
        yield from few_spells(scenario, gradients)
        yield from self._unsettled()
        yield from unpriced([scenario])
        sent = {name: result.estimate(name, "share_write").mean for name in result.compared}
        matters = any(share > _MATTERS for share in sent.values())
        gains = partial(overlap_gains, scenario) if matters else dict[str, float]
        yield from after_backward(scenario, sent, gains)
        yield from self._ends()
        yield from self._slow_later()
        yield from self._events()
        yield from kept(scenario)

    def _standstills(self) -> Iterator[Note]:
        for name, runs in self.result.standstills.items():
            times = [run.standstill.time for run in runs if run.standstill is not None]
            often = ""
            if len(runs) < self.result.replications:
                often = f", in {len(runs)} of {self.result.replications} replications"
            when = Number(min(times) / NANOSECONDS, unit="s")
            yield Note("deadlock", {"who": self.named[name], "when": when, "often": often})

    def _models_lost(self) -> Iterator[Note]:
        lost = {run.strategy for run in self.result.traces if run.model_lost}
        if lost:
            who = self._who([name for name in self.result.strategies if name in lost])
            yield Note("model-lost", {"who": who})

    def _diverged(self) -> Iterator[Note]:
        count, short = self.result.replications, self.result.short
        for name in self.result.strategies:
            runs = [self.result.trace(name, number).evaluations for number in range(count)]
            losses = [(run[0].loss, run[-1].loss) for run in runs if run]
            of: dict[str, Value] = {"who": self.named[name], "rate": str(rate(self.scenario, name))}
            wild = count - sum(math.isfinite(last) for _, last in losses)
            most = _ASTRAY if name in short else 1.0
            grown = [pair for pair in losses if most * pair[0] < pair[1] < math.inf]
            if wild:
                yield Note("diverged", {**of, "count": wild, "of": count})
            elif grown:
                first, last = max(grown, key=lambda pair: pair[1])
                yield Note("grew", {**of, "first": Number(first), "last": Number(last)})

    def _short_runs(self) -> Iterator[Note]:
        short = {name: one for name, one in self.result.short.items() if name not in self.left_out}
        if short:
            fewest = min(one.gradients for one in short.values())
            rules = {run.stopped_by for run in self.result.traces}
            more = longer(self.scenario, rules, list(short.values()))
            more = "" if self.left_out else more  # the headline says how long they must be
            who = self._who(list(short))
            yield Note("short-run", {"who": who, "count": Number(fewest), "more": more})

    def _unequal_work(self) -> Iterator[Note]:
        if self.left_out or not (self.scenario.workload.has_values or self.scenario.prices):
            return
        done = self.result.done
        examples = {n: done[n].examples for n in self.result.compared if done[n].examples > 0}
        if not examples or max(examples.values()) <= DIFFERENT * min(examples.values()):
            return
        few, many = min(examples, key=examples.__getitem__), max(examples, key=examples.__getitem__)
        of: dict[str, Value] = {
            "few": self.named[few],
            "many": self.named[many],
            "times": Number(examples[many] / examples[few]),
        }
        rounds = self._rounds()
        whole = math.ceil(examples[few] / rounds) * rounds
        yield Note("unequal-work", {**of, "set": f"--set 'stop={{examples: {whole:.0f}}}'"})

    def _rounds(self) -> int:
        """So many examples are whole rounds of every strategy whose replicas meet now and then."""
        gradients = [
            one.round.steps * one.gradients_per_update(self.scenario.cluster_of(one))
            for one in self.scenario.strategies
            if one.round.steps > 1
        ]
        return math.lcm(*gradients) * self.scenario.workload.batch_size

    def _undecided(self) -> Iterator[Note]:
        for one in self.result.judgements:
            if one.doubt and one.strategy not in self.result.standstills:
                target = target_said(one.target, one.bound, self.result.target_loss)
                yield Note(
                    f"undecided-{one.doubt}", {"who": self.named[one.strategy], "target": target}
                )

    def _some_reach(self) -> Iterator[Note]:
        target, of = self.result.target_loss, self.result.replications
        if target is None:
            return
        for name in self.result.strategies:
            count = self.result.estimate(name, "time_to_target").replications
            if 0 < count < of:
                who: dict[str, Value] = {"who": self.named[name], "target": f"{target:g}"}
                yield Note("some-reach", {**who, "count": count, "of": of})

    def _scale(self) -> Iterator[Note]:
        """What the numbers are: means with intervals, exact, or one draw."""
        result = self.result
        queued = [
            one.label
            for one in self.scenario.strategies
            if result.exact(one.label, "examples_per_s")
            and replays_in_queues(one, self.scenario.cluster_of(one))
        ]
        if queued:
            yield Note("recorded-order", {"who": self._who(queued)})
        if result.replications > 1:
            yield Note("interval", {"count": result.replications})
        elif all(result.exact(name, "final_loss") for name in result.strategies):
            yield from [Note("exact")] * (not queued)
        elif all(result.exact(name, "examples_per_s") for name in result.strategies):
            yield Note("exact-times")
        else:
            yield Note("one-run")

    def _unsettled(self) -> Iterator[Note]:
        """Whose workers are still falling out of step, so that a longer run would be faster."""
        scenario = self.scenario
        if any(True for _ in lockstep(scenario)) or scenario.events:
            return
        if scenario.failures is not None and not failures.followed(self.scenario):
            return
        if any(one.after or one.until for one in scenario.cluster.stragglers):
            return
        for one in scenario.strategies:
            if one.round.of != "iteration" or one.label not in self.result.compared:
                continue
            halves = [
                _halves(self.result.trace(one.label, number))
                for number in range(self.result.replications)
            ]
            later = ratio([second for _, second in halves], [first for first, _ in halves])
            if later.mean > _SETTLED and not later.low < 1:
                yield Note(
                    "not-settled", {"who": self.named[one.label], "times": Number(later.mean)}
                )

    def _ends(self) -> Iterator[Note]:
        """That runs were ended by different rules."""
        same = {"global_steps": "examples"} if any(equal_examples(self.scenario)) else {}
        rules = Counter(same.get(run.stopped_by, run.stopped_by) for run in self.result.traces)
        if len(rules) > 1:
            reasons = tuple(f"{rule} ({count} runs)" for rule, count in sorted(rules.items()))
            yield Note("stopped", {"reasons": reasons})

    def _slow_later(self) -> Iterator[Note]:
        """Which workers would have become slow after the end of every run."""
        over = max(run.end for run in self.result.traces) / NANOSECONDS
        late = [one for one in self.scenario.cluster.stragglers if one.after >= over]
        if late:
            first = Number(min(one.after for one in late), unit="s")
            numbers = sorted({one.rank for one in late})
            who = f"Worker{'s' * (len(numbers) > 1)} {ranks(numbers)}"
            yield Note("slow-later", {"who": who, "first": first, "over": Number(over, unit="s")})

    def _events(self) -> Iterator[Note]:
        if events := self.scenario.events:
            yield Note("events", {"events": tuple(map(str, events))})


def _halves(trace: "Trace") -> tuple[float, float]:
    """Updates per second in either half of a run, by updates; nan of too few."""
    half = len(trace.steps) // 2
    if half < trace.workers:
        return math.nan, math.nan
    middle, end = trace.steps[half - 1], trace.steps[2 * half - 1]
    return half / float(middle), half / float(end - middle)
