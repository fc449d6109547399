"""The trace for viewers: tracks that follow each other exactly, arrows, counters, and its caps."""

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tests.handmade import SECOND, a_scenario, a_trace
from varsim.cluster.rows import Rows
from varsim.cluster.trace import Phase
from varsim.report.files.chrome_trace import chrome_trace
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


def test_counters_tell_who_uses_the_network_and_where_gradients_are() -> None:
    result = Result(a_scenario(), [a_trace()], [])
    events = events_of(chrome_trace(result)[0])
    assert on_links(events) == {
        **{2: (1, 0, 0), 3: (0, 1, 0), 4: (1, 0, 0), 5: (0, 1, 0), 6: (1, 0, 0), 7: (0, 1, 0)},
        **{8: (0, 0, 0), 9: (1, 0, 0), 10: (0, 0, 0)},
    }
    gradients = [event for event in events if event["name"] == "gradients"]
    assert gradients[0]["args"] == {"on their way": 1, "arrived": 0}
    assert gradients[-1]["args"] == {"on their way": 0, "arrived": 0}


def on_links(events: list[dict[str, Any]]) -> dict[float, tuple[int, int, int]]:
    """How many workers send, receive and wait, from each change on (s)."""
    return {
        float(event["ts"]) / 1e6: tuple(event["args"].values())
        for event in events
        if event["name"] == "workers on links"
    }


def test_who_shares_a_link_uses_it_and_who_computes_may_send() -> None:
    spans = a_trace().spans
    spans[4, 1] = Phase.QUEUE  # worker 0 from 4 s, before it reads: on a fair link that is reading
    assert spans[4].tolist() == [1, Phase.QUEUE, 4 * SECOND, 5 * SECOND, 0]
    fair = on_links(events_of(chrome_trace(Result(a_scenario(), [a_trace(spans=spans)], []))[0]))
    assert fair[4] == (0, 1, 0)
    sends = Rows.of(np.array([(1, Phase.WRITE, SECOND, 3 * SECOND, 0)]))
    trace = replace(a_trace(), send_rows=sends)
    found = on_links(events_of(chrome_trace(Result(a_scenario(), [trace], []))[0]))
    assert [moment for moment, (sending, _, _) in found.items() if sending] == [1]
    assert found[3] == (0, 1, 0)


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


ONE = """
name: one
seed: 1
cluster:
  workers: 1
  compute: {kind: constant, value: 100 ms}
  parameter_servers: 1
  overheads: {push: 4 ms}
  network: {kind: star, bandwidth: 1 GB/s, latency: 0 s}
workload: {problem: {kind: timing, size: 50 MB}, batch_size: 1}
strategies: [{kind: none}]
stop: {global_steps: 2}
"""


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
