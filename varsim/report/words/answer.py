"""The answer of a result, in sentences to read out."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from varsim.cluster.recovery import in_run
from varsim.report.words import cost, life, rates, targets
from varsim.report.words.memory import called, misfit
from varsim.report.words.names import mention
from varsim.report.words.phrases import (
    Wording,
    capital,
    digits,
    joined,
    plus_minus,
    time,
    times,
    told,
)
from varsim.report.words.table import largest
from varsim.report.words.work import too_short
from varsim.study.goodput import KEPT
from varsim.study.measure import METRICS, NANOSECONDS
from varsim.study.statistics import Estimate
from varsim.study.tables import ages_by
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE, Ranking

if TYPE_CHECKING:
    from varsim.study.result import Result


# How many times as long as the shortest run another is, for their losses at that end to be told.
_LONGER: Final = 1.05
FASTEST: Final = Wording(
    "The fastest is {name}: {value}",
    "Which strategy is fastest",
    "throughput",
    next="",
    by="; {that} is {times} as fast as {name}, the next fastest",
    headline=", {times} {name}",
    equal="are equally fast",
)


def answer(result: "Result") -> str:
    """Which strategy is fastest, by how much, at what price; plain sentences, one per line.

    One that deadlocked is not compared with the others.
    """
    stuck = [
        capital(f"{mention(result.scenario, name)} {deadlocked(result, name)}")
        for name in result.standstills
    ]
    wanted = targets.sentences(result)
    if not result.compared:
        return "\n".join([*(f"{sentence}." for sentence in stuck), *wanted])
    stuck = [f"{sentence}; it is left out of the comparison." for sentence in stuck]
    misfits = filter(None, [misfit(result.scenario)])
    lived = filter(None, [life.sentence(result)])
    return "\n".join([*stuck, *misfits, _comparison(result), *lived, *wanted])


def deadlocked(result: "Result", strategy: str) -> str:
    """When a strategy deadlocked, and how often."""
    runs = result.standstills[strategy]
    times = [run.standstill.time / NANOSECONDS for run in runs if run.standstill is not None]
    early, late = time(min(times)), time(max(times))
    when = f"at {early}" if early == late else f"between {early} and {late}"
    often = f"all {len(runs)}" if len(runs) == result.replications else f"{len(runs)} of "
    if len(runs) < result.replications:
        often += str(result.replications)
    said = f", in {often} replications" if result.replications > 1 else ""
    return f"deadlocked {when}{said}"


def _comparison(result: "Result") -> str:
    ranking = result.ranking(_speed(result), highest=True)
    if ranking is None:
        return f"No strategy applied a gradient in {_how_many(result, 'gradients_per_s')}."
    if short := too_short(result):
        return short
    sentences = [_fastest(result, ranking), _price(result, ranking.best), _apart(result)]
    if not target_reached(result):  # else that is asked, and rates may be chosen for it
        sentences.append(_lowest(result, "final_loss", "final loss"))
        ends = [trace.end for trace in result.traces if trace.strategy in result.compared]
        if max(ends) > _LONGER * min(ends):
            when = f"at {time(min(ends) / NANOSECONDS)} (the end of the shortest run)"
            sentences.append(_lowest(result, "loss_at_100", f"loss {when}"))
    if result.target_loss is not None:
        sentences.append(soonest(result, result.target_loss))
    sentences.append(rates.caveat(result))
    sentences.append(cost.sentence(result))
    return "\n".join(sentence for sentence in sentences if sentence)


def _fastest(result: "Result", ranking: Ranking[str]) -> str:
    best, name = ranking.best, partial(called, result.scenario)
    alone = result.estimate(best, "speedup")
    is_yardstick = result.scenario.strategies[result.strategies.index(best)].kind == "single"
    worth = f", {times(alone)} as fast as one worker alone"
    if is_yardstick or math.isnan(alone.mean):
        worth = ""
    if _speed(result) == KEPT:
        each = plus_minus(result.estimate(best, "examples_per_s"), unit="examples/s")
        worth = f" ({each} as long as nothing fails{worth})"
    if not ranking.rivals:
        does = f"does {_rate(result, best)}"
        if _speed(result) == KEPT:
            does = f"keeps {does.removeprefix('does ').removesuffix(' kept')}"
        return f"{capital(name(best))} {does}{worth}."
    text = told(
        ranking,
        FASTEST,
        name,
        partial(_rate, result),
        why_same=why_same(result, ranking.same),
        beside=worth,
    )
    # The next that is not as good is told of above.
    told_of = next((one for one in ranking.rivals if one.said not in (SAME, EQUAL)), None)
    told_of = ranking.rivals[0] if ranking.of(CLOSE, UNTOLD) else told_of
    first = next((one for one in ranking.rivals[1:] if one.key == result.first), None)
    if first is not None and first.said != SAME and first is not told_of:
        sure = "" if first.said == WORSE else f" ({first.said.replace(':', ',')})"
        text += (
            f". {capital(name(best))} is {times(first.lead, ranking.comparisons)} as fast as "
            f"{name(result.first)}, the first strategy{sure}"
        )
    return f"{capital(text)}."


def _rate(result: "Result", strategy: str) -> str:
    kept = " kept" * (_speed(result) == KEPT)
    return plus_minus(result.estimate(strategy, _speed(result)), unit=f"examples/s{kept}")


def _speed(result: "Result") -> str:
    """What counts as fast: examples/s, of jobs whose lives are followed those that are kept."""
    followed = result.scenario.failures is not None and not in_run(result.scenario.failures)
    return KEPT if followed else "examples_per_s"


def _price(result: "Result", best: str) -> str:
    of = {metric: result.estimate(best, metric) for metric in METRICS}
    worst = largest(result, best, "staleness_max")
    clauses = [
        "no gradient was stale when it was applied"
        if worst == 0
        else f"a gradient was {plus_minus(of['staleness_mean'])} {ages_by(result.scenario, best)} "
        f"old on average when it was applied, {worst:,.0f} at most"
    ]
    if of["copy_staleness_max"].mean > 0:
        missed = plus_minus(of["copy_staleness_mean"])
        clauses.append(f"a copy had missed {missed} updates of other replicas when it was read")
    wasted = _part(of["wasted_compute"])
    mine = (trace for trace in result.traces if trace.strategy == best)
    undone = ", or undone" if any(trace.undone for trace in mine) else ""
    start = "after the start " * (of["wasted_compute"].mean == 0 < of["gradients_dropped"].mean)
    clauses.append(
        f"{start}{wasted} compute time was wasted on gradients that were never applied{undone}"
    )
    if result.scenario.workload.has_values:
        final = of["final_loss"]
        loss = plus_minus(final) if final.replications else "a value that is not finite"
        if not any(trace.model_lost for trace in result.traces if trace.strategy == best):
            clauses.append(f"the loss ended at {loss} ({rates.rate(result.scenario, best)})")
    alone = "as long as nothing fails, " * (_speed(result) == KEPT)
    return f"With {called(result.scenario, best)}, {alone}{'; '.join(clauses)}."


def _apart(result: "Result") -> str:
    """How far the copies of those strategies drifted that have copies of their own."""
    most = {name: largest(result, name, "divergence_max") for name in result.strategies}
    drifted = [
        f"{digits(gap)} in {called(result.scenario, name)}" for name, gap in most.items() if gap > 0
    ]
    if not drifted:
        return ""
    return f"Largest measured distance between two copies: {', '.join(drifted)}."


def _how_many(result: "Result", metric: str) -> str:
    """What to say where no strategy has the metric in every replication."""
    values = [value for name in result.strategies for value in result.values(name, metric)]
    return "every replication" if any(value > 0 for value in values) else "any replication"


def _part(share: Estimate) -> str:
    if share.mean >= 0.0005:
        return f"{plus_minus(share, 100, '%')} of the"
    return "almost no" if share.mean > 0 else "no"


def target_reached(result: "Result") -> bool:
    """Whether some strategy reached the target loss in every replication."""
    return result.target_loss is not None and result.ranking("time_to_target") is not None


def _lowest(result: "Result", metric: str, loss: str) -> str:
    ranking = result.ranking(metric)
    until = result.common_end if metric == "loss_at_100" else math.inf
    if ranking is None or not ranking.rivals or not learnt(result, until):
        return ""
    loss += rates.these(result)
    wording = Wording(
        f"The lowest {loss} is that of {{name}}: {{value}}",
        f"Which has the lowest {loss}",
        loss,
    )
    why = why_same(result, ranking.same)
    means = {name: _mean(result, name, metric) for name in result.compared}
    return capital(told(ranking, wording, _at_rate(result), means.__getitem__, why_same=why)) + "."


def learnt(result: "Result", until: float = math.inf) -> bool:
    """Whether the loss of every run that is compared was measured after its start (by then, ns)."""
    return all(
        any(0 < row.time <= until for row in run.evaluations)
        for run in result.traces
        if run.strategy in result.compared
    )


def soonest(result: "Result", target: float) -> str:
    """Which strategy reaches a loss first, and when."""
    goal, name = f"loss {target:g}{rates.common(result)}", _at_rate(result)
    ranking = result.ranking("time_to_target")
    if ranking is None:
        return f"No strategy reached {goal} in {_how_many(result, 'time_to_target')}."

    def after(name: str) -> str:
        return time(result.estimate(name, "time_to_target"))

    if not ranking.rivals:
        alone = len(result.compared) == 1
        text = f"L{goal[1:]} was reached after {after(ranking.best)} by {name(ranking.best)}"
        return text + ("." if alone else ", and by no other in every replication.")
    return told(ranking, reaching(goal), name, after) + "."


def reaching(goal: str) -> Wording:
    """How it is told what reaches a goal first."""
    capital = goal[0].upper() + goal[1:]
    return Wording(
        f"{capital} is reached soonest by {{name}}: after {{value}}",
        f"Which reaches {goal} soonest",
        f"time to {goal}",
        "; next is {name} after {value}",
        ", {times} as long",
    )


def why_same(result: "Result", names: Sequence[str]) -> str:
    """Why strategies are the same in every replication, as far as their settings tell."""
    chosen = [one for one in result.scenario.strategies if one.label in names]
    settings = [one.model_dump(exclude={"name"}) for one in chosen]
    if len({one.kind for one in chosen}) > 1 or len(chosen) < 2:
        return ""
    apart = [
        key for key in settings[0] if any(one[key] != settings[0][key] for one in settings[1:])
    ]
    if not apart:
        return "their settings are the same"
    return f"{joined(apart)} makes no difference here"


def _mean(result: "Result", name: str, metric: str) -> str:
    return plus_minus(result.estimate(name, metric))


def _at_rate(result: "Result") -> Callable[[str], str]:
    """What strategies are called where their losses are told of."""
    return partial(rates.named, result)
