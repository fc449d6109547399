"""A worker: how long it computes at a changing pace, and how its time is accounted for."""

from itertools import pairwise
from typing import Any

import pytest

from tests.building import (
    MS,
    gradient_rows,
    life,
    run,
    scenario,
    slow,
)
from tests.seams import Run, started


def test_windows_bend_random_times_as_a_walk_through_time_does() -> None:
    # An independent account: work done up to a time is the integral of 1 / factor.
    windows = slow(0, 5.0, after=0.3, until=0.7), slow(0, 0.25, after=0.5, until=2.0)
    law = {"kind": "exponential", "mean": 0.1}
    plain = run("single", cluster={"compute": law}, stop={"global_steps": 60})
    bent = run(
        "single", cluster={"compute": law, "slow_workers": windows}, stop={"global_steps": 60}
    )

    def work_done(time: float) -> float:
        knots = [0.0, 0.3, 0.5, 0.7, 2.0, 1e9]
        factors = [1.0, 5.0, 1.25, 0.25, 1.0]
        return sum(
            max(0.0, min(time, end) - start) / factor
            for (start, end), factor in zip(pairwise(knots), factors, strict=True)
        )

    seen = [work_done(time / 1e9) for time in bent.steps.tolist()]
    # A rounding to whole ns per step, stretched by at most a factor of 4 here.
    assert seen == pytest.approx((plain.steps / 1e9).tolist(), abs=60 * 4e-9)


def test_windows_move_no_draw_and_no_other_worker() -> None:
    law = {"kind": "exponential", "mean": 0.1}
    cluster = {"workers": 3, "compute": law}
    plain = run("none", cluster=cluster, stop={"global_steps": 60})
    windows = (slow(1, 3.0, after=1.0, until=1.5),)
    bent = run("none", cluster={**cluster, "slow_workers": windows}, stop={"global_steps": 60})

    def times(rank: int, trace: Any) -> dict[int, int]:
        return {
            row.iteration: row.computed - row.compute_start
            for row in gradient_rows(trace)
            if row.worker == rank
        }

    for rank in (0, 2):
        one, other = times(rank, plain), times(rank, bent)
        assert all(one[key] == other[key] for key in one.keys() & other.keys())
    one, other = times(1, plain), times(1, bent)
    shared = sorted(one.keys() & other.keys())
    assert any(one[key] != other[key] for key in shared)
    assert any(one[key] == other[key] for key in shared[-3:])


def test_a_run_cut_short_closes_every_account() -> None:
    # Reads ..21 (1 on the way), computes ..121, pushes ..142. Cut at 10, 60, 130, 141.
    network = {"bandwidth": 2e3, "latency": 1e-3, "sharing": "first_come"}
    full = [
        ("read", 0, 21),
        ("compute", 21, 121),
        ("write", 121, 142),
    ]
    for end in (10, 60, 130, 141):
        for sharing in ("first_come", "fair"):
            trace = run(
                "none",
                network={**network, "sharing": sharing},
                cluster={"workers": 1},
                stop={"time": end / 1e3},
            )
            expected = [(name, start, min(till, end)) for name, start, till in full if start < end]
            assert life(trace, 0) == expected
            assert trace.end == end * MS
            assert len(trace.gradients) == (1 if end >= 121 else 0)


def test_several_can_attach_to_a_job() -> None:
    described = scenario({"kind": "on_write"}, stop={"global_steps": 7})
    job, strategy = started(Run(described, 0, 0))
    seen: list[tuple[str, int]] = []
    for name in ("one", "other"):
        job.on_update.append(lambda name=name: seen.append((name, job.global_step)))  # type: ignore[misc]
        job.on_end.append(lambda lost, name=name: seen.append((name, -1)))  # type: ignore[misc]
    job.run(strategy.label)
    each = [*range(1, 8), -1]
    assert seen == [(name, step) for step in each for name in ("one", "other")]
