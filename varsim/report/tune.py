"""What came of a search for learning rates: as CSV, as JSON, and as a scenario."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from varsim import inert
from varsim.report.words.caution import as_read, cautions
from varsim.report.words.tune import Words
from varsim.scenario.loading import dump_scenario
from varsim.scenario.provenance import MADE_BY, provenance
from varsim.scenario.training import Scenario
from varsim.study.statistics import CONFIDENCE
from varsim.study.tune.search import Tuned, with_rates
from varsim.study.tune.trial import Goal, Trial

_LONGEST_NAME: Final = 64
MARK: Final = "# Tuned by varsim"


class _Row(NamedTuple):
    """One rate of one strategy on one set of seeds; `standing`: best, as good, or neither."""

    strategy: str
    learning_rate: float
    seeds: str
    standing: str
    seed: int
    replications: int
    reached: int
    mean: float
    low: float
    high: float
    final_loss: float
    failure: str


@dataclass(frozen=True)
class Rates:
    """The best rate of each strategy of a scenario, and all that were tried.

    `replications`: of the search, how often every rate was run at least.
    """

    scenario: Scenario
    goal: Goal
    tuned: tuple[Tuned, ...]

    @property
    def words(self) -> Words:
        """What there is to say."""
        within = self.scenario.report.equal_within
        return Words(self.goal, self.tuned, within, [*self._unread(), *cautions(self.scenario)])

    def _unread(self) -> Iterator[str]:
        """That nobody need have read the first model that reached the target loss."""
        for strategy in self.scenario.strategies:
            if self.goal.loss is not None and strategy.round.of == "outer step":
                yield (
                    f"{as_read(strategy.label)}; it may be that nobody read one then: varsim run "
                    "says when one as low was really read."
                )

    @property
    def columns(self) -> list[str]:
        """The columns of the CSV: the goal's metric has its unit in its name."""
        metric = "loss" if self.goal.loss is None else "time_to_loss_s"
        named = {"mean": metric, "low": f"{metric}_low", "high": f"{metric}_high"}
        return [named.get(name, name) for name in _Row._fields]

    def rows(self) -> Iterator[_Row]:
        """Every rate that was tried, and the best of each strategy again with fresh seeds."""
        for one in self.tuned:
            for trial in one.trials:
                standing = "best" if trial == one.best else "as good" if trial in one.ties else ""
                yield _row(trial, "search", standing)
            if one.fresh is not None:
                yield _row(one.fresh, "fresh", "best")

    def csv(self) -> str:
        """`rows` as CSV: numbers with all their digits, empty where there is none."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow(
                inert.row(
                    "" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row
                )
            )
        return text.getvalue()

    @property
    def sha256(self) -> str:
        """The hash of what was simulated at every rate: the same on any number of processes."""
        simulated = [
            [trial.label, trial.rate, trial.seed, bool(trial.failure), trial.traces]
            for one in self.tuned
            for trial in (*one.trials, *([one.fresh] if one.fresh is not None else []))
        ]
        return hashlib.sha256(json.dumps(simulated).encode()).hexdigest()

    def json(self) -> str:
        """All of it as JSON text."""
        return json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n"

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        words = self.words
        return {
            "made_by": MADE_BY,
            "kind": "tune",
            "name": self.scenario.name,
            "provenance": provenance(self.scenario),
            "result_sha256": self.sha256,
            "confidence": CONFIDENCE,
            "goal": words.heading,
            "loss": self.goal.loss,
            "answer": words.answer(),
            "notes": words.notes(),
            "best": [
                {
                    "strategy": one.label,
                    "learning_rate": one.best.rate,
                    "before": one.before,
                    "as_good": [tie.rate for tie in one.ties],
                    "edge": one.edge or None,
                    "verdict": words.verdict(one),
                }
                for one in self.tuned
            ],
            "rows": [
                {name: _plain(cell) for name, cell in zip(self.columns, row, strict=True)}
                for row in self.rows()
            ],
        }

    def tuned_scenario(self) -> Scenario:
        """The scenario with the best rate of each strategy in an optimizer of its own."""
        rates = {one.label: one.best.rate for one in self.tuned}
        changed = with_rates(self.scenario, rates)
        return Scenario.model_validate(
            {
                **dict(changed),
                "name": f"{changed.name[: _LONGEST_NAME - 6]}-tuned",
                "workload": changed.workload.with_optimizer(None),
            }
        )

    def yaml(self, question: str) -> str:
        """`tuned_scenario` as a file that says how it was found."""
        words, head = self.words, [f"# {question}"] if question else []
        which = (
            "the learning rate at which it does best"
            if not words.at_an_edge
            else ("the learning rate that did best of those that were tried")
        )
        head.append(f"{MARK}: each strategy has {which}.")
        head += [f"# {line}" for line in words.answer()]
        return "\n".join(head) + "\n" + dump_scenario(self.tuned_scenario())


def _row(trial: Trial, seeds: str, standing: str) -> _Row:
    found = trial.found
    last = math.fsum(trial.losses) / len(trial.losses) if trial.losses else math.nan
    return _Row(
        trial.label,
        trial.rate,
        seeds,
        standing,
        trial.seed,
        trial.replications,
        trial.reached,
        found.mean,
        found.low,
        found.high,
        last,
        trial.failure.splitlines()[0] if trial.failure else "",
    )


def _plain(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell
