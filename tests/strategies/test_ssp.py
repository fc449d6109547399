"""Stale synchronous parallel, with times worked out by hand, and beside its neighbours."""

from typing import Any

import numpy as np
import pytest

from tests.building import MS, gradient_rows, kill, milliseconds, restart, run, scenario


def ssp(**settings: Any) -> dict[str, Any]:
    return {"kind": "ssp", **settings}


CHANGES: dict[str, Any] = {
    "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
    "problem": {"kind": "quadratic", "noise": 0.1},
    "stop": {"time": 5.0},
}


def test_without_a_bound_it_is_asynchronous() -> None:
    bounded, free = run(ssp(staleness=10**6), **CHANGES), run("none", **CHANGES)
    assert bounded.gradients.tolist() == free.gradients.tolist()
    assert bounded.spans.tolist() == free.spans.tolist()
    assert [row.loss for row in bounded.evaluations] == [row.loss for row in free.evaluations]


def test_with_0_steps_end_with_those_of_on_write_and_so_do_the_values() -> None:
    # Four gradients one by one at a rate, of one model, are their mean at four times the rate.
    changes = CHANGES | {"problem": {"kind": "quadratic"}}
    rate = {"kind": "sgd", "learning_rate": 0.05}
    together = {"kind": "sgd", "learning_rate": 0.2}
    bounded = run(ssp(staleness=0), **changes, optimizer=rate)
    mirrored = run("on_write", **changes, optimizer=together)
    slowest = milliseconds(bounded.steps)[3::4]
    assert slowest == milliseconds(mirrored.steps)
    ends = run(ssp(staleness=0), **changes | {"stop": {"global_steps": 40}}, optimizer=rate)
    same = run("on_write", **changes | {"stop": {"global_steps": 10}}, optimizer=together)
    assert ends.evaluations[-1].loss == pytest.approx(same.evaluations[-1].loss, rel=1e-12)


@pytest.mark.parametrize("refresh", ["always", "when_stale"])
@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_nobody_is_further_ahead_than_the_bound_and_one(staleness: int, refresh: str) -> None:
    trace = run(ssp(staleness=staleness, refresh=refresh), **CHANGES)
    clocks = np.zeros(4, dtype=int)
    for row in sorted(gradient_rows(trace), key=lambda row: (row.applied_step < 0, row.applied)):
        if row.applied >= 0:
            clocks[row.worker] += 1
            assert clocks.max() - clocks.min() <= staleness + 1


def test_a_cache_changes_no_time_where_sending_takes_none() -> None:
    always = run(ssp(staleness=2), **CHANGES)
    cached = run(ssp(staleness=2, refresh="when_stale"), **CHANGES)
    assert cached.steps.tolist() == always.steps.tolist()
    assert cached.sent < always.sent


def test_a_worker_that_comes_back_reads_anew_and_then_keeps_that() -> None:
    trace = run(
        ssp(staleness=4, refresh="when_stale"),
        stop={"time": 2.0},
        events=(kill(0.25, 2), restart(0.45, 2)),
    )
    reads = [row.read / MS for row in gradient_rows(trace) if row.worker == 2]
    after = [read for read in reads if read >= 450]
    assert after[0] == 450
    assert len(set(after)) < len(after)


def test_a_cache_needs_plain_sgd() -> None:
    with pytest.raises(ValueError, match="goes with plain sgd only, not momentum"):
        scenario(
            ssp(staleness=1, refresh="when_stale"),
            optimizer={"kind": "momentum", "learning_rate": 0.1},
        )


def test_a_dead_worker_holds_up_all_and_is_named() -> None:
    trace = run(
        ssp(staleness=1),
        stop={"time": 3.0},
        events=(kill(0.15, 2),),
    )
    assert trace.standstill is not None
    said = trace.standstill.report
    assert "waiting for the slowest clock (at 1: worker 2; nobody may be more than 1 ahead)" in said
    assert "to free it: restart worker 2" in said
