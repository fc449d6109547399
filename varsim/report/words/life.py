"""The life of a job among random failures, in words: its cells, its sentence, its notes."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from varsim.cluster.failing import members
from varsim.cluster.recovery import RandomFailures, goes_on, in_run
from varsim.report.words.barren import in_vain
from varsim.report.words.failures import optimum
from varsim.report.words.names import mention
from varsim.report.words.phrases import capital, digits, long, plus_minus, time
from varsim.scenario.training import Scenario, steps_are_random
from varsim.study.goodput import DOWN
from varsim.study.goodput import TO_TARGET as LATER
from varsim.study.lives import round_of
from varsim.study.statistics import interval
from varsim.values.distribution import Weibull
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
    "in recovery": "availability",
    "interruptions": "interruptions",
    "cost per interruption": "cost_per_interruption",
}

_AS_NEW: Final = 0.05  # by which more or fewer failures are told
_SETTLED: Final = 200.0  # times the mean; over a longer time that is not worked out
TO_TARGET: Final = "among failures, time to loss"
_UNTIL: Final = "until failures were noticed, repaired or swapped, and work went on"


def cells(result: "Result", strategy: str) -> dict[str, str]:
    """What the life of a strategy's job was like; nothing where no failures are followed."""
    if result.scenario.failures is None:
        return {}
    of = {metric: result.estimate(strategy, metric) for metric in HEADINGS.values()}
    cells = {
        "goodput": plus_minus(of["goodput"], 100, "%"),
        "examples/s kept": plus_minus(of["kept_examples_per_s"]),
        "in checkpoints": plus_minus(of["life_checkpoint"], 100, "%"),
        "lost": plus_minus(of["life_lost"], 100, "%"),
        "in recovery": plus_minus(_down(result, strategy), 100, "%"),
        "interruptions": plus_minus(of["interruptions"]),
        "cost per interruption": time(of["cost_per_interruption"]),
    }
    known = not goes_on(result.scenario.recovery)
    if known and result.target_loss is not None and not in_run(result.scenario.failures):
        cells[f"{TO_TARGET} {result.target_loss:g}"] = time(result.estimate(strategy, LATER))
    return cells


def brief(result: "Result", strategy: str) -> dict[str, str]:
    """Those of `cells` that are read first: of one strategy alone a sentence tells the others."""
    own = cells(result, strategy)
    if len(result.compared) < 2:
        return {name: cell for name, cell in own.items() if name == "examples/s kept"}
    every = [cells(result, one) for one in result.strategies]
    return {
        name: cell
        for name, cell in own.items()
        if name in HEADINGS and any(one[name] not in ("0 %", "-") for one in every)
    }


def recovery(scenario: Scenario) -> str:
    """What the time in recovery is a share of."""
    if not in_run(scenario.failures):
        return f"share of all time of all workers in which the job was down: {_UNTIL}"
    return (
        f"share of all time of all workers {_UNTIL}: of those that failed, and of the others while "
        "all of them wait for one that failed"
    )


def sentence(result: "Result") -> str:
    """What is left of the time of the job that gets most done, and of the others' in short."""
    if result.scenario.failures is None:
        return ""
    kept = {name: result.estimate(name, "kept_examples_per_s").mean for name in result.compared}
    best = max(kept, key=kept.__getitem__)
    others = sorted(
        (name for name in result.compared if name != best),
        key=lambda name: result.estimate(name, "goodput").mean,
    )
    if not others:
        return _of_one(result, best)
    keeps, keep = "keeps", "keep"
    if result.scenario.failures.horizon is None:
        keeps, keep = "is left", "are left"
    who = [mention(result.scenario, name) for name in others]
    least, most = (
        plus_minus(result.estimate(name, "goodput"), 100, "%") for name in (others[0], others[-1])
    )
    if len(others) == 1:
        rest = f"{capital(who[0])} {keeps} {least}"
    elif least == most:
        rest = f"The others {keep} {least}"
    else:
        rest = f"The others {keep} {least} ({who[0]}) to {most} ({who[-1]})"
    return f"{_of_one(result, best)} {rest}."


def _of_one(result: "Result", strategy: str) -> str:
    """What is left of the time of a job, and what becomes of the rest."""
    scenario = result.scenario
    assert scenario.failures is not None
    of = {name: result.estimate(strategy, name) for name in result.metrics}
    often, each = of["interruptions"], of["cost_per_interruption"]
    missing = ", or is lost while hosts are missing" * goes_on(scenario.recovery)
    rest = ", ".join(
        f"{plus_minus(found, 100, '%')} {what}"
        for found, what in (
            (of["life_checkpoint"], "goes into checkpoints"),
            (of["life_lost"], "is lost to failures"),
            (_down(result, strategy), f"goes into recovery{missing}"),
        )
        if found.mean > 0
    )
    several = " each" * (often.mean != 1)
    costs = "" if math.isnan(each.mean) else f", which cost {time(each)}{several}"
    who = mention(scenario, strategy)
    if scenario.failures.horizon is None:
        return (
            f"Failures leave {who} {plus_minus(of['goodput'], 100, '%')} of all time of its "
            f"workers{f': {rest}' if rest else ''}; they are interrupted {_times(often)}"
            f"{costs and f'{costs}, all workers together'}."
        )
    lives = result.values(strategy, "goodput")
    worst = f" ({digits(100 * min(lives))} % in the worst of {len(lives)} lives)"
    return (
        f"Over {long(scenario.failures.horizon)}, {who} keeps "
        f"{plus_minus(of['goodput'], 100, '%')} of its time{worst if len(set(lives)) > 1 else ''}"
        f"{f': {rest}' if rest else ''}; it is interrupted {_times(often)}{costs}."
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
            traces = {name: result.trace(name) for name in result.compared}
            rounds = {name: round_of(result.scenario, one) for name, one in traces.items()}
            of = " of work"
        whole = ", in whole rounds" * (of != "" and all(rounds.values()))
        best = optimum(result.scenario, rounds, of)
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
    drawn = [one for one in result.scenario.strategies if steps_are_random(result.scenario, one)]
    if drawn:
        names = " and ".join(one.mention for one in drawn)
        few = min(int(result.trace(one.label).global_step) for one in drawn)
        yield (
            f"The life of {names} is approximate: its {_drawn(result, drawn)} "
            f"independently from the {few:,} that were simulated in each replication."
        )


def _beyond(failures: RandomFailures) -> Iterator[str]:
    """What lies after the horizon: failures that happened, and the end of repairs."""
    horizon = failures.horizon or math.inf
    if failures.recorded is not None:
        known = [one[0] for one in failures.recorded.played]
        if late := sum(when > horizon for when in known):
            text = f"{late:,} {'comes' if late == 1 else 'come'} after the horizon of"
            text += f" {long(horizon)}, and so not into these lives."
            yield f"Of {len(known):,} recorded failures {text}"
    repairs = [(one.domain, one.repair) for one in failures.of]
    if failures.recorded is not None:
        repairs += [(domain, failures.recorded.repair) for domain in failures.recorded.domains]
    for domain, law in repairs:
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
