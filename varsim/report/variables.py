"""The report of a result of variables: its tables, what was seen, and all its numbers."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from varsim.distribute.program_run import ValueSummary, VariableView
from varsim.report.parts import AS_TABLE, BESIDE, CARRIED, NO_PLOTS, ONE, busiest_links
from varsim.report.report import Block, Figure, Media, Report, Row, Source, Table, Text
from varsim.report.told import Data
from varsim.report.words.phrases import DOT
from varsim.report.words.program import table as main
from varsim.report.words.program.answer import answer as answer
from varsim.report.words.program.answer import notes as notes
from varsim.report.words.program.table import described, shown
from varsim.scenario.provenance import MADE_BY
from varsim.study.program.tables import COLUMNS, METRICS
from varsim.units import counted

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.cluster.program import ProgramTrace
    from varsim.distribute.program import VariableDescription
    from varsim.study.variables import VariablesResult

MOST_REPLICAS: Final = 64  # that have a row of their own
# Of more variables than these the values stand on the page alone.
MOST_VARIABLES: Final = 8

FILES: Final = {
    "summary.csv": "every measure of every mode, with its interval; as written, then as varied",
    "runs.csv": "one row per run: mode, reads per write, replication; what it took and sent",
    "acts.csv": "one row per act: who did what from when to when, with what, what was seen, and "
    "what the copies held then",
    "sent.csv": "one row per message: what for, from where to where, how many bytes, when",
    "links.csv": "one row per link: what it carried, the creation of the variables included, and "
    "that as a share of what it could",
    "result.json": "the answer, every measure, what was seen, what the columns of the tables "
    "mean, with seed and versions",
    "scenario.yaml": "the scenario, defaults written out",
}


def report(result: "VariablesResult", question: str = "", *, plots: bool = True) -> Report:
    """What there is to tell of a result, with or without `plots`; `question`: it was to answer."""
    from varsim.scenario.writing import dump_scenario

    sentences = tuple(result.answer().splitlines())
    on_page = Text(result.notes, "items", on=Media.PAGE)
    return Report(
        "variables",
        result.scenario.name,
        sentences,
        result.notes,
        (
            Text(sentences, on=Media.TERMINAL),
            replace(main.table(result), on=Media.TEXT),
            Text(("Comparison",), "heading", name="comparison", on=Media.PAGE),
            comparison(result),
            *([on_page] if result.notes else []),
            links(result),
            *_values(result),
            *([over_ratios(result)] if result.ratios else []),
            *([Text(result.notes, "items", on=Media.TERMINAL)] if result.notes else []),
            Text(sentences, on=Media.MARKDOWN),
            Text(result.notes, "items", on=Media.MARKDOWN),
            *(_figures(result) if plots else NO_PLOTS),
        ),
        result.provenance,
        question,
        _setting(result),
        result.families,
        Source(dump_scenario(result.scenario), *BESIDE),
        FILES,
        partial(document, result),
        Data.of(result.summary),
    )


def _figures(result: "VariablesResult") -> list[Figure]:
    from varsim.report.plots.program.gallery import plots

    tables = {"crossover": varied(result)} if result.ratios else {}
    return [Figure(plot, result, tables.get(plot.name)) for plot in plots(result)]


def table(result: "VariablesResult") -> "DataFrame":
    """The main numbers as text; a row per mode."""
    return main.table(result).frame()


def comparison(result: "VariablesResult") -> Table:
    """What a step costs, on its side: a row per measure, with its meaning."""
    first = main.table(result)
    meanings = {name.replace("_", " "): metric.description for name, metric in METRICS.items()}
    beside = f"time per step, as a multiple of that in '{result.modes[0]}'"
    count = result.replications
    over = f"Means over {count} replications, ± the half-width of a 95 % confidence interval"
    return first.turned(
        dict.fromkeys(first.columns, beside) | meanings,
        caption=over if count > 1 else ONE,
        on=Media.PAGE,
    )


def _values(result: "VariablesResult") -> Iterator[Block]:
    """What was seen of every variable."""
    said = (
        "What each replica read last, what was last read from outside, and what the copies held at "
        "the end. Of large values: the first elements and the mean of all."
    )
    yield Text(("What was seen",), "heading", name="values", on=Media.PAGE)
    yield Text((said,), "paragraphs", on=Media.PAGE)
    variables = result.scenario.variables
    for index, variable in enumerate(variables):
        few = Media.TERMINAL if index < MOST_VARIABLES else Media(0)
        yield replace(
            main.seen(result, variable.name),
            caption=f"`{variable.name}` ({described(variable)}), as last read:",
            on=Media.MARKDOWN | few,
        )
        yield values(result, variable)
    if len(variables) > MOST_VARIABLES:
        more = f"The report shows {len(variables) - MOST_VARIABLES} more variables."
        yield Text((more,), on=Media.TERMINAL)


def values(result: "VariablesResult", variable: "VariableDescription") -> Table:
    """What was seen of a variable, a column per mode."""
    meanings = {
        "replicas": "what each read last, replica 0 first",
        "outside": "what was last read or saved from outside",
        "copies at the end": "the copy of replica 0 first",
    }
    caption = f"'{variable.name}' ({described(variable)})"
    more = _each(result, variable, caption)
    found = main.seen(result, variable.name)
    return found.turned(meanings, caption=caption, more=more, on=Media.PAGE)


def over_ratios(result: "VariablesResult") -> Table:
    """The time per step at some numbers of outside reads per write."""
    caption = "Time per step, over outside reads per write:"
    return replace(main.by_ratio(result), caption=caption, on=Media.TEXT)


def varied(result: "VariablesResult") -> Table:
    """The time per step at every number of outside reads per write."""
    caption = "Time per step, a row per number of outside reads per write"
    return replace(main.by_ratio(result, len(result.ratios)), caption=caption, folded=AS_TABLE)


def links(result: "VariablesResult") -> Table:
    """What the busiest links carried, as the mean over replications."""
    caption = (
        f"{CARRIED}; unlike above, what is sent before step 1 to make the variables is included"
    )
    left, folded = "; the busiest {most} of {all} links", "What each link carried"
    return busiest_links(result.carried, result.modes, caption, left, folded=folded, on=Media.PAGE)


def _each(result: "VariablesResult", variable: "VariableDescription", caption: str) -> Table | None:
    """What every replica read last and its copy held; None where all are alike."""
    views = [result.view(mode, variable.name) for mode in result.modes]
    count = min(result.scenario.cluster.workers, MOST_REPLICAS)
    rows = []
    for rank in range(count):
        read = tuple(shown(view.replicas[rank]) for view in views)
        held = tuple(
            shown(view.copies[rank]) if rank < len(view.copies) and len(view.copies) > 1 else "-"
            for view in views
        )
        rows += [Row(f"replica {rank}", read, "read last"), Row(f"copy {rank}", held, "at the end")]
    for part in (rows[::2], rows[1::2]):
        if any(row.cells != part[0].cells for row in part):
            of = f", the first {count} replicas" if count < len(views[0].replicas) else ""
            return Table(
                result.modes,
                tuple(row for row in rows if set(row.cells) != {"-"}),
                caption=f"{caption}{of}",
                folded=f"{variable.name}, replica by replica",
            )
    return None


def _setting(result: "VariablesResult") -> str:
    scenario = result.scenario
    return DOT.join(
        [
            counted(scenario.cluster.workers, "replica"),
            counted(len(result.modes), "mode"),
            counted(scenario.program.steps, "step"),
            counted(result.replications, "replication"),
            f"seed {scenario.seed}",
        ]
    )


def document(result: "VariablesResult") -> dict[str, Any]:
    """Everything but the long tables, as plain data."""
    written = len(result.written)
    points = [None, *result.ratios]
    per_point = len(result.modes) * result.replications
    return {
        "made_by": MADE_BY,
        "kind": "variables",
        "name": result.scenario.name,
        "provenance": result.provenance,
        "answer": result.answer().splitlines(),
        "notes": list(result.notes),
        "modes": list(result.modes),
        "summary": [
            {
                "mode": mode,
                "reads_per_write": ratio,
                "metric": metric,
                "unit": about.unit,
                **result.estimate(mode, metric, ratio)._asdict(),
                "values": result.values(mode, metric, ratio),
            }
            for ratio in points
            for mode in result.modes
            for metric, about in METRICS.items()
        ],
        "crossovers": [
            {
                "cheaper_below": found.first,
                "cheaper_above": found.second,
                "reads_per_write": found.reads_per_write._asdict(),
                "time_per_step_s": found.time_per_step,
            }
            for found in result.crossovers()
        ],
        "seen": {mode: [_view(view) for view in result.trace(mode).views] for mode in result.modes},
        "metrics": {
            name: {"unit": metric.unit, "description": metric.description}
            for name, metric in METRICS.items()
        },
        "columns": COLUMNS,
        "runs": [
            {
                "mode": result.modes[place % per_point // result.replications],
                "reads_per_write": points[place // per_point],
                **_facts(trace, whole=place < written),
            }
            for place, trace in enumerate(result.traces)
        ],
        "scenario": result.scenario.model_dump(mode="json", exclude_none=True),
    }


def _facts(trace: "ProgramTrace", whole: bool) -> dict[str, Any]:
    """A run without its rows; of one whose rows are kept, how many there are."""
    rows = {"acts": len(trace.acts), "sent": len(trace.sent), "links": len(trace.links)}
    return {
        "replication": trace.replication,
        "began_ns": trace.began,
        "end_ns": trace.end,
        "moved_bytes": trace.moved,
        "messages": trace.messages,
        "all_acts": trace.all_acts,
        "all_sent": trace.all_sent,
        **({"rows": rows} if whole else {}),
    }


def _view(view: VariableView) -> dict[str, Any]:
    return {
        "variable": view.variable,
        "replicas": list(map(_glance, view.replicas)),
        "outside": _glance(view.outside),
        "copies": list(map(_glance, view.copies)),
    }


def _glance(glance: ValueSummary | None) -> dict[str, Any] | None:
    if glance is None:
        return None
    return {"shape": list(glance.shape), "first": list(glance.first), "mean": glance.mean}
