"""Recorded cases of DropCompute: when steps end, what is computed of them, and values."""

import numpy as np

from tests.building import MS, gradient_rows
from tests.conformance.cases import Record
from tests.conformance.in_between.averaged import run_noting_reads
from tests.conformance.in_between.recorded import Replay, blocked
from tests.seams import Outcome
from varsim.strategies.on_write import OnWrite


def drop_compute(record: Record) -> None:
    """A case of schedules, or of values."""
    number, steps, workers = record["micro_batches"], record["steps"], record["workers"]
    drop = {"threshold": record["threshold_ms"] / 1000}
    if "divide_by" in record:
        drop["divide_by"] = record["divide_by"]
    strategy = OnWrite.model_validate({"micro_batches": number, "drop_compute": drop})
    times = [[each for step in own for each in step] for own in record["micro_ms"]]
    replay = Replay({**record, "step_ms": times}, strategy, stop={"global_steps": steps})
    _, trace = run_noting_reads(replay)

    used = [[0] * workers for _ in range(steps)]
    stopped = [[0.0] * workers for _ in range(steps)]
    ends = (trace.steps / MS).tolist()
    starts = [0.0, *ends[:-1]]
    for row in gradient_rows(trace):
        step = row.read_step
        assert row.read / MS == starts[step]
        given_up = row.outcome == Outcome.DROPPED
        assert given_up or row.applied / MS == ends[step]
        used[step][row.worker] += not given_up
        until = row.applied if given_up else row.computed
        stopped[step][row.worker] = max(stopped[step][row.worker], until / MS)

    values = [x for _, x in replay.updates]
    for row in record["expect"]["steps"]:
        step = row["step"]
        found = {
            "start": starts[step],
            "end": ends[step],
            "stopped": stopped[step],
            "computed": used[step],
            "total": sum(used[step]),
        }
        for key in found.keys() & row.keys():
            assert found[key] == row[key], f"step {step}: {key}"
        if "x" in row:
            tolerance = record["rtol"]
            np.testing.assert_allclose(values[step], row["x"], rtol=tolerance, atol=tolerance)
    if "blocked" in record["expect"]:
        assert blocked(trace) == record["expect"]["blocked"]
