"""The life of a job among random failures, in words: its cells, its sentence, its setting."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.cluster.failing import FailureSource, RecordedFailures, members
from varsim.cluster.recovery import RandomFailures, Recovery, goes_on, in_run
from varsim.report.words.barren import in_vain
from varsim.report.words.names import mention
from varsim.report.words.phrases import digits, joined, long, plus_minus, time
from varsim.scenario.together import served
from varsim.scenario.training import Scenario, steps_are_random
from varsim.study.goodput import DOWN
from varsim.study.goodput import TO_TARGET as LATER
from varsim.study.lives import round_of
from varsim.study.saving import optimal_interval
from varsim.study.statistics import interval
from varsim.units import format_rate, format_seconds
from varsim.values import presets
from varsim.values.distribution import Distribution, Weibull
from varsim.values.measured_times import MeasuredTimes

if TYPE_CHECKING:
    from varsim.strategies import Strategy
    from varsim.study.result import Result
    from varsim.study.statistics import Estimate
    from varsim.study.why.lives import Help

# Heading of the first table -> the metric it is about.
HEADINGS: Final = {
    "goodput": "goodput",
    "examples/s kept": "kept_examples_per_s",
    "in checkpoints": "life_checkpoint",
    "lost": "life_lost",
    "down": "availability",
    "interruptions": "interruptions",
}

_AS_NEW: Final = 0.05  # by which more or fewer failures are told
_SETTLED: Final = 200.0  # times the mean; over a longer time that is not worked out
_QUEUE: Final = 0.001  # a share of time that is told
TO_TARGET: Final = "among failures, time to loss"


def cells(result: "Result", strategy: str) -> dict[str, str]:
    """What the life of a strategy's job was like; nothing where no failures are followed."""
    if result.scenario.failures is None:
        return {}
    of = {metric: result.estimate(strategy, metric) for metric in HEADINGS.values()}
    found = {
        heading: plus_minus(of[metric], 100, "%")
        for heading, metric in HEADINGS.items()
        if metric in ("goodput", "life_checkpoint", "life_lost")
    }
    found |= {
        "examples/s kept": plus_minus(of["kept_examples_per_s"]),
        "down": plus_minus(_down(result, strategy), 100, "%"),
        "interruptions": plus_minus(of["interruptions"]),
    }
    cells = {heading: found[heading] for heading in HEADINGS}
    known = not goes_on(result.scenario.recovery)
    if known and result.target_loss is not None and not in_run(result.scenario.failures):
        cells[f"{TO_TARGET} {result.target_loss:g}"] = time(result.estimate(strategy, LATER))
    return cells


def sentences(result: "Result") -> Iterator[str]:
    """What is left of the time of each job, and what becomes of the rest."""
    if result.scenario.failures is None:
        return
    horizon = result.scenario.failures.horizon
    down = (
        "is downtime, or lost while hosts are missing"
        if goes_on(result.scenario.recovery)
        else "is downtime"
    )
    for strategy in result.compared:
        of = {name: result.estimate(strategy, name) for name in result.metrics}
        often, each = of["interruptions"], of["cost_per_interruption"]
        rest = ", ".join(
            f"{plus_minus(found, 100, '%')} {what}"
            for found, what in (
                (of["life_checkpoint"], "goes into checkpoints"),
                (of["life_lost"], "is lost to failures"),
                (_down(result, strategy), down),
            )
            if found.mean > 0
        )
        several = " each" * (often.mean != 1)
        costs = "" if math.isnan(each.mean) else f", which cost {time(each)}{several}"
        who = mention(result.scenario, strategy)
        if horizon is None:
            yield (
                f"Failures leave {who} {plus_minus(of['goodput'], 100, '%')} of all time of its "
                f"workers{f': {rest}' if rest else ''}; they are interrupted {_times(often)}"
                f"{costs and f'{costs}, all workers together'}."
            )
            continue
        lives = result.values(strategy, "goodput")
        its, it_is = "its time", "it is"
        if result.scenario.strategy(strategy).lives_apart:
            its, it_is = "the time of its workers", "they are"
            costs = costs and f"{costs}, of one worker's time"
        worst = f" ({digits(100 * min(lives))} % in the worst of {len(lives)} lives)"
        yield (
            f"Over {long(horizon)}, {who} keeps {plus_minus(of['goodput'], 100, '%')} of "
            f"{its}{worst if len(set(lives)) > 1 else ''}{f': {rest}' if rest else ''}; {it_is} "
            f"interrupted {_times(often)}{costs}."
        )


def _times(often: "Estimate") -> str:
    """How often something happens."""
    return "once" if (said := plus_minus(often)) == "1" else f"{said} times"


def helped(helps: "Sequence[Help]") -> str:
    """What is left of a job's time among failures, which change would help most, which not."""
    base, *changes = helps
    kept = plus_minus(base.goodput, 100, "%")
    best = max(changes, key=lambda one: one.gain.mean, default=None)
    if best is None or best.gain.mean <= 0:
        return f"With failures it keeps {kept} of its time; nothing that was tried would help."
    sure = "" if best.gain.low > 0 else ", if anything does"
    useless = ", ".join(one.title for one in changes if one.gain.mean <= 0)
    return (
        f"With failures it keeps {kept} of its time; of what was tried, {best.title} would help "
        f"most{sure}: {_points(best.gain)}.{f' Of no help: {useless}.' if useless else ''}"
    )


def helps_as_text(helps: "Sequence[Help]") -> list[tuple[str, str, str]]:
    """What if: the change, goodput, how much more that is; of those that leave more."""
    return [
        (one.title, plus_minus(one.goodput, 100, "%"), _points(one.gain) if one.key else "-")
        for one in helps
        if not one.key or one.gain.mean > 0
    ]


def _points(gain: "Estimate") -> str:
    sign = "+" if gain.mean > 0 else ""
    return f"{sign}{plus_minus(gain, 100)} points"


def notes(result: "Result") -> Iterator[str]:
    """What a reader of lives must know: what was chosen, what is approximate."""
    failures, saved = result.scenario.failures, result.scenario.checkpoint
    if failures is None:
        return
    if saved is not None and saved.every == "optimal":
        rounds, of = dict[str, float](), ""
        if not in_run(failures):
            saves = {one.label for one in result.scenario.strategies if not one.lives_apart}
            traces = {name: result.trace(name) for name in result.compared if name in saves}
            rounds = {name: round_of(result.scenario, one) for name, one in traces.items()}
            of = " of work"
        whole = ", in whole rounds" * (of != "" and all(rounds.values()))
        best = _optimum(result.scenario, rounds, of)
        yield f"The optimal interval between checkpoints is {best}{whole}."
    yield from _together(result.scenario)
    yield from new_at_first(result.scenario)
    if in_run(failures):
        return
    yield from _beyond(failures)
    yield from in_vain(result)
    if goes_on(result.scenario.recovery):
        yield (
            "While hosts are missing, updates are made of fewer examples: the examples/s kept "
            "account for that, the losses are those of a job that has all its hosts."
        )
    yield from _as_with_all(result)
    drawn = [one for one in result.scenario.strategies if steps_are_random(result.scenario, one)]
    if drawn:
        names = " and ".join(one.mention for one in drawn)
        few = min(int(result.trace(one.label).global_step) for one in drawn)
        yield (
            f"The life of {names} is approximate: its {_drawn(result, drawn)} "
            f"independently from the {few:,} that were simulated in each replication."
        )


def _as_with_all(result: "Result") -> Iterator[str]:
    """What is left out of lives of workers that would be faster without those that are missing."""
    for one in result.scenario.strategies:
        queue = result.estimate(one.label, "share_queue").mean if one.lives_apart else 0.0
        if queue > _QUEUE:
            yield (
                f"While workers of {one.mention} are missing, the steps of the others are taken to "
                f"be as long as with all running; {digits(100 * queue)} % of their time is "
                "queueing, and in reality they would be spared some of it."
            )


def _beyond(failures: RandomFailures) -> Iterator[str]:
    """What lies after the horizon: failures that happened, and the end of repairs."""
    horizon = failures.horizon or math.inf
    if failures.recorded is not None:
        known = [when for when, _, _ in failures.recorded.failures]
        if late := sum(when > horizon for when in known):
            text = f"{late:,} {'comes' if late == 1 else 'come'} after the horizon of"
            text += f" {long(horizon)}, and so not into these lives."
            yield f"Of {len(known):,} recorded failures {text}"
    for domain, law in failures.repairs:
        if law is not None and not law.is_random and law.expectation() >= horizon:
            yield (
                f"The repair of a {domain} takes {long(law.expectation())}, and the horizon is "
                f"{long(horizon)}: what fails does not come back before its end."
            )


def _together(scenario: Scenario) -> Iterator[str]:
    """That members of a domain fail together: by times always the same, or from one row."""
    assert scenario.failures is not None
    for one in scenario.failures.of:
        law, struck = one.between, scenario.strategies
        if one.domain == "server":
            struck = tuple(each for each in struck if each.uses_servers)
        clusters = ((each, scenario.cluster_of(each)) for each in struck)
        most = max(members(one.domain, where, each.workers(where)) for each, where in clusters)
        if isinstance(law, MeasuredTimes):
            rows = len(law.seconds)
            if law.replay == "cycle" and most > rows:
                yield (
                    f"The trace has times of {rows} {one.domain}{'s' * (rows > 1)}, and there are "
                    f"{most}: those that share a row fail at the same instants, each time (replay: "
                    "resample draws times for each)."
                )
        elif not law.is_random and most > 1:
            yield (
                f"All {most} {one.domain}s fail at the same instants, each time: by their law the "
                "time between two failures is always the same."
            )


def new_at_first(scenario: Scenario) -> Iterator[str]:
    """How much more or less often new members fail, all together, than the mean of their law says.

    Told where they age all the time, and it is known for how long.
    """
    failures = scenario.failures
    if failures is None or failures.strike != "always":
        return
    lasts = failures.horizon or scenario.stop.time
    for one in failures.of:
        law = one.between
        if lasts is None or not isinstance(law, Weibull) or lasts > _SETTLED * law.mean:
            continue
        times = law.renewals(lasts) * law.mean / lasts
        if abs(times - 1) > _AS_NEW:
            yield (
                f"Every {one.domain} is new when the job begins: by its law (weibull, shape "
                f"{law.shape:g}) each fails {digits(times)} times as often in the first "
                f"{long(lasts)} as its mean of {long(law.mean)} says."
            )


def _drawn(result: "Result", strategies: "Sequence[Strategy]") -> str:
    """What is drawn of lives: steps, or rounds of them."""
    rounds = {one.recurs_after(result.scenario.cluster_of(one)) for one in strategies}
    return "steps are drawn" if rounds == {1} else "rounds of steps are drawn"


def _down(result: "Result", strategy: str) -> "Estimate":
    parts = zip(*(result.values(strategy, name) for name in DOWN), strict=True)
    return interval(list(map(math.fsum, parts)))


def described(scenario: Scenario) -> list[str]:
    """What can fail, how the job is saved, and how it comes back: one statement per line."""
    failures = scenario.failures
    if failures is None:
        return []
    lines = [f"  failures     {_source(one)}" for one in failures.of]
    if failures.recorded is not None:
        lines.append(f"  failures     {_played_back(failures.recorded)}")
    lines.append(f"               {_rules(failures)}")
    if in_run(failures):
        if scenario.checkpoint is not None:
            lines.append(f"  checkpoint   {_checkpoint(scenario)}")
        elif failures.of_servers:
            lines.append("  checkpoint   none: when a server fails, all that was learnt is lost")
        return [*lines, f"  recovery     {_return(scenario.recovery or Recovery())}"]
    if all(one.lives_apart for one in scenario.strategies):
        return [*lines, f"  recovery     {_return(scenario.recovery or Recovery())}"]
    if scenario.checkpoint is None:
        lines.append("  checkpoint   none: a job starts over from its beginning")
    else:
        lines.append(f"  checkpoint   {_checkpoint(scenario)}")
    return [*lines, f"  recovery     {_recovery(scenario.recovery or Recovery())}"]


def _source(one: FailureSource) -> str:
    law = one.between
    often = f"each {one.domain} fails every {long(law.expectation())} on average"
    if one.law is not None:
        often += f" ({one.law.about})"
    if one.preset is not None:
        known = presets.failures(one.preset)
        often += f" ({known.per_day:g} a day for {known.gpus} GPUs, as in the {known.title})"
    return often + _repaired(one.repair)


def _played_back(one: RecordedFailures) -> str:
    number = len(one.failures)
    said = f"{number:,} recorded failure{'s' * (number > 1)}, played back"
    return (f"{said} from {one.file}" if one.file else said) + _repaired(one.repair)


def _repaired(law: Distribution | None) -> str:
    if law is None:
        return " and is back at once"
    return f", repaired in {format_seconds(law.expectation())}"


def _rules(failures: RandomFailures) -> str:
    when = {
        "always": "also while the job is down",
        "while_running": "not while the job is down",
        "while_computing": "only while the job computes",
    }
    if failures.horizon is None:
        return f"inside the run, noticed after {format_seconds(failures.detection)}"
    return (
        f"{when[failures.strike]}, noticed after {format_seconds(failures.detection)}, followed "
        f"over {long(failures.horizon)}"
    )


def _checkpoint(scenario: Scenario) -> str:
    one, inside = scenario.checkpoint, bool(in_run(scenario.failures))
    assert one is not None
    if one.every == "optimal":
        said = f"at the optimal interval ({_optimum(scenario, {})})"
        more = ", rounded to whole rounds"
    else:
        said, more = f"every {format_seconds(one.every)}", " or more, in whole rounds"
    if inside:
        said = f"{_whose(scenario)}: {said}"
    else:
        said += f" of work{more * _goes_round(scenario)}"
    if one.storage is None:
        said += f", written in {format_seconds(one.lasts)}"
    else:
        said += f", to storage at {format_rate(one.storage)}"
        if not inside:
            saved = map(scenario.checkpoint_of, scenario.strategies)
            takes = sorted({format_seconds(each.lasts) for each in saved if each is not None})
            said += f" in {' or '.join(takes)}"
    said += ", on the host of who writes it" if one.keep_on == "host" else ""
    said += f", {one.mode}"
    if one.mode == "asynchronous":
        said += f" after a snapshot of {format_seconds(one.snapshot)}"
        said += f", steps {digits(100 * one.slowdown)} % longer"
    if one.storage is not None:
        more = f" and {format_seconds(one.restore)}" if one.restore else ""
        return f"{said}, read back in as long{more}"
    return f"{said}, read back in {format_seconds(one.restore)}"


def _whose(scenario: Scenario) -> str:
    """What is saved inside a run, and by whom."""
    assert scenario.failures is not None
    whose = served(scenario.strategies)
    found = []
    if whose["chief"] or (whose["servers"] and scenario.failures.of_servers):
        found.append("of the servers' variables, by worker 0")
    if whose["copies"]:
        found.append("of workers' copies, by the lowest rank that is there")
    return "; ".join(found)


def _optimum(scenario: Scenario, rounds: Mapping[str, float], of: str = "") -> str:
    """How long an optimal interval is (`of` what), and for whom where that is not the same."""
    found: dict[str, list[str]] = {}
    for strategy, seconds in _intervals(scenario, rounds):
        found.setdefault(format_seconds(seconds), []).append(mention(scenario, strategy))
    if len(found) < 2:
        return "".join(found) + of
    return ", ".join(f"{each}{of} for {joined(whose)}" for each, whose in found.items())


def _goes_round(scenario: Scenario) -> bool:
    """Whether some jobs can be saved after whole rounds only."""
    saved = (one for one in scenario.strategies if not one.lives_apart)
    each = ((one, scenario.cluster_of(one)) for one in saved)
    return any(strategy.recurs_after(cluster) > 1 for strategy, cluster in each)


def _intervals(scenario: Scenario, rounds: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """How long an optimal interval is (s), for those strategies of a scenario that are saved.

    `rounds`: how long they are (s), of strategies by their labels that are saved after whole ones;
    of those of which that is not known yet as if they were saved at any moment.
    """
    for strategy in scenario.strategies:
        found = optimal_interval(scenario, strategy, rounds.get(strategy.label, 0.0))
        if not math.isnan(found):
            yield strategy.label, found


def _recovery(one: Recovery) -> str:
    how = {
        "restart": "{} to restart",
        "wait": "{} to go on with the step it was in, once all hosts are there",
        "continue_with_fewer": "with {hosts}, {} for each new group",
    }[one.policy]
    number = one.fewest or 1
    hosts = f"{number} host{'s' * (number > 1)} or more"
    return f"{one.policy}, {how.format(format_seconds(one.restart), hosts=hosts)}{_spares(one)}"


def _return(one: Recovery) -> str:
    """How workers come back into a run."""
    return f"workers restart {format_seconds(one.restart)} later{_spares(one)}"


def _spares(one: Recovery) -> str:
    if one.spares is None:
        return ""
    cold = (
        f", {one.spares.cold} cold after {format_seconds(one.spares.swap)}"
        if one.spares.cold
        else ""
    )
    return f", spare hosts: {one.spares.hot} hot{cold}"
