"""The trace for viewers: tracks that follow each other exactly, arrows, counters, and its caps."""

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tests.handmade import a_scenario, a_trace
from varsim.cluster.record.rows import Rows
from varsim.report.files.rows import chrome_trace
from varsim.study.result import Result


def events_of(packed: bytes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(packed), parse_float=str)[
        "traceEvents"
    ]
    return events


def test_arrows_lead_from_a_read_to_the_version_that_it_became_part_of() -> None:
    result = Result(a_scenario(), [a_trace()], [])
    events = events_of(chrome_trace(result)[0])
    of_model = 3
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            flows[event["id"]].append((event["ph"], event["tid"], float(event["ts"]) / 1e6))
    assert list(flows.values()) == [  # one is dropped, one pending
        [("s", 1, 0), ("t", 1, 0), ("f", of_model, 3)],
        [("s", 2, 0), ("t", 2, 0), ("f", of_model, 5)],
        [("s", 1, 7), ("t", 1, 8), ("f", of_model, 10)],
    ]
    updates = [float(event["ts"]) / 1e6 for event in events if event["ph"] == "i"]
    assert updates == [3, 5, 10]
    slices = [event for event in events if event["ph"] == "X" and event["tid"] == of_model]
    assert [(event["name"], float(event["ts"]) / 1e6) for event in slices] == [
        ("step 0", 0),
        ("step 1", 3),
        ("step 2", 5),
        ("step 3", 10),
    ]
    computed = [event["args"] for event in events if event["name"] == "compute"]
    assert {"iteration": 1, "outcome": "dropped", "staleness": 1} in computed
    assert {"iteration": 1, "outcome": "pending"} in computed


def test_the_slices_of_a_track_are_exact_and_follow_each_other() -> None:
    spans = a_trace().spans
    spans[:, 2:4] += np.where(spans[:, 2:4] == 2_000_000_000, 1, 0)  # 1 ns later
    assert (spans[:, 2:4] == 2_000_000_001).sum() == 2
    result = Result(a_scenario(), [a_trace(spans=spans)], [])
    events = events_of(chrome_trace(result)[0])
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start, length = (round(float(event[key]) * 1000) for key in ("ts", "dur"))
            tracks[event["tid"]].append((start, start + length))
    for slices in tracks.values():
        slices.sort()
        assert all(end == start for (_, end), (start, _) in pairwise(slices))
    write = next(event for event in events if event["name"] == "write")
    assert (write["ts"], write["dur"]) == ("2000000.001", "999999.999")


def test_a_trace_beyond_the_cap_keeps_a_fair_share() -> None:
    short = replace(a_trace("a"), span_rows=Rows.of(a_trace().spans[[0]]), workers=1)
    result = Result(a_scenario(("a", "b")), [short, a_trace("b")], [])
    packed, notes = chrome_trace(result, most=8, most_gradients=4)
    assert notes == (
        "trace.json.gz: the first 7 of 12 spans of b",
        *(f"trace.json.gz: the first 2 of 5 gradients of {name}" for name in "ab"),
        *(f"trace.json.gz: the first 2 of 3 updates of {name}" for name in "ab"),
    )
    events = [event for event in events_of(packed) if event["ph"] == "X"]
    slices = [event for event in events if not event["name"].startswith("step ")]
    assert [event["pid"] for event in slices].count(1) == 1
    assert max(float(event["ts"]) for event in slices) == 5e6
