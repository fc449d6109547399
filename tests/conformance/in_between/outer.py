"""Recorded cases of outer steps: DiLoCo, also streaming."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from tests.building import MS
from tests.conformance.cases import Record
from tests.conformance.in_between.averaged import (
    blocked_after,
    computed_by_worker,
    run_noting_reads,
)
from tests.conformance.in_between.recorded import Replay
from tests.conformance.scripted import optimizer
from varsim.cluster.clock import Activity
from varsim.cluster.events import ProcessEvent
from varsim.cluster.outer import OuterReplicas
from varsim.cluster.worker import Worker
from varsim.strategies.diloco import DiLoCo

_SETTINGS: Final = ("inner_steps", "fragments", "delay", "convention", "mixing")
_OF_SYNCS: Final = (
    *("sync", "fragment", "send_step", "apply_step", "sent", "complete", "applied"),
    *("pseudo_gradient", "synced"),
)


def diloco(record: Record) -> None:
    """Who sends, waits and applies when, and what comes of it."""
    settings = {key: record[key] for key in _SETTINGS if key in record}
    if "outer" in record:
        settings["outer"] = optimizer(record["outer"]).model_dump()
    strategy = DiLoCo.model_validate(settings)
    steps, expected = record["steps"], record["expect"]
    # One step more than was recorded: it is computed at what came of the last.
    parts = record.get("fragment_elements")
    if parts is None and "problem" not in record:
        record = {**record, "problem": {"initial": [0.0] * record["fragments"]}}
    replay = Replay(record, strategy, parts, stop={"global_steps": steps + 1})
    syncs: dict[int, dict[str, Any]] = {}
    with watched(syncs, record["workers"]):
        read, trace = run_noting_reads(replay)
    if "step_ends" in expected:
        computed = computed_by_worker(trace, steps)
        assert computed == expected["step_ends"]
        assert blocked_after(trace, computed) == expected["blocked"]
    for row in expected.get("steps", ()):
        x = [read[worker, row["step"]] for worker in range(record["workers"])]
        np.testing.assert_allclose(x, row["x"], rtol=record["rtol"], atol=record["rtol"])
    for row in expected["syncs"]:
        found = syncs.pop(row["sync"])
        for key in row.keys() & set(_OF_SYNCS):
            if isinstance(row[key], list) and key in ("pseudo_gradient", "synced"):
                tolerance = record["rtol"]
                np.testing.assert_allclose(found[key], row[key], rtol=tolerance, atol=tolerance)
            else:
                assert found[key] == row[key], key
    later = [one for one in syncs.values() if one.get("apply_step", steps + 1) <= steps]
    assert not later


def diloco_recovery(record: Record) -> None:
    """A replica dies, and a new process takes all over from the other one.

    The recorded process makes its own steps before that in vain, from the start; here it waits. In
    which of its steps the first one died was not recorded; the sync after that was made without it.
    """
    joins, g = record["joins"], record["inner_steps"] // record["fragments"]
    new, at, own = joins["replica"], joins["at_survivor_step"], joins["own_step"]
    dies = at - g  # step in which it does, as the survivor counts
    events = [
        ProcessEvent.model_validate({"at": (dies - 0.5) / 10, "kill": {"worker": new}}),
        ProcessEvent.model_validate({"at": (at - 0.5) / 10, "restart": {"worker": new}}),
    ]
    old, back = record["expect"]["replicas"][1 - new], record["expect"]["replicas"][new]
    last = old["steps"][-1]["step"]
    settings = {key: record[key] for key in _SETTINGS if key in record}
    strategy = DiLoCo.model_validate({**settings, "outer": optimizer(record["outer"]).model_dump()})
    replay = Replay(
        record, strategy, record["fragment_elements"], {"global_steps": last + 1}, events
    )
    syncs: dict[int, dict[str, Any]] = {}
    with watched(syncs, record["workers"]):
        read, _ = run_noting_reads(replay)
    # A worker's numbers of gradients go on; the one that it died at is not made again.
    found = {row["step"]: read[1 - new, row["step"]] for row in old["steps"]}
    again = {row["step"]: read[new, dies + row["step"] - own] for row in back["steps"][own:]}
    for rows, values in ((old["steps"], found), (back["steps"][own:], again)):
        expected = [row["x"] for row in rows]
        np.testing.assert_allclose(list(values.values()), expected, rtol=record["rtol"])
    for row in old["sync_points"][1:]:
        sync = syncs[row["step"] // g - 1]
        part = record["fragment_elements"][sync["fragment"]]
        np.testing.assert_allclose(sync["synced"], np.array(row["synced"])[part])
        assert (sync["sent"][new] is None) == (dies <= row["step"] <= at)


@contextmanager
def watched(syncs: dict[int, dict[str, Any]], workers: int) -> Iterator[None]:
    """See what is sent and merged by whom, and what outer steps make of it."""
    offer, merge = OuterReplicas.offer, OuterReplicas.merge
    make_step = OuterReplicas._make_step

    def seen_offer(self: OuterReplicas, worker: Worker, sync: int, fragment: int) -> None:
        one = syncs.setdefault(sync, {"sync": sync, "sent": [None] * workers})
        one["fragment"], one["send_step"] = fragment, self.steps[worker.rank]
        one["sent"][worker.rank] = self._job.clock.time / MS
        if None not in one["sent"]:
            one["complete"] = max(one["sent"])
        offer(self, worker, sync, fragment)

    def seen_merge(
        self: OuterReplicas, worker: Worker, sync: int, fragment: int, sent_after: int
    ) -> Activity[None]:
        one = syncs[sync]
        assert (one["fragment"], one["send_step"]) == (fragment, sent_after)
        one["apply_step"] = self.steps[worker.rank]
        yield from merge(self, worker, sync, fragment, sent_after)
        one.setdefault("applied", [None] * workers)[worker.rank] = self._job.clock.time / MS

    def seen_step(self: OuterReplicas, sync: int, fragment: int, sent_by: Sequence[int]) -> None:
        before = self._points[fragment]
        sent = self._sent[sync]
        make_step(self, sync, fragment, sent_by)
        syncs[sync]["pseudo_gradient"] = sum(sent[rank] for rank in sent_by) / len(sent_by)
        syncs[sync]["synced"] = self._points[fragment]
        assert before is not self._points[fragment]

    with (
        patch.object(OuterReplicas, "offer", seen_offer),
        patch.object(OuterReplicas, "merge", seen_merge),
        patch.object(OuterReplicas, "_make_step", seen_step),
    ):
        yield
