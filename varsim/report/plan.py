"""A plan as text and data: its sentences, its cells, and all of it as JSON and Markdown."""

import csv
import io
import json
import math
from functools import cached_property
from typing import Any

from varsim import inert
from varsim.report.markdown import grid
from varsim.report.words.caution import guess_said
from varsim.report.words.plan import Words, table, table_note, verdict
from varsim.scenario.provenance import MADE_BY, provenance
from varsim.study.plan.pareto import trade
from varsim.study.plan.plan import Plan
from varsim.study.plan.standing import Standing
from varsim.study.plan.unpriced import unpriced
from varsim.study.statistics import CONFIDENCE, Estimate


class PlanText:
    """A plan as text and data."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.found, self.places = plan, plan.found, plan.places

    @cached_property
    def sentences(self) -> list[str]:
        """The answer, and what a planner asks next."""
        words = Words(self.found, self.places, self.plan.guess)
        lines = words.answer()
        if self.found.answer is not None and self.plan.binding is not None:
            lines += words.binding(self.found.answer, self.plan.binding)
        return [*lines, *words.notes(), words.effort(self.plan.made)]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `csv`, with units."""
        question = self.found.question
        machines = "cost_per_hour" if question.base.prices is not None else "machines"
        swept = [quantity.column for quantity in question.quantities]
        objective = question.objective if question.objective != machines else "minimized"
        return [
            "cell",
            "strategy",
            *swept,
            "replications",
            "verdict",
            objective,
            f"{objective}_half_width",
            machines,
            "examples_per_s",
            "examples_per_s_half_width",
            *(f"{name}_surely" for name in question.targets.bounds),
            "failure",
        ]

    def csv(self) -> str:
        """Every cell that was run, in the order of the space."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(inert.row(self.columns))
        for _, one in sorted(self.found.looked_at.items()):
            surely = {judgement.target: judgement.surely for judgement in one.judgements}
            row = [
                one.cell.number,
                *inert.row([one.cell.label, *(value.number for value in one.cell.point.values)]),
                one.replications,
                verdict(self.found, one),
                *_pair(one.objective),
                _number(one.hourly),
                *_pair(one.speed),
                *(
                    _number(surely.get(name, math.nan))
                    for name in self.found.question.targets.bounds
                ),
                inert.cell(one.failure.splitlines()[0]) if one.failure else "",
            ]
            writer.writerow(row)
        return text.getvalue()

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        found, question = self.found, self.found.question
        made, traded = provenance(question.base), trade(found)
        made.pop("scenario_sha256")
        return {
            "made_by": MADE_BY,
            "kind": "plan",
            "name": question.name,
            "provenance": made,
            "result_sha256": self.plan.sha256,
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
            "answer": self._cell(found.answer),
            "fresh_seeds": self._cell(found.check),
            "runner_up": self._cell(found.runner_up if found.answer else None),
            "best_of_each_strategy": {
                label: self._cell(next(iter(found.ranking(label)), None))
                for label in question.strategies
            },
            "guess": self._guess(),
            "unpriced": [one._asdict() for one in unpriced(found)],
            "binding": self._binding(),
            "sentences": self.sentences,
            "pareto": [self._cell(one) for one in traded.front],
            "pareto_by_means_alone": [self._cell(one) for one in traded.unsure],
            "cells": {
                "combinations": question.combinations,
                "left_by_where": found.combinations,
                "distinct": found.distinct,
                "simulated": len(found.looked_at),
                "runs": self.plan.made,
                "rejected_with_fresh_seeds": [one.cell.number for one, _ in found.rejected],
            },
        }

    def json(self) -> str:
        """`document` as JSON text."""
        return json.dumps(self.document(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def markdown(self, question: str, picture: str) -> str:
        """The sentences and the table of cost and throughput."""
        lines = [f"# Plan: {self.found.question.name}", ""]
        lines += [f"*{inert.markdown(question)}*", ""] if question else []
        lines += [f"- {inert.markdown(sentence)}" for sentence in self.sentences]
        if picture:
            lines += ["", f"![Cost and throughput of every cell that was run]({picture})"]
        lines += ["", table_note(self.found), ""]
        lines += grid(table(self.found, self.places))
        return "\n".join(lines) + "\n"

    def _cell(self, one: Standing | None) -> dict[str, Any] | None:
        """A cell and what is known of it."""
        if one is None:
            return None
        return {
            "cell": one.cell.number,
            "strategy": one.cell.label,
            "at": self.places.values(one.cell),
            "seed": one.cell.point.scenario.seed,
            "replications": one.replications,
            "workers": one.cell.machines.workers,
            "servers": one.cell.machines.servers,
            "minimized": _estimate(one.objective),
            "cost_per_hour" if one.cell.machines.prices else "machines": _finite(one.hourly),
            "examples_per_s": _estimate(one.speed),
            "targets": [
                {
                    "target": judgement.target,
                    "bound": judgement.bound,
                    "mean": _finite(judgement.mean),
                    "surely": _finite(judgement.surely),
                    "met": judgement.met,
                }
                for judgement in one.judgements
            ],
            "verdict": verdict(self.found, one),
        }

    def _guess(self) -> dict[str, Any] | None:
        """What is guessed, and the answer at multiples of the speed."""
        if self.plan.guess is None:
            return None
        at = {f"{speed:g}": self._cell(one) for speed, one in self.plan.guess.answers.items()}
        return {"said": guess_said(self.plan.guess), "at_speed": at}

    def _binding(self) -> dict[str, Any] | None:
        if self.plan.binding is None:
            return None
        return {
            "nearest_below": self._cell(self.plan.binding.nearest),
            "busy": [use._asdict() for use in self.plan.binding.busy],
            "time_shares": dict(self.plan.binding.shares),
        }


def _estimate(found: Estimate) -> dict[str, float | None]:
    numbers = {"mean": found.mean, "low": found.low, "high": found.high}
    return {key: _finite(value) for key, value in numbers.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _pair(found: Estimate) -> tuple[str, str]:
    return _number(found.mean), _number(found.half_width)
