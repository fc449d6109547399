"""The report of a search for learning rates: the answer, a row per strategy, every rate."""

from functools import partial
from typing import Any, Final

from varsim.report.parts import plain
from varsim.report.report import Media, Report, Table, Text
from varsim.report.told import Data
from varsim.report.words.names import title
from varsim.report.words.tune import amount, answer, at_an_edge, edge_of, measured, notes, verdict
from varsim.scenario.provenance import MADE_BY, provenance
from varsim.scenario.writing import dump_scenario
from varsim.study.statistics import CONFIDENCE
from varsim.study.tune.search import Rates

MARK: Final = "# Tuned by varsim"


def report(found: Rates, question: str = "") -> Report:
    """What there is to tell of what was found; `question` is what the scenario was to answer."""
    said, more = tuple(answer(found)), tuple(notes(found))
    return Report(
        "tune",
        found.scenario.name,
        said,
        more,
        (
            Text(said, on=Media.TERMINAL),
            table(found),
            Text(more, close=True, on=Media.TEXT),
            Text(said, on=Media.MARKDOWN),
        ),
        provenance(found.scenario),
        question,
        facts=partial(document, found),
        data=Data(found.columns, list(found.rows())),
    )


def table(found: Rates) -> Table:
    """One line per strategy: its best rate, what it reaches, how it stands to the best."""
    best = "the lowest" if found.goal.loss is None else "the soonest"
    rows = [
        {
            "best learning rate": f"{one.best.rate:g}"
            + (f" ({edge.which} tried)" if (edge := edge_of(one)) else ""),
            "as good": ", ".join(f"{tie.rate:g}" for tie in one.ties) or "-",
            measured(found.goal): "failed" if one.fresh is None else amount(found, one.fresh),
            f"vs. {best}": verdict(found, one),
        }
        for one in found.tuned
    ]
    titles = (title(found.scenario, one.label) for one in found.tuned)
    return Table.of(zip(titles, rows, strict=True), "strategy", on=Media.TEXT)


def document(found: Rates) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "made_by": MADE_BY,
        "kind": "tune",
        "name": found.scenario.name,
        "provenance": provenance(found.scenario),
        "result_sha256": found.sha256,
        "confidence": CONFIDENCE,
        "goal": measured(found.goal),
        "loss": found.goal.loss,
        "answer": answer(found),
        "notes": notes(found),
        "best": [
            {
                "strategy": one.label,
                "learning_rate": one.best.rate,
                "before": one.before,
                "as_good": [tie.rate for tie in one.ties],
                "edge": one.edge or None,
                "verdict": verdict(found, one),
            }
            for one in found.tuned
        ],
        "rows": [dict(zip(found.columns, map(plain, row), strict=True)) for row in found.rows()],
    }


def scenario_text(found: Rates, question: str) -> str:
    """The scenario with the best rates as a file that says how they were found."""
    head = [f"# {question}"] if question else []
    which = (
        "the learning rate that did best of those that were tried"
        if at_an_edge(found)
        else "the learning rate at which it does best"
    )
    head.append(f"{MARK}: each strategy has {which}.")
    head += [f"# {line}" for line in answer(found)]
    return "\n".join(head) + "\n" + dump_scenario(found.tuned_scenario())
