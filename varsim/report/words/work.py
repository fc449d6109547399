"""How much work the runs of a result did: whether it is comparable, and enough to say anything."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from varsim.cluster.stop import Stop
from varsim.cluster.trace import IN_VAIN
from varsim.report.words.names import mention
from varsim.report.words.phrases import digits, joined, plus_minus
from varsim.report.words.scenario import equal_examples
from varsim.study.measure import NANOSECONDS
from varsim.study.statistics import interval
from varsim.study.work import DIFFERENT, PERIODS, Done
from varsim.units import format_seconds

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.study.result import Result

# A run that took so much of the time it may take was ended by that.
_ALL: Final = 1 - 1e-9
_COUNTED: Final = ("global_steps", "examples")
_FEW_TELL_LITTLE: Final = "Rates from so few may be tens of percent off those of a long run"
# With fewer of them, what they take is not known.
_FEW_READS: Final = 2


def short_rows(rows: Mapping[str, Done], what: str, stop: Stop | None) -> list[str]:
    """That some of many rows, by where they lie, are short; with `stop`, what makes them longer."""
    short = {where: one for where, one in rows.items() if one.gradients < one.needed}
    if not short:
        return []
    fewest = min(short, key=lambda where: short[where].gradients)
    text = (
        f"Short runs: in {len(short):,} of {len(rows):,} {what} a worker computed few gradients, "
        f"{done_told(short[fewest])} on average in the shortest, {fewest}. "
        f"{_FEW_TELL_LITTLE}"
    )
    if stop is not None:
        timed = {stop.time is not None and one.time >= stop.time * _ALL for one in short.values()}
        rules = {rule for by_time in timed for rule in (["time"] if by_time else _COUNTED)}
        text += longer(stop, rules, list(short.values()))
    if dropped := sum(one.too_short for one in short.values()):
        are = "is" if dropped == 1 else "are"
        text += f". {dropped:,} of them, too short even for that, {are} left out of the answer"
    return [f"{text}."]


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
    return f"{said}, or more: reads take time, and there were hardly any" if said and few else said


def notes(result: "Result") -> list[str]:
    """What there is to say of it."""
    found = [*_warm_up(result)]
    found += [f"{line[0].upper()}{line[1:]}." for line in equal_examples(result.scenario)]
    done = {name: one for name, one in result.done.items() if name in result.compared}
    examples = {name: one.examples for name, one in done.items() if one.examples > 0}
    if examples and max(examples.values()) > DIFFERENT * min(examples.values()):
        found.append(_different(result, examples))
    if short := result.short:
        found.append(
            f"Short runs, {_told(result, short)}. {_FEW_TELL_LITTLE}{_more(result, short)}."
        )
    return found


def _different(result: "Result", examples: dict[str, float]) -> str:
    """That strategies applied different numbers of examples, and what makes them equal."""
    few, many = min(examples, key=examples.__getitem__), max(examples, key=examples.__getitem__)
    scenario, stop = result.scenario, result.scenario.stop
    text = (
        f"{mention(scenario, few)} applied {examples[few]:,.0f} examples, "
        f"{mention(scenario, many)} {examples[many]:,.0f}"
    )
    period = result.done[many].period
    counted = {run.stopped_by for run in result.traces} <= set(_COUNTED)
    if period == 1 or not counted or not (stop.equal_examples or scenario.largest_update is None):
        whole = math.ceil(examples[few] / _rounds(scenario)) * _rounds(scenario)
        return (
            f"The runs did different amounts of work: {text}. Their final losses and costs are not "
            f"for equal work; to compare those: --set 'stop={{examples: {whole:.0f}}}'."
        )
    if stop.global_steps is None:
        assert stop.examples is not None
        wanted = f"stop.examples={math.ceil(stop.examples / _rounds(scenario)) * _rounds(scenario)}"
    else:
        sizes = [one.gradients_per_update(scenario.cluster_of(one)) for one in scenario.strategies]
        update = max(sizes) * scenario.workload.batch_size
        each = math.lcm(_rounds(scenario), update) // update
        wanted = f"stop.global_steps={math.ceil(stop.global_steps / each) * each}"
    return (
        f"The runs did different amounts of work all the same: {text}. Replicas of "
        f"{mention(scenario, many)} meet only after every {period} steps; to stop where the work "
        f"is equal: --set {wanted}."
    )


def _rounds(scenario: "Scenario") -> int:
    """So many examples are whole rounds of every strategy whose replicas meet now and then."""
    gradients = [
        one.round.steps * one.gradients_per_update(scenario.cluster_of(one))
        for one in scenario.strategies
        if one.round.steps > 1
    ]
    return math.lcm(*gradients) * scenario.workload.batch_size


def too_short(result: "Result") -> str:
    """What to say in place of a winner where runs are too short for one; else empty."""
    short = {name: one for name, one in result.short.items() if one.too_short}
    if len(result.compared) == 1:
        return _never_read(result, short)
    if not short:
        return ""
    return f"Too short to say which is fastest, {_told(result, short)}{_more(result, short)}."


def _never_read(result: "Result", short: Mapping[str, Done]) -> str:
    """What to say in place of a rate where replicas that go on alone never met for a read."""
    for name, one in short.items():
        if one.period > 1 and one.gradients < one.period:
            return (
                f"Too short to say how fast {mention(result.scenario, name)} is: replicas meet "
                f"after every {one.period:,} steps, and none had made so many when the runs ended "
                f"({digits(one.gradients)} on average). Its rates count work that no read has "
                f"seen{_more(result, short)}."
            )
    return ""


def _warm_up(result: "Result") -> list[str]:
    """What is left out of rates and shares."""
    after = result.measured_after
    if not after:
        return []
    left = {
        name: min(1.0, after * result.replications / max(1, sum(ends)))
        for name in result.strategies
        if (ends := [run.end for run in result.traces if run.strategy == name])
    }
    shares = ", ".join(
        f"{digits(100 * share)} % of {mention(result.scenario, name)}"
        for name, share in left.items()
    )
    return [
        f"Rates, shares, and the staleness and age of gradients are measured from "
        f"{format_seconds(after / 1e9)} into a run, which leaves out {shares}; totals, losses, "
        "times to a loss, links, the staleness of copies and the yardstick of the speed-up count "
        "from the start."
    ]


def _told(result: "Result", short: Mapping[str, Done]) -> str:
    counts = ", ".join(
        f"{done_told(one)} in {mention(result.scenario, name)}" for name, one in short.items()
    )
    return f"with few gradients per worker: {counts}"


def _more(result: "Result", short: Mapping[str, Done]) -> str:
    """What makes runs long enough."""
    rules = {run.stopped_by for run in result.traces}
    return longer(result.scenario.stop, rules, list(short.values()))


def whole_rounds(result: "Result") -> Iterator[str]:
    """Where rates are measured, if that makes a difference to a throughput."""
    if result.scenario.report.measure_after is not None:
        return
    different, whole = False, []
    for name in result.compared:
        runs = [
            (float(rows.weight.sum()) * run.batch_size * NANOSECONDS / run.end, window.start)
            for run, rows, window in zip(
                result.traces, result.gradients, result.windows, strict=True
            )
            if run.strategy == name and run.end > 0
        ]
        if not all(start for _, start in runs):
            whole.append(mention(result.scenario, name))
        before = interval([speed for speed, _ in runs]).mean
        change = abs(result.estimate(name, "examples_per_s").mean - before)
        different |= change > result.scenario.report.equal_within * before
    if different:
        but = f"; where that is impossible, as in {joined(whole)}, over all of it" if whole else ""
        yield (
            "Rates, shares, and the staleness and age of gradients are measured over whole rounds "
            "of all workers, from the end of the second to that of the last"
            f"{but} (report.measure_after: 0 s measures whole runs)."
        )


def dropped_outside(result: "Result") -> Iterator[str]:
    """Whose gradients were dropped only where nothing is measured, so that nothing is wasted."""
    said: dict[str, list[str]] = {}
    for name in result.compared:
        dropped = result.estimate(name, "gradients_dropped")
        if dropped.mean > 0 and result.estimate(name, "wasted_compute").mean == 0:
            where = "start of a run" if _before(result, name) else "start and the end of a run"
            many = f"{plus_minus(dropped)} gradient{'s' * (dropped.mean != 1)}"
            said.setdefault(where, []).append(f"{mention(result.scenario, name)} dropped {many}")
    for where, whose in said.items():
        yield f"Wasted compute, like all shares, leaves out the {where}: there {joined(whose)}."


def _before(result: "Result", strategy: str) -> bool:
    """Whether what is dropped in a strategy was computed before anything is measured."""
    runs = zip(result.traces, result.gradients, result.windows, strict=True)
    return all(
        bool((rows.compute_start[np.isin(rows.fates, IN_VAIN)] < window.start).all())
        for run, rows, window in runs
        if run.strategy == strategy
    )


def done_told(done: Done) -> str:
    """The gradients per worker, and how many there should be where replicas go on alone."""
    many = f" ({PERIODS} periods between reads take {done.least})" if done.period > 1 else ""
    return f"{done.gradients:,.3g}" + (many if done.gradients < done.least else "")
