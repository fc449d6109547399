"""A run's files: written all at once or not at all, and read back into a Result."""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.rows import Rows
from varsim.cluster.trace import Attempt, EvaluationRow, LinkRow, Standstill, Trace
from varsim.inert import field
from varsim.report.files.chrome_trace import FILE, chrome_trace
from varsim.report.files.keeping import facts_of, head, put_run, scenario_of
from varsim.report.files.text_columns import fair_shares, filled, nanoseconds, seconds_text
from varsim.report.render import csv_text
from varsim.report.report import Report
from varsim.report.training import document, summary
from varsim.scenario.training import Scenario
from varsim.study.measure import ACTIVITIES, OUTCOMES, Gradients
from varsim.study.result import Result
from varsim.study.tables import COLUMNS, OF_LIVES

# About 60 MB of text; beyond that spans are left out, and it is said.
MOST_SPANS = 1_000_000
LIVES: Final = "lives.csv"


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
    from varsim.scenario.loading import dump_scenario

    kept = _kept_spans(result, most_spans)
    timeline, notes = chrome_trace(result)
    total = sum(len(trace.span_rows) for trace in result.traces)
    if sum(kept) < total:
        notes += (
            f"spans.csv: {sum(kept):,} of {total:,} spans, the first ones of replication 0 "
            "before those of replication 1, and so on; every other file counts all of them",
        )
    facts = document(result, notes)
    for run, trace, spans in zip(facts["runs"], result.traces, kept, strict=True):
        run["rows"] = {
            "updates": len(trace.gradient_rows),
            "spans": spans,
            "evaluations": len(trace.evaluations),
            "steps": len(trace.steps),
            **({"lives": len(trace.life)} if trace.life is not None else {}),
        }
    traces = result.traces
    files: dict[str, Iterable[str] | bytes] = {
        "summary.csv": [csv_text(summary(result))],
        "scenario.yaml": [head(report.question if report else ""), dump_scenario(result.scenario)],
        "updates.csv": _table("updates", traces, map(_update_columns, traces)),
        "spans.csv": _table("spans", traces, map(_span_columns, traces, kept)),
        "evaluations.csv": _table("evaluations", traces, map(_evaluation_columns, traces)),
        "steps.csv": _table("steps", traces, map(_step_columns, traces)),
        FILE: timeline,
    }
    if result.scenario.failures is not None:
        files[LIVES] = _table("lives", traces, map(_life_columns, traces))
    put_run(directory, "training", files, facts, report)
    return Saved(directory, notes)


def load_result(directory: Path) -> Result:
    """The Result that was saved in `directory`, with the spans that were saved.

    Raises NotARunError where there is no run that this version can read, OSError where a file of
    it is missing.
    """
    facts = facts_of(directory, "training")
    made, runs = facts["provenance"], facts["runs"]
    names = [name for name in _READ if f"{name}.csv" in facts["files"]]
    tables = {name: _Rows(name, (directory / f"{name}.csv").read_bytes()) for name in names}
    traces = [_trace(run, tables) for run in runs]
    reference = [_trace(run, {}) for run in facts["reference"]]
    times = [np.array(run["worker_time_ns"], dtype=np.int64) for run in runs]
    measured = [
        np.array(run["measured_time_ns"], dtype=np.int64)
        for run in runs
        if "measured_time_ns" in run
    ]
    alone = [float(run["examples_per_s"]) for run in facts["reference"] if "examples_per_s" in run]
    scenario = scenario_of(facts, directory, Scenario)
    return Result(scenario, traces, reference, times, measured, made, alone)


_Column = NDArray[np.int64] | NDArray[np.object_] | list[str]


def _table(name: str, traces: Sequence[Trace], parts: Iterator[list[_Column]]) -> Iterator[str]:
    """A CSV file: the columns of COLUMNS[name], of one trace after the other."""
    yield ",".join((COLUMNS | OF_LIVES)[name]) + "\n"
    for trace, columns in zip(traces, parts, strict=True):
        whose = f"{field(trace.strategy)},{trace.replication}".replace("%", "%%")
        yield from filled(f"{whose}{',%s' * len(columns)}\n", columns)


def _update_columns(trace: Trace) -> list[_Column]:
    rows = Gradients.of(trace)
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


def _span_columns(trace: Trace, count: int) -> list[_Column]:
    spans = trace.spans
    if count < len(spans):
        spans = spans[np.sort(np.argsort(spans[:, 2], kind="stable")[:count])]
    worker, phase, start, end, iteration = spans.T
    names = np.array(ACTIVITIES, dtype=object)[phase]
    return [worker, names, seconds_text(start), seconds_text(end), iteration]


def _evaluation_columns(trace: Trace) -> list[_Column]:
    rows = trace.evaluations
    return [
        seconds_text(np.array([row.time for row in rows], dtype=np.int64)),
        np.array([row.global_step for row in rows], dtype=np.int64),
        np.array([row.examples for row in rows], dtype=np.int64),
        [_number(row.loss) for row in rows],
        [_number(row.accuracy) for row in rows],
        [_number(row.divergence) for row in rows],
        np.array([row.off_grid for row in rows], dtype=np.int64),
    ]


def _step_columns(trace: Trace) -> list[_Column]:
    return [np.arange(1, len(trace.steps) + 1), seconds_text(trace.steps)]


def _life_columns(trace: Trace) -> list[_Column]:
    assert trace.life is not None
    columns = zip(Attempt._fields, trace.life.T, strict=True)
    return [seconds_text(each) if name in Attempt._fields[:7] else each for name, each in columns]


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
    "lives": list(OF_LIVES["lives"])[2:],
}
_NUMBER_OF = {name: number for names in (ACTIVITIES, OUTCOMES) for number, name in enumerate(names)}
_FLOATS = ("loss", "accuracy", "divergence", "applied_share")


class _Rows:
    """One saved table, handed out trace by trace."""

    def __init__(self, name: str, content: bytes) -> None:
        from pandas import read_csv

        self._name, self._next = name, 0
        columns = _READ[name]
        table = read_csv(io.BytesIO(content), usecols=columns, dtype=str, keep_default_na=False)
        self._arrays = [_parsed(column, table[column].tolist()) for column in columns]

    def take(self, run: dict[str, Any]) -> list[NDArray[Any]]:
        """The columns of this run, which is the next."""
        start, self._next = self._next, self._next + run["rows"][self._name]
        return [array[start : self._next] for array in self._arrays]


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
    rows = {name: table.take(run) for name, table in tables.items()}
    nothing = np.empty((0, 0), dtype=np.int64)
    gradients = spans = steps = nothing
    life = None
    evaluations: list[EvaluationRow] = []
    if rows:
        *columns, share = rows["updates"]
        parts = np.rint(share * run["variables"]).astype(np.int64)
        gradients = np.stack([*columns, parts], axis=1)
        spans = np.stack(rows["spans"], axis=1)
        (steps,) = rows["steps"]
        if "lives" in rows:
            life = np.stack(rows["lives"], axis=1)
        values = zip(*(column.tolist() for column in rows["evaluations"]), strict=True)
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
        span_rows=Rows.of(spans),
        gradient_rows=Rows.of(gradients),
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
    )
