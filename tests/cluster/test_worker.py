"""A worker: how long it computes at a changing pace, and how its time is accounted for."""

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.building import (
    MS,
    gradient_rows,
    life,
    milliseconds,
    run,
    slow,
)


def durations(*windows: dict[str, Any], number: int = 4, work: float = 0.1) -> list[float]:
    """When worker 0's gradients are done (ms); steps of `work`, one after the other."""
    trace = run(
        "single",
        cluster={
            "compute": {"kind": "constant", "value": work},
            "slow_workers": windows,
        },
        stop={"global_steps": number},
    )
    return milliseconds(trace.steps)


def test_a_slow_worker_takes_its_factor() -> None:
    assert durations(slow(0, 2.5)) == [250, 500, 750, 1000]


def test_a_fast_worker_is_a_slow_one_with_a_small_factor() -> None:
    assert durations(slow(0, 0.5)) == [50, 100, 150, 200]


def test_slowness_may_begin_and_end_in_the_middle_of_a_step() -> None:
    # Half pace from 50 to 150. First: 50 in 0..50, the other 50 in 50..150. Then at full pace.
    assert durations(slow(0, 2.0, after=0.05, until=0.15)) == [150, 250, 350, 450]


def test_a_step_may_run_through_a_whole_window() -> None:
    # A quarter of the pace from 20 to 60: 20 done, 10 in the window, 70 after it: 130.
    assert durations(slow(0, 4.0, after=0.02, until=0.06)) == [130, 230, 330, 430]


def test_slowness_without_end() -> None:
    # From 250 on a third of the pace: 100, 200, then 50 by 250 and 50 more in 150: 400, 700.
    assert durations(slow(0, 3.0, after=0.25)) == [100, 200, 400, 700]


def test_windows_that_overlap_multiply() -> None:
    # x 2 in 100..500, x 3 in 300..500.
    # First ..100. Second x 2: ..300. Third x 6: 200 / 6 = 33 1/3 by 500, 66 2/3 more: 566.67.
    windows = [slow(0, 2.0, after=0.1, until=0.5), slow(0, 3.0, after=0.3, until=0.5)]
    seen = durations(*windows)

    assert seen[:2] == [100, 300]
    assert seen[2:] == pytest.approx([500 + 200 / 3, 600 + 200 / 3], abs=1e-6)


def test_windows_that_touch() -> None:
    # x 2 until 200, x 4 from 200 to 600: 100 each.
    windows = [slow(0, 2.0, until=0.2), slow(0, 4.0, after=0.2, until=0.6)]

    assert durations(*windows) == [200, 600, 700, 800]


def test_a_window_that_ends_with_a_step_does_not_touch_the_next() -> None:
    assert durations(slow(0, 2.0, until=0.2)) == [200, 300, 400, 500]


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


def test_compute_times_are_rounded_to_whole_ns() -> None:
    trace = run(
        "single",
        cluster={"compute": {"kind": "constant", "value": 1.6e-9}},
        stop={"global_steps": 5},
    )

    assert trace.steps.tolist() == [2, 4, 6, 8, 10]


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


def test_traces_hold_plain_arrays() -> None:
    trace = run("none")

    assert trace.spans.dtype == trace.gradients.dtype == trace.steps.dtype == np.int64
    assert len(pickle.dumps(trace)) < 10_000
