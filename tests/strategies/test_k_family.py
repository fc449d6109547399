"""K-async and K-batch-async, with times worked out by hand, and beside the kind none."""

from typing import Any

import pytest
from building import MS, gradient_rows, life, run, scenario, slow

from varsim.cluster.trace import Trace

# Workers of 100, 200 and 400 ms; nothing takes time to send.
SPEEDS: dict[str, Any] = {"cluster": {"slow_workers": (slow(1, 2.0), slow(2, 4.0))}}
RANDOM: dict[str, Any] = {
    "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
    "problem": {"kind": "quadratic", "noise": 0.1},
    "stop": {"time": 5.0},
}


def updates(trace: Trace) -> list[tuple[float, list[int]]]:
    """When each update was made (ms), and of whose gradients."""
    rows = gradient_rows(trace)
    return [
        (time / MS, sorted(row.worker for row in rows if row.applied_step == step))
        for step, time in enumerate(trace.steps.tolist())
    ]


def test_two_finished_workers_make_an_update_and_the_third_computes_on() -> None:
    # 0 has finished at 100 ms and waits for 1, at 200 ms. Both begin anew; 0 has finished at 300,
    # 1 and 2 at 400 ms: 1 is taken in first, by its rank, and 2 waits for 0, at 500 ms.
    trace = run({"kind": "k_async", "k": 2}, **SPEEDS, stop={"time": 0.55})
    assert updates(trace) == [(200, [0, 1]), (400, [0, 1]), (500, [0, 2])]
    assert life(trace, 0)[:3] == [("compute", 0, 100), ("barrier", 100, 200), ("compute", 200, 300)]
    assert life(trace, 2)[:2] == [("compute", 0, 400), ("barrier", 400, 500)]


def test_nobody_waits_where_any_two_gradients_make_an_update() -> None:
    # At 200 ms there is one of 0 since 100 ms, and those of 0 and 1 come: 0 and 0 make an update.
    # At 300 ms 0 comes to what 1 left; at 400 ms all three come, and that of 2 is left.
    trace = run({"kind": "k_batch_async", "k": 2}, **SPEEDS, stop={"time": 0.45})
    assert updates(trace) == [(200, [0, 0]), (300, [0, 1]), (400, [0, 1])]
    assert all(phase == "compute" for phase, _, _ in life(trace, 1)[:-1])


@pytest.mark.parametrize("kind", ["k_async", "k_batch_async"])
def test_with_k_1_it_is_asynchronous(kind: str) -> None:
    one, free = run({"kind": kind, "k": 1}, **RANDOM), run("none", **RANDOM)
    assert one.gradients.tolist() == free.gradients.tolist()
    assert one.steps.tolist() == free.steps.tolist()
    assert [row.loss for row in one.evaluations] == [row.loss for row in free.evaluations]


def test_of_all_workers_it_is_a_barrier() -> None:
    everyone, mirrored = run({"kind": "k_async", "k": 4}, **RANDOM), run("on_write", **RANDOM)
    assert everyone.steps.tolist() == mirrored.steps.tolist()
    assert everyone.evaluations[-1].loss == pytest.approx(mirrored.evaluations[-1].loss, rel=1e-12)


def test_more_than_there_are_workers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"k 4 is more than there are workers \(3\)"):
        scenario({"kind": "k_async", "k": 4})
