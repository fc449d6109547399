"""The configurations of a plan as rows, for people and as plain data."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from varsim.report.files.save import head
from varsim.report.formats import answer
from varsim.report.products import candidates
from varsim.report.told import (
    Cell,
    Column,
    Data,
    Number,
    Report,
    Table,
    plain_estimate,
    plain_number,
)
from varsim.report.wording import given, names, shown, unheld
from varsim.scenario.plan import OBJECTIVES
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario
from varsim.scenario.writing import provenance_of_many
from varsim.study.candidate import Places
from varsim.study.judged import Judged, Verdict, margin
from varsim.study.lives import INTERVAL
from varsim.study.metrics import COSTS, throughput
from varsim.study.plan import trade, unpriced
from varsim.study.verdict import Estimate, Judgement

if TYPE_CHECKING:
    from varsim.study.cheapest import Cheapest
    from varsim.study.plan import Plan


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


def name_of(one: Judged) -> str:
    """What people call the strategy of a cell."""
    return names(one.candidate.point.scenario)[one.strategy]


def verdict(plan: "Plan", one: Judged) -> str:
    """What became of a cell, in a word or two."""
    if one == plan.best:
        return "the answer"
    if one.candidate.number in {rejected.candidate.number for rejected, _ in plan.rejected}:
        return "by luck"
    return "failed" if one.failure else _VERDICTS[one.verdict]


def table(plan: "Plan", rows: Sequence[Judged], verdicts: Sequence[str], corner: str) -> Table:
    """A row for each of some cells."""
    found = [*_numbers(plan, rows), Column("verdict", "verdict", tuple(verdicts))]
    places = [plan.places.values(one.candidate) for one in rows]
    best = int(plan.best is not None and plan.best in rows[:1])
    told = candidates.table(map(name_of, rows), places, found, corner, best=best, first=False)
    return replace(told, columns=(*told.columns, *_besides(plan, rows)))


def _numbers(plan: "Plan", rows: Sequence[Judged]) -> Iterator[Column]:
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


def _reached(one: Judged, target: str) -> Cell:
    """The mean, and by how much of the bound the target is surely met; of shares, in points."""
    for own in one.judgements:
        if own.target == target:
            spare = margin(own)
            if target in SHARES and own.bound:
                spare *= own.bound
            return Number(own.mean, unit=_OF_TARGETS[target][1], margin=spare, missing="never")
    return "-"


def _besides(plan: "Plan", rows: Sequence[Judged]) -> Iterator[Column]:
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


SCENARIO: Final = "plan.yaml"


def data(plan: "Plan") -> Data:
    """The rows of `configurations.csv`: all that were run, in the order of the space."""
    question = plan.question
    machines = "cost_per_hour" if question.base.prices is not None else "machines"
    objective = question.objective if question.objective != machines else "minimized"
    swept = [quantity.column for quantity in question.quantities]
    bounds = [f"{name}_confidence_bound" for name in question.targets.bounds]
    columns = ["configuration", "strategy", *swept, "replications", "verdict"]
    columns += [objective, f"{objective}_half_width", machines]
    estimated = [throughput(question.base), *([INTERVAL] if _chosen(plan) else [])]
    columns += [name for metric in estimated for name in (metric, f"{metric}_half_width")]
    rows = []
    for number, one in sorted(plan.outcomes.items()):
        reached = {judgement.target: judgement.confidence_bound for judgement in one.judgements}
        numbers = (part for name in estimated for part in _mean_and_half(one.estimate(name)))
        rows.append(
            [
                *(number, one.strategy, *(value.number for value in one.candidate.point.values)),
                *(one.replications, verdict(plan, one), *_mean_and_half(one.objective)),
                *(one.hourly, *numbers),
                *(reached.get(name, math.nan) for name in question.targets.bounds),
                one.failure.partition("\n")[0],
            ]
        )
    return Data([*columns, *bounds, "failure"], rows)


def _mean_and_half(found: Estimate) -> tuple[float, float]:
    return found.mean, found.half_width


def document(plan: "Plan") -> dict[str, Any]:
    """All of it as plain data."""
    question = plan.question
    cell, traded = partial(_cell, plan), trade(plan)
    return candidates.facts(
        *("plan", question.name, provenance_of(plan), plan.sha256),
        *(plan.report.headline, plan.report.notes),
        asked_sha256=question.sha256,
        minimize=question.objective,
        currency=question.currency or None,
        targets=question.targets.bounds,
        loss=question.loss,
        space={
            quantity.path: list(texts)
            for quantity, texts in zip(question.quantities, question.texts, strict=True)
        },
        strategies=list(question.strategies),
        tolerance=question.tolerance,
        most_replications=question.most_replications,
        answer=cell(plan.best),
        fresh_seeds=cell(plan.check),
        runner_up=cell(plan.runner_up if plan.best else None),
        best_of_each_strategy={
            label: cell(next(iter(plan.feasible(label)), None)) for label in question.strategies
        },
        guess=_guess(plan),
        unpriced=[one._asdict() for one in unpriced(plan)],
        binding=_binding(plan),
        pareto=list(map(cell, traded.front)),
        pareto_by_means_alone=list(map(cell, traded.unsure)),
        configurations={
            "combinations": question.combinations,
            "left_by_where": len(plan.candidates),
            "distinct": plan.distinct,
            "simulated": len(plan.outcomes),
            "runs": plan.made,
            "rejected_with_fresh_seeds": [one.candidate.number for one, _ in plan.rejected],
        },
        run_columns=plan.run_columns,
        run_rows=[list(map(plain_number, row)) for row in plan.run_rows],
    )


def _cell(plan: "Plan", one: Judged | None) -> dict[str, Any] | None:
    """A cell and what is known of it."""
    if one is None:
        return None
    machines = one.candidate.machines
    known = not math.isnan(one.every.mean)
    chosen = {INTERVAL: plain_estimate(one.every)} if known else {}
    return {
        "configuration": one.candidate.number,
        "strategy": one.strategy,
        "at": plan.places.values(one.candidate),
        "seed": one.candidate.point.scenario.seed,
        "replications": one.replications,
        "workers": machines.workers,
        "servers": machines.servers,
        "minimized": plain_estimate(one.objective),
        "cost_per_hour" if machines.prices else "machines": plain_number(one.hourly),
        throughput(plan.question.base): plain_estimate(one.speed),
        **chosen,
        "targets": [
            {
                "target": judgement.target,
                "bound": judgement.bound,
                "mean": plain_number(judgement.mean),
                "confidence_bound": plain_number(judgement.confidence_bound),
                "met": judgement.met,
            }
            for judgement in one.judgements
        ],
        "verdict": verdict(plan, one),
    }


def _guess(plan: "Plan") -> dict[str, Any] | None:
    """The answer at multiples of the speed that is guessed."""
    if plan.guess is None:
        return None
    return {"at_speed": {f"{at:g}": _cell(plan, one) for at, one in plan.guess.items()}}


def _binding(plan: "Plan") -> dict[str, Any] | None:
    if plan.best is None:
        return None
    return {
        "nearest_below": _cell(plan, plan.nearest),
        "busy": [use._asdict() for use in plan.busy],
        "time_shares": dict(plan.shares),
    }


def provenance_of(plan: "Plan") -> dict[str, str | int]:
    """Of what was asked, and of all cells that were run."""
    run = (one.candidate.point.scenario for one in plan.outcomes.values())
    return provenance_of_many([plan.question.base, *run])


def _chosen(plan: "Plan") -> bool:
    """Whether the interval between checkpoints is chosen in some cell."""
    return any(not math.isnan(one.every.mean) for one in plan.outcomes.values())


def scenario_text(plan: "Plan", told: Report) -> str | None:
    """The answer as a file that says what it is; None where there is none."""
    from varsim.scenario.writing import dump_scenario

    if plan.scenario is None:
        return None
    return (
        head(told.question.partition("\n")[0])
        + head(answer(told).partition("\n")[0])
        + _with_prices_unused(plan, dump_scenario(plan.scenario))
    )


def _with_prices_unused(plan: "Plan", text: str) -> str:
    """A price of what the answer has none of is told of as the scenario gives it, not as 0."""
    best = plan.best
    prices = None if best is None else best.candidate.point.scenario.prices
    for key in [] if prices is None else prices.given:
        said = f"  # {key}: {getattr(prices, key)} (no effect on this strategy)\n"
        text = text.replace(f"  {key}: 0.0\n", said)
    return text


def best_so_far(study: "Cheapest") -> Callable[[str, float], str]:
    """What the progress of a plan says of its best configuration."""
    question, places = study.question, Places(study.question.quantities, study.candidates)

    def say(number: str, value: float) -> str:
        least = shown(amount(question.objective, value, question.currency))
        return f"{places.full(study.known[int(number)])}: {least}"

    return say
