"""A run's files: written all at once or not at all."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.rows import BLOCK, Rows
from varsim.cluster.trace import (
    Span,
    Trace,
)
from varsim.inert import field
from varsim.report import page
from varsim.report.files.keeping import head, put_run
from varsim.report.files.text_columns import fair_shares, filled, seconds_text
from varsim.report.formats import csv_text
from varsim.report.products.facts import document
from varsim.report.told import Report
from varsim.study.gradients import Gradients
from varsim.study.measure import ACTIVITIES, OUTCOMES
from varsim.study.result import Result
from varsim.study.tables import COLUMNS, of_lives, of_sends
from varsim.study.tables import links as link_columns

# About 60 MB of text; beyond that spans are left out, and it is said.
MOST_SPANS = 1_000_000
Plots: TypeAlias = Literal["png", "svg", ""]
LIVES: Final = "lives.csv"
SENDS: Final = "sends.csv"
_START: Final = Span._fields.index("start")


def show(report: Report, plots: Plots, directory: Path) -> None:
    """Write the page of a run, and its plots in a form, where they are wanted."""
    if plots:
        from varsim.report.charts.marks import write_all

        write_all(report.drawn(), report.families, directory, plots)
    page.write(report, directory)


class Saved(NamedTuple):
    """Where a result was saved, and what there is to say about it, one line each."""

    directory: Path
    notes: tuple[str, ...]


def save(
    result: Result,
    directory: Path,
    report: Report | None = None,
    most_spans: int = MOST_SPANS,
    *,
    plots: Plots = "png",
    rows: bool = True,
) -> Saved:
    """Write all files of a run; an older run in `directory` is replaced once these are complete.

    With its report: its page and its plots, too; `rows`: updates, spans, steps, evaluations, links
    and a trace, a row each. What else lies in `directory`, such as notes, is
    kept. Raises NotARunError if it holds no run, OSError if it cannot be written; then, and when
    interrupted, whatever was there before is untouched.
    """
    from varsim.scenario.writing import dump_scenario

    every, counts, notes = (
        _rows(result, most_spans) if rows else (dict[str, Iterable[str] | bytes](), [], ())
    )
    facts = document(result, notes)
    for run, count in zip(facts["runs"], counts, strict=False):
        run["rows"] = count
    files: dict[str, Iterable[str] | bytes] = {
        "summary.csv": [csv_text(result.report.data)],
        "scenario.yaml": [head(report.question if report else ""), dump_scenario(result.scenario)],
        **every,
    }
    shows = None if report is None else partial(show, report, plots)
    put_run(directory, "training", files, facts, shows)
    return Saved(directory, notes)


def _rows(
    result: Result, most_spans: int
) -> tuple[dict[str, Iterable[str] | bytes], list[dict[str, int]], tuple[str, ...]]:
    """The files of rows, how many rows each run has in them, and what was left out."""
    traces = result.traces
    kept = _kept_spans(result, most_spans)
    sendings = [0 if trace.replication else len(trace.send_rows) for trace in traces]
    sends = fair_shares(sendings, most_spans)
    from varsim.report.files.chrome_trace import FILE, chrome_trace

    timeline, notes = chrome_trace(result)
    total = sum(len(trace.span_rows) for trace in traces)
    if sum(kept) < total:
        notes += (
            f"spans.csv: {sum(kept):,} of {total:,} spans, the first ones of replication 0 "
            "before those of replication 1, and so on; every other file counts all of them",
        )
    if sum(sends) < sum(sendings):
        notes += (f"sends.csv: the first {sum(sends):,} of {sum(sendings):,} rows",)
    counts = [
        {
            "updates": len(trace.gradient_rows),
            "spans": spans,
            "evaluations": len(trace.evaluations),
            "steps": len(trace.steps),
            **({"lives": len(trace.life)} if trace.life is not None else {}),
            **({"sends": sent} if any(sends) else {}),
        }
        for trace, spans, sent in zip(traces, kept, sends, strict=True)
    ]
    spans = [trace.span_rows for trace in traces]
    files: dict[str, Iterable[str] | bytes] = {
        "updates.csv": _table(COLUMNS["updates"], traces, map(_updates, traces)),
        "spans.csv": _table(COLUMNS["spans"], traces, map(_spans, spans, kept)),
        "evaluations.csv": _table(COLUMNS["evaluations"], traces, map(_evaluations, traces)),
        "steps.csv": _table(COLUMNS["steps"], traces, map(_steps, traces)),
        "links.csv": _table(COLUMNS["links"], traces, map(_links, traces)),
        FILE: timeline,
    }
    if result.scenario.failures is not None:
        lives = of_lives(result.scenario)["lives"]
        files[LIVES] = _table(lives, traces, map(_lives, traces))
    for names in of_sends(traces).values():
        rows = [trace.send_rows for trace in traces]
        files[SENDS] = _table(names, traces, map(_spans, rows, sends))
    return files, counts, notes


_Column: TypeAlias = NDArray[np.int64] | NDArray[np.object_] | list[str]
_Parts: TypeAlias = Iterator[list[_Column]]


def _table(
    names: Iterable[str], traces: Sequence[Trace], columns: Iterator[_Parts]
) -> Iterator[str]:
    """A CSV file: columns of these names, of one trace after the other, part by part."""
    yield ",".join(names) + "\n"
    for trace, parts in zip(traces, columns, strict=True):
        whose = f"{field(trace.strategy)},{trace.replication}".replace("%", "%%")
        for part in parts:
            yield from filled(f"{whose}{',%s' * len(part)}\n", part)


def _updates(trace: Trace) -> _Parts:
    return map(_update_columns, Gradients.of(trace).parts())


def _update_columns(rows: Gradients) -> list[_Column]:
    ended_step = [str(step) for step in rows.applied_step.tolist()]
    staleness = [str(number) for number in (rows.applied_step - rows.read_step).tolist()]
    age = np.where(rows.ended, rows.applied - rows.read, -1)
    for index in np.flatnonzero(rows.applied_step < 0).tolist():  # pending or lost
        ended_step[index] = staleness[index] = ""
    return [
        *(rows.worker, rows.iteration, seconds_text(rows.read), rows.read_step),
        *(seconds_text(rows.compute_start), seconds_text(rows.computed)),
        *(seconds_text(rows.arrived), seconds_text(rows.applied), ended_step),
        np.array(OUTCOMES, dtype=object)[rows.outcome],
        [repr(share) for share in rows.applied_share.tolist()],
        staleness,
        seconds_text(age),
    ]


def _spans(rows: Rows, count: int) -> _Parts:
    parts = rows.parts() if count == len(rows) else _cut(rows.least(_START, count))
    for worker, phase, start, end, iteration in (part.T for part in parts):
        names = np.array(ACTIVITIES, dtype=object)[phase]
        yield [worker, names, seconds_text(start), seconds_text(end), iteration]


def _cut(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (rows[first : first + BLOCK] for first in range(0, max(1, len(rows)), BLOCK))


def _evaluations(trace: Trace) -> _Parts:
    rows = trace.evaluations
    yield [
        seconds_text(np.array([row.time for row in rows], dtype=np.int64)),
        np.array([row.global_step for row in rows], dtype=np.int64),
        np.array([row.examples for row in rows], dtype=np.int64),
        [_number(row.loss) for row in rows],
        [_number(row.accuracy) for row in rows],
        [_number(row.divergence) for row in rows],
        np.array([row.off_grid for row in rows], dtype=np.int64),
    ]


def _steps(trace: Trace) -> _Parts:
    for first in range(0, len(trace.steps), BLOCK):
        part = trace.steps[first : first + BLOCK]
        yield [np.arange(first + 1, first + len(part) + 1), seconds_text(part)]


def _links(trace: Trace) -> _Parts:
    names, *numbers = link_columns(trace)
    yield [
        [field(name) for name in names],
        *([repr(one) for one in each.tolist()] for each in numbers),
    ]


def _lives(trace: Trace) -> _Parts:
    assert trace.life is not None
    columns = enumerate(trace.life.T)
    yield [seconds_text(each) if number < 7 else each for number, each in columns]


def _kept_spans(result: Result, most: int) -> list[int]:
    """How many spans of each trace are saved: whole replications first, then equal parts."""
    kept = [0] * len(result.traces)
    for replication in range(result.replications):
        indices = range(replication, len(result.traces), result.replications)
        wanted = [len(result.traces[index].span_rows) for index in indices]
        given = fair_shares(wanted, most)
        for index, count in zip(indices, given, strict=True):
            kept[index] = count
        if given != wanted:
            break
        most -= sum(given)
    return kept


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
