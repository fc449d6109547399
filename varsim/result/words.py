"""The answer of a result, in sentences to read out."""

import math
from typing import TYPE_CHECKING

from varsim.result import cost, targets
from varsim.result.formatting import digits, largest, plus_minus, time
from varsim.result.measure import METRICS, NANOSECONDS
from varsim.result.statistics import CLOSE, EQUAL, SAME, Estimate, difference, ratio, verdict

if TYPE_CHECKING:
    from varsim.result.result import Result


def answer(result: "Result") -> str:
    """Which strategy is fastest, by how much, at what price; plain sentences, one per line.

    One that came to stand still is not compared with the others.
    """
    stuck = [f"'{name}' {stands_still(result, name)}" for name in result.standstills]
    wanted = targets.sentences(result)
    if not result.compared:
        return "\n".join([*(f"{sentence}." for sentence in stuck), *wanted])
    stuck = [f"{sentence}; it is left out of the comparison." for sentence in stuck]
    return "\n".join([*stuck, _comparison(result), *wanted])


def stands_still(result: "Result", strategy: str) -> str:
    """Since when a strategy does, and how often it did."""
    runs = result.standstills[strategy]
    times = [run.standstill.time / NANOSECONDS for run in runs if run.standstill is not None]
    early, late = time(min(times)), time(max(times))
    when = f"at {early}" if early == late else f"between {early} and {late}"
    often = f"all {len(runs)}" if len(runs) == result.replications else f"{len(runs)} of "
    if len(runs) < result.replications:
        often += str(result.replications)
    said = f", in {often} replications" if result.replications > 1 else ""
    return f"came to stand still {when}{said}"


def deadlock(result: "Result") -> str:
    """The reports of all strategies that came to stand still, each of the first such run."""
    said = []
    for strategy, runs in result.standstills.items():
        first = runs[0]
        assert first.standstill is not None
        said.append(first.standstill.report)
        if result.replications > 1:
            others = f"{len(runs)} of {result.replications} replications stand still"
            said.append(f"  (replication {first.replication}; in '{strategy}' {others})")
    return "\n".join(said)


def _comparison(result: "Result") -> str:
    ranking = [
        strategy
        for strategy in _ranked(result, "examples_per_s", highest=True)
        if min(result.values(strategy, "examples_per_s")) > 0
    ]
    if not ranking:
        return f"No strategy applied a gradient in {_how_many(result, 'gradients_per_s')}."
    sentences = [_fastest(result, ranking), _price(result, ranking[0]), _apart(result)]
    if len(result.compared) > 1:
        sentences.append(_lowest(result, "final_loss", "at the end of its run"))
        ends = [trace.end for trace in result.traces if trace.strategy in result.compared]
        if min(ends) != max(ends):
            when = f"measured last in the {time(min(ends) / NANOSECONDS)} that every run lasted"
            sentences.append(_lowest(result, "loss_at_100", when))
    if result.target_loss is not None:
        sentences.append(soonest(result, result.target_loss))
    sentences.append(cost.sentence(result))
    return "\n".join(sentence for sentence in sentences if sentence)


def _ranked(result: "Result", metric: str, highest: bool = False) -> list[str]:
    """The strategies that have the metric in every replication, best first."""
    sizes = {}
    for strategy in result.compared:
        values = result.values(strategy, metric)
        if all(map(math.isfinite, values)):
            # Ratios are compared by their geometric mean, so the order must be by that, too.
            logs = [math.log(value) for value in values if value > 0]
            sizes[strategy] = math.fsum(logs) if len(logs) == len(values) else -math.inf
    return sorted(sizes, key=lambda strategy: sizes[strategy], reverse=highest)


def _fastest(result: "Result", ranking: list[str]) -> str:
    best = ranking[0]
    alone = result.estimate(best, "speedup")
    is_yardstick = result.scenario.strategies[result.strategies.index(best)].kind == "single"
    worth = f", {_times(alone)} what one worker does alone"
    if is_yardstick or math.isnan(alone.mean):
        worth = ""
    if len(ranking) == 1:
        return f"'{best}' does {_rate(result, best)}{worth}."
    runner = ranking[1]
    lead = _paired(result, best, runner)
    said = verdict(lead, "faster", "slower", result.scenario.report.equal_within)
    sure = ", in one replication" if math.isnan(lead.low) else ""
    if said == SAME:
        equal = [name for name in ranking if _as_fast(result, best, name)]
        text = f"{_and(equal)} are equally fast{sure}: {_rate(result, best)}{worth}."
    elif said in (CLOSE, EQUAL):
        which = "Which is the fastest is" if said == CLOSE else "The two fastest are"
        text = (
            f"{which} {said}: '{best}' does {_rate(result, best)}, '{runner}' "
            f"{_rate(result, runner)}; that is {_times(lead)} as much."
        )
    else:
        text = (
            f"The fastest is '{best}'{sure}: {_rate(result, best)}{worth}; that is {_times(lead)} "
            f"what '{runner}' does, the next fastest."
        )
    if result.first in ranking[2:]:
        text += (
            f" '{best}' does {_times(_paired(result, best, result.first))} what "
            f"'{result.first}' does, the first strategy."
        )
    return text


def _rate(result: "Result", strategy: str) -> str:
    return plus_minus(result.estimate(strategy, "examples_per_s"), unit="examples/s")


def _paired(result: "Result", best: str, other: str) -> Estimate:
    return ratio(result.values(best, "examples_per_s"), result.values(other, "examples_per_s"))


def _as_fast(result: "Result", best: str, other: str) -> bool:
    within = result.scenario.report.equal_within
    return verdict(_paired(result, best, other), "faster", "slower", within) == SAME


def _times(found: Estimate) -> str:
    low, high = digits(found.low), digits(found.high)
    sure = "" if math.isnan(found.low) or low == high else f" (95 % interval {low} to {high})"
    return f"{digits(found.mean)} times{sure}"


def _price(result: "Result", best: str) -> str:
    of = {metric: result.estimate(best, metric) for metric in METRICS}
    worst = largest(result, best, "staleness_max")
    clauses = [
        "no gradient it applied was stale"
        if worst == 0
        else f"a gradient it applied was {plus_minus(of['staleness_mean'])} updates old on "
        f"average, {worst:,.0f} at most"
    ]
    if of["copy_staleness_max"].mean > 0:
        missed = plus_minus(of["copy_staleness_mean"])
        clauses.append(f"a copy, when read, had missed {missed} updates of other replicas")
    wasted = _part(of["wasted_compute"].mean)
    clauses.append(f"{wasted} of its compute time was wasted on gradients never applied")
    if result.scenario.workload.has_values:
        final = of["final_loss"]
        loss = plus_minus(final) if final.replications else "no finite value"
        clauses.append(f"its loss ended at {loss}")
    return f"In '{best}' {'; '.join(clauses)}."


def _apart(result: "Result") -> str:
    """How far the copies of those strategies drifted that have copies of their own."""
    most = {name: largest(result, name, "divergence_max") for name in result.strategies}
    drifted = [f"{digits(gap)} in '{name}'" for name, gap in most.items() if gap > 0]
    if not drifted:
        return ""
    return f"When measured, two copies were at most this far apart: {', '.join(drifted)}."


def _how_many(result: "Result", metric: str) -> str:
    """What to say where no strategy has the metric in every replication."""
    values = [value for name in result.strategies for value in result.values(name, metric)]
    return "every replication" if any(value > 0 for value in values) else "any replication"


def _part(share: float) -> str:
    if share >= 0.0005:
        return f"{100 * share:.1f} %"
    return "next to none" if share > 0 else "none"


def _lowest(result: "Result", metric: str, when: str) -> str:
    means = {name: result.estimate(name, metric).mean for name in result.compared}
    ranking = sorted((name for name in means if math.isfinite(means[name])), key=means.__getitem__)
    if len(ranking) < 2:
        return ""
    best, runner = ranking[:2]
    gap = difference(result.values(best, metric), result.values(runner, metric))
    low, next_low = (plus_minus(result.estimate(name, metric)) for name in (best, runner))
    if gap.mean == 0 and not gap.low < gap.high:  # nor where one replication has no interval
        least = result.values(best, metric)
        equal = [name for name in ranking if result.values(name, metric) == least]
        return f"The lowest loss {when}, {low}, is that of {_and(equal)}."
    if gap.low <= 0 <= gap.high:
        return (
            f"Which has the lowest loss {when} is {CLOSE}: '{best}' has {low}, '{runner}' "
            f"{next_low}."
        )
    return f"The lowest loss {when} is that of '{best}': {low}; next is '{runner}': {next_low}."


def soonest(result: "Result", target: float) -> str:
    """Which strategy reaches a loss first, and when."""
    ranking = _ranked(result, "time_to_target")
    if not ranking:
        return f"No strategy reached loss {target:g} in {_how_many(result, 'time_to_target')}."
    after = {name: time(result.estimate(name, "time_to_target")) for name in ranking}
    best = ranking[0]
    text = f"Loss {target:g} was reached after {after[best]} by '{best}'"
    if len(ranking) == 1:
        alone = len(result.compared) == 1
        return text + ("." if alone else ", and by no other in every replication.")
    runner = ranking[1]
    said = verdict(
        ratio(result.values(best, "time_to_target"), result.values(runner, "time_to_target")),
        "later",
        "sooner",
        result.scenario.report.equal_within,
    )
    if said in (CLOSE, EQUAL, SAME):
        return f"{text} and after {after[runner]} by '{runner}': {said}."
    return f"{text}, the soonest; next is '{runner}' after {after[runner]}."


def _and(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"
