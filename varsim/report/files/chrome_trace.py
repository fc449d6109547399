"""The spans of a result as a Chrome trace, which Perfetto and chrome://tracing open.

Format: "Trace Event Format", Google, 2016. A process per strategy, a thread per worker; thread 0
would share its track with the process, so worker r is thread r + 1.
"""

import gzip
import io
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from varsim.cluster.trace import Span, Trace
from varsim.report.files.text_columns import fair_shares, filled
from varsim.study.measure import ACTIVITIES

if TYPE_CHECKING:
    from varsim.study.result import Result

FILE = "trace.json.gz"
# Viewers grow slow beyond a few hundred thousand slices.
MOST_SPANS = 500_000
START = Span._fields.index("start")
_SPAN = (
    ',\n{"name":"%s","ph":"X","pid":%d,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,"args":{"iteration":%d}}'
)


def chrome_trace(result: "Result", most: int = MOST_SPANS) -> tuple[bytes, tuple[str, ...]]:
    """Replication 0 of every strategy, gzipped, and what was left out, if anything.

    Where there are more than `most` spans each strategy keeps its fair share: its first ones.
    """
    traces = [result.trace(strategy) for strategy in result.strategies]
    kept = fair_shares([len(trace.span_rows) for trace in traces], most)
    packed = io.BytesIO()
    # No time and no name inside the archive: the same result gives the same bytes.
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=packed, mtime=0) as file:
        head = {"displayTimeUnit": "ms", "otherData": result.provenance}
        file.write((json.dumps(head)[:-1] + ', "traceEvents": [').encode())
        file.write(json.dumps({"name": "varsim", "ph": "M", "pid": 0}).encode())
        for process, (trace, count) in enumerate(zip(traces, kept, strict=True), start=1):
            for text in (_names(trace, process), *_spans(trace, process, count)):
                file.write(text.encode())
        file.write(b"\n]}\n")
    return packed.getvalue(), tuple(
        f"{FILE}: the first {count:,} of {len(trace.span_rows):,} spans of {trace.strategy}"
        for trace, count in zip(traces, kept, strict=True)
        if count < len(trace.span_rows)
    )


def _names(trace: Trace, process: int) -> str:
    """The process, its threads, and the loss as a counter."""
    events: list[dict[str, object]] = [
        {"name": "process_name", "args": {"name": trace.strategy}},
        {"name": "process_sort_index", "args": {"sort_index": process}},
    ]
    for rank in range(trace.workers):
        thread = {"tid": rank + 1}
        events.append({"name": "thread_name", **thread, "args": {"name": f"worker {rank}"}})
        events.append({"name": "thread_sort_index", **thread, "args": {"sort_index": rank}})
    named = [{"ph": "M", "pid": process, **event} for event in events]
    lines = [json.dumps(event, separators=(",", ":")) for event in named]
    lines += [
        f'{{"name":"loss","ph":"C","pid":{process},"ts":{row.time // 1000}.{row.time % 1000:03d},'
        f'"args":{{"loss":{row.loss!r}}}}}'
        for row in trace.evaluations
        if math.isfinite(row.loss)
    ]
    return "".join(",\n" + line for line in lines)


def _spans(trace: Trace, process: int, count: int) -> Iterator[str]:
    """The first `count` spans, microseconds with exact nanoseconds behind the point."""
    worker, phase, start, end, iteration = trace.span_rows.least(START, count).T
    length = end - start
    columns = [
        np.array(ACTIVITIES, dtype=object)[phase],
        np.full(count, process),
        worker + 1,
        start // 1000,
        start % 1000,
        length // 1000,
        length % 1000,
        iteration,
    ]
    return filled(_SPAN, columns)
