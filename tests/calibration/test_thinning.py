"""What is left of many measured steps has their mean and their tail, and says what was done."""

import math
import random

import numpy as np
import pytest

from varsim.calibration.compute_text import ComputePart, compute_part
from varsim.calibration.measurement import StepTable
from varsim.calibration.steps import dependence, thinned
from varsim.cluster.description import Cluster
from varsim.scenario.loading import load_text
from varsim.scenario.training import Scenario
from varsim.values.measured_times import MeasuredTimes

REST = """
  workers: 8
  network: {bandwidth: 1 GB/s, latency: 0 s}
workload: {problem: {kind: timing, size: 1 kB}, batch_size: 1}
strategies: [{kind: on_write}]
stop: {global_steps: 1}
"""


def heavy_tailed(workers: int, steps: int, slow: int) -> dict[int, tuple[float, ...]]:
    """Times around 100 ms of which 2 % are much longer; worker `slow` needs 1.5 times as long."""
    draws = random.Random(5)

    def time() -> float:
        usual = draws.lognormvariate(math.log(0.1), 0.04)
        return usual + (0.03 * draws.paretovariate(1.6) if draws.random() < 0.02 else 0)

    return {
        worker: tuple((1.5 if worker == slow else 1.0) * time() for _ in range(steps))
        for worker in range(workers)
    }


def part(rows: dict[int, tuple[float, ...]], beside: str | None = None) -> ComputePart:
    return compute_part(
        StepTable("steps.csv", rows, {w: tuple(range(len(row))) for w, row in rows.items()}), beside
    )


def loaded(found: ComputePart) -> Cluster:
    """The cluster of a scenario in which a part stands."""
    made = load_text(
        "\n".join(["name: pasted", "cluster:", *(f"  {line}" for line in found.yaml)]) + REST
    )
    assert isinstance(made, Scenario)
    return made.cluster


def test_all_workers_together_where_few_times_can_be_kept() -> None:
    rows = heavy_tailed(8, 400, slow=3)
    found = part(rows)
    cluster = loaded(found)
    law = cluster.compute
    assert isinstance(law, MeasuredTimes)
    assert law.replay == "resample"
    (kept,) = law.seconds
    ((rank, factor),) = [(slow.rank, slow.factor) for slow in cluster.slow_workers]

    assert (rank, factor) == (3, pytest.approx(1.5, rel=0.02))
    alike = np.concatenate(
        [np.array(row) / (factor if worker == 3 else 1) for worker, row in rows.items()]
    )
    assert len(kept) == 200
    assert np.mean(kept) == pytest.approx(alike.mean(), rel=1e-4)
    for share in (0.5, 0.9, 0.99):
        assert np.quantile(kept, share) == pytest.approx(np.quantile(alike, share), rel=0.03)
    words = (
        "  3200 steps of all workers, in order of size, in 200 groups; of each stands its mean; "
        "--out keeps 10000"
    )
    assert words in found.comments
    assert found.comments[-1].startswith(
        "  what is kept / measured: mean 1.000, p50 1.000, p90 1.000, p99 "
    )


def test_each_worker_for_itself_where_there_is_room() -> None:
    rows = heavy_tailed(8, 2000, slow=3)
    found = part(rows, "part.csv")

    assert found.csv is not None
    lines = [line.split(",") for line in found.csv.splitlines()[1:]]
    for worker, row in rows.items():
        kept = [float(time) for rank, time in lines if int(rank) == worker]
        assert len(kept) == 1250
        assert np.mean(kept) == pytest.approx(np.mean(row), rel=1e-5)
        assert np.quantile(kept, 0.99) == pytest.approx(np.quantile(row, 0.99), rel=0.03)
    assert "slow_workers:" not in found.yaml
    assert any("16000 steps, each worker's, in order of size" in line for line in found.comments)


def test_steps_that_depend_on_each_other_stay_in_order_and_it_is_said_what_is_lost() -> None:
    found = part({0: tuple([0.1] * 800 + [0.3] * 200)})  # no two states that come and go

    assert "  replay: cycle" in found.yaml
    assert found.comments[-2:] == (
        "  of every 5 steps one is kept, so that they are less like the one before; --out keeps "
        "10000",
        "  what is kept / measured: mean 1.000, p50 1.000, p90 1.000, p99 1.000, p99.9 1.000",
    )


def test_what_has_room_stays_as_it_is() -> None:
    rows = {0: (0.3, 0.1), 1: (0.2,)}
    found = thinned(rows, rows, 3, in_order=False)

    assert [row.tolist() for row in found.rows] == [[0.3, 0.1], [0.2]]
    assert (found.pooled, found.words) == (False, ())


def test_equal_steps_are_not_called_like_the_one_before() -> None:
    rounded = [0.095] * 5 + [math.nextafter(0.095, 1)] * 25
    assert dependence({0: rounded}) is None
