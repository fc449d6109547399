"""What a plan says, in sentences: the answer, its margins, what else there is, what binds."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from varsim.cluster.recovery import in_run
from varsim.report.words.caution import (
    MEASURED,
    SPEED_WORDS,
    at_points,
    guess_again,
    guess_said,
    heavy_tail,
    once,
    spells_of_rows,
)
from varsim.report.words.memory import misfit, too_large
from varsim.report.words.names import mention
from varsim.report.words.phrases import digits, lasting, plus_minus, time
from varsim.report.words.rates import rate
from varsim.report.words.resources import busy, resource
from varsim.report.words.sweep import SPEED, SPEED_KEPT
from varsim.report.words.targets import SHARES, amount, said
from varsim.report.words.work import short_rows
from varsim.scenario.plan import OBJECTIVES
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario
from varsim.study.cost import COSTS
from varsim.study.measure import ACTIVITIES
from varsim.study.plan.cell import Cell
from varsim.study.plan.findings import closest, unpriced
from varsim.study.plan.plan import Plan
from varsim.study.plan.standing import Standing, margin
from varsim.study.statistics import Estimate
from varsim.study.targets import Judgement
from varsim.study.verdict import CLOSE, SAME, WORSE
from varsim.units import counted, format_bytes

_BETTER: Final = {"cost": "cheaper", "time": "faster", "step": "faster"}
_SHARE: Final = 0.005  # a smaller share of time is not worth a word


def sentences(plan: Plan) -> list[str]:
    """All that there is to say."""
    return [*answer(plan), *_binding(plan), *notes(plan), effort(plan)]


def answer(plan: Plan) -> list[str]:
    """The answer, or why there is none; then what else a planner asks of it."""
    best = plan.found.answer
    if best is None:
        return [*_none(plan), *_guesses(plan), *_others(plan, None)]
    return [
        _best(plan, best),
        *_chosen(best),
        *_margins(plan, best),
        *_checked(plan),
        *_guesses(plan),
        *_runner_up(plan),
        *_others(plan, best),
        *_free(plan),
    ]


def _binding(plan: Plan) -> list[str]:
    """Which target stands in the way of less, and what the machines are busy with."""
    best, bound = plan.found.answer, plan.binding
    if best is None or bound is None:
        return []
    lines = []
    near = bound.nearest
    less = _BETTER.get(plan.question.objective.partition("_")[0], "lower")
    if near is not None and near.missed:
        worst = max(near.missed, key=_gap)
        lines.append(
            f"What keeps the answer from being {less}: {_missed(plan, worst)}. The closest that is "
            f"{less}, {plan.places.told(near.cell) or near.cell.strategy.title} "
            f"({_value(plan, near)}), {_reaches(plan, worst, near)}."
        )
    elif near is None:
        lines.append(f"The space has no {less} cell of {best.cell.strategy.mention}: widen it?")
    followed = best.cell.scenario.failures is not None and not in_run(best.cell.scenario.failures)
    alone, first = ", as long as nothing fails" * followed, bound.busy[:1]
    most = first + [use for use in bound.busy if use.kind != first[0].kind][:1]
    if most:
        parts = [f"{resource(use)} ({busy(use)})" for use in most]
        lines.append(f"The answer's busiest resource{alone}: {'; then '.join(parts)}.")
    shares = [
        f"{_activity(name)} {_percent(part)}" for name, part in bound.shares if part >= _SHARE
    ]
    return [*lines, f"Its workers' time{alone}: {', '.join(shares)}."]


def effort(plan: Plan) -> str:
    """How many cells were simulated, and why the rest needed none."""
    found = plan.found
    count, cells = len(found.looked_at), found.distinct
    often = [one.replications for one in found.looked_at.values()] or [0]
    text = f"Simulated: {count:,} of {cells:,} cells that differ"
    if found.combinations > cells:
        text += f" (of {found.combinations:,} in the space)"
    least, most = min(often), max(often)
    of_each = f"{least} to {most}" if least < most else f"{most}"
    text += f", {plan.made:,} runs, {of_each} of each cell"
    if not plan.question.enumerated:
        whole = plan.question.combinations
        return (
            f"{text}; these were chosen from {whole:,} combinations, so a better one may have "
            "been missed."
        )
    if count < cells:
        about = OBJECTIVES[plan.question.objective].about
        text += (
            f"; for the other {cells - count:,}, {about} alone, known in advance, is no lower "
            "than that of a cell that meets the targets"
        )
    return text + "."


def notes(plan: Plan) -> list[str]:
    """What a reader must know besides."""
    best = plan.found.answer
    asked = plan.question.base if best is None else best.cell.scenario
    lines = [*_short(plan), *_tails(plan), *_rates(plan)]
    lines += filter(None, (f(asked) for f in (*MEASURED, misfit)))
    lines += left_out(plan.too_large)
    for one, check in plan.found.rejected[:3]:
        worst = max(check.missed, key=_gap, default=None)
        why = "its fresh runs failed" if worst is None else _reaches(plan, worst, check)
        if check.verdict == "short":
            why = "computes fewer than two rounds of gradients"
        lines.append(
            f"{plan.places.full(one.cell)} ({_value(plan, one)}) met the targets at first, by "
            f"luck: with fresh seeds it {why}."
        )
    if len(plan.found.rejected) > 3:
        lines.append(f"So did {len(plan.found.rejected) - 3} more.")
    undecided = [one for one in plan.found.looked_at.values() if one.verdict == "open"]
    if undecided:
        lines.append(
            f"{counted(len(undecided), 'cell is', 'cells are')} too close to a target to be relied "
            "on, even after "
            f"{max(one.replications for one in undecided)} replications."
        )
    failed = [one for one in plan.found.looked_at.values() if one.failure]
    if failed:
        first = failed[0].failure.splitlines()[0]
        lines.append(
            f"{counted(len(failed), 'cell')} failed, such as "
            f"{plan.places.full(failed[0].cell)}: {first}"
        )
    return lines


def left_out(cells: Sequence[Cell]) -> list[str]:
    """Which cells are not run as they do not fit into memory, by strategy."""
    counts = Counter(cell.strategy.mention for cell in cells)
    if not counts:
        return []
    said = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    first = cells[0]
    (misfit, *_) = first.point.scenario.misfits(first.strategy)
    needs, has = format_bytes(misfit.needs), format_bytes(misfit.has)
    return [
        f"Cells left out because they do not fit into memory: {said}; the first needs {needs}, and "
        f"a {misfit.where} has {has} (memory.exceeded: mark includes them)."
    ]


def _short(plan: Plan) -> list[str]:
    """That some runs are short, and what makes them longer unless that is in the space."""
    varied = any(quantity.place[0] == "stop" for quantity in plan.question.quantities)
    stop = None if varied else plan.question.base.stop
    fine = [one for one in plan.found.looked_at.values() if not one.failure]
    return short_rows({plan.places.full(one.cell): one.done for one in fine}, "cells", stop)


def _tails(plan: Plan) -> Iterator[str]:
    """That steps have no finite variance, of whom; that runs hold few spells, in which cells."""
    fine = [one for one in plan.found.looked_at.values() if not one.failure]
    points = {
        tuple(value.text for value in one.cell.point.values): one.cell.point.scenario
        for one in fine
    }
    asked = [
        scenario.with_only(tuple(map(scenario.strategy, plan.question.strategies)))
        for scenario in points.values()
    ]
    yield from at_points(asked, heavy_tail)
    ran = {
        plan.places.full(one.cell): (one.cell.scenario, one.cell.label, one.done.gradients)
        for one in fine
    }
    yield from spells_of_rows(ran, "cells")


def _rates(plan: Plan) -> list[str]:
    """At which learning rates the times to the loss are, where the space does not say so."""
    question = plan.question
    asked = OBJECTIVES[question.objective].needs_loss
    asked = asked or "time_to_loss" in question.targets.bounds
    varied = any("learning_rate" in quantity.place for quantity in question.quantities)
    if not asked or varied:
        return []
    own = ", ".join(
        f"{mention(question.base, name)} at {rate(question.base, name)}"
        for name in question.strategies
    )
    return [
        f"Loss {question.loss:g} is reached at the learning rates of the file, {own}; for the "
        "best rate of each, run varsim tune FILE without the plan."
    ]


def _best(plan: Plan, best: Standing) -> str:
    about = OBJECTIVES[plan.question.objective].about
    where = "at which every target is met" if plan.question.targets.bounds else "there is"
    hourly = ""
    if plan.question.objective in COSTS and plan.question.objective != "cost_per_hour":
        hourly = f", {best.hourly:,.2f} {plan.question.currency} an hour"
    return (
        f"Answer: {_full(plan, best)}: {_value(plan, best)}{hourly}, the lowest "
        f"{about.removeprefix('the ')} {where}."
    )


def _chosen(best: Standing) -> list[str]:
    """How long the interval is that `every: optimal` means."""
    if math.isnan(best.every.mean):
        return []
    of_work = "" if in_run(best.cell.scenario.failures) else " of work"
    return [f"Its optimal interval between checkpoints is {lasting(best.every)}{of_work}."]


def _full(plan: Plan, one: Standing) -> str:
    """The strategy of a cell, and where it is; and whether it does not fit its device."""
    return plan.places.full(one.cell) + too_large(one.cell.scenario, one.cell.label)


def _margins(plan: Plan, best: Standing) -> list[str]:
    lines = []
    for one in best.judgements:
        target = said(one.target, one.bound, plan.question.loss)
        sure = amount(one.target, one.surely)
        sign = "at least" if BOUNDS[one.target].at_least else "at most"
        certain = f" on average, {_sure(plan)} {sign} {sure}"
        lines.append(
            f"Target {target}: {amount(one.target, one.mean)}"
            f"{'' if best.exact else certain}: {_spare(one)}."
        )
    if not best.judgements:
        speed = plus_minus(best.speed, unit=speed_named(plan.question.base))
        lines.append(f"Throughput: {speed}.")
    return lines


def _checked(plan: Plan) -> list[str]:
    check = plan.found.check
    if check is None:
        assert plan.found.answer is not None
        return [once(plan.found.answer.cell.case.scenario)]
    seed = check.cell.point.scenario.seed
    text = f"Run {check.replications} times with fresh seeds (seed {seed})"
    reached = [f"{amount(one.target, one.mean)} ({_spare(one)})" for one in check.judgements]
    if not reached:
        return [f"{text}: {_value(plan, check)}."]
    return [f"{text} it still meets every target: {', '.join(reached)}."]


def _guesses(plan: Plan) -> list[str]:
    """That the step time is a guess, and what becomes of the answer at other speeds."""
    if plan.guess is None:
        return []
    lines = [guess_said(plan.guess)]
    for speed, there in plan.guess.answers.items():
        missed = [one for one in there.judgements if not one.met]
        if there.failure:
            told = f"its runs fail: {there.failure.splitlines()[0]}"
        elif missed:
            told = "; it ".join(_reaches(plan, one, there) for one in missed)
            told = f"it misses the targets: it {told}"
        elif there.judgements:
            spare = (f"{amount(one.target, one.mean)}" for one in there.judgements)
            told = f"it still meets every target ({', '.join(spare)})"
        else:
            told = f"it does {plus_minus(there.speed, unit=speed_named(plan.question.base))}"
        lines.append(f"At {SPEED_WORDS[speed]} {told}.")
    if plan.guess.answers:
        half, again = SPEED_WORDS[min(SPEED_WORDS)], guess_again(plan.guess)
        lines.append(f"For the answer at {half}, run the same plan with {again}.")
    return lines


def _runner_up(plan: Plan) -> list[str]:
    second = plan.found.runner_up
    if second is None:
        return ["There is no runner-up: no other cell that was run meets every target."]
    more = _more(plan, second)
    lines = [f"Runner-up: {_full(plan, second)}: {_value(plan, second)}, {more}."]
    close = [one for one in plan.found.compared.values() if one.said == CLOSE]
    if close:
        others = "another cell that meets" if len(close) == 1 else f"{len(close)} others that meet"
        lines.append(
            f"Which is the lowest is {CLOSE} between the answer and {others} every target: the "
            "answer has the lowest mean."
        )
    return lines


def _free(plan: Plan) -> list[str]:
    """What the answer has at no cost, as it has no price."""
    return [
        f"No price is given for {one.name}: the answer uses {one.has} at no cost ({one.remedy})."
        for one in unpriced(plan.found)
    ]


def _others(plan: Plan, best: Standing | None) -> list[str]:
    """The best cell of every other strategy."""
    lines = []
    for label in plan.question.strategies:
        if best is not None and label == best.cell.label:
            continue
        ranking = plan.found.ranking(label)
        if ranking and best is not None:
            first = ranking[0]
            where = plan.places.told(first.cell)
            large = too_large(first.cell.scenario, label)
            lines.append(
                f"The best of {first.cell.strategy.mention}{large}{where and f', with {where}'}: "
                f"{_value(plan, first)}, {_more(plan, first)}."
            )
        elif (near := closest(plan.found, label)) is not None:
            lines.append(_in_vain(plan, label, near))
    return lines


def _none(plan: Plan) -> list[str]:
    near = closest(plan.found)
    lines = ["No answer: no cell of the space surely meets every target."]
    if near is None and _short(plan):
        lines = ["No answer: the runs are too short to say which cell it is."]
    if near is not None and not near.speed.mean:
        lines = ["No answer: at no cell is any work kept; `varsim run` of one says why."]
    if near is not None and near.missed:
        lines.append(
            f"The closest, {plan.places.full(near.cell)} ({_value(plan, near)}), "
            f"{_misses(plan, near)}."
        )
    return lines


def _in_vain(plan: Plan, label: str, near: Standing) -> str:
    count = sum(one.cell.label == label for one in plan.found.looked_at.values())
    who = near.cell.strategy.mention
    none = f"None of the {count:,} cells of {who}" if count > 1 else f"No cell of {who}"
    if not near.missed:
        return f"{none} " + ("meets the targets." if near.speed.mean else "keeps any work.")
    where = plan.places.told(near.cell)
    return (
        f"{none} surely meets every target: the closest"
        f"{where and f', with {where}'} ({_value(plan, near)}), {_misses(plan, near)}."
    )


def _sure(plan: Plan) -> str:
    more = "" if plan.guess is None else ", if the guess of the step time is right,"
    return f"with 95 % certainty{more}"


def _missed(plan: Plan, one: Judgement) -> str:
    return said(one.target, one.bound, plan.question.loss)


def _misses(plan: Plan, of: Standing) -> str:
    """Every target that a cell does not surely meet, and what it reaches of it."""
    told = []
    for one in sorted(of.missed, key=_gap, reverse=True):
        reaches = _reaches(plan, one, of)
        named = "" if reaches.startswith("misses") else f"misses {_missed(plan, one)}: it "
        told.append(f"{named}{reaches}")
    return "; and ".join(told)


def _reaches(plan: Plan, one: Judgement, of: Standing) -> str:
    """`reaches 3,900 examples/s, 2.5 % too few`."""
    if math.isnan(one.mean):
        return f"misses {_missed(plan, one)}: not reached in every replication"
    average = margin(one, mean=True)
    if average >= 0:
        return (
            f"reaches {amount(one.target, one.mean)} on average, but {_sure(plan)} only "
            f"{amount(one.target, one.surely)} ({of.replications} replications)"
        )
    off = f"{_percent(-average)} " if one.bound else ""
    if one.target in SHARES and one.bound:
        off = f"{digits(-100 * average * one.bound)} points "
    side = "below" if BOUNDS[one.target].at_least else "above"
    return f"reaches {amount(one.target, one.mean)}, {off}{side} {amount(one.target, one.bound)}"


def _value(plan: Plan, one: Standing) -> str:
    if one.failure or math.isnan(one.objective.mean):
        return "no number"
    return amount_told(plan.question.objective, one.objective, plan.question.currency)


def _more(plan: Plan, one: Standing) -> str:
    """By how much it is more than the answer, as far as that is sure."""
    _, lead, said = plan.found.compared[one.cell.number]
    best = plan.found.answer
    if said == SAME and best is not None:
        more = " with more that costs nothing here" if one.free > best.free else ""
        slower = "as much, but slower" if one.speed.mean < best.speed.mean else "as much"
        return f"{slower}{',' * ('but' in slower and more != '')}{more}"
    if lead.note or best is None:
        gap = one.objective.mean - (0.0 if best is None else best.objective.mean)
        more = f"{amount_told(plan.question.objective, gap, plan.question.currency)} more"
    else:
        side = "more" if lead.mean >= 1 else "less"
        more = f"{_percent(abs(lead.mean - 1))} {side}"
        if lead.low < lead.high:
            more += f" ({_percent(lead.low - 1)} to {_percent(lead.high - 1)})"
    return more if said == WORSE else f"{more}, {said}"


def _spare(one: Judgement) -> str:
    gap = margin(one)
    if not one.bound:
        return "met" if gap >= 0 else "missed"
    much = _percent(abs(gap))
    if one.target in SHARES:
        sure = "surely " * (one.surely != one.mean)
        much = f"{sure}{digits(100 * abs(gap) * one.bound)} points"
    return f"{much} to spare" if gap >= 0 else f"{much} short of it"


def _gap(one: Judgement) -> float:
    gap = -margin(one)
    return math.inf if math.isnan(gap) else gap


def _percent(share: float) -> str:
    size = round(100 * share, 1) + 0.0
    return f"{size:.0f} %" if abs(size) >= 9.95 or size == 0 else f"{size:.1f} %"


def _activity(name: str) -> str:
    assert name in ACTIVITIES
    return {"compute": "computing", "read": "reading", "write": "writing", "queue": "queueing"}.get(
        name, f"waiting ({name})" if name != "down" else "down"
    )


def speed_named(scenario: Scenario) -> str:
    """What the throughput of the cells of a plan is."""
    return SPEED if scenario.failures is None else SPEED_KEPT


def amount_told(name: str, found: Estimate | float, currency: str) -> str:
    """An objective as text, with its unit."""
    estimate = found if isinstance(found, Estimate) else Estimate(found, found, found, 1)
    if name in ("time_to_target", "step_time"):
        return time(estimate)
    if name in COSTS:
        unit = currency + COSTS[name].unit
        exact = estimate.mean >= 1 and not estimate.half_width > 0
        return f"{estimate.mean:,.2f} {unit}" if exact else plus_minus(estimate, unit=unit)
    if name == "wasted":
        return plus_minus(estimate, 100, "%")
    if name == "staleness":
        return plus_minus(estimate, unit="updates")
    noun = {"workers": "worker", "parameter_servers": "parameter server"}[name]
    return f"{estimate.mean:,.0f} {noun}{'' if estimate.mean == 1 else 's'}"
