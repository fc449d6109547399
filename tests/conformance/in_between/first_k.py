"""Recorded cases of the K family: who is used in each update, how stale, and who waits."""

from typing import Any

from tests.building import DROPPED, MS, PENDING, gradient_rows
from tests.conformance.cases import Record
from tests.conformance.comparison import assert_close
from tests.conformance.in_between.recorded import Replay, blocked
from varsim.strategies import Strategy
from varsim.strategies.backup_workers import BackupWorkers
from varsim.strategies.k_async import KAsync
from varsim.strategies.k_batch_async import KBatchAsync
from varsim.strategies.k_batch_sync import KBatchSync


def k_family(record: Record) -> None:
    """A case of schedules, or of values."""
    until, k = record["until_ms"], record["k"]
    policy = {key: record[key] for key in ("staleness_policy",) if key in record}
    made: dict[str, Strategy] = {
        "k_sync": BackupWorkers(replicas_to_aggregate=k),
        "k_async": KAsync.model_validate({"k": k, **policy}),
        "k_batch_async": KBatchAsync.model_validate({"k": k, **policy}),
        "k_batch_sync": KBatchSync(k=k),
    }
    replay = Replay(record, made[record["kind"]], stop={"time": (until + 0.5) / 1000})
    trace = replay.run()
    expected, rtol = record["expect"], record.get("rtol", 0.0)
    rows = gradient_rows(trace)
    assert len(replay.updates) == len(expected["updates"])
    for step, ((time, x), other) in enumerate(
        zip(replay.updates, expected["updates"], strict=True)
    ):
        used = sorted(
            (row for row in rows if row.applied_step == step and row.outcome == 0),
            key=lambda row: (row.computed, row.worker),
        )
        assert time == other["t"]
        assert [row.worker for row in used] == other["used"], step
        assert [step - row.read_step for row in used] == other["staleness"], step
        vain = sorted(
            (row.computed == row.applied, row.worker)
            for row in rows
            if row.outcome == DROPPED and row.applied == time * MS
        )
        for key, computed in (("dropped", True), ("cancelled", False)):
            if key in other:
                assert [worker for own, worker in vain if own == computed] == sorted(other[key])
        if "x" in other:
            assert_close(x.tolist(), other["x"], rtol, f"update {step}: x")
    if "stale" in expected:
        vain = [(row.applied / MS, row.worker) for row in rows if row.outcome == DROPPED]
        assert sorted(vain) == sorted(map(tuple, expected["stale"]))
    if "in_buffer" in expected:
        kept = [row for row in rows if row.outcome == PENDING and 0 <= row.computed <= until * MS]
        kept.sort(key=lambda row: (row.computed, row.worker))
        assert [row.worker for row in kept] == expected["in_buffer"]
    if "blocked" in expected:
        assert blocked(trace, until + 0.5) == expected["blocked"]


def asynchronous(record: Record) -> None:
    """A case in which every arrival is an update, by a rule for stale gradients."""
    policies: dict[str, dict[str, Any]] = {
        "plain": {"kind": "none"},
        "inverse_staleness": {"kind": "inverse"},
        "delay_compensated": {
            "kind": "delay_compensated",
            "variance_control": record.get("lambda"),
        },
    }
    strategy = KAsync.model_validate({"k": 1, "staleness_policy": policies[record["rule"]]})
    replay = Replay(record, strategy, stop={"time": (record["until_ms"] + 0.5) / 1000})
    rows = sorted(gradient_rows(replay.run()), key=lambda row: row.applied_step)
    rows = [row for row in rows if row.outcome == 0]
    for row, (time, x), other in zip(
        rows, replay.updates, record["expect"]["updates"], strict=True
    ):
        assert (time, row.worker) == (other["t"], other["worker"])
        assert row.applied_step - row.read_step == other["staleness"]
        assert_close(x.tolist(), other["x"], record["rtol"], f"update at {time} ms: x")
