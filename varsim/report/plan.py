"""The report of a plan: its sentences, the front of cost and throughput, and every cell."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from varsim.inert import markdown
from varsim.report.files.keeping import head
from varsim.report.parts import plain, plain_estimate
from varsim.report.report import Figure, Media, Report, Source, Table, Text
from varsim.report.told import Data
from varsim.report.words.caution import guess_said
from varsim.report.words.phrases import DOT, lasting, plus_minus
from varsim.report.words.plan import amount_told, sentences, speed_named
from varsim.report.words.sweep import OPTIMAL, meanings
from varsim.scenario.plan import OBJECTIVES
from varsim.scenario.provenance import MADE_BY, provenance_of_many
from varsim.study.goodput import INTERVAL, throughput
from varsim.study.plan.findings import shown, trade, unpriced
from varsim.study.plan.plan import Plan
from varsim.study.plan.search import Found
from varsim.study.plan.standing import Standing, Verdict
from varsim.study.statistics import CONFIDENCE
from varsim.units import counted

SCENARIO: Final = "plan.yaml"
MOST_CELLS: Final = 2000  # of the table on the page; cells.csv has all
_FILES: Final = {
    SCENARIO: "the answer as a scenario",
    "plan.md": "what was printed",
    "plan.json": "the same and more, as data",
    "cells.csv": "every cell that was run: its place, objective, cost, examples/s, and what is "
    "certain of each target",
    "runs.sqlite": "every run, kept as it ended",
}
_MEANINGS: Final = {"targets": "whether the cell meets all targets, with 95 % certainty"}
_VERDICTS: Final[dict[Verdict, str]] = {
    "feasible": "met",
    "infeasible": "missed",
    "open": "too close",
    "short": "too short",
}


def report(plan: Plan, question: str = "") -> Report:
    """What there is to tell of a plan; `question` is what the scenario was to answer."""
    from varsim.report.plots.plan.pareto import plot

    said, name = tuple(sentences(plan)), plan.question.name
    first = question.splitlines()[:1]
    asked = [Text((f"*{markdown(one)}*",), plain=True, on=Media.MARKDOWN) for one in first]
    picture = plot(plan)
    alternative = f"{picture.heading} of every cell that was run"
    front = Media.TEXT if trade(plan.found).front else Media.MARKDOWN
    return Report(
        "plan",
        name,
        said,
        (),
        (
            Text((f"Plan: {name}",), "title", on=Media.MARKDOWN),
            *asked,
            Text(said, on=Media.TERMINAL),
            Text(said, "items", on=Media.MARKDOWN),
            Figure(picture, plan, alternative=alternative, on=Media.MARKDOWN | Media.PAGE),
            table(plan, on=front),
            Text((), on=Media.TERMINAL),
            *_cells(plan),
        ),
        _provenance(plan),
        question,
        _setting(plan),
        {plan.question.base.strategy(key).title: of for key, of in plan.question.families.items()},
        _source(plan),
        _FILES,
        facts=partial(document, plan),
        data=Data(_columns(plan), list(_rows(plan))),
    )


def _cells(plan: Plan) -> tuple[Text, Table]:
    """Every cell that was run, cheapest first, for a page: the front can be pointed at."""
    (every, _, front), speed = trade(plan.found), speed_named(plan.question.base)
    shown = every[:MOST_CELLS]
    places = [plan.places.values(one.cell) for one in shown]
    heads = dict.fromkeys((name for place in places for name in place), "")
    rows = [
        (one.cell.strategy.title, _numbers(plan, one) | heads | place | _verdict(plan, one))
        for one, place in zip(shown, places, strict=True)
    ]
    left = len(every) - len(shown)
    numbers = tuple(_numbers(plan, shown[0])) if shown else ()
    # While nothing fails all are as fast: then throughput says little.
    traded = plan.question.targets.goodput is None
    line = (
        "; the line joins those whose mean is higher than that of all that cost less, of those "
        "that meet the other targets"
    )
    more = f"; {left:,} more are in cells.csv" if left else ""
    cells = Table.of(
        rows,
        "strategy",
        caption="Every cell that was run, cheapest first; a hollow point does not surely meet "
        f"every target{line if traded else ''}{more}",
        label="All cells",
        meanings={speed: meanings(plan.question.base)[speed], **_MEANINGS},
        axes=(numbers[0], numbers[1 if traded else -1]) if shown else (),
        front=[index for index, one in enumerate(shown) if traded and one in front],
        hollow=[index for index, one in enumerate(shown) if not one.feasible],
        on=Media.PAGE,
    )
    return Text(("All cells",), "heading", name="cells", on=Media.PAGE), cells


def _setting(plan: Plan) -> str:
    counts = ((len(plan.found.looked_at), "cell"), (plan.made, "run"))
    return DOT.join(counted(count, noun) for count, noun in counts)


def _source(plan: Plan) -> Source:
    """The answer, or else what was asked of, to be run again."""
    from varsim.scenario.writing import dump_scenario

    if plan.scenario is None:
        about = "What the space was laid over, defaults written out."
        how = "With the scenario above, and its plan, saved as `scenario.yaml`:"
        return Source(dump_scenario(plan.question.base), about, how, "varsim plan scenario.yaml")
    return Source(
        dump_scenario(plan.scenario),
        f"The answer. It is the file `{SCENARIO}` beside this page.",
        "In the folder of this page; the numbers are the same:",
        f"varsim run {SCENARIO} --out again",
    )


def scenario_text(plan: Plan, told: Report) -> str | None:
    """The answer as a file that says what it is; None where there is none."""
    from varsim.scenario.writing import dump_scenario

    if plan.scenario is None:
        return None
    return head(told.asked) + head(told.answer[0]) + dump_scenario(plan.scenario)


def table(plan: Plan, **more: Any) -> Table:
    """The front of cost and throughput as text, cheapest first."""
    rows = []
    for one in _with_answer(plan.found):
        where = {"with": plan.places.told(one.cell)}
        rows.append((one.cell.strategy.title, _numbers(plan, one) | where | _verdict(plan, one)))
    return Table.of(rows, "strategy", caption=_front_told(plan.found), **more)


def _numbers(plan: Plan, one: Standing) -> dict[str, str]:
    """What a cell costs, what it does, and what is minimized."""
    question = plan.question
    costly = question.base.prices is not None
    price = f"{one.hourly:,.2f}" if costly else f"{one.hourly:,.0f}"
    cells = {
        f"{question.currency}/h" if costly else "machines": price,
        speed_named(question.base): plus_minus(one.speed),
    }
    if question.objective not in ("cost_per_hour", "workers", "parameter_servers"):
        cells[OBJECTIVES[question.objective].about.removeprefix("the ")] = amount_told(
            question.objective, one.objective, question.currency
        )
    return cells


def _interval(plan: Plan, one: Standing) -> dict[str, str]:
    """The interval between checkpoints that is chosen in a cell, where some are."""
    if not _chosen(plan):
        return {}
    return {OPTIMAL: "-" if math.isnan(one.every.mean) else lasting(one.every)}


def _chosen(plan: Plan) -> bool:
    """Whether the interval between checkpoints is chosen in some cell."""
    return any(not math.isnan(one.every.mean) for one in plan.found.looked_at.values())


def _verdict(plan: Plan, one: Standing) -> dict[str, str]:
    """What `every: optimal` means in a cell, and what became of it."""
    return _interval(plan, one) | {"targets": verdict(plan.found, one)}


def _with_answer(found: Found) -> list[Standing]:
    """What is shown of the front, and the answer in its place among that, cheapest first."""
    front = list(shown(trade(found).front, found.answer))
    if found.answer is not None and found.answer not in front:
        front.append(found.answer)
    return sorted(front, key=lambda one: one.hourly)


def _front_told(found: Found) -> str:
    """What the table of cost and throughput is."""
    traded = trade(found)
    front, unsure = traded.front, traded.unsure
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


def verdict(found: Found, one: Standing) -> str:
    """What became of a cell, in a word or two."""
    if one == found.answer:
        return "the answer"
    if one.cell.number in {rejected.cell.number for rejected, _ in found.rejected}:
        return "by luck"
    if one.failure:
        return "failed"
    return _VERDICTS[one.verdict]


def _columns(plan: Plan) -> list[str]:
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


def _rows(plan: Plan) -> Iterator[list[object]]:
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


def _provenance(plan: Plan) -> dict[str, str | int]:
    run = (one.cell.point.scenario for one in plan.found.looked_at.values())
    return provenance_of_many([plan.question.base, *run])


def document(plan: Plan) -> dict[str, Any]:
    """All of it as plain data."""
    found, question = plan.found, plan.question
    cell, traded = partial(_cell, plan), trade(found)
    return {
        "made_by": MADE_BY,
        "kind": "plan",
        "name": question.name,
        "provenance": _provenance(plan),
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
        "sentences": sentences(plan),
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


def _cell(plan: Plan, one: Standing | None) -> dict[str, Any] | None:
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
        "cost_per_hour" if machines.prices else "machines": plain(one.hourly),
        throughput(plan.question.base): plain_estimate(one.speed),
        **chosen,
        "targets": [
            {
                "target": judgement.target,
                "bound": judgement.bound,
                "mean": plain(judgement.mean),
                "surely": plain(judgement.surely),
                "met": judgement.met,
            }
            for judgement in one.judgements
        ],
        "verdict": verdict(plan.found, one),
    }


def _guess(plan: Plan) -> dict[str, Any] | None:
    """What is guessed, and the answer at multiples of the speed."""
    if plan.guess is None:
        return None
    at = {f"{speed:g}": _cell(plan, one) for speed, one in plan.guess.answers.items()}
    return {"said": guess_said(plan.guess), "at_speed": at}


def _binding(plan: Plan) -> dict[str, Any] | None:
    if plan.binding is None:
        return None
    return {
        "nearest_below": _cell(plan, plan.binding.nearest),
        "busy": [use._asdict() for use in plan.binding.busy],
        "time_shares": dict(plan.binding.shares),
    }
