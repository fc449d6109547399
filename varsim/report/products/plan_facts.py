"""All that is known of a plan as plain data: `plan.json`, `cells.csv`, the answer as a file."""

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from varsim.report.files.save import head
from varsim.report.formats import answer
from varsim.report.notes import plain
from varsim.report.products.plan_cells import verdict
from varsim.report.told import Data, Report, plain_estimate
from varsim.report.told import plain_number as number
from varsim.scenario.provenance import MADE_BY, provenance_of_many
from varsim.study.goodput import INTERVAL, throughput
from varsim.study.plan.findings import trade, unpriced
from varsim.study.plan.standing import Standing
from varsim.study.statistics import CONFIDENCE

if TYPE_CHECKING:
    from varsim.study.plan.plan import Plan

SCENARIO: Final = "plan.yaml"


def data(plan: "Plan") -> Data:
    """The rows of `cells.csv`."""
    return Data(_columns(plan), list(_rows(plan)))


def document(plan: "Plan") -> dict[str, Any]:
    """All of it as plain data."""
    found, question = plan.found, plan.question
    cell, traded = partial(_cell, plan), trade(found)
    return {
        "made_by": MADE_BY,
        "kind": "plan",
        "name": question.name,
        "provenance": provenance_of(plan),
        "headline": [plain(note) for note in plan.report.headline],
        "notes": [plain(note) for note in plan.report.notes],
        "result_sha256": plan.sha256,
        "asked_sha256": question.sha256,
        "confidence": CONFIDENCE,
        "minimize": question.objective,
        "currency": question.currency or None,
        "targets": question.targets.bounds,
        "loss": question.loss,
        "space": {
            quantity.path: list(texts)
            for quantity, texts in zip(question.quantities, question.texts, strict=True)
        },
        "strategies": list(question.strategies),
        "tolerance": question.tolerance,
        "most_replications": question.most_replications,
        "answer": cell(found.answer),
        "fresh_seeds": cell(found.check),
        "runner_up": cell(found.runner_up if found.answer else None),
        "best_of_each_strategy": {
            label: cell(next(iter(found.ranking(label)), None)) for label in question.strategies
        },
        "guess": _guess(plan),
        "unpriced": [one._asdict() for one in unpriced(found)],
        "binding": _binding(plan),
        "pareto": list(map(cell, traded.front)),
        "pareto_by_means_alone": list(map(cell, traded.unsure)),
        "cells": {
            "combinations": question.combinations,
            "left_by_where": found.combinations,
            "distinct": found.distinct,
            "simulated": len(found.looked_at),
            "runs": plan.made,
            "rejected_with_fresh_seeds": [one.cell.number for one, _ in found.rejected],
        },
    }


def _cell(plan: "Plan", one: Standing | None) -> dict[str, Any] | None:
    """A cell and what is known of it."""
    if one is None:
        return None
    machines = one.cell.machines
    known = not math.isnan(one.every.mean)
    chosen = {f"{INTERVAL}_s": plain_estimate(one.every)} if known else {}
    return {
        "cell": one.cell.number,
        "strategy": one.cell.label,
        "at": plan.places.values(one.cell),
        "seed": one.cell.point.scenario.seed,
        "replications": one.replications,
        "workers": machines.workers,
        "servers": machines.servers,
        "minimized": plain_estimate(one.objective),
        "cost_per_hour" if machines.prices else "machines": number(one.hourly),
        throughput(plan.question.base): plain_estimate(one.speed),
        **chosen,
        "targets": [
            {
                "target": judgement.target,
                "bound": judgement.bound,
                "mean": number(judgement.mean),
                "surely": number(judgement.surely),
                "met": judgement.met,
            }
            for judgement in one.judgements
        ],
        "verdict": verdict(plan.found, one),
    }


def _guess(plan: "Plan") -> dict[str, Any] | None:
    """The answer at multiples of the speed that is guessed."""
    if plan.guess is None:
        return None
    return {"at_speed": {f"{at:g}": _cell(plan, one) for at, one in plan.guess.answers.items()}}


def _binding(plan: "Plan") -> dict[str, Any] | None:
    if plan.binding is None:
        return None
    return {
        "nearest_below": _cell(plan, plan.binding.nearest),
        "busy": [use._asdict() for use in plan.binding.busy],
        "time_shares": dict(plan.binding.shares),
    }


def provenance_of(plan: "Plan") -> dict[str, str | int]:
    """Of what was asked, and of all cells that were run."""
    run = (one.cell.point.scenario for one in plan.found.looked_at.values())
    return provenance_of_many([plan.question.base, *run])


def _columns(plan: "Plan") -> list[str]:
    """The names of the columns of the cells, with units."""
    question = plan.question
    machines = "cost_per_hour" if question.base.prices is not None else "machines"
    objective = question.objective if question.objective != machines else "minimized"
    speed = throughput(question.base)
    chosen = [f"{INTERVAL}_s", f"{INTERVAL}_s_half_width"] if _chosen(plan) else []
    return [
        "cell",
        "strategy",
        *(quantity.column for quantity in question.quantities),
        "replications",
        "verdict",
        objective,
        f"{objective}_half_width",
        machines,
        speed,
        f"{speed}_half_width",
        *chosen,
        *(f"{name}_surely" for name in question.targets.bounds),
        "failure",
    ]


def _rows(plan: "Plan") -> Iterator[list[object]]:
    """Every cell that was run, in the order of the space."""
    chosen = _chosen(plan)
    for _, one in sorted(plan.found.looked_at.items()):
        surely = {judgement.target: judgement.surely for judgement in one.judgements}
        yield [
            one.cell.number,
            one.cell.label,
            *(value.number for value in one.cell.point.values),
            one.replications,
            verdict(plan.found, one),
            one.objective.mean,
            one.objective.half_width,
            one.hourly,
            one.speed.mean,
            one.speed.half_width,
            *((one.every.mean, one.every.half_width) if chosen else ()),
            *(surely.get(name, math.nan) for name in plan.question.targets.bounds),
            one.failure.splitlines()[0] if one.failure else "",
        ]


def _chosen(plan: "Plan") -> bool:
    """Whether the interval between checkpoints is chosen in some cell."""
    return any(not math.isnan(one.every.mean) for one in plan.found.looked_at.values())


def scenario_text(plan: "Plan", told: Report) -> str | None:
    """The answer as a file that says what it is; None where there is none."""
    from varsim.scenario.writing import dump_scenario

    if plan.scenario is None:
        return None
    return (
        head(told.question.partition("\n")[0])
        + head(answer(told).partition("\n")[0])
        + dump_scenario(plan.scenario)
    )
