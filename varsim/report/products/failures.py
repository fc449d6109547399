"""What is told of jobs whose hosts fail at random: columns, the sentence on their time, notes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.cluster.description.failures import members
from varsim.cluster.description.recovery import RandomFailures, Recovery, goes_on, in_run
from varsim.core.measured_times import MeasuredTimes
from varsim.core.units import format_seconds
from varsim.report.told import Column, Note, Number, Value
from varsim.report.wording import listed, names
from varsim.scenario.training import Scenario, steps_are_random
from varsim.study.lives import DOWN, PARTS, TO_TARGET, optimal_interval, round_of
from varsim.study.verdict import Estimate, interval

if TYPE_CHECKING:
    from varsim.cluster.record.trace import Trace
    from varsim.strategies import Strategy
    from varsim.study.result import Result

_HOPELESS: Final = 0.01  # goodput below which it is told why


def followed(scenario: Scenario) -> bool:
    """Whether the lives of jobs are followed beyond what is simulated."""
    return scenario.failures is not None and not in_run(scenario.failures)


def columns(result: "Result", order: list[str]) -> Iterator[Column]:
    """What lives were like; nothing where no failures are followed."""
    if result.scenario.failures is None:
        return

    def column(key: str, head: str, unit: str = "", *, detail: bool = False) -> Column:
        cells = tuple(Number.of(result.estimate(one, key), unit) for one in order)
        return Column(key, head, cells, detail=detail, about=key)

    yield column("goodput", "goodput", "share")
    yield column("life_lost", "lost work", "share")
    yield column("life_checkpoint", "checkpoints", "share")
    yield column("interruptions", "interruptions")
    cells = tuple(Number.of(down(result, one), "share") for one in order)
    about = "share of all time of all workers in which the job was down"
    yield Column("down", "recovery", cells, detail=True, about=about)
    yield column("cost_per_interruption", "cost per interruption", "s", detail=True)
    known = not goes_on(result.scenario.recovery)
    if known and result.target_loss is not None and followed(result.scenario):
        head = f"among failures, to loss {result.target_loss:g}"
        yield column(TO_TARGET, head, "days", detail=True)


def down(result: "Result", strategy: str) -> Estimate:
    """The share of all time in which the job was down."""
    parts = zip(*(result.values(strategy, name) for name in DOWN), strict=True)
    return interval(list(map(math.fsum, parts)))


def sentence(result: "Result", best: str, fitting: Sequence[str], named: dict[str, str]) -> Note:
    """Which of several jobs keeps most of its time; else what is left of that of the fastest.

    And what becomes of the rest.
    """
    values = {name: result.values(name, "goodput") for name in result.compared if name in fitting}
    ranking = result.ranking_of(values, "goodput", highest=True)
    who: dict[str, Value] = {}
    if ranking is not None and ranking.rivals and len(ranking.tied) == 1:
        best, who = ranking.best, {"who": named[ranking.best]}
    shares = {
        "checkpoint": result.estimate(best, "life_checkpoint").mean,
        "lost": result.estimate(best, "life_lost").mean,
        "down": down(result, best).mean,
    }
    of: dict[str, Value] = {"kept": Number(result.estimate(best, "goodput").mean, unit="share")}
    of |= {key: Number(one, unit="share") for key, one in shares.items() if one > 0}
    return Note("goodput", who | of)


def notes(result: "Result", named: dict[str, str]) -> Iterator[Note]:
    """What a reader of lives must know: what was chosen, what is approximate."""
    failures, saved = result.scenario.failures, result.scenario.checkpoint
    if failures is None:
        return
    if not in_run(failures):
        yield from _in_vain(result, failures, named)
    if saved is not None and saved.every == "optimal":
        rounds = dict[str, float]()
        if not in_run(failures):
            traces = {name: result.trace(name) for name in result.compared}
            rounds = {name: round_of(result.scenario, one) for name, one in traces.items()}
        yield Note("optimal-interval", {"best": optimum(result.scenario, rounds)})
    yield from _together(result.scenario)
    if in_run(failures):
        return
    yield from _beyond(failures)
    if goes_on(result.scenario.recovery):
        yield Note("hosts-missing")
    drawn = [one for one in result.scenario.strategies if steps_are_random(result.scenario, one)]
    if drawn:
        few = min(int(result.trace(one.label).global_step) for one in drawn)
        who = tuple(named[one.label] for one in drawn)
        yield Note("approximate-goodput", {"who": who, "count": few})


def optimum(scenario: Scenario, rounds: Mapping[str, float]) -> str:
    """How long an optimal interval is, and for whom where that is not the same.

    `rounds`: how long they are (s), of strategies by their labels that are saved after whole ones;
    of others as if they were saved at any moment.
    """
    named, found = names(scenario), dict[str, list[str]]()
    for one in scenario.strategies:
        seconds = optimal_interval(scenario, one, rounds.get(one.label, 0.0))
        if not math.isnan(seconds):
            found.setdefault(format_seconds(seconds), []).append(named[one.label])
    if len(found) < 2:
        return "".join(found)
    return ", ".join(f"{each} for {listed(whose)}" for each, whose in found.items())


def _in_vain(result: "Result", failures: RandomFailures, named: dict[str, str]) -> Iterator[Note]:
    """What keeps these lives from their work, or what they work from being kept."""
    horizon = failures.horizon or math.inf
    for one in result.scenario.strategies:
        what, lasts = _whole(result.scenario, result.trace(one.label))
        who = named[one.label]
        if horizon < lasts:
            times = {"horizon": Number(horizon, unit="days"), "lasts": Number(lasts, unit="s")}
            yield Note("horizon-short", {"who": who, "what": what, **times})
        elif result.estimate(one.label, "goodput").mean < _HOPELESS:
            yield _hopeless(result, one, who)
    yield from _never_saved(result, named)


def _whole(scenario: Scenario, trace: "Trace") -> tuple[str, float]:
    """The least that can be kept, and how long it takes (s)."""
    if lasts := round_of(scenario, trace):
        return "round", lasts
    if not len(trace.steps):
        return "step", 0.0
    return "step", float(trace.steps[-1]) / 1e9 / len(trace.steps)


def _hopeless(result: "Result", strategy: "Strategy", who: str) -> Note:
    """Why hardly anything is kept: how often something fails against what must fit in between."""
    scenario = result.scenario
    failures, recovery = scenario.failures, scenario.recovery or Recovery()
    assert failures is not None
    cluster, saved = scenario.cluster_of(strategy), scenario.checkpoint_of(strategy)
    rate = failures.rate(cluster, strategy.workers(cluster))
    away = failures.detection + recovery.restart + (saved.restore if saved is not None else 0.0)
    of: dict[str, Value] = {"who": who, "needs": Number(away, unit="days")}
    if rate:
        of["every"] = Number(1 / rate, unit="days")
    parts = {name: result.estimate(strategy.label, name).mean for name in PARTS}
    if parts["life_repair"] > 1 / 2:
        of["repair"] = Number(parts["life_repair"], unit="share")
    return Note("hopeless", of)


def _never_saved(result: "Result", named: dict[str, str]) -> Iterator[Note]:
    """That no checkpoint was completed in any life."""
    who = tuple(
        named[one.label]
        for one in result.scenario.strategies
        if (saved := result.scenario.checkpoint_of(one)) is not None
        and saved.stops > 0
        and not any(result.values(one.label, "life_checkpoint"))
    )
    if who and (saved := result.scenario.checkpoint) is not None:
        due = "the optimal interval" if saved.every == "optimal" else format_seconds(saved.every)
        yield Note("never-saved", {"who": who, "due": due})


def _beyond(failures: RandomFailures) -> Iterator[Note]:
    """What lies after the horizon: failures that happened, and the end of repairs."""
    horizon = failures.horizon or math.inf
    lasts = Number(horizon, unit="days")
    if failures.recorded is not None:
        known = [one[0] for one in failures.recorded.played]
        if late := sum(when > horizon for when in known):
            yield Note("late-failures", {"late": late, "known": len(known), "horizon": lasts})
    repairs = [(one.domain, one.repair) for one in failures.of]
    if failures.recorded is not None:
        repairs += [(domain, failures.recorded.repair) for domain in failures.recorded.domains]
    for domain, law in repairs:
        if law is not None and not law.is_random and law.expectation() >= horizon:
            repair = Number(law.expectation(), unit="days")
            yield Note("long-repair", {"domain": domain, "repair": repair, "horizon": lasts})


def _together(scenario: Scenario) -> Iterator[Note]:
    """That members of a domain fail together: by times always the same, or from one row."""
    assert scenario.failures is not None
    for one in scenario.failures.of:
        law, struck = one.between, scenario.strategies
        if one.domain == "server":
            struck = tuple(each for each in struck if each.traits.uses_servers)
        clusters = ((each, scenario.cluster_of(each)) for each in struck)
        most = max(members(one.domain, where, each.workers(where)) for each, where in clusters)
        about: dict[str, Value] = {"count": most, "domain": one.domain}
        if isinstance(law, MeasuredTimes):
            if law.replay == "cycle" and most > len(law.seconds):
                yield Note("share-rows", {**about, "rows": len(law.seconds)})
        elif not law.is_random and most > 1:
            yield Note("fail-together", about)
