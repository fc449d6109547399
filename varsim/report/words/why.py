"""Why a strategy is as slow as it is, in sentences that a planner can act on."""

import math
from typing import Final

from varsim.report.words.names import mention
from varsim.report.words.phrases import capital, joined, plus_minus, time
from varsim.report.words.resources import (
    article,
    busy,
    faster,
    named,
    noun,
    percent,
    ports,
    resource,
    workers,
)
from varsim.study.statistics import interval
from varsim.study.stragglers import stragglers
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE
from varsim.study.why.account import NEGLIGIBLE, Account, Why
from varsim.study.why.rerun import Gain, Part
from varsim.study.why.resources import busiest
from varsim.units import format_seconds

# Who waits for so much of the time is held up by what is waited for.
MUCH: Final = 0.5
# A second cause is worth a word if it is so large a part of the step.
SECOND: Final = 0.1
MOST_ENDERS: Final = 3

_WHAT_IF: Final = {
    "deaths": "if nobody died",
    "server": "with free servers",
    "overheads": "without software overheads",
    "uplinks": "with uplinks that hold nobody up",
    "slow_links": "without slow links",
    "bandwidth": "with infinite bandwidth everywhere",
    "links": "with infinite bandwidth everywhere but at the servers' ports",
    "latency": "without latency",
    "overlap": "with overlap: true",
    "stragglers": "without stragglers",
    "variance": "if every step took its mean",
    "compute": "with instant compute",
}


def answer(account: Account) -> str:
    """Why it is slow, in one or two sentences."""
    name, unit = capital(mention(account.scenario, account.label)), unit_of(account)
    if account.stuck:
        if any(trace.standstill for trace in account.reruns.traces):
            return f"{name} deadlocked; see varsim run."
        return f"{name} made no update before its run was stopped: there is nothing to explain."
    main, step = account.main, format_seconds(account.step_time.mean)
    share, taken = percent(account.share(main)), format_seconds(main.seconds.mean)
    if main.key in ("compute", "rest"):
        what = "computing" if main.key == "compute" else "what none of the causes below explains"
        most, instant = _largest_gain(account, WORSE, UNTOLD), account.gain("compute")
        least = ""
        if main.key == "compute" and most and instant and _surely_more(most, instant):
            limited = f"is not limited by {what}, though that is the largest part"
            least = f"; {_gained(account, instant)}"
        else:
            limited = f"is limited by {what}"
        if account.share(main) > 1 and not least:
            return f"{name} {limited}: {_shorter(account)}."
        told = f"{taken} of the {step} of {unit} ({share}){_runner_up(account)}"
        computing, waited = account.shares.get("compute", 0.0), _waited(account)
        # Who waits for a number of others does so though all compute equally long.
        if waited >= SECOND and account.share(main) - computing >= SECOND:
            told += f"; workers compute {percent(computing)} of the time"
            told += f" and wait for others {percent(waited)}"
        said = f"{name} {limited}: {_shorter(account) if account.share(main) > 1 else told}."
        if most is None:
            maybe = _largest_gain(account, CLOSE)
            if maybe is None or maybe.speedup.mean <= 1 + SECOND:
                return f"{said} Nothing else is worth removing."
            return f"{said} Most may be gained {_gained(account, maybe)}."
        return f"{said} Most would be gained {_gained(account, most)}{least}."
    gain = account.gain(main.key)
    said = f"{name} is slow because of {cause(account, main)}: {taken} of the {step} of {unit} "
    said += f"({share}){_runner_up(account)}."
    links = account.gain("links") if main.key == "bandwidth" else None
    but = (
        ""
        if links is None
        else f"; everywhere but at the servers' ports: {_factor(account, links)}"
    )
    return said if gain is None else f"{said} {capital(_gained(account, gain))}{but}."


def unit_of(account: Account) -> str:
    """What is timed: `a step`, or an iteration where that is a round."""
    return "an iteration" if account.asynchronous else "a step"


def cause(account: Account, part: Part) -> str:
    """What a part of the step is due to, as exactly as is known."""
    if part.key == "server":
        use = account.server
        if use is None:
            return "the servers"
        if use.kind == "handling":
            return f"what servers do ({use.name.removeprefix('a server, ')}: {busy(use)})"
        return f"{ports(use)} ({named(use)}: {busy(use)})"
    if part.key == "stragglers":
        slow = sorted({entry.rank for entry in account.scenario.cluster.slow_workers})
        return f"stragglers ({workers(slow)})"
    if part.key == "uplinks":
        uplink = busiest(account.uses, ("shared",))
        said = f" ({resource(uplink).removeprefix('the ')}: {busy(uplink)})" if uplink else ""
        return f"the uplinks of racks{said}"
    if part.key == "bandwidth":
        most = busiest(account.uses, ("shared", "link"))
        known = most is not None and most.kind == "shared" and account.gain("uplinks") is None
        which = f" (the busiest: {resource(most)}, {busy(most)})" if most and known else ""
        return f"the bandwidth of the {_others(account)}links{which}"
    return {"variance": "compute times that vary"}.get(part.key, part.cause)


def spent(account: Account) -> str:
    """What all steps are spent on, and whom they wait for."""
    named: dict[str, float] = {}
    for activity, share in account.shares.items():
        named[noun(account, activity)] = named.get(noun(account, activity), 0.0) + share
    parts = [f"{name} {percent(share)}" for name, share in named.items() if share >= NEGLIGIBLE]
    number = len(account.paths)
    if account.asynchronous:
        return f"Over all {number:,} iterations: {', '.join(parts)}."
    return f"Over all {number:,} steps: {', '.join(parts)}. {_whom(account)}"


def bottleneck(account: Account) -> str:
    """The busiest resource, and how busy the workers were beside it."""
    first = account.uses[0]
    said = f"The busiest resource is {resource(first)}: {busy(first)}."
    if first.kind == "compute":
        others = [use for use in account.uses if use.kind != "compute"]
        if others:
            said += f" The busiest after computing is {resource(others[0])}: {busy(others[0])}."
        return said
    computing = [use for use in account.uses if use.kind == "compute"]
    most, least = percent(computing[0].share), percent(computing[-1].share)
    between = most if most == least else f"{least} to {most}"
    waiting = account.shares.get("queue", 0.0)
    if waiting < MUCH:
        return f"{said} Workers compute {between} of the time."
    whose = "Workers wait" if account.asynchronous else "Steps wait"
    said += (
        f" {whose} for it {percent(waiting)} of the time, and workers compute {between}: more or "
        "faster workers would only wait longer."
    )
    return said


def straggling(account: Account) -> str:
    """How far the slowest of a step is from the mean, or what is dropped; empty if not seen."""
    if account.left_out is not None:
        share = f"{percent(account.left_out)} of all micro-batches"
        return f"Workers drop {share} at their threshold: what is compared are steps, not examples."
    found = [stragglers(table) for table in account.compute_times]
    if not found or _march(account):
        return ""
    slowdown = plus_minus(interval([one.slowdown for one in found]))
    saved = interval([one.backups[0].time_saved for one in found])
    said = f"Stragglers: the slowest of a step computes {slowdown} times as long as the mean"
    (strategy,) = account.scenario.strategies
    if account.asynchronous:
        if _waited(account) == 0:
            return f"{said}; nobody waits for it here."
        return f"{said}; workers wait for others {percent(_waited(account))} of the time here."
    if strategy.round.of == "outer step" and strategy.round.steps > 1:
        return f"{said}; others wait for it only where copies meet."
    if strategy.sends.to == "neighbours":
        return f"{said}; only its neighbours wait for it, and theirs a step later."
    if strategy.gradients_per_update(account.scenario.cluster_of(strategy)) < account.workers:
        return f"{said}; here nobody waits for all workers."
    return (
        f"{said}; waiting for all but one worker would take {plus_minus(saved, 100, '%')} less "
        "compute time."
    )


def overlap(account: Account) -> str:
    """How the gains by themselves compare with that of all together; empty without such."""
    if account.together is None or math.isnan(account.together.step_time.mean):
        return ""
    base, unit = account.step_time.mean, unit_of(account).split()[1]
    single = [
        base - gain.step_time.mean
        for gain in account.gains
        if gain.key not in ("compute", "links", "overlap") and not math.isnan(gain.step_time.mean)
    ]
    saved, alone = base - account.together.step_time.mean, math.fsum(single)
    text = (
        f"Without all of these except compute, {article(unit)} would take "
        f"{format_seconds(account.together.step_time.mean)}, {format_seconds(abs(saved))} "
        f"{'less' if saved >= 0 else 'more'}."
    )
    if abs(alone - saved) <= NEGLIGIBLE * base:
        return f"{text} One by one they save as much in total: they do not overlap."
    relation = "some of them only pay off once others are gone"
    if alone > saved:
        relation = "they overlap: what two of them would save is counted twice"
    does = "save" if alone >= 0 else "cost"
    return f"{text} One by one they {does} {format_seconds(abs(alone))} in total; {relation}."


def slower(account: Account) -> str:
    """Which changes make it slower, and why that can be; empty if none does."""
    worse = [gain for gain in account.gains if gain.speedup.mean < 1 - SECOND]
    if not worse or not account.asynchronous:
        return ""
    names = capital(joined([gain.title for gain in worse]))
    return (
        f"{names} {'makes' if len(worse) == 1 else 'make'} it slower: identical workers move in "
        "lockstep, and all want the same link in the same direction at the same moment."
    )


def looked_at(why: Why) -> str:
    """How much was run."""
    runs = [account.reruns for account in why.accounts]
    replications = runs[0].replications
    least, most = min(run.steps for run in runs), max(run.steps for run in runs)
    updates = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    of = f"{replications} of {why.scenario.replications} replications"
    if why.scenario.replications == 1:
        of = "one replication, so that there are no intervals"
    return (
        f"Looked at: the first {updates} updates of each strategy, in {of}. Reruns make the same "
        "updates with the same draws."
    )


def parts_as_text(account: Account, plain: bool = False) -> list[tuple[str, str, str]]:
    """The parts of the step: cause, time, share; the times add up as they are printed.

    `plain`: the same words for every strategy.
    """
    scale, unit, decimals = _scale(account.step_time.mean)
    shown = [
        part
        for part in account.parts
        if part.key != "rest" or abs(account.share(part)) >= NEGLIGIBLE / 100
    ]
    sizes = {part.key: round(part.seconds.mean * scale, decimals) + 0.0 for part in shown}
    total = round(account.step_time.mean * scale, decimals)
    # What rounding leaves over goes to the largest.
    sizes[account.main.key] += total - math.fsum(sizes.values())
    rows = [
        (
            part.cause if plain else _row_of(account, part),
            f"{sizes[part.key]:,.{decimals}f} {unit}",
            percent(account.share(part)),
        )
        for part in shown
    ]
    whole = "together" if plain else f"together {unit_of(account)}"
    return [*rows, (whole, f"{total:,.{decimals}f} {unit}", "100 %")]


def gains_as_text(account: Account) -> list[tuple[str, str, str]]:
    """What if: the change, the step time, how many times as fast."""
    gains = [*account.gains]
    if account.together is not None:
        gains.append(account.together._replace(title="all of these but the last"))
    return [(gain.title, time(gain.step_time), faster(gain.speedup)) for gain in gains]


def uses_as_text(account: Account, most: int = 5) -> list[tuple[str, str]]:
    """The busiest resources."""
    return [(resource(use), percent(use.share)) for use in account.uses[:most]]


def _row_of(account: Account, part: Part) -> str:
    """What a part of the step is called in a table."""
    if part.key == "server":
        use = account.server
        return "servers" if use is None or use.kind == "handling" else ports(use)
    if part.key == "bandwidth" and account.servers:
        return f"bandwidth of {_others(account)}links"
    return part.cause


def _shorter(account: Account) -> str:
    """That some causes make the step shorter than its largest part."""
    helping = [part for part in account.parts if part.seconds.mean < 0]
    best = min(helping, key=lambda part: part.seconds.mean)
    taken, step = account.main.seconds.mean, account.step_time.mean
    return (
        f"{format_seconds(taken)}, less {format_seconds(-best.seconds.mean)} saved by "
        f"{cause(account, best)}; {unit_of(account)} takes {format_seconds(step)}"
    )


def _others(account: Account) -> str:
    """Which links there are beside the servers' ports."""
    if not account.servers:
        return ""
    shared = any(use.kind == "shared" for use in account.uses)
    return "other " if shared and account.gain("uplinks") is None else "workers' "


def _runner_up(account: Account) -> str:
    """The largest other part besides compute, if it is worth a word."""
    others = [
        part
        for part in account.parts
        if part.key not in ("compute", "rest", account.main.key) and account.share(part) >= SECOND
    ]
    if not others:
        return ""
    part = max(others, key=account.share)
    told = f"{cause(account, part)}, {percent(account.share(part))}"
    said = account.beside_main(part)
    if said in (CLOSE, EQUAL):
        return f"; next, {said}: {told}"
    return f"; next: {told}"


def _largest_gain(account: Account, *said: str) -> Gain | None:
    """The largest gain on which this is the verdict."""
    gains = [
        gain
        for gain in account.gains
        if gain.key != "compute"
        and account.faster(gain) in said
        and gain.speedup.mean > 1 + account.scenario.report.equal_within
    ]
    return max(gains, key=lambda gain: _or_zero(gain.speedup.mean), default=None)


def _waited(account: Account) -> float:
    """What part of their iterations workers wait for others; 0 where steps are not their own."""
    if not account.asynchronous:
        return 0.0
    return math.fsum(account.shares.get(name, 0.0) for name in ("barrier", "token"))


def _surely_more(gain: Gain, other: Gain) -> bool:
    """Whether one gain is the larger, on average and as far as intervals tell."""
    one, two = gain.speedup, other.speedup
    return one.mean > two.mean and not one.low <= two.high


def _gained(account: Account, gain: Gain) -> str:
    return f"{_WHAT_IF[gain.key]}: {_factor(account, gain)}"


def _factor(account: Account, gain: Gain) -> str:
    """`5.77 times as fast (5.61 to 5.92)`, as far as that is sure."""
    said = account.faster(gain)
    if said == SAME:
        return "as fast as now"
    text = faster(gain.speedup).replace("x", " times as fast", 1)
    return f"{text}, {said}" if said in (CLOSE, EQUAL) else text


def _march(account: Account) -> bool:
    """Whether in every step all workers compute equally long: nobody is the last."""
    found = account.compute_times
    return bool(found) and all(stragglers(table).slowdown == 1 for table in found)


def _whom(account: Account) -> str:
    """Which workers end the steps."""
    shares = account.enders
    if account.workers == 1 or _march(account):
        return ""
    even = 1 / account.workers
    first, *_ = shares.items()
    if first[1] < 2 * even + 0.05 and len(shares) > 2:
        return "The last to arrive is now one worker, now another."
    named = [f"worker {rank} in {percent(share)}" for rank, share in list(shares.items())]
    more = ", ..." if len(named) > MOST_ENDERS else ""
    return f"Last to arrive: {', '.join(named[:MOST_ENDERS])} of them{more}."


def _scale(base: float) -> tuple[float, str, int]:
    """By what, into which unit, with how many decimals times of about this size are printed."""
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if base * scale >= 1:
            size = math.floor(math.log10(base * scale))
            return scale, unit, max(0, 3 - size)
    return 1e9, "ns", 0


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
