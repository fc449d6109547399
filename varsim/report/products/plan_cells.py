"""The cells of a plan as rows: what they cost, what they reach of each target, where they lie."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from varsim.report.told import Cell, Column, Number, Table
from varsim.report.wording import given, names, unheld
from varsim.scenario.plan import OBJECTIVES
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario
from varsim.study.cost import COSTS
from varsim.study.plan.standing import Standing, Verdict, margin
from varsim.study.statistics import Estimate
from varsim.study.targets import Judgement

if TYPE_CHECKING:
    from varsim.study.plan.plan import Plan
    from varsim.study.plan.search import Found

SHARES: Final = ("goodput", "wasted_compute")  # apart by points, not by a share of a share
_UNITS: Final = {
    **{"time_to_target": "s", "step_time_mean": "s", "wasted_compute": "share"},
    "staleness_mean": "updates",
}
_MACHINES: Final = {"workers": "worker", "parameter_servers": "server"}
_OF_TARGETS: Final = {
    "throughput": ("examples/s", ""),
    "staleness_p99": ("stale p99", ""),
    "wasted_compute": ("wasted", "share"),
    "step_time_p99": ("step p99", "s"),
    "time_to_target": ("to loss {loss:g}", "s"),
    "goodput": ("goodput", "share"),
}
_VERDICTS: Final[dict[Verdict, str]] = {
    "feasible": "met",
    "infeasible": "missed",
    "open": "too close",
    "short": "too short",
}


def speed_named(scenario: Scenario) -> str:
    """What the throughput of the cells of a plan is."""
    return "examples/s" if scenario.failures is None else "examples/s kept"


def amount(name: str, found: Estimate | float, currency: str) -> Number:
    """An objective, with its unit."""
    estimate = found if isinstance(found, Estimate) else Estimate(found, math.nan, math.nan, 1)
    unit = _UNITS.get(name, "")
    if name in COSTS:
        unit = currency + COSTS[name].unit
    elif name in _MACHINES:
        unit = _MACHINES[name] + "s" * (estimate.mean != 1)
    return Number.of(estimate, unit)


def of_target(one: Judgement, value: float) -> Number:
    """What a target is about, with its unit."""
    name, unit = _OF_TARGETS[one.target]
    return Number(value, unit=unit or (name if name == "examples/s" else "updates"))


def name_of(one: Standing) -> str:
    """What people call the strategy of a cell."""
    return names(one.cell.point.scenario)[one.cell.label]


def verdict(found: "Found", one: Standing) -> str:
    """What became of a cell, in a word or two."""
    if one == found.answer:
        return "the answer"
    if one.cell.number in {rejected.cell.number for rejected, _ in found.rejected}:
        return "by luck"
    return "failed" if one.failure else _VERDICTS[one.verdict]


def table(plan: "Plan", rows: Sequence[Standing], verdicts: Sequence[str], corner: str) -> Table:
    """A row for each of some cells."""
    found = [*_numbers(plan, rows), Column("verdict", "verdict", tuple(verdicts))]
    found += [*_places(plan, rows), *_besides(plan, rows)]
    best = int(plan.found.answer is not None and plan.found.answer in rows[:1])
    return Table(tuple(map(name_of, rows)), tuple(found), corner=corner, best=best)


def _numbers(plan: "Plan", rows: Sequence[Standing]) -> Iterator[Column]:
    """What is minimized, and what is reached of each target."""
    question = plan.question
    head = OBJECTIVES[question.objective].about.removeprefix("the ")
    cells = [amount(question.objective, one.objective, question.currency) for one in rows]
    yield Column(question.objective, head, tuple(cells), bar=True)
    for target, bound in question.targets.bounds.items():
        name, unit = _OF_TARGETS[target]
        if target == "throughput":
            name = speed_named(question.base)
        sign = ">=" if BOUNDS[target] else "<="
        least = unheld(given(Number(bound, unit=unit)))
        head = f"{name.format(loss=question.loss)} {sign} {least}"
        yield Column(target, head, tuple(_reached(one, target) for one in rows), note="margin")


def _reached(one: Standing, target: str) -> Cell:
    """The mean, and by how much of the bound the target is surely met; of shares, in points."""
    for own in one.judgements:
        if own.target == target:
            spare = margin(own)
            if target in SHARES and own.bound:
                spare *= own.bound
            return Number(own.mean, unit=_OF_TARGETS[target][1], margin=spare, missing="never")
    return "-"


def _places(plan: "Plan", rows: Sequence[Standing]) -> Iterator[Column]:
    """Where the cells lie, a column for each quantity that makes a difference."""
    places = [plan.places.values(one.cell) for one in rows]
    for name in dict.fromkeys(name for place in places for name in place):
        yield Column(name, name, tuple(place.get(name, "") for place in places))


def _besides(plan: "Plan", rows: Sequence[Standing]) -> Iterator[Column]:
    """Throughput and price, where they are neither minimized nor targets, and more."""
    question = plan.question
    if question.targets.throughput is None:
        speeds = tuple(Number.of(one.speed) for one in rows)
        yield Column("throughput", speed_named(question.base), speeds)
    if question.objective != "cost_per_hour" and question.base.prices is not None:
        prices = [amount("cost_per_hour", one.hourly, question.currency) for one in rows]
        yield Column("cost_per_hour", "cost per hour", tuple(prices), detail=True)
    elif question.base.prices is None:
        machines = tuple(Number(one.hourly) for one in rows)
        yield Column("machines", "machines", machines, detail=True)
    if any(not math.isnan(one.every.mean) for one in rows):
        every = tuple(Number.of(one.every, "days") for one in rows)
        yield Column("optimal_interval", "optimal interval", every)
