"""Recorded cases of elastic averaging: who exchanges with the centre when, and what comes of it."""

from typing import Any
from unittest.mock import patch

from tests.building import MS, gradient_rows
from tests.conformance.cases import Record
from tests.conformance.comparison import assert_close
from tests.conformance.in_between.recorded import Replay, blocked
from varsim.cluster.clock import Activity
from varsim.cluster.elastic import ElasticReplicas
from varsim.cluster.worker import Worker
from varsim.strategies.easgd import ElasticAveraging
from varsim.values.gradient import Gradient, Parameters, Value


def easgd(record: Record) -> None:
    """A case of schedules, or of values."""
    rate, until = record.get("moving_rate", 0.5), record["until_ms"]
    strategy = ElasticAveraging(period=record["period"], moving_rate=rate)
    replay = Replay(record, strategy, stop={"time": (until + 0.5) / 1000})
    fetch, apply = ElasticReplicas.fetch, ElasticReplicas.apply
    exchanges: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    last = [0] * record["workers"]  # exchanges there had been after its own last one

    def seen_fetch(self: ElasticReplicas, worker: Worker) -> Activity[Parameters]:
        centre = yield from fetch(self, worker)
        rank = worker.rank
        staleness = len(exchanges) - last[rank]
        last[rank] = len(exchanges) + 1
        now = replay.job.clock.time / MS
        seen = {"t": now, "worker": rank, "clock": self.steps[rank], "staleness": staleness}
        exchanges.append(seen)
        return centre

    def seen_apply(
        self: ElasticReplicas, worker: Worker, gradient: Gradient, mean: list[Value] | None = None
    ) -> None:
        apply(self, worker, gradient, mean)
        now, clock = replay.job.clock.time / MS, self.steps[worker.rank]
        steps.append(
            {
                "t": now,
                "worker": worker.rank,
                "clock": clock,
                "exchanged": {"worker": worker.rank, "clock": clock - 1}
                in [{key: one[key] for key in ("worker", "clock")} for one in exchanges],
                "x": replay.task.whole(self.copy(worker.rank)).tolist(),
                "centre": replay.task.whole(self.centre).tolist(),
            }
        )

    with (
        patch.object(ElasticReplicas, "fetch", seen_fetch),
        patch.object(ElasticReplicas, "apply", seen_apply),
    ):
        trace = replay.run()
    expected = record["expect"]
    if "exchanges" in expected:
        assert exchanges == expected["exchanges"]
    if "steps" in expected:
        assert len(steps) == len(expected["steps"])
        for number, (one, other) in enumerate(zip(steps, expected["steps"], strict=True)):
            for key in other:
                if key in ("x", "centre"):
                    assert_close(one[key], other[key], record["rtol"], f"step {number}: {key}")
                else:
                    assert one[key] == other[key], (number, key)
    if "clocks" in expected:
        done = [row.worker for row in gradient_rows(trace) if row.applied >= 0]
        assert [done.count(rank) for rank in range(trace.workers)] == expected["clocks"]
    if "blocked" in expected:
        assert blocked(trace, until + 0.5) == expected["blocked"]
