"""The rows of a run as text: CSV tables, and the Chrome trace of its first replication."""

import gzip
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.programs import ProgramTrace
from varsim.cluster.record.rows import BLOCK, Rows
from varsim.cluster.record.trace import (
    GradientRow,
    Outcome,
    Phase,
    Span,
    Trace,
)
from varsim.core.inert import field, number_or_cell
from varsim.report.formats import csv_lines
from varsim.study.gradients import GradientTable
from varsim.study.metrics import ACTIVITIES, OUTCOMES
from varsim.study.result import Result
from varsim.study.tables import COLUMNS, OF_ACTS, of_attempts, of_sends
from varsim.study.tables import links as link_columns

# About 60 MB of text; beyond that spans are left out, and it is said.
MOST_SPANS = 1_000_000
ATTEMPTS: Final = "attempts.csv"
SENDS: Final = "sends.csv"
FILE = "trace.json.gz"
# Viewers grow slow beyond a few hundred thousand slices.
MOST_SLICES = 500_000
MOST_GRADIENTS = 100_000  # and updates
START = Span._fields.index("start")
_SLICE = '{"ph":"X","pid":%d,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,'
_SPAN = f',\n{_SLICE}"name":"%s","args":{{"iteration":%d%s}}}}'
_VERSION = f',\n{_SLICE}"name":"step %d"}}'
_UPDATE = ',\n{"ph":"i","s":"t","pid":%d,"tid":%d,"ts":%d.%03d,"name":"update"}'
_FLOW = (
    ',\n{"ph":"%s","bp":"e","cat":"gradient","name":"gradient","id":"%d.%d",'
    '"pid":%d,"tid":%d,"ts":%d.%03d}'
)
_ROW = {name: index for index, name in enumerate(GradientRow._fields)}
_CHUNK = 50_000  # rows that become text at once
_SECOND = 1_000_000_000


def rows_of(
    result: Result[Any], most_spans: int
) -> tuple[dict[str, Iterable[str] | bytes], list[dict[str, int]], tuple[str, ...]]:
    """The files of rows, how many rows each run has in them, and what was left out."""
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
    counts = [
        {
            "updates": len(trace.gradient_rows),
            "spans": spans,
            "evaluations": len(trace.evaluations),
            "steps": len(trace.steps),
            **({"attempts": len(trace.life)} if trace.life is not None else {}),
            **({"sends": sent} if any(sends) else {}),
        }
        for trace, spans, sent in zip(traces, kept, sends, strict=True)
    ]
    spans = [trace.span_rows for trace in traces]
    files: dict[str, Iterable[str] | bytes] = {
        "spans.csv": _csv(COLUMNS["spans"], traces, map(_span_columns, spans, kept)),
        "steps.csv": _csv(COLUMNS["steps"], traces, map(_steps, traces)),
        "links.csv": _csv(COLUMNS["links"], traces, map(_links, traces)),
        FILE: timeline,
    }
    if result.scenario.kind == "variables":
        from varsim.study.program import act_rows, of_program, sent_rows

        programs = list(map(of_program, traces))
        acts, sent = _table("acts", act_rows(programs)), _table("sent", sent_rows(programs))
        return files | {"acts.csv": acts, "sent.csv": sent}, counts, (*notes, *_left_out(programs))
    files["updates.csv"] = _csv(COLUMNS["updates"], traces, map(_updates, traces))
    files["evaluations.csv"] = _csv(COLUMNS["evaluations"], traces, map(_evaluations, traces))
    if result.scenario.failures is not None:
        attempts = of_attempts(result.scenario)["attempts"]
        files[ATTEMPTS] = _csv(attempts, traces, map(_attempts, traces))
    for names in of_sends(traces).values():
        rows = [trace.send_rows for trace in traces]
        files[SENDS] = _csv(names, traces, map(_span_columns, rows, sends))
    return files, counts, notes


def _left_out(traces: Sequence[ProgramTrace]) -> Iterator[str]:
    """Of which runs of programs not every act or message is kept."""
    for name, pairs in (
        ("acts.csv", [(len(trace.acts), trace.all_acts) for trace in traces]),
        ("sent.csv", [(len(trace.sent_rows), trace.all_sent) for trace in traces]),
    ):
        kept, all_of = (sum(column) for column in zip(*pairs, strict=True))
        if kept < all_of:
            yield (
                f"{name}: {kept:,} of {all_of:,} rows, the first ones of each run; every other "
                "number counts all of them"
            )


def _table(name: str, rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """A table of a program as CSV; times in ns are exact seconds there."""
    columns = list(OF_ACTS[name])
    times = {at for at, column in enumerate(columns) if column.endswith("_s")}

    def cell(at: int, value: object) -> object:
        if isinstance(value, int) and at in times:
            return exact_seconds(value)
        return number_or_cell(value) if isinstance(value, str) else value

    return csv_lines(columns, ([cell(at, one) for at, one in enumerate(row)] for row in rows))


_Column: TypeAlias = NDArray[np.int64] | NDArray[np.object_] | list[str]
_Parts: TypeAlias = Iterator[list[_Column]]


def _csv(names: Iterable[str], traces: Sequence[Trace], columns: Iterator[_Parts]) -> Iterator[str]:
    """A CSV file: columns of these names, of one trace after the other, part by part."""
    yield ",".join(names) + "\n"
    for trace, parts in zip(traces, columns, strict=True):
        whose = f"{field(trace.strategy)},{trace.replication}".replace("%", "%%")
        for part in parts:
            yield from filled(f"{whose}{',%s' * len(part)}\n", part)


def _updates(trace: Trace) -> _Parts:
    for rows in GradientTable.of(trace).parts():
        never = rows.applied_step < 0  # pending or lost
        yield [
            *(rows.worker, rows.iteration, seconds_text(rows.read), rows.read_step),
            *map(seconds_text, (rows.compute_start, rows.computed, rows.arrived, rows.applied)),
            np.where(never, "", rows.applied_step.astype(object)),
            np.array(OUTCOMES, dtype=object)[rows.outcome],
            list(map(repr, rows.applied_share.tolist())),
            np.where(never, "", (rows.applied_step - rows.read_step).astype(object)),
            seconds_text(np.where(rows.ended, rows.applied - rows.read, -1)),
        ]


def _span_columns(rows: Rows, count: int) -> _Parts:
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


def _attempts(trace: Trace) -> _Parts:
    assert trace.life is not None
    columns = enumerate(trace.life.T)
    yield [seconds_text(each) if number < 7 else each for number, each in columns]


def _kept_spans(result: Result[Any], most: int) -> list[int]:
    """How many spans of each trace are saved: whole replications first, then equal parts."""
    kept = [0] * len(result.traces)
    for replication in range(result.replications):
        own = slice(replication, None, result.replications)
        kept[own] = fair_shares([len(trace.span_rows) for trace in result.traces[own]], most)
        most -= sum(kept[own])
    return kept


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def chrome_trace(
    result: Result[Any], most: int = MOST_SLICES, most_gradients: int = MOST_GRADIENTS
) -> tuple[bytes, tuple[str, ...]]:
    """Replication 0 of every strategy, gzipped, and what was left out, if anything.

    Where there are more than `most` spans, or `most_gradients`, each strategy keeps its fair share:
    its first ones.
    """
    traces = [result.trace(strategy) for strategy in result.strategies]
    whole = {
        "spans": [len(trace.span_rows) for trace in traces],
        "sends": [len(trace.send_rows) for trace in traces],
        "gradients": [len(trace.gradient_rows) for trace in traces],
        "updates": [len(trace.steps) for trace in traces],
    }
    room = {"spans": most, "sends": most, "gradients": most_gradients, "updates": most_gradients}
    kept = {what: fair_shares(counts, room[what]) for what, counts in whole.items()}
    packed = io.BytesIO()
    # No time and no name inside the archive: the same result gives the same bytes.
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=packed, mtime=0) as file:
        head = {"displayTimeUnit": "ms", "otherData": result.provenance}
        file.write((json.dumps(head)[:-1] + ', "traceEvents": [').encode())
        file.write(json.dumps({"name": "varsim", "ph": "M", "pid": 0}).encode())
        for process, (trace, *counts) in enumerate(zip(traces, *kept.values(), strict=True), 1):
            for text in _events(trace, process, *counts):
                file.write(text.encode())
        file.write(b"\n]}\n")
    return packed.getvalue(), tuple(
        f"{FILE}: the first {count:,} of {of:,} {what} of {trace.strategy}"
        for what in whole
        for trace, count, of in zip(traces, kept[what], whole[what], strict=True)
        if count < of
    )


def _events(
    trace: Trace, process: int, spans: int, sends: int, some: int, updates: int
) -> Iterator[str]:
    """All of a strategy: its first spans, sends, gradients and updates, so many of each."""
    gradients = trace.gradient_rows.least(_ROW["read"], some)
    model, beside = trace.workers + 1, trace.workers + 2
    yield _names(trace, process, model, beside)
    rows = trace.span_rows.least(START, spans)
    fates = {
        (row[_ROW["worker"]], row[_ROW["iteration"]]): _fate(row) for row in gradients.tolist()
    }
    computed = (
        (worker, iteration if phase == Phase.COMPUTE else -1)
        for worker, phase, _, _, iteration in rows.tolist()
    )
    yield from _slices(rows, process, 1, [fates.get(pair, "") for pair in computed])
    yield from _slices(trace.send_rows.least(START, sends), process, beside, [""] * sends)
    yield from _versions(trace, process, model, updates)
    yield from _arrows(gradients, process, model, updates)


def _names(trace: Trace, process: int, model: int, beside: int) -> str:
    """The process, its threads, and the loss as a counter."""
    tracks = []
    for rank in range(trace.workers):
        tracks.append((rank + 1, f"worker {rank}"))
        tracks += [(rank + beside, f"worker {rank}, sending")] * bool(len(trace.send_rows))
    events: list[dict[str, object]] = [
        {"name": "process_name", "args": {"name": trace.strategy}},
        {"name": "process_sort_index", "args": {"sort_index": process}},
    ]
    for place, (number, name) in enumerate([*tracks, (model, "model")]):
        events.append({"name": "thread_name", "tid": number, "args": {"name": name}})
        events.append({"name": "thread_sort_index", "tid": number, "args": {"sort_index": place}})
    named = [{"ph": "M", "pid": process, **event} for event in events]
    lines = [json.dumps(event, separators=(",", ":")) for event in named]
    lines += [
        f'{{"name":"loss","ph":"C","pid":{process},"ts":{row.time // 1000}.{row.time % 1000:03d},'
        f'"args":{{"loss":{row.loss!r}}}}}'
        for row in trace.evaluations
        if math.isfinite(row.loss)
    ]
    return "".join(",\n" + line for line in lines)


def _slices(rows: NDArray[np.int64], process: int, track: int, more: list[str]) -> Iterator[str]:
    """Stretches of time, each on the track of its worker; `track`: that of the first.

    Times are microseconds with exact nanoseconds behind the point.
    """
    worker, phase, start, end, iteration = rows.T
    times = (*_micro(start), *_micro(end - start))
    names = np.array(ACTIVITIES, dtype=object)[phase]
    whose = (np.full(len(rows), process), worker + track)
    yield from filled(_SPAN, [*whose, *times, names, iteration, more])


def _fate(row: list[int]) -> str:
    text = f',"outcome":"{OUTCOMES[row[_ROW["outcome"]]]}"'
    if row[_ROW["applied_step"]] < 0:
        return text
    return f'{text},"staleness":{row[_ROW["applied_step"]] - row[_ROW["read_step"]]}'


def _versions(trace: Trace, process: int, track: int, count: int) -> Iterator[str]:
    """The model: a slice from each of its first updates to the next, and the updates."""
    end = int(trace.steps[count]) if count < len(trace.steps) else trace.end
    bounds = np.concatenate([[0], trace.steps[:count], [end]]).astype(np.int64)
    own = [np.full(count + 1, process), np.full(count + 1, track)]
    times = (*_micro(bounds[:-1]), *_micro(np.diff(bounds)))
    yield from filled(_VERSION, [*own, *times, np.arange(count + 1)])
    yield from filled(_UPDATE, [*(one[1:] for one in own), *_micro(bounds[1:-1])])


def _arrows(gradients: NDArray[np.int64], process: int, track: int, versions: int) -> Iterator[str]:
    """Of each gradient that was applied: from the read by the computation to the model."""
    used = np.isin(gradients[:, _ROW["outcome"]], (Outcome.APPLIED, Outcome.PARTLY))
    used &= gradients[:, _ROW["applied_step"]] < versions
    rows = gradients[used]
    numbers, own = np.arange(len(rows)), np.full(len(rows), process)
    worker, model = rows[:, _ROW["worker"]] + 1, np.full(len(rows), track)
    ways = (("s", worker, "read"), ("t", worker, "compute_start"), ("f", model, "applied"))
    for sign, place, column in ways:
        signs = [sign] * len(rows)
        yield from filled(_FLOW, [signs, own, numbers, own, place, *_micro(rows[:, _ROW[column]])])


def _micro(times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Microseconds, and the nanoseconds beyond them."""
    return times // 1000, times % 1000


def exact_seconds(time: int) -> str:
    """A time in ns as seconds, `1.250000000`."""
    return f"{time // _SECOND}.{time % _SECOND:09d}"


def filled(template: str, columns: Sequence[NDArray[Any] | list[str]]) -> Iterator[str]:
    """The template filled once per row, in chunks; one `%` field per column, equally long."""
    for start in range(0, len(columns[0]), _CHUNK):
        parts = (column[start : start + _CHUNK] for column in columns)
        texts = [part if isinstance(part, list) else part.tolist() for part in parts]
        rows = zip(*texts, strict=True)
        yield template * len(texts[0]) % tuple(chain.from_iterable(rows))


def seconds_text(times: NDArray[np.int64]) -> list[str]:
    """Times in ns as exact seconds, `1.250000000`; empty for -1, which says never."""
    columns = [times // _SECOND, times % _SECOND]
    texts = "".join(filled("%d.%09d\n", columns)).splitlines()
    for index in np.flatnonzero(times < 0).tolist():
        texts[index] = ""
    return texts


def fair_shares(wanted: Sequence[int], available: int) -> list[int]:
    """How many each gets: what it wants, or an equal part of what the modest ones leave."""
    given = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for place, index in enumerate(order):
        given[index] = min(wanted[index], available // (len(wanted) - place))
        available -= given[index]
    return given
