"""What a reader of a run of training must know besides its numbers: notes, worst first."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.report.products import cautions, failures
from varsim.report.told import Note, Number, Value
from varsim.report.wording import target as target_said
from varsim.scenario.targets import counted
from varsim.scenario.together import replays_in_queues
from varsim.scenario.training import Scenario
from varsim.study.measure import NANOSECONDS
from varsim.study.statistics import ratio
from varsim.study.unsaid import overlap_gains, pushed_late
from varsim.study.work import DIFFERENT, Done

if TYPE_CHECKING:
    from varsim.cluster.record.trace import Trace
    from varsim.study.result import Result

# Strategies that differ by more in gradients per update are not compared by loss at one rate.
_MUCH: Final = 1.5
# In a few steps a loss may grow so many times at a rate that is right.
_ASTRAY: Final = 10.0
# An asynchronous run is as fast in its second half as in its first, but for so much.
_SETTLED: Final = 1.1
_MATTERS: Final = 0.02  # overlap is worth a word from so much more throughput on
_ANY: Final = ("global_steps", "examples")


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
    if max(worst) <= _MUCH * min(worst):
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
        yield from cautions.memory(scenario)
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
        yield from (one for one in cautions.of_scenario(scenario) if one.code != "memory")
        gradients = {name: one.gradients for name, one in result.done.items()}
        yield from cautions.few_spells(scenario, gradients)
        yield from self._unsettled()
        yield from self._unpriced()
        yield from self._overlap()
        yield from self._pushed_late()
        yield from self._ends()
        yield from self._events()
        yield from cautions.kept(scenario)

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
            more = cautions.longer(self.scenario.stop, rules, list(short.values()))
            who = self._who(list(short))
            yield Note("short-run", {"who": who, "count": Number(fewest), "more": more})

    def _unequal_work(self) -> Iterator[Note]:
        if not self.scenario.workload.has_values and self.scenario.prices is None:
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
        yield Note("unequal-work", {**of, "set": self._equal_work(many, examples[few])})

    def _equal_work(self, many: str, fewest: float) -> str:
        """The option that makes every strategy train on as many examples."""
        scenario, stop, rounds = self.scenario, self.scenario.stop, self._rounds()
        counted_by = {run.stopped_by for run in self.result.traces} <= set(_ANY)
        alike = stop.equal_examples or scenario.largest_update is None
        if self.result.done[many].period == 1 or not counted_by or not alike:
            whole = math.ceil(fewest / rounds) * rounds
            return f"--set 'stop={{examples: {whole:.0f}}}'"
        if stop.global_steps is None:
            assert stop.examples is not None
            return f"--set stop.examples={math.ceil(stop.examples / rounds) * rounds}"
        sizes = [one.gradients_per_update(scenario.cluster_of(one)) for one in scenario.strategies]
        update = max(sizes) * scenario.workload.batch_size
        each = math.lcm(rounds, update) // update
        return f"--set stop.global_steps={math.ceil(stop.global_steps / each) * each}"

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
        if any(True for _ in cautions.lockstep(scenario)) or scenario.events:
            return
        if scenario.failures is not None and not failures.followed(self.scenario):
            return
        if any(one.after or one.until for one in scenario.cluster.slow_workers):
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

    def _unpriced(self) -> Iterator[Note]:
        """The machines that cost nothing here, as they have no price."""
        prices = self.scenario.prices
        if prices is None:
            return
        every = [counted(one, self.scenario.cluster_of(one)) for one in self.scenario.strategies]
        kinds = {"workers": "device_hour", "parameter servers": "server_hour"}
        for place, (what, key) in enumerate(kinds.items()):
            if any(one[place] for one in every) and not getattr(prices, key):
                yield Note("no-price", {"what": what, "key": key})

    def _overlap(self) -> Iterator[Note]:
        """Whose gradients wait for the end of the backward pass, and what overlap would gain."""
        if any(one.overlaps and one.updates_copies for one in self.scenario.strategies):
            return
        sent = [self.result.estimate(name, "share_write").mean for name in self.result.compared]
        if not any(share > _MATTERS for share in sent):
            return
        gains = {
            label: gain
            for label, gain in overlap_gains(self.scenario).items()
            if gain > 1 + _MATTERS and label in self.result.compared
        }
        if gains:
            best = max(gains, key=gains.__getitem__)
            yield Note("overlap", {"who": self.named[best], "times": Number(gains[best])})

    def _pushed_late(self) -> Iterator[Note]:
        """Whose gradients are pushed to servers after the backward pass, and take time."""
        if any(one.overlaps and not one.updates_copies for one in self.scenario.strategies):
            return
        sent = {
            one.label: self.result.estimate(one.label, "share_write").mean
            for one in pushed_late(self.scenario)
        }
        late = [name for name, share in sent.items() if share > _MATTERS]
        if late:
            most = Number(max(sent.values()), unit="share")
            yield Note("pushed-late", {"who": self._who(late), "share": most})

    def _ends(self) -> Iterator[Note]:
        """That runs were ended by different rules."""
        same = {"global_steps": "examples"} if any(cautions.equal_examples(self.scenario)) else {}
        rules = Counter(same.get(run.stopped_by, run.stopped_by) for run in self.result.traces)
        if len(rules) > 1:
            reasons = tuple(f"{rule} ({count} runs)" for rule, count in sorted(rules.items()))
            yield Note("stopped", {"reasons": reasons})

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
