"""What a plan says, in sentences: the answer, its margins, what else there is, what binds."""

import math
from typing import Final

from varsim.report.report import Table
from varsim.report.words.caution import (
    SPEED_WORDS,
    contradicted,
    guess_again,
    guess_said,
)
from varsim.report.words.phrases import plus_minus, time
from varsim.report.words.rates import rate
from varsim.report.words.resources import busy, resource
from varsim.report.words.targets import amount, said
from varsim.report.words.work import short_rows
from varsim.scenario.plan.objective import OBJECTIVES
from varsim.scenario.targets import BOUNDS
from varsim.study.cost import COSTS
from varsim.study.measure import ACTIVITIES
from varsim.study.plan.binding import Binding, closest
from varsim.study.plan.cell import Places
from varsim.study.plan.guess import Guess
from varsim.study.plan.pareto import shown, trade
from varsim.study.plan.search import Found
from varsim.study.plan.standing import Standing, Verdict, margin
from varsim.study.plan.unpriced import unpriced
from varsim.study.statistics import Estimate
from varsim.study.targets import Judgement
from varsim.study.verdict import CLOSE, SAME, WORSE

_BETTER: Final = {"cost": "cheaper", "time": "faster", "step": "faster"}
_VERDICTS: Final[dict[Verdict, str]] = {
    "feasible": "met",
    "infeasible": "missed",
    "open": "too close",
    "short": "too short",
}
_SHARE: Final = 0.005  # a smaller share of time is not worth a word


class Words:
    """The sentences about what was found; `places` says where cells lie.

    `guess`: what there is to say where the step time is one.
    """

    def __init__(self, found: Found, places: Places, guess: Guess | None = None) -> None:
        self._found, self._question = found, found.question
        self._places, self._guess = places, guess
        self._sure = "with 95 % certainty"
        if guess is not None:
            self._sure += ", if the guess of the step time is right,"

    def answer(self) -> list[str]:
        """The answer, or why there is none; then what else a planner asks of it."""
        best = self._found.answer
        if best is None:
            return [*self._none(), *self._guesses(), *self._others(None)]
        return [
            self._best(best),
            *self._margins(best),
            *self._checked(),
            *self._guesses(),
            *self._runner_up(),
            *self._others(best),
            *self._free(),
        ]

    def binding(self, best: Standing, bound: Binding) -> list[str]:
        """Which target stands in the way of less, and what the machines are busy with."""
        lines = []
        near = bound.nearest
        less = _BETTER.get(self._question.objective.partition("_")[0], "less")
        if near is not None and near.missed:
            worst = max(near.missed, key=lambda one: _gap(one))
            lines.append(
                f"What keeps it from being {less}: {self._missed(worst)}. The closest that would "
                f"be {less}, {self._places.told(near.cell) or near.cell.label} "
                f"({self._value(near)}), {self._reaches(worst, near)}."
            )
        elif near is None:
            lines.append(f"No {less} cell of '{best.cell.label}' is in the space: widen it?")
        first = bound.busy[:1]
        most = first + [use for use in bound.busy if use.kind != first[0].kind][:1]
        if most:
            parts = [f"{resource(use)} ({busy(use)})" for use in most]
            lines.append(f"Its busiest resource: {'; then '.join(parts)}.")
        shares = [f"{_activity(name)} {_percent(part)}" for name, part in bound.shares]
        shares = [
            text for text, (_, part) in zip(shares, bound.shares, strict=True) if part >= _SHARE
        ]
        return [*lines, f"The workers' time: {', '.join(shares)}."]

    def effort(self, runs: int) -> str:
        """How many cells were simulated, and why the rest needed none."""
        found = self._found
        count, cells = len(found.looked_at), found.distinct
        most = max((one.replications for one in found.looked_at.values()), default=0)
        text = f"Simulated: {count:,} of {cells:,} cells that differ"
        if found.combinations > cells:
            text += f" (of {found.combinations:,} points and strategies)"
        least = min((one.replications for one in found.looked_at.values()), default=0)
        of_each = f"{least} to {most}" if least < most else f"{most}"
        text += f", {runs:,} runs, {of_each} of each cell"
        if not self._question.enumerated:
            whole = self._question.combinations
            return (
                f"{text}; these were chosen from {whole:,} combinations, so that a better one may "
                "have been missed."
            )
        if count < cells:
            about = OBJECTIVES[self._question.objective].about
            text += (
                f"; of the other {cells - count:,} {about} alone, known beforehand, is no lower "
                "than that of a cell that meets the targets"
            )
        return text + "."

    def notes(self) -> list[str]:
        """What a reader must know besides."""
        best = self._found.answer
        asked = self._question.base if best is None else best.cell.scenario
        lines = [*self._short(), *self._rates(), *filter(None, [contradicted(asked)])]
        for one, check in self._found.rejected[:3]:
            worst = max(check.missed, key=_gap, default=None)
            why = "its fresh runs failed" if worst is None else self._reaches(worst, check)
            if check.verdict == "short":
                why = "computes fewer than two rounds of gradients"
            lines.append(
                f"{self._places.full(one.cell)} ({self._value(one)}) met the targets at first, by "
                f"luck: with fresh seeds it {why}."
            )
        if len(self._found.rejected) > 3:
            lines.append(f"So did {len(self._found.rejected) - 3} more.")
        undecided = [one for one in self._found.looked_at.values() if one.verdict == "open"]
        if undecided:
            lines.append(
                f"{len(undecided)} cells are too close to a target to be relied on, even after "
                f"{max(one.replications for one in undecided)} replications."
            )
        failed = [one for one in self._found.looked_at.values() if one.failure]
        if failed:
            first = failed[0].failure.splitlines()[0]
            lines.append(
                f"{len(failed)} cells failed, such as {self._places.full(failed[0].cell)}: {first}"
            )
        return lines

    def _short(self) -> list[str]:
        """That some runs are short, and what makes them longer unless that is in the space."""
        varied = any(quantity.place[0] == "stop" for quantity in self._question.quantities)
        stop = None if varied else self._question.base.stop
        fine = [one for one in self._found.looked_at.values() if not one.failure]
        return short_rows({self._places.full(one.cell): one.done for one in fine}, "cells", stop)

    def _rates(self) -> list[str]:
        """At which learning rates the times to the loss are, where the space does not say so."""
        question = self._question
        asked = OBJECTIVES[question.objective].needs_loss
        asked = asked or "time_to_loss" in question.targets.bounds
        varied = any("learning_rate" in quantity.place for quantity in question.quantities)
        if not asked or varied:
            return []
        own = ", ".join(f"'{name}' at {rate(question.base, name)}" for name in question.strategies)
        return [
            f"Loss {question.loss:g} is reached at the learning rates of the file, {own}; for the "
            "best rate of each, varsim tune FILE without the plan."
        ]

    def _best(self, best: Standing) -> str:
        about = OBJECTIVES[self._question.objective].about
        where = "at which every target is met" if self._question.targets.bounds else "there is"
        hourly = ""
        if self._question.objective in COSTS and self._question.objective != "cost_per_hour":
            hourly = f", {best.hourly:,.2f} {self._question.currency} an hour"
        return (
            f"Answer: {self._places.full(best.cell)}: {self._value(best)}{hourly}, the lowest "
            f"{about.removeprefix('the ')} {where}."
        )

    def _margins(self, best: Standing) -> list[str]:
        lines = []
        for one in best.judgements:
            target = said(one.target, one.bound, self._question.loss)
            sure = amount(one.target, one.surely)
            sign = "at least" if BOUNDS[one.target].at_least else "at most"
            certain = f" on average, {self._sure} {sign} {sure}"
            lines.append(
                f"Target {target}: {amount(one.target, one.mean)}"
                f"{'' if best.exact else certain}: {_spare(one)}."
            )
        if not best.judgements:
            lines.append(f"Throughput: {plus_minus(best.speed, unit='examples/s')}.")
        return lines

    def _checked(self) -> list[str]:
        check = self._found.check
        if check is None:
            return ["Nothing random has an effect on these numbers: they are exact, from one run."]
        seed = check.cell.point.scenario.seed
        text = f"Run {check.replications} times with fresh seeds (seed {seed})"
        reached = [f"{amount(one.target, one.mean)} ({_spare(one)})" for one in check.judgements]
        if not reached:
            return [f"{text}: {self._value(check)}."]
        return [f"{text} it still meets every target: {', '.join(reached)}."]

    def _guesses(self) -> list[str]:
        """That the step time is a guess, and what becomes of the answer at other speeds."""
        if self._guess is None:
            return []
        lines = [guess_said(self._guess)]
        for speed, there in self._guess.answers.items():
            missed = [one for one in there.judgements if not one.met]
            if there.failure:
                told = f"its runs fail: {there.failure.splitlines()[0]}"
            elif missed:
                told = "; it ".join(self._reaches(one, there) for one in missed)
                told = f"it misses the targets: it {told}"
            elif there.judgements:
                spare = (f"{amount(one.target, one.mean)}" for one in there.judgements)
                told = f"it still meets every target ({', '.join(spare)})"
            else:
                told = f"it does {plus_minus(there.speed, unit='examples/s')}"
            lines.append(f"At {SPEED_WORDS[speed]} {told}.")
        if self._guess.answers:
            half, again = SPEED_WORDS[min(SPEED_WORDS)], guess_again(self._guess)
            lines.append(f"What to take at {half} says the same plan with {again}.")
        return lines

    def _runner_up(self) -> list[str]:
        second = self._found.runner_up
        if second is None:
            return ["There is no runner-up: no other cell that was run meets every target."]
        more = self._more(second)
        lines = [f"Runner-up: {self._places.full(second.cell)}: {self._value(second)}, {more}."]
        close = [one for one in self._found.compared.values() if one.said == CLOSE]
        if close:
            others = "1 other cell" if len(close) == 1 else f"{len(close)} other cells"
            lines.append(
                f"Which is the lowest is {CLOSE} between the answer and {others} that meet every "
                "target: it has the lowest mean."
            )
        return lines

    def _free(self) -> list[str]:
        """What the answer has for nothing, as it has no price."""
        return [
            f"No price is given for {one.name}: the answer takes {one.has} for nothing "
            f"({one.remedy})."
            for one in unpriced(self._found)
        ]

    def _others(self, best: Standing | None) -> list[str]:
        """The best cell of every other strategy."""
        lines = []
        for label in self._question.strategies:
            if best is not None and label == best.cell.label:
                continue
            ranking = self._found.ranking(label)
            if ranking and best is not None:
                first = ranking[0]
                where = self._places.told(first.cell)
                lines.append(
                    f"The best of '{label}'{where and f', with {where}'}: "
                    f"{self._value(first)}, {self._more(first)}."
                )
            elif (near := closest(self._found, label)) is not None:
                lines.append(self._in_vain(label, near))
        return lines

    def _none(self) -> list[str]:
        near = closest(self._found)
        lines = ["No answer: no cell of the space surely meets every target."]
        if near is None and self._short():
            lines = ["No answer: the runs are too short to say which cell it is."]
        if near is not None and near.missed:
            lines.append(
                f"The closest, {self._places.full(near.cell)} ({self._value(near)}), "
                f"{self._misses(near)}."
            )
        return lines

    def _in_vain(self, label: str, near: Standing) -> str:
        count = sum(one.cell.label == label for one in self._found.looked_at.values())
        if not near.missed:
            return f"'{label}' meets the targets at none of {count} cells."
        where = self._places.told(near.cell)
        return (
            f"'{label}' surely meets every target at none of {count} cells: the closest"
            f"{where and f', with {where}'} ({self._value(near)}), {self._misses(near)}."
        )

    def _missed(self, one: Judgement) -> str:
        return said(one.target, one.bound, self._question.loss)

    def _misses(self, of: Standing) -> str:
        """Every target that a cell does not surely meet, and what it reaches of it."""
        told = []
        for one in sorted(of.missed, key=_gap, reverse=True):
            reaches = self._reaches(one, of)
            named = "" if reaches.startswith("misses") else f"misses {self._missed(one)}: it "
            told.append(f"{named}{reaches}")
        return "; and ".join(told)

    def _reaches(self, one: Judgement, of: Standing) -> str:
        """`reaches 3,900 examples/s, 2.5 % too few`."""
        if math.isnan(one.mean):
            return f"misses {self._missed(one)}: not reached in every replication"
        average = margin(one, mean=True)
        if average >= 0:
            return (
                f"reaches {amount(one.target, one.mean)} on average, but {self._sure} only "
                f"{amount(one.target, one.surely)} ({of.replications} replications)"
            )
        off = f"{_percent(-average)} " if one.bound else ""
        side = "below" if BOUNDS[one.target].at_least else "above"
        return (
            f"reaches {amount(one.target, one.mean)}, {off}{side} {amount(one.target, one.bound)}"
        )

    def _value(self, one: Standing) -> str:
        if one.failure or math.isnan(one.objective.mean):
            return "no number"
        return amount_told(self._question.objective, one.objective, self._question.currency)

    def _more(self, one: Standing) -> str:
        """By how much it is more than the answer, as far as that is sure."""
        _, lead, said = self._found.compared[one.cell.number]
        best = self._found.answer
        if said == SAME and best is not None:
            more = " with more that costs nothing here" if one.free > best.free else ""
            slower = "as much, but slower" if one.speed.mean < best.speed.mean else "as much"
            return f"{slower}{',' * ('but' in slower and more != '')}{more}"
        if lead.note or best is None:
            gap = one.objective.mean - (0.0 if best is None else best.objective.mean)
            more = f"{amount_told(self._question.objective, gap, self._question.currency)} more"
        else:
            side = "more" if lead.mean >= 1 else "less"
            more = f"{_percent(abs(lead.mean - 1))} {side}"
            if lead.low < lead.high:
                more += f" ({_percent(lead.low - 1)} to {_percent(lead.high - 1)})"
        return more if said == WORSE else f"{more}, {said}"


def table(found: Found, places: Places) -> Table:
    """The front of cost and throughput as text, cheapest first."""
    question = found.question
    rows = []
    front = _with_answer(found)
    costly = question.base.prices is not None
    for one in front:
        price = f"{one.hourly:,.2f}" if costly else f"{one.hourly:,.0f}"
        cells = {
            f"{question.currency}/h" if costly else "machines": price,
            "examples/s": plus_minus(one.speed),
        }
        if question.objective not in ("cost_per_hour", "workers", "parameter_servers"):
            cells[OBJECTIVES[question.objective].about.removeprefix("the ")] = amount_told(
                question.objective, one.objective, question.currency
            )
        cells |= {"with": places.told(one.cell), "targets": verdict(found, one)}
        rows.append((one.cell.label, cells))
    return Table.of(rows, "strategy")


def _with_answer(found: Found) -> list[Standing]:
    """What is shown of the front, and the answer in its place among that, cheapest first."""
    front = list(shown(trade(found).front, found.answer))
    if found.answer is not None and found.answer not in front:
        front.append(found.answer)
    return sorted(front, key=lambda one: one.hourly)


def verdict(found: Found, one: Standing) -> str:
    """What became of a cell, in a word or two."""
    if one == found.answer:
        return "the answer"
    if one.cell.number in {rejected.cell.number for rejected, _ in found.rejected}:
        return "by luck"
    if one.failure:
        return "failed"
    return _VERDICTS[one.verdict]


def table_note(found: Found) -> str:
    """What the table of cost and throughput is."""
    _, front, unsure = trade(found)
    left = len(front) - len(shown(front, found.answer))
    more = f"; {left} more are in plan.json" if left else ""
    within = f"{100 * found.question.base.report.equal_within:.2g} %"
    text = (
        "What more throughput costs: of the cells that were run and meet the other targets, each "
        f"is surely faster than the one above it, by more than {within}{more}."
    )
    if found.answer is not None and found.answer not in front:
        text += " The answer stands among them, though it is not surely faster than all above it."
    if unsure:
        one = len(unsure) == 1
        text += (
            f" {len(unsure)} more {'is' if one else 'are'} faster than all that cost less by "
            f"{'its mean' if one else 'their means'} alone (cells.csv has all)."
        )
    return text


def _spare(one: Judgement) -> str:
    gap = margin(one)
    if not one.bound:
        return "met" if gap >= 0 else "missed"
    return f"{_percent(gap)} to spare" if gap >= 0 else f"{_percent(-gap)} short of it"


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
