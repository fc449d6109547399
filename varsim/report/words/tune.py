"""What the search for learning rates says, in sentences and as a table."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

from varsim.report.report import Table
from varsim.report.words.phrases import Wording, margin, plus_minus, quoted, ratio_cell, time, told
from varsim.study.tune.search import Search, Tuned
from varsim.study.tune.trial import Goal, Trial
from varsim.study.verdict import WORSE, Ranking, ranked


class Words:
    """The sentences about what was found for one goal; `cautions` are those about step times."""

    def __init__(
        self,
        goal: Goal,
        tuned: Sequence[Tuned],
        equal_within: float,
        cautions: Sequence[str] = (),
    ) -> None:
        self._goal, self._tuned, self._within = goal, tuned, equal_within
        self._cautions = cautions

    @cached_property
    def ranking(self) -> Ranking[str] | None:
        """The strategies that reach the goal in every fresh run; None where none does."""
        return ranked(
            {one.label: one.fresh.values for one in self._tuned if one.fresh is not None},
            equal_within=self._within,
        )

    def answer(self) -> list[str]:
        """Which strategy does best, each at its best rate, and by how much."""
        return [self._first(), *self._in_vain()]

    def notes(self) -> list[str]:
        """What a reader must know besides: of what the numbers are, and how sure each rate is."""
        lines = []
        again = next((one for one in self._tuned if one.fresh is not None), None)
        if again is not None and again.fresh is not None:
            lines.append(
                f"{margin(again.fresh.replications, 'runs')} with fresh seeds "
                f"(seed {again.fresh.seed}): each rate was chosen by other runs "
                f"(seed {again.best.seed}), in which it may have been lucky."
            )
        if any(one.ties for one in self._tuned):
            lines.append("As good: other rates that those runs do not tell from the best.")
        return [*lines, *self._edges(), *self._cautions]

    def verdict(self, one: Tuned) -> str:
        """How a strategy stands to the best one."""
        ranking = self.ranking
        if ranking is None or not ranking.rivals:
            return "-"
        if one.label == ranking.best:
            return self._superlative
        rival = next((rival for rival in ranking.rivals if rival.key == one.label), None)
        if rival is None:
            return "-"
        worse = "higher" if self._goal.loss is None else "later"
        told = worse if rival.said == WORSE else rival.said
        return told if rival.lead.note else f"{ratio_cell(rival.lead)}, {told}"

    def table(self) -> Table:
        """One line per strategy: its best rate, what it reaches, how it stands to the best."""
        rows = [
            {
                "best learning rate": f"{one.best.rate:g}"
                + (f" ({edge.which} tried)" if (edge := _edge(one)) else ""),
                "as good": ", ".join(f"{tie.rate:g}" for tie in one.ties) or "-",
                self.heading: "failed" if one.fresh is None else self.amount(one.fresh),
                f"vs. {self._superlative}": self.verdict(one),
            }
            for one in self._tuned
        ]
        return Table.of(zip((one.label for one in self._tuned), rows, strict=True), "strategy")

    @property
    def heading(self) -> str:
        """What is measured."""
        goal = self._goal
        return f"loss at {time(goal.end)}" if goal.loss is None else f"time to loss {goal.loss:g}"

    def amount(self, trial: Trial) -> str:
        """The goal's metric of a trial, with its interval, or how often it was reached."""
        if not trial.sound:
            return f"reached in {trial.reached} of {trial.replications}"
        return plus_minus(trial.found) if self._goal.loss is None else time(trial.found)

    @property
    def _superlative(self) -> str:
        return "the lowest" if self._goal.loss is None else "the soonest"

    @property
    def _wins(self) -> str:
        goal = self._goal
        if goal.loss is None:
            return f"has the lowest loss at {time(goal.end)}"
        return f"reaches loss {goal.loss:g} soonest"

    @property
    def _reaches(self) -> str:
        goal = self._goal
        if goal.loss is None:
            return f"has a finite loss at {time(goal.end)}"
        return f"reaches loss {goal.loss:g}"

    def _told(self, label: str) -> str:
        """`3.2 ± 0.4 s at learning rate 0.5`."""
        trial = next(one.fresh for one in self._tuned if one.label == label)
        assert trial is not None, "what is ranked was run"
        return f"{self.amount(trial)} at learning rate {trial.rate:g}"

    def _first(self) -> str:
        ranking = self.ranking
        if ranking is None:
            return f"No strategy {self._reaches} in every fresh run, each at the best of its rates."
        each = "Each at its best learning rate" + (" of those tried" if self.at_an_edge else "")
        if not ranking.rivals:
            alone = "" if len(self._tuned) == 1 else "; no other does in every fresh run"
            best = f"{each}, '{ranking.best}' {self._reaches}: {self._told(ranking.best)}"
            return f"{best}{alone}."
        much = "as much" if self._goal.loss is None else "as long"
        wording = Wording(
            f"{each}, {{name}} {self._wins}: {{value}}",
            f"{each}, which {self._wins}",
            self.heading,
            by=f", {{times}} {much}",
        )
        return told(ranking, wording, quoted, self._told) + "."

    def _in_vain(self) -> list[str]:
        """The strategies whose best rate does not reach the goal in every run."""
        lines = []
        for one in self._tuned:
            if one.fresh is None:
                why = one.best.failure.splitlines()[0]
                lines.append(f"'{one.label}' fails at every rate that was tried: {why}")
            elif not one.fresh.sound:
                lines.append(
                    f"'{one.label}' {self._reaches} in {one.fresh.reached or 'none'} of "
                    f"{one.fresh.replications} fresh runs at learning rate {one.best.rate:g}, the "
                    f"best of {len(one.trials)}; it is left out of the comparison."
                )
        return lines

    @property
    def at_an_edge(self) -> bool:
        """Whether some strategy did best at an end of what was tried."""
        return any(map(_edge, self._tuned))

    def _edges(self) -> list[str]:
        """The strategies whose best rate may not be the best there is, and what to try next."""
        lines = []
        for one in self._tuned:
            if end := _edge(one):
                rates = [float(f"{one.best.rate * by:.2g}") for by in end.next]
                lines.append(
                    f"'{one.label}': its best rate, {one.best.rate:g}, is the {end.which} that was "
                    f"tried; {end.beyond} may do better: try --rates "
                    f"{','.join(f'{rate:g}' for rate in rates)}."
                )
        return lines


class _Edge(NamedTuple):
    """An end of the rates that were tried; `next`: what to try, in times of that rate."""

    which: str
    beyond: str
    next: tuple[float, ...]


_EDGES: Final = {
    "lower": _Edge("lowest", "a smaller one", (0.25, 0.5, 1.0)),
    "upper": _Edge("highest", "a larger one", (1.0, 2.0, 4.0)),
}
_ALONE: Final = _Edge("only one", "another", (0.5, 1.0, 2.0))


def _edge(one: Tuned) -> _Edge | None:
    """The end of what was tried at which the best rate is; None where it lies between others."""
    if not one.edge or one.best.failure:
        return None
    return _EDGES[one.edge] if len(one.trials) > 1 else _ALONE


def best_so_far(search: Search, number: str, value: float) -> str:
    """What the progress of a search says of the best rate."""
    label, rate = search.at(int(number))
    amount = f"loss {value:.4g}" if search.goal.loss is None else time(value)
    return f"'{label}' at {rate:g}: {amount}"
