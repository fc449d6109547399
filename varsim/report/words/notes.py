"""What a reader of a result must know besides the numbers: remarks, one line each."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from varsim.cluster.topology.nodes import Nodes
from varsim.report.words import life, rates, unsaid, work
from varsim.report.words.answer import deadlocked
from varsim.report.words.caution import (
    MEASURED,
    as_read,
    bounds,
    few_spells,
    guessed,
    heavy_tail,
    in_vain,
    marching,
    to_the_ns,
    unsettled,
)
from varsim.report.words.memory import memory
from varsim.report.words.names import heading, mention
from varsim.report.words.phrases import capital, digits, joined, margin, time
from varsim.report.words.scenario import equal_examples
from varsim.scenario.together import replays_in_queues
from varsim.study.measure import NANOSECONDS, left_out
from varsim.study.statistics import interval

if TYPE_CHECKING:
    from varsim.strategies import Strategy
    from varsim.study.result import Result

# Strategies that differ by more in gradients per update are not compared by loss without a word.
_MUCH = 1.5
_MOST_EVENTS = 6
_EXACT_TIMES = "Times are exact: nothing random affects them."
# In a few steps a loss may grow so many times at a rate that is right.
_ASTRAY = 10.0


def notes(result: "Result") -> tuple[str, ...]:
    """Remarks that belong under the table."""
    found = [_intervals(result), *_events(result), *_standstills(result)]
    if result.target_loss is not None:
        found += _target(result, result.target_loss)
    if result.scenario.workload.has_values:
        found += _models_lost(result)
        found += _diverged(result)
        found += _gradients_per_update(result)
        found += _means_of_copies(result)
    found += life.notes(result)
    found += _between_partners(result)
    found += _cards(result)
    found += work.notes(result)
    found += work.whole_rounds(result)
    found += work.dropped_outside(result)
    found += unsaid.of_run(result)
    found += memory(result.scenario)
    found += _hidden(result)
    found += _dropped(result)
    found += _ends(result)
    found += _compute(result)
    return tuple(found)


def _means_of_copies(result: "Result") -> Iterator[str]:
    """Whose loss is that of a model that no replica holds."""
    mixed = [each.mention for each in _of_neighbours(result)]
    if mixed:
        yield f"What is measured is the mean of all copies, held by no replica: {', '.join(mixed)}."


def _between_partners(result: "Result") -> Iterator[str]:
    """Whose gradients are not as stale as there were updates."""
    for each in _of_neighbours(result):
        if each.round.of == "iteration":
            yield (
                f"Staleness in {each.mention} counts exchanges: how often others changed a "
                "worker's copy between its read and its own step, not the updates of all replicas."
            )


def _cards(result: "Result") -> Iterator[str]:
    """Whose messages leave nodes by fewer network cards than they have."""
    fewer: dict[tuple[int, int], list[str]] = {}
    served: dict[int, list[str]] = {}
    for each in result.scenario.strategies:
        network = result.scenario.cluster_of(each).network
        if not isinstance(network, Nodes) or network.nics == 1:
            continue
        links = [link.name for link in result.trace(each.label, 0).links if link.moved]
        used = network.cards_used(links)
        if used and used < network.nics:
            fewer.setdefault((used, network.nics), []).append(each.mention)
        if each.uses_servers:
            served.setdefault(network.nics, []).append(each.mention)
    for (used, cards), who in fewer.items():
        yield (
            f"At most {used} of the {cards} network cards of a node carried anything with "
            f"{joined(who)}: rings and trees leave by as many as every node has ranks for, any "
            "other message by that of its worker."
        )
    for cards, who in served.items():
        yield (
            f"Nodes have {cards} network cards, a parameter server one, with {joined(who)}: to "
            "give it more, network.server_bandwidth, or more servers."
        )


def _of_neighbours(result: "Result") -> list["Strategy"]:
    """The strategies whose workers send their copies to some of the others."""
    return [each for each in result.scenario.strategies if each.sends.to == "neighbours"]


def _compute(result: "Result") -> Iterator[str]:
    """What misleads about compute times."""
    scenario = result.scenario
    gradients = {name: one.gradients for name, one in result.done.items()}
    every = (marching, *MEASURED, heavy_tail, lambda one: few_spells(one, gradients))
    yield from filter(None, [caution(scenario) for caution in every])
    yield from in_vain(result.scenario)
    yield from unsettled(result)
    if said := guessed(result.scenario):
        yield f"{said} {bounds(result.scenario)}"


def _intervals(result: "Result") -> str:
    exact = [name for name in result.strategies if result.exact(name, "final_loss")]
    queued = replayed(result, "examples_per_s")
    but = f" {to_the_ns(queued)}" if queued else ""
    if result.replications > 1:
        said = f"{margin(result.replications)}."
        named = [mention(result.scenario, name) for name in exact]
        if sure := [name for name in named if name not in queued]:
            said += f" Exact, from one run: {joined(sure)}; nothing there is random."
        return said + but
    if len(exact) == len(result.strategies):
        asked = result.scenario.replications
        instead = f", not {asked} times" if asked > 1 else ""
        once = f"nothing in these runs is random, so each strategy was run once{instead}."
        return capital(once) + but if queued else f"Exact: {once}"
    if all(result.exact(strategy, "examples_per_s") for strategy in result.strategies):
        times = "Nothing random affects times." if queued else _EXACT_TIMES
        return f"{times} Losses are from one replication.{but}"
    return "One replication, so no intervals; --set replications=5 shows how sure this is."


def replayed(result: "Result", metric: str) -> list[str]:
    """Who plays recorded times in queues, of those in whose metric nothing is random."""
    return [
        one.mention
        for one in result.scenario.strategies
        if result.exact(one.label, metric)
        and replays_in_queues(one, result.scenario.cluster_of(one))
    ]


def _events(result: "Result") -> Iterator[str]:
    """What happened to processes from outside."""
    if events := result.scenario.events:
        said = [str(event) for event in events[:_MOST_EVENTS]]
        more = len(events) - len(said)
        yield f"Events: {'; '.join(said)}" + (f"; and {more} more." if more else ".")


def _standstills(result: "Result") -> Iterator[str]:
    """What deadlocked, why, and what its numbers are about."""
    for strategy, runs in result.standstills.items():
        first = runs[0].standstill
        assert first is not None
        causes = [line.strip() for line in first.report.splitlines()[1:]]
        lasts = (
            "its wait until the end of the run is counted"
            if result.scenario.stop.time is not None
            else "its numbers cover the time before that"
        )
        which = f"In replication {runs[0].replication}: " if result.replications > 1 else ""
        who = capital(mention(result.scenario, strategy))
        yield f"{who} {deadlocked(result, strategy)}; {lasts}. {which}{'; '.join(causes)}."


def _target(result: "Result", target: float) -> Iterator[str]:
    """What a time to the target loss is, and who reached it in some replications only."""
    yield (
        f"Time to loss {target:g}: the time of the first update whose loss is at or below it; "
        "every update was checked, at no cost in simulated time."
    )
    for each in result.scenario.strategies:
        if each.round.of == "outer step":
            yield _read(result, each, target)
    for strategy in result.strategies:
        reached = result.estimate(strategy, "time_to_target").replications
        if 0 < reached < result.replications:
            who = heading(result.scenario, strategy)
            yield (
                f"{who}: loss {target:g} was reached in {reached} of "
                f"{result.replications} replications; a mean of those alone would mislead."
            )


def _read(result: "Result", described: "Strategy", target: float) -> str:
    """What the loss is of copies that differ, and when somebody read one as low as the target."""
    said, strategy = as_read(described), described.label
    firsts = []
    for number in range(result.replications):
        run = result.trace(strategy, number)
        # The end of a run is measured as well, and that is no read.
        read = (row for row in run.evaluations if not row.off_grid and row.time < run.end)
        firsts.append(next((row.time for row in read if row.loss <= target), math.nan))
    found = interval([first / NANOSECONDS for first in firsts])
    if found.replications == result.replications:
        return f"{said}; a model this good was first read after {time(found)}."
    if result.estimate(strategy, "time_to_target").replications == 0:
        return f"{said}."
    return (
        f"{said}; a model this good was read in {found.replications} of {result.replications} "
        "replications before the run ended."
    )


def _models_lost(result: "Result") -> Iterator[str]:
    """Of whom there was nothing to measure in the end."""
    whose, count = [], result.replications
    for strategy in result.strategies:
        lost = [run for run in result.traces if run.strategy == strategy and run.model_lost]
        which = f" (in {len(lost)} of {count} replications)" if len(lost) < count else ""
        whose += [mention(result.scenario, strategy) + which] * bool(lost)
    if whose:
        yield (
            f"At the end nobody has the model of {joined(whose)}: the copies from which it would "
            "be read died with their workers, so that there is no final loss or accuracy."
        )


def _diverged(result: "Result") -> Iterator[str]:
    """Whose loss grew, or is no number any more."""
    count, short = result.replications, result.short
    for strategy in result.strategies:
        runs = [result.trace(strategy, number).evaluations for number in range(count)]
        losses = [(run[0].loss, run[-1].loss) for run in runs if run]
        who, rate = heading(result.scenario, strategy), rates.rate(result.scenario, strategy)
        wild = count - sum(math.isfinite(last) for _, last in losses)
        if wild:
            yield (
                f"{who}: the loss is not finite at the end of {wild} of {count} replications, "
                f"at {rate}; try a smaller one."
            )
        most = _ASTRAY if strategy in short else 1.0
        grown = [pair for pair in losses if most * pair[0] < pair[1] < math.inf]
        if grown:
            first, last = max(grown, key=lambda pair: pair[1])
            yield (
                f"{who}: the loss grew in {len(grown)} of {count} replications, from {first:.3g} "
                f"to {last:.3g} in the worst, at {rate}; try a smaller one."
            )


def _gradients_per_update(result: "Result") -> Iterator[str]:
    """That a step per gradient and a step per mean go different ways at one learning rate."""
    size = {}
    for strategy in result.strategies:
        applied = sum(result.values(strategy, "gradients_per_s"))
        updates = sum(result.values(strategy, "updates_per_s"))
        if applied > 0 and updates > 0:
            size[strategy] = applied / updates
    if not size:
        return
    few, many = min(size, key=size.__getitem__), max(size, key=size.__getitem__)
    alike = rates.shared(result, *result.strategies)  # else somebody has chosen rates
    if size[many] > _MUCH * size[few] and rates.shared(result, few, many):
        less, more = (mention(result.scenario, name) for name in (few, many))
        yield (
            f"An update holds {size[few]:.3g} gradient{'s' * (size[few] != 1)} in {less} and "
            f"{size[many]:.3g} in {more}, at the same {rates.rate(result.scenario, few)}: from as "
            f"many examples {less} takes more steps, which explains part of the difference in loss."
            + (" To compare each at its best rate: varsim tune FILE." if alike else "")
        )


def _hidden(result: "Result") -> Iterator[str]:
    """How much of communication did not hold up the workers of strategies that overlap it."""
    said: dict[str, list[str]] = {}
    for strategy in result.scenario.strategies:
        runs = [run for run in result.traces if run.strategy == strategy.label]
        sending = sum(run.sending for run in runs)
        hidden = sum(run.hidden for run in runs)
        # Outer gradients are hidden only behind a delay.
        if sending and (hidden or strategy.overlaps):
            share = 100 * hidden / sending
            mixed = "copies" if strategy.sends.to == "neighbours" else strategy.sends.what
            said.setdefault("both" if strategy.by_layers else mixed, []).append(
                f"{digits(share)} % in {strategy.mention}"
            )
    behind = {
        "gradients": "gradients were in transit, hidden behind the backward pass",
        "both": "gradients and parameters were in transit, hidden behind computation",
        "parameters": "outer gradients were in transit, hidden behind inner steps",
        "copies": "copies were in transit, hidden behind computation",
    }
    for what, shares in said.items():
        yield f"Share of the time {behind[what]}: {', '.join(shares)}."


def _dropped(result: "Result") -> Iterator[str]:
    """How many micro-batches went into no update, and what computing was in vain."""
    scenario, said = result.scenario, []
    for strategy in scenario.strategies:
        if strategy.round.varies:
            most = strategy.gradients_per_update(scenario.cluster_of(strategy))
            pairs = zip(result.traces, result.gradients, strict=True)
            shares = [left_out(*one, most) for one in pairs if one[0].strategy == strategy.label]
            mean = 100 * math.fsum(shares) / len(shares)
            said.append(f"{digits(mean)} % in {strategy.mention}")
    if said:
        yield (
            f"Micro-batches dropped at the threshold: {', '.join(said)}. Throughput counts the "
            "rest; wasted compute counts those that were cut short, not those never begun."
        )


def _ends(result: "Result") -> Iterator[str]:
    """That runs were ended by different rules."""
    # Where equal examples are compared, so many updates of one are so many examples of all.
    same = {"global_steps": "examples"} if equal_examples(result.scenario) else {}
    rules = {
        strategy: Counter(
            same.get(run.stopped_by, run.stopped_by)
            for run in result.traces
            if run.strategy == strategy
        )
        for strategy in result.strategies
    }
    if len(set().union(*rules.values())) > 1:
        each = "; ".join(
            f"{heading(result.scenario, strategy)}: "
            + ", ".join(f"{rule} ({n})" for rule, n in sorted(counts.items()))
            for strategy, counts in rules.items()
        )
        yield f"The runs did not all stop for the same reason: {each}."
