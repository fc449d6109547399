"""What can fail, how a job is saved, and how it comes back, in words: the setting of its life."""

import math
from collections.abc import Iterator, Mapping

from varsim.cluster.failing import FailureSource, RecordedFailures
from varsim.cluster.recovery import RandomFailures, Recovery, in_run
from varsim.report.words.names import mention
from varsim.report.words.phrases import digits, joined, long
from varsim.scenario.training import Scenario
from varsim.study.saving import optimal_interval
from varsim.units import format_rate, format_seconds
from varsim.values import presets
from varsim.values.distribution import Distribution


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
    if one.lemons is not None:
        share = digits(100 * one.lemons.share)
        often += f", {share} % of them, lemons, {one.lemons.times:g} times as often"
    often += _repaired(one.repair)
    if one.mistaken is not None:
        share, again = digits(100 * one.mistaken.share), one.mistaken.again.expectation()
        often += f"; in {share} % of failures another {one.domain} is taken away, and the fault "
        often += f"strikes again {format_seconds(again)} later"
    return often


def _played_back(one: RecordedFailures) -> str:
    number = len(one.played)
    said = f"{number:,} recorded failure{'s' * (number > 1)}, played back"
    said = f"{said} from {one.file}" if one.file else said
    if one.played[0][3] is not None:
        return f"{said}, each repaired when it was"
    return said + _repaired(one.repair)


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
        said = f"at the optimal interval ({optimum(scenario, {})})"
        more = ", rounded to whole rounds"
    else:
        said, more = f"every {format_seconds(one.every)}", " or more, in whole rounds"
    if inside:
        said = f"of the servers' variables, by worker 0: {said}"
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
    said += f", {one.mode}"
    if one.mode == "asynchronous":
        said += f" after a snapshot of {format_seconds(one.snapshot)}"
        said += f", steps {digits(100 * one.slowdown)} % longer"
    if one.storage is not None:
        more = f" and {format_seconds(one.restore)}" if one.restore else ""
        return f"{said}, read back in as long{more}"
    return f"{said}, read back in {format_seconds(one.restore)}"


def optimum(scenario: Scenario, rounds: Mapping[str, float], of: str = "") -> str:
    """How long an optimal interval is (`of` what), and for whom where that is not the same."""
    found: dict[str, list[str]] = {}
    for strategy, seconds in _intervals(scenario, rounds):
        found.setdefault(format_seconds(seconds), []).append(mention(scenario, strategy))
    if len(found) < 2:
        return "".join(found) + of
    return ", ".join(f"{each}{of} for {joined(whose)}" for each, whose in found.items())


def _goes_round(scenario: Scenario) -> bool:
    """Whether some jobs can be saved after whole rounds only."""
    each = ((one, scenario.cluster_of(one)) for one in scenario.strategies)
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
