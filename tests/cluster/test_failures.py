"""Failures that strike inside a run: what is measured, what is lost, what is refused; times in s.

Accounts worked out by hand are in `by_hand/failures.yaml` and `saving.yaml`.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import APPLIED, NO_TIME, assert_same, gradient_rows, run, scenario
from tests.lives import ELASTIC, MORTALS, mortal
from tests.seams import STRATEGIES, Attempt, Phase, Trace, simulate
from varsim import Scenario

NS = 10**9
NEVER = 1e6


def fails(*gaps: tuple[float, ...], repair: float | None = 2.0) -> dict[str, Any]:
    """Workers that fail after these times, one after the other."""
    found: dict[str, Any] = {"domain": "worker", "distribution": {"kind": "trace", "seconds": gaps}}
    return found if repair is None else {**found, "repair": repair}


def asked(*sources: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Of two workers, 10 s in which failures are noticed after 1 s."""
    return {
        "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 1.0}},
        "failures": {"detection": 1.0, "of": sources},
        "recovery": {"restart": 0.5},
        "stop": {"time": 10.0},
        **changes,
    }


def struck(strategy: Any, *sources: dict[str, Any], **changes: Any) -> Trace:
    """Such a run."""
    return run(strategy, **asked(*sources, **changes))


def measured(made: Scenario, *names: str) -> list[float]:
    """So much of the first strategy."""
    result = simulate(made)
    return [result.estimate(result.strategies[0], name).mean for name in names]


ONE = fails((NEVER, NEVER), (2.5, NEVER))
ALL = fails((2.5, NEVER))
RARE = {"of": ({"domain": "worker", "mtbf": 9.0},)}


@pytest.mark.parametrize("kind", ["on_write", "local_sgd"])
def test_where_nobody_has_the_model_any_more_all_begin_from_the_start(kind: str) -> None:
    # Both die at 2.5; their hosts are there at 5.5, and work from 6 on.
    trace = struck({**mortal(kind, 2), **({"period": 1} if kind == "local_sgd" else {})}, ALL)
    undone = len(trace.steps) // 3

    assert trace.kept_steps.tolist() == [False] * undone + [True] * 2 * undone
    assert trace.global_step == 2 * undone
    begins = [row.loss for row in trace.evaluations if row.time in (0, 6 * NS)]
    assert begins == [begins[0]] * 2


COPIES: dict[str, dict[str, Any]] = {
    "on_write": {"kind": "on_write", **ELASTIC},
    "local_sgd": {"kind": "local_sgd", "period": 2, **ELASTIC},
    "diloco": {"kind": "diloco", "inner_steps": 2},
}
LATE = fails((5.5, NEVER), (5.5, NEVER))


@pytest.mark.parametrize("kind", COPIES)
def test_copies_begin_from_the_start_and_are_not_saved(kind: str) -> None:
    trace = struck(COPIES[kind], LATE, stop={"time": 12.0})
    assert trace.life is not None
    assert trace.life[0, Attempt._fields.index("lost")] == 5.5 * NS
    assert trace.evaluations[-1].global_step == 3
    with pytest.raises(ValidationError, match="checkpoint has no effect: inside a run"):
        scenario(COPIES[kind], failures=RARE, checkpoint={"every": 2.0, "write": 0.25})


def test_a_synchronous_gradient_is_not_stale_afterwards() -> None:
    trace = struck(COPIES["on_write"], LATE, stop={"time": 14.0}, network=NO_TIME)
    rows = [row for row in gradient_rows(trace) if row.outcome == APPLIED]
    assert {row.applied_step - row.read_step for row in rows} == {0}


@pytest.mark.parametrize("kind", ["on_write", "local_sgd"])
def test_a_run_that_ends_without_a_model_shows_what_all_will_begin_from(kind: str) -> None:
    # Both die at 2.5, and are not back before the end.
    trace = struck(mortal(kind, 2), ALL, stop={"time": 4.0})
    first, *_, last = trace.evaluations

    assert (trace.global_step, last.time) == (0, 4 * NS)
    assert (last.loss, last.divergence) == (first.loss, 0)


def test_what_was_done_in_vain_is_counted() -> None:
    # Copies meet after every two steps, at 2 and 4; worker 1 dies at 3.5: of what it did from 2 on
    # nothing is left, though its copy was updated at 3.
    strategy = {"kind": "local_sgd", "period": 2, **ELASTIC}
    source = fails((NEVER,) * 2, (3.5, NEVER))
    trace = struck(strategy, source)
    (vain,) = trace.gradients[~trace.kept_gradients].tolist()
    assert (vain[0], vain[5] / NS) == (1, 3)
    computed = trace.spans[trace.spans[:, 1] == Phase.COMPUTE]
    share = 1.5 * NS / (computed[:, 3] - computed[:, 2]).sum()
    names = "gradients_dropped", "wasted_compute"
    assert measured(scenario(strategy, **asked(source)), *names) == [2, pytest.approx(share)]


def test_goodput_is_the_share_of_the_time_of_all_workers() -> None:
    names = ["goodput", "availability", "interruptions", "cost_per_interruption"]
    names += ["kept_examples_per_s", "failures_per_day"]
    found = measured(scenario({"kind": "none"}, **asked(ONE)), *names)
    assert found == pytest.approx([16 / 20, 1 - 3.5 / 20, 1, 4, 16 / 10, 8640])


def test_what_was_kept_is_what_counts() -> None:
    # Nine updates are made by 5.5, one of which is undone; the twelfth that is kept comes at 11.25.
    # Both workers compute to 5.5 and from 9.25 on, the chief half a second less for checkpoints.
    # The other one's update of 5, and what both were at for 1 s and 0.5 s at 5.5, are in vain.
    law = {"kind": "trace", "seconds": ((5.5, NEVER),)}
    changes = asked(
        {"domain": "server", "distribution": law, "repair": 2.0},
        checkpoint={"every": 2.0, "write": 0.25, "restore": 0.25},
        stop={"global_steps": 12},
        workload={"evaluate_every": 1},
    )
    trace = run("none", **changes)
    assert (trace.global_step, len(trace.steps), trace.end / NS) == (12, 13, 11.25)
    names = ["updates", "examples_per_s", "gradients_produced", "gradients_applied"]
    names += ["gradients_dropped", "wasted_compute", "step_time_mean"]
    vain = (1 + 1 + 0.5) / (5 + 5.5 + 2 + 2)
    assert measured(scenario({"kind": "none"}, **changes), *names) == pytest.approx(
        [12, 12 * trace.batch_size / 11.25, 15, 12, 3, vain, (11.25 - 1) / 11]
    )
    # Against updates the model is looked at once after each: what was undone is no part of it.
    kept = [(row.global_step, row.time / NS) for row in trace.kept_evaluations]
    assert [step for step, _ in kept] == [*range(9), 8, *range(9, 13)]
    assert kept[7:11] == [(7, 4.0), (8, 4.25), (8, 9.25), (9, 10.25)]
    # A loss is reached by the updates that the model is made of.
    seventh, *_, last = (row.loss for row in trace.evaluations if row.global_step >= 7)
    for loss, expected in ((seventh, [7, 4]), (last, [12, 11.25])):
        made = scenario({"kind": "none"}, **changes, targets={"loss": loss})
        assert measured(made, "updates_to_target", "time_to_target") == expected


def test_which_strategies_outlive_their_workers() -> None:
    assert set(STRATEGIES) - set(MORTALS) == {"single", "on_read", "gossip"}


@pytest.mark.parametrize("kind", MORTALS)
def test_where_none_strikes_a_run_is_the_same(kind: str) -> None:
    strategy = mortal(kind)
    late = ({"at": 1e4, "kill": {"worker": 0}}, {"at": 2e4, "restart": {"worker": 0}})
    stop = {"global_steps": 12}
    there = run(strategy, failures={"of": ({"domain": "worker", "mtbf": 1e9},)}, stop=stop)
    without = run(strategy, stop=stop, events=late)

    assert_same(there, without, but=("life", "heap_events"))


def test_the_same_failures_meet_every_strategy_at_every_point() -> None:
    source = {"domain": "worker", "mtbf": 2.0, "repair": {"kind": "exponential", "mean": 0.5}}
    deaths = []
    for strategy, rate in (("none", 0.1), ("none", 0.2), ("easgd", 0.1)):
        trace = run(
            mortal(strategy),
            failures={"detection": 0.1, "of": (source,)},
            optimizer={"learning_rate": rate},
            stop={"time": 6.0},
        )
        spans = trace.spans[trace.spans[:, 1] == Phase.DOWN][:, [0, 2, 3]]
        deaths.append(spans.tolist())

    assert deaths[0]
    assert deaths[0] == deaths[1] == deaths[2]


def test_a_run_that_stands_still_is_not_kept_alive_by_failures() -> None:
    # Three workers bring three gradients, and there is no token for a fourth.
    strategy = {
        **{"kind": "sync_replicas", "initial_tokens": 0},
        **{"replicas_to_aggregate": 4, "total_num_replicas": 4},
    }
    for stop in ({"global_steps": 5}, {"time": 2.0}):
        alone = run(strategy, stop=stop)
        there = run(strategy, stop=stop, failures={"of": ({"domain": "worker", "mtbf": 1e3},)})

        assert alone.standstill is not None
        assert there.standstill is not None
        assert "after 0 updates: nothing can happen" in alone.standstill.report
        assert "no worker is down, and nothing but a failure can" in there.standstill.report
        assert alone.stopped_by == there.stopped_by
        assert alone.end == there.end


@pytest.mark.parametrize(
    ("strategy", "changes", "said"),
    [
        (
            {"kind": "on_write"},
            {},
            "write on_death: continue_with_fewer, .* or give failures.horizon",
        ),
        ({"kind": "single"}, {}, "when workers die: give failures.horizon"),
        ({"kind": "on_read", "read_every": 2}, {}, "when workers die: give failures.horizon"),
        ({"kind": "gossip"}, {}, "gossip does not go with failures inside a run"),
        (
            {"kind": "easgd"},
            {"checkpoint": {"every": 1.0, "write": 0.1}},
            "no effect: inside a run",
        ),
        ({"kind": "none"}, {"recovery": {"policy": "wait"}}, "on_death of those"),
        ({"kind": "none"}, {"cluster": {"servers_on": "workers"}}, "servers_on: dedicated"),
        (
            {"kind": "none"},
            {"failures": {**RARE, "strike": "while_running"}},
            r"strike while_running needs failures\.horizon",
        ),
    ],
)
def test_what_cannot_be(strategy: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        scenario(strategy, **{"failures": RARE, **changes})
