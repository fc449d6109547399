"""A run's files: written all at once or not at all, and read back into a Result."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.rows import BLOCK, Rows
from varsim.cluster.trace import (
    WORKER,
    EvaluationRow,
    GradientRow,
    LinkRow,
    Span,
    Standstill,
    Trace,
)
from varsim.inert import field
from varsim.report.files.chrome_trace import FILE, START, chrome_trace
from varsim.report.files.keeping import facts_of, head, put_run, scenario_of
from varsim.report.files.text_columns import fair_shares, filled, nanoseconds, seconds_text
from varsim.report.render import csv_text
from varsim.report.report import Report
from varsim.report.training import document, summary
from varsim.scenario.training import Scenario
from varsim.study.gradients import Gradients
from varsim.study.measure import ACTIVITIES, OUTCOMES
from varsim.study.result import Result
from varsim.study.tables import COLUMNS, as_wide, of_lives, of_sends
from varsim.study.tables import links as link_columns

# About 60 MB of text; beyond that spans are left out, and it is said.
MOST_SPANS = 1_000_000
LIVES: Final = "lives.csv"
SENDS: Final = "sends.csv"


class Saved(NamedTuple):
    """Where a result was saved, and what there is to say about it, one line each."""

    directory: Path
    notes: tuple[str, ...]


def save(
    result: Result, directory: Path, report: Report | None = None, most_spans: int = MOST_SPANS
) -> Saved:
    """Write all files of a run; an older run in `directory` is replaced once these are complete.

    With its report: its page and its plots, too. What else lies in `directory`, such as notes, is
    kept. Raises NotARunError if it holds no run, OSError if it cannot be written; then, and when
    interrupted, whatever was there before is untouched.
    """
    from varsim.scenario.writing import dump_scenario

    traces = result.traces
    kept = _kept_spans(result, most_spans)
    sendings = [0 if trace.replication else len(trace.send_rows) for trace in traces]
    sends = fair_shares(sendings, most_spans)
    timeline, notes = chrome_trace(result)
    total = sum(len(trace.span_rows) for trace in traces)
    if sum(kept) < total:
        notes += (
            f"spans.csv: {sum(kept):,} of {total:,} spans, the first ones of replication 0 "
            "before those of replication 1, and so on; every other file counts all of them",
        )
    if sum(sends) < sum(sendings):
        notes += (f"sends.csv: the first {sum(sends):,} of {sum(sendings):,} rows",)
    facts = document(result, notes)
    for run, trace, spans, sent in zip(facts["runs"], traces, kept, sends, strict=True):
        run["rows"] = {
            "updates": len(trace.gradient_rows),
            "spans": spans,
            "evaluations": len(trace.evaluations),
            "steps": len(trace.steps),
            **({"lives": len(trace.life)} if trace.life is not None else {}),
            **({"sends": sent} if any(sends) else {}),
        }
    files: dict[str, Iterable[str] | bytes] = {
        "summary.csv": [csv_text(summary(result))],
        "scenario.yaml": [head(report.question if report else ""), dump_scenario(result.scenario)],
        "updates.csv": _table(COLUMNS["updates"], traces, map(_updates, traces)),
        "spans.csv": _table(
            COLUMNS["spans"], traces, map(_spans, [trace.span_rows for trace in traces], kept)
        ),
        "evaluations.csv": _table(COLUMNS["evaluations"], traces, map(_evaluations, traces)),
        "steps.csv": _table(COLUMNS["steps"], traces, map(_steps, traces)),
        "links.csv": _table(COLUMNS["links"], traces, map(_links, traces)),
        FILE: timeline,
    }
    if result.scenario.failures is not None:
        lives = of_lives(result.scenario)["lives"]
        wide = repeat(len(lives) - 2)  # but for strategy and replication
        files[LIVES] = _table(lives, traces, map(_lives, traces, wide))
    for names in of_sends(traces).values():
        rows = [trace.send_rows for trace in traces]
        files[SENDS] = _table(names, traces, map(_spans, rows, sends))
    put_run(directory, "training", files, facts, report)
    return Saved(directory, notes)


def load_result(directory: Path) -> Result:
    """The Result that was saved in `directory`, with the spans that were saved.

    Raises NotARunError where there is no run that this version can read, OSError where a file of
    it is missing.
    """
    facts = facts_of(directory, "training")
    made, runs = facts["provenance"], facts["runs"]
    scenario = scenario_of(facts, directory, Scenario)
    lives = {name: list(columns)[2:] for name, columns in of_lives(scenario).items()}
    tables = {
        name: _Rows(name, directory / f"{name}.csv", columns)
        for name, columns in (_READ | lives).items()
        if f"{name}.csv" in facts["files"]
    }
    traces = [_trace(run, tables) for run in runs]
    reference = [_trace(run, {}) for run in facts["reference"]]
    times = [np.array(run["worker_time_ns"], dtype=np.int64) for run in runs]
    measured = [
        np.array(run["measured_time_ns"], dtype=np.int64)
        for run in runs
        if "measured_time_ns" in run
    ]
    alone = [float(run["examples_per_s"]) for run in facts["reference"] if "examples_per_s" in run]
    return Result(scenario, traces, reference, times, measured, made, alone)


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
    parts = rows.parts() if count == len(rows) else _cut(rows.least(START, count))
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


def _lives(trace: Trace, columns_of_all: int) -> _Parts:
    assert trace.life is not None
    columns = enumerate(as_wide(trace.life, columns_of_all).T)
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


# What is read back of each table; the other columns follow from these and summary.json.
_READ = {
    "updates": [
        *("worker", "iteration", "read_s", "read_step", "compute_start_s", "computed_s"),
        *("arrived_s", "ended_s", "ended_step", "outcome", "applied_share"),
    ],
    "spans": ["worker", "activity", "start_s", "end_s", "iteration"],
    "evaluations": [
        *("time_s", "global_step", "examples", "loss", "accuracy", "divergence", "off_grid"),
    ],
    "steps": ["time_s"],
}
_READ["sends"] = _READ["spans"]
_NUMBER_OF = {name: number for names in (ACTIVITIES, OUTCOMES) for number, name in enumerate(names)}
_FLOATS = ("loss", "accuracy", "divergence", "applied_share")


class _Rows:
    """One saved table, read and handed out part by part; OSError where it is missing."""

    def __init__(self, name: str, path: Path, columns: list[str]) -> None:
        path.stat()
        self._name, self._parts = name, _read(path, columns)
        self._left = next(self._parts)

    def take(self, run: dict[str, Any]) -> Iterator[list[NDArray[Any]]]:
        """The columns of this run, which is the next."""
        count = run["rows"][self._name]
        while True:
            part = [column[:count] for column in self._left]
            self._left = [column[count:] for column in self._left]
            count -= len(part[0])
            yield part
            if not count:
                return
            self._left = next(self._parts)

    def whole(self, run: dict[str, Any]) -> list[NDArray[Any]]:
        """The same, in one part."""
        return [np.concatenate(parts) for parts in zip(*self.take(run), strict=True)]


def _read(path: Path, columns: list[str]) -> Iterator[list[NDArray[Any]]]:
    """The columns of a CSV file, so many rows at a time; first none, in case there are none."""
    from pandas import read_csv

    yield [_parsed(column, []) for column in columns]
    with read_csv(
        path, usecols=columns, dtype=str, keep_default_na=False, chunksize=BLOCK
    ) as tables:
        for table in tables:
            yield [_parsed(column, table[column].tolist()) for column in columns]


def _parsed(column: str, texts: list[str]) -> NDArray[Any]:
    if column.endswith("_s"):
        return nanoseconds(texts)
    if column in ("activity", "outcome"):
        return np.array([_NUMBER_OF[text] for text in texts], dtype=np.int64)
    if column in _FLOATS:
        return np.array([float(text or "nan") for text in texts], dtype=np.float64)
    if column == "ended_step":
        texts = [text or "-1" for text in texts]
    return np.array(texts, dtype=np.int64) if texts else np.empty(0, dtype=np.int64)


def _trace(run: dict[str, Any], tables: dict[str, _Rows]) -> Trace:
    """A trace from its facts and, unless it is a reference, its rows."""
    gradients = Rows(len(GradientRow._fields))
    spans, sends = Rows(len(Span._fields)), Rows(len(Span._fields))
    steps, life = np.empty(0, dtype=np.int64), None
    evaluations: list[EvaluationRow] = []
    if tables:
        for *columns, share in tables["updates"].take(run):
            parts = np.rint(share * run["variables"]).astype(np.int64)
            gradients.append(np.stack([*columns, parts], axis=1))
        for columns in tables["spans"].take(run):
            spans.append(np.stack(columns, axis=1))
        for columns in tables["sends"].take(run) if "sends" in tables else ():
            sends.append(np.stack(columns, axis=1))
        (steps,) = tables["steps"].whole(run)
        if "lives" in tables:
            life = np.stack(tables["lives"].whole(run), axis=1)
            if (life[:, -1] == -1).all():  # of a whole job, beside others of workers
                life = life[:, :WORKER]
        rows = tables["evaluations"].whole(run)
        values = zip(*(column.tolist() for column in rows), strict=True)
        evaluations = [EvaluationRow._make([*row[:-1], bool(row[-1])]) for row in values]
    stale, links = run["copy_staleness"], run["links"]
    return Trace(
        strategy=run["strategy"],
        replication=run["replication"],
        workers=run["workers"],
        variables=run["variables"],
        batch_size=run["batch_size"],
        end=run["end_ns"],
        stopped_by=run["stopped_by"],
        standstill=Standstill(**run["standstill"]) if run.get("standstill") else None,
        global_step=run["global_step"],
        span_rows=spans,
        gradient_rows=gradients,
        evaluations=evaluations,
        steps=steps,
        copy_staleness=np.repeat(
            np.array(stale["values"], dtype=np.int64), np.array(stale["counts"], dtype=np.int64)
        ),
        links=[LinkRow(*row) for row in zip(*links.values(), strict=True)],
        heap_events=run["heap_events"],
        gradients_evaluated=run["gradients_evaluated"],
        gradients_aggregated=run["gradients_aggregated"],
        sent=math.nan if run.get("sent_bytes") is None else run["sent_bytes"],
        sending=run.get("sending_ns", 0),
        hidden=run.get("hidden_ns", 0),
        life=life,
        rolled_back=np.array(run["rolled_back"]) if run.get("rolled_back") else None,
        in_vain=np.array(run["in_vain"]) if run.get("in_vain") else None,
        model_lost=run.get("model_lost", False),
        send_rows=sends,
    )
