"""The first replication of a result as a Chrome trace, which Perfetto and chrome://tracing open.

Format: "Trace Event Format", Google, 2016. A process per strategy, a thread per worker; thread 0
would share its track with the process, so worker r is thread r + 1. After these comes the model:
a slice for each of its versions, an instant for each update. What workers send beside their
computation has a track of its own below each worker's. An arrow (a flow, which joins the
slices that hold its ends) leads each gradient from the read of its worker by its computation to
the version that it is part of. The loss is a counter.
"""

import gzip
import io
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.trace import GradientRow, Outcome, Phase, Span, Trace
from varsim.report.files.text_columns import fair_shares, filled
from varsim.study.measure import ACTIVITIES, OUTCOMES

if TYPE_CHECKING:
    from varsim.study.result import Result

T = TypeVar("T", int, NDArray[np.int64])

FILE = "trace.json.gz"
# Viewers grow slow beyond a few hundred thousand slices.
MOST_SPANS = 500_000
MOST_GRADIENTS = 100_000  # and updates
_WORKER, _PHASE, START = (Span._fields.index(name) for name in ("worker", "phase", "start"))
_SLICE = '{"ph":"X","pid":%d,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,'
_SPAN = f',\n{_SLICE}"name":"%s","args":{{"iteration":%d%s}}}}'
_VERSION = f',\n{_SLICE}"name":"step %d"}}'
_UPDATE = ',\n{"ph":"i","s":"t","pid":%d,"tid":%d,"ts":%d.%03d,"name":"update"}'
_FLOW = (
    ',\n{"ph":"%s","bp":"e","cat":"gradient","name":"gradient","id":"%d.%d",'
    '"pid":%d,"tid":%d,"ts":%d.%03d}'
)
_ROW = {name: index for index, name in enumerate(GradientRow._fields)}


def chrome_trace(
    result: "Result", most: int = MOST_SPANS, most_gradients: int = MOST_GRADIENTS
) -> tuple[bytes, tuple[str, ...]]:
    """Replication 0 of every strategy, gzipped, and what was left out, if anything.

    Where there are more than `most` spans, or `most_gradients`, each strategy keeps its fair share:
    its first ones.
    """
    traces = [result.trace(strategy) for strategy in result.strategies]
    kept = fair_shares([len(trace.span_rows) for trace in traces], most)
    sends = fair_shares([len(trace.send_rows) for trace in traces], most)
    known = fair_shares([len(trace.gradient_rows) for trace in traces], most_gradients)
    steps = fair_shares([len(trace.steps) for trace in traces], most_gradients)
    packed = io.BytesIO()
    # No time and no name inside the archive: the same result gives the same bytes.
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=packed, mtime=0) as file:
        head = {"displayTimeUnit": "ms", "otherData": result.provenance}
        file.write((json.dumps(head)[:-1] + ', "traceEvents": [').encode())
        file.write(json.dumps({"name": "varsim", "ph": "M", "pid": 0}).encode())
        every = zip(traces, kept, sends, known, steps, strict=True)
        for process, (trace, count, sent, some, first) in enumerate(every, start=1):
            gradients = trace.gradient_rows.least(_ROW["read"], some)
            file.write(_names(trace, process).encode())
            for texts in (
                _spans(trace, process, count, gradients),
                _sends(trace, process, sent),
                _versions(trace, process, first),
                _arrows(trace, process, gradients, first),
            ):
                for text in texts:
                    file.write(text.encode())
        file.write(b"\n]}\n")
    return packed.getvalue(), tuple(
        f"{FILE}: the first {count:,} of {of:,} {what} of {trace.strategy}"
        for what, counts in (
            ("spans", kept),
            ("sends", sends),
            ("gradients", known),
            ("updates", steps),
        )
        for trace, count in zip(traces, counts, strict=True)
        if count < (of := _all(trace, what))
    )


def _all(trace: Trace, what: str) -> int:
    """How many of them a trace has."""
    if what == "updates":
        return len(trace.steps)
    rows = {"spans": trace.span_rows, "sends": trace.send_rows}
    return len(rows.get(what, trace.gradient_rows))


def _names(trace: Trace, process: int) -> str:
    """The process, its threads, and the loss as a counter."""
    events: list[dict[str, object]] = [
        {"name": "process_name", "args": {"name": trace.strategy}},
        {"name": "process_sort_index", "args": {"sort_index": process}},
    ]
    tracks = [(n + 1, f"worker {n}") for n in range(trace.workers)]
    if len(trace.send_rows):
        lanes = [(_lane(trace, n), f"worker {n}, sending") for n in range(trace.workers)]
        tracks = [track for pair in zip(tracks, lanes, strict=True) for track in pair]
    for place, (number, name) in enumerate([*tracks, (trace.workers + 1, "model")]):
        thread = {"tid": number}
        events.append({"name": "thread_name", **thread, "args": {"name": name}})
        events.append({"name": "thread_sort_index", **thread, "args": {"sort_index": place}})
    named = [{"ph": "M", "pid": process, **event} for event in events]
    lines = [json.dumps(event, separators=(",", ":")) for event in named]
    lines += [
        f'{{"name":"loss","ph":"C","pid":{process},"ts":{row.time // 1000}.{row.time % 1000:03d},'
        f'"args":{{"loss":{row.loss!r}}}}}'
        for row in trace.evaluations
        if math.isfinite(row.loss)
    ]
    return "".join(",\n" + line for line in lines)


def _spans(trace: Trace, process: int, count: int, gradients: NDArray[np.int64]) -> Iterator[str]:
    """The first `count` spans.

    Times are microseconds with exact nanoseconds behind the point.
    """
    worker, phase, start, end, iteration = trace.span_rows.least(START, count).T
    columns = [
        *(np.full(count, process), worker + 1, *_micro(start), *_micro(end - start)),
        *(np.array(ACTIVITIES, dtype=object)[phase], iteration),
        _fates(worker, np.where(phase == Phase.COMPUTE, iteration, -1), gradients),
    ]
    yield from filled(_SPAN, columns)


def _sends(trace: Trace, process: int, count: int) -> Iterator[str]:
    """The first `count` of what is sent beside computation."""
    worker, phase, start, end, iteration = trace.send_rows.least(START, count).T
    columns = [
        *(np.full(count, process), _lane(trace, worker), *_micro(start), *_micro(end - start)),
        *(np.array(ACTIVITIES, dtype=object)[phase], iteration, np.full(count, "", dtype=object)),
    ]
    yield from filled(_SPAN, columns)


def _lane(trace: Trace, worker: T) -> T:
    """The track of what a worker sends beside its computation."""
    return worker + trace.workers + 2


def _fates(
    worker: NDArray[np.int64], iteration: NDArray[np.int64], gradients: NDArray[np.int64]
) -> NDArray[np.object_]:
    """What became of the gradients that are computed, as more arguments of their slices."""
    told = {(row[_ROW["worker"]], row[_ROW["iteration"]]): _fate(row) for row in gradients.tolist()}
    pairs = zip(worker.tolist(), iteration.tolist(), strict=True)
    return np.array([told.get(pair, "") for pair in pairs], dtype=object)


def _fate(row: list[int]) -> str:
    text = f',"outcome":"{OUTCOMES[row[_ROW["outcome"]]]}"'
    if row[_ROW["applied_step"]] < 0:
        return text
    return f'{text},"staleness":{row[_ROW["applied_step"]] - row[_ROW["read_step"]]}'


def _versions(trace: Trace, process: int, count: int) -> Iterator[str]:
    """The model: a slice from each of its first updates to the next, and the updates."""
    end = int(trace.steps[count]) if count < len(trace.steps) else trace.end
    bounds = np.concatenate([[0], trace.steps[:count], [end]]).astype(np.int64)
    track = [np.full(count + 1, process), np.full(count + 1, trace.workers + 1)]
    lengths = _micro(np.diff(bounds))
    yield from filled(_VERSION, [*track, *_micro(bounds[:-1]), *lengths, np.arange(count + 1)])
    yield from filled(_UPDATE, [*(one[1:] for one in track), *_micro(bounds[1:-1])])


def _arrows(
    trace: Trace, process: int, gradients: NDArray[np.int64], versions: int
) -> Iterator[str]:
    """Of each gradient that was applied: from the read by the computation to the model."""
    used = np.isin(gradients[:, _ROW["outcome"]], (Outcome.APPLIED, Outcome.PARTLY))
    used &= gradients[:, _ROW["applied_step"]] < versions
    rows = gradients[used]
    numbers, own = np.arange(len(rows)), np.full(len(rows), process)
    of_worker, of_model = rows[:, _ROW["worker"]] + 1, np.full(len(rows), trace.workers + 1)
    for sign, track, column in (
        ("s", of_worker, "read"),
        ("t", of_worker, "compute_start"),
        ("f", of_model, "applied"),
    ):
        signs = [sign] * len(rows)
        yield from filled(_FLOW, [signs, own, numbers, own, track, *_micro(rows[:, _ROW[column]])])


def _micro(times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Microseconds, and the nanoseconds beyond them."""
    return times // 1000, times % 1000
