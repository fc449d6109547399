"""What a search for learning rates tells: who is best at its best rate, a row each, notes."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from varsim.core.units import format_seconds
from varsim.report import formats
from varsim.report.products import candidates, cautions
from varsim.report.told import (
    Cell,
    Column,
    Data,
    Note,
    Number,
    Report,
    Reproduction,
    Table,
    Value,
    plain_number,
)
from varsim.report.wording import names, shown, unheld
from varsim.scenario.writing import dump_scenario, provenance
from varsim.study.tune import BestRates, Goal, Rates, Tuned
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD

SCENARIO: Final = "tuned.yaml"
FILES: Final = {
    SCENARIO: "the scenario with the best rates",
    "rates.csv": "every rate tried: its seeds, replications, and what it reached",
    "rates.json": "the same and more, as data",
}
MARK: Final = "# Tuned by varsim"
_LONGER: Final = 4  # times as long a run may show that a loss is reached


def report(found: Rates) -> Report:
    """What there is to tell of what was found."""
    return Report(
        "tune",
        found.scenario.name,
        (_headline(found),),
        _table(found),
        tuple(_notes(found)),
        source=Reproduction(dump_scenario(found.scenario), "varsim tune scenario.yaml"),
        provenance=provenance(found.scenario),
        files=FILES,
        data=Data(found.columns, list(found.cells())),
        facts=partial(document, found),
    )


def _goal(found: Rates) -> dict[str, Value]:
    """What rates are judged by, and whether some may be better still."""
    goal = found.goal
    of: dict[str, Value] = {"end": Number(goal.end, unit="s")}
    if goal.loss is not None:
        of = {"loss": f"{goal.loss:g}"}
    return of | ({"edge": 1} if at_an_edge(found) else {})


def _value(found: Rates, label: str) -> Number:
    return Number.of(found.fresh(label).found, "" if found.goal.loss is None else "s")


def _headline(found: Rates) -> Note:
    """Which strategy does best, each at its best rate, and by how much."""
    ranking, of, named = found.ranking(), _goal(found), names(found.scenario)
    if ranking is None:
        return Note("tuned-none", of)
    best, rate = ranking.best, f"{found.fresh(ranking.best).rate:g}"
    if len(ranking.tied) > 1:
        of["tied"] = tuple(named[label] for label in ranking.tied)
        means = [_value(found, label)._replace(half=math.nan) for label in ranking.tied]
        of |= {"low": min(means, key=_mean), "high": max(means, key=_mean)}
        return Note("tuned-close" if ranking.of(CLOSE, UNTOLD) else "tuned-tie", of)
    of |= {"best": named[best], "value": _value(found, best), "rate": rate}
    if ranking.rivals and not ranking.rivals[0].lead.note:
        second = ranking.rivals[0]
        of |= {"next": named[second.key], "times": Number(second.lead.mean)}
    return Note("tuned", of)


def _mean(one: Number) -> float:
    return one.mean


def _table(found: Rates) -> Table:
    """A row per strategy by rank: its best rate, what it reaches, how it stands to the best."""
    ranking, named = found.ranking(), names(found.scenario)
    order = [] if ranking is None else [ranking.best, *(one.key for one in ranking.rivals)]
    rows = sorted(
        found.tuned, key=lambda one: order.index(one.label) if one.label in order else len(order)
    )
    columns = [
        Column("learning_rate", "best rate", tuple(map(_rate, rows))),
        Column(found.goal.metric, measured(found.goal), tuple(_reached(found, r) for r in rows)),
    ]
    if len(order) > 1:
        columns.append(Column("ratio", "vs. the best", tuple(_ratio(found, one) for one in rows)))
    ties = tuple(", ".join(f"{tie.rate:g}" for tie in one.ties) or "-" for one in rows)
    if any(one.ties for one in rows):
        columns.append(Column("as_good", "as good", ties, note="as-good"))
    best = len(ranking.tied) if ranking is not None else 0
    return Table(tuple(named[one.label] for one in rows), tuple(columns), best=best, fold=False)


def _rate(one: Tuned) -> Cell:
    return f"{one.best.rate:g}" + (f" ({end.which})" if (end := edge_of(one)) else "")


def _reached(found: Rates, one: Tuned) -> Cell:
    if one.fresh is None:
        return "failed"
    if not one.fresh.sound:
        return f"in {one.fresh.reached} of {one.fresh.replications}"
    return _value(found, one.label)


def _ratio(found: Rates, one: Tuned) -> Cell:
    """How many times as long, or as large, as that of the best."""
    ranking = found.ranking()
    if ranking is not None and one.label == ranking.best:
        return Number(1.0, verdict="baseline")
    rivals = () if ranking is None else ranking.rivals
    for rival in rivals:
        if rival.key == one.label:
            tie = rival.said in (CLOSE, EQUAL, SAME)
            return Number.of(rival.lead, verdict="tie" if tie else "")
    return "-"


def measured(goal: Goal) -> str:
    """What is measured."""
    if goal.loss is None:
        return f"loss at {unheld(shown(Number(goal.end, unit='s')))}"
    return f"time to loss {goal.loss:g}"


# --- the notes ------------------------------------------------------------------------------------


def _notes(found: Rates) -> Iterator[Note]:
    """What a reader must know besides, worst first."""
    named = names(found.scenario)
    for one in found.tuned:
        who: dict[str, Value] = {"who": named[one.label]}
        if one.fresh is None:
            yield Note("rates-fail", who | {"why": one.best.failure.splitlines()[0]})
        elif found.goal.loss is not None and not any(trial.reached for trial in one.trials):
            yield Note("rates-in-vain", who | _longer(found, one))
        elif not one.fresh.sound:
            yield _some(found, one, who)
    yield from _edges(found, named)
    yield from cautions.of_scenario(found.scenario)
    copies = tuple(
        named[one.label] for one in found.scenario.strategies if one.round.of == "outer step"
    )
    if copies and found.goal.loss is not None:
        yield Note("unread", {"who": copies})
    again = next((one.fresh for one in found.tuned if one.fresh is not None), None)
    if again is not None:
        yield Note("fresh-seeds", {"count": again.replications, "seed": f"{again.seed}"})
    if any(one.ties for one in found.tuned):
        yield Note("as-good")


def _edges(found: Rates, named: dict[str, str]) -> Iterator[Note]:
    """Whose best rate is at an end of what was tried, and what to try next."""
    alike: dict[tuple[float, tuple[float, ...]], list[str]] = {}
    for one in found.tuned:
        if end := edge_of(one):
            alike.setdefault((one.best.rate, end.next), []).append(named[one.label])
    for (rate, further), who in alike.items():
        rates = ",".join(f"{float(f'{rate * by:.2g}'):g}" for by in further)
        yield Note("edge-rate", {"who": tuple(who), "rate": f"{rate:g}", "rates": rates})


def _some(found: Rates, one: Tuned, who: dict[str, Value]) -> Note:
    """That the goal is reached in some fresh runs."""
    assert one.fresh is not None
    count, of = one.fresh.reached, one.fresh.replications
    if found.goal.loss is None:
        rate = f"{one.best.rate:g}"
        return Note("diverged", who | {"count": of - count, "of": of, "rate": rate})
    return Note("some-reach", who | {"target": f"{found.goal.loss:g}", "count": count, "of": of})


def _longer(found: Rates, one: Tuned) -> dict[str, Value]:
    """The loss that was reached at no rate, the lowest that was, and longer runs."""
    stop = found.scenario.stop_of(found.scenario.strategy(one.label))
    typed = [
        f"--set 'stop.time={format_seconds(_LONGER * stop.time)}'" if stop.time else "",
        f"--set stop.global_steps={_LONGER * stop.global_steps}" if stop.global_steps else "",
        f"--set stop.examples={_LONGER * stop.examples}" if stop.examples else "",
    ]
    lows = [trial.last for trial in one.trials]
    return {
        "target": f"{found.goal.loss:g}",
        "count": len(one.trials),
        "low": Number(min(filter(math.isfinite, lows), default=math.nan)),
        "set": " ".join(filter(None, typed)),
    }


class Edge(NamedTuple):
    """An end of the rates that were tried; `next`: what to try, in times of that rate."""

    which: str
    next: tuple[float, ...]


_EDGES: Final = {
    "lower": Edge("lowest tried", (0.25, 0.5, 1.0)),
    "upper": Edge("highest tried", (1.0, 2.0, 4.0)),
}
_ALONE: Final = Edge("only one tried", (0.5, 1.0, 2.0))


def edge_of(one: Tuned) -> Edge | None:
    """The end of what was tried at which the best rate is; None where it lies between others."""
    if not one.edge or one.best.failure or not any(trial.reached for trial in one.trials):
        return None
    return _EDGES[one.edge] if len(one.trials) > 1 else _ALONE


def at_an_edge(found: Rates) -> bool:
    """Whether some strategy did best at an end of what was tried."""
    return any(map(edge_of, found.tuned))


# --- for programs ---------------------------------------------------------------------------------


def document(found: Rates) -> dict[str, Any]:
    """All of it as plain data."""
    ranking = found.ranking()
    said = {rival.key: rival.said for rival in ranking.rivals} if ranking else {}
    return candidates.facts(
        *("tune", found.scenario.name, provenance(found.scenario), found.sha256),
        *([_headline(found)], _notes(found)),
        goal=measured(found.goal),
        loss=found.goal.loss,
        best=[
            {
                "strategy": one.label,
                "learning_rate": one.best.rate,
                "before": one.before,
                "as_good": [tie.rate for tie in one.ties],
                "edge": one.edge or None,
                "verdict": _verdict(found, one, said),
            }
            for one in found.tuned
        ],
        rows=candidates.records(found.columns, found.cells()),
        run_columns=found.run_columns,
        run_rows=[list(map(plain_number, row)) for row in found.run_rows],
    )


def _verdict(found: Rates, one: Tuned, said: dict[str, str]) -> str | None:
    """`best`, how a strategy compares with that, or None where it is not compared."""
    ranking = found.ranking()
    if ranking is not None and one.label == ranking.best:
        return "best"
    return said.get(one.label)


def scenario_text(found: Rates, question: str) -> str:
    """The scenario with the best rates as a file that says how they were found."""
    head = [f"# {question}"] if question else []
    head += [f"{MARK}: each strategy has its best learning rate."]
    head += [f"# {line}" for line in formats.answer(report(found)).splitlines()]
    return "\n".join(head) + "\n" + dump_scenario(found.tuned_scenario())


def best_so_far(study: BestRates) -> Callable[[str, float], str]:
    """What the progress of a search says of the best rate."""

    def say(number: str, value: float) -> str:
        one = study.known[int(number)]
        (rate,) = one.point.values
        unit, what = ("", "loss ") if study.goal.loss is None else ("s", "")
        reached = shown(Number(value, unit=unit))
        return f"{names(study.asked)[one.label]} at {rate.text}: {what}{reached}"

    return say
