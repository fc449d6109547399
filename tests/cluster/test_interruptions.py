"""Failures that strike inside a run: accounts worked out by hand; times in s, a step of 1 s."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import assert_same, run, scenario
from tests.lives import ELASTIC, MORTALS, mortal
from tests.seams import STRATEGIES, Attempt, Outcome, Phase, Trace
from varsim.cluster.interruptions import MOST
from varsim.cluster.job import TooLongError
from varsim.study.goodput import of_life
from varsim.study.gradients import Gradients
from varsim.study.measure import measure, worker_time

NS = 10**9
NEVER = 1e6
RESTART = {"restart": 0.5}


def fails(*gaps: tuple[float, ...], repair: float | None = 2.0) -> dict[str, Any]:
    """Workers that fail after these times, one after the other."""
    found: dict[str, Any] = {"domain": "worker", "law": {"kind": "trace", "seconds": gaps}}
    return found if repair is None else {**found, "repair": repair}


def struck(strategy: Any, *sources: dict[str, Any], workers: int = 2, **changes: Any) -> Trace:
    """A run of 10 s in which failures are noticed after 1 s."""
    return run(
        strategy,
        **{
            "cluster": {"workers": workers, "compute": {"kind": "constant", "value": 1.0}},
            "failures": {"detection": 1.0, "of": sources},
            "recovery": RESTART,
            "stop": {"time": 10.0},
            **changes,
        },
    )


def lived(trace: Trace) -> list[dict[str, float]]:
    """The attempts, without what is 0; times in s."""
    assert trace.life is not None
    assert trace.life[:, 1:7].sum() == trace.end * trace.workers
    rows = [dict(zip(Attempt._fields, row, strict=False)) for row in trace.life.tolist()]
    times = Attempt._fields[:7]
    return [{k: v / NS if k in times else v for k, v in row.items() if v} for row in rows]


ONE = fails((NEVER, NEVER), (2.5, NEVER))
ALL = fails((2.5, NEVER))
BOTH = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}


def test_an_asynchronous_worker_leaves_and_comes_back() -> None:
    # Its third gradient is lost after half of it; noticed at 3.5, repaired at 5.5, back at 6.
    whole, first, last = lived(struck("none", ONE))

    assert whole == {"productive": 10, "steps": 10}
    assert first == {
        **{"productive": 2, "lost": 0.5, "detection": 1, "repair": 2, "restart": 0.5},
        **{"steps": 2, "failures": 1},
    }
    assert last == {"start": 6, "productive": 4, "steps": 4}


def test_all_wait_for_one_that_is_down_and_stand_still_with_it() -> None:
    # Worker 0 has sent its third gradient at 3; the other one's comes at 7, after its return at 6.
    trace = struck(BOTH, ONE)
    whole, first, last = lived(trace)

    assert trace.steps.tolist() == [1 * NS, 2 * NS, 7 * NS, 8 * NS, 9 * NS, 10 * NS]
    assert whole == {
        **{"productive": 7, "detection": 0.5, "repair": 2, "restart": 0.5, "steps": 6},
    }
    assert (first["lost"], first["steps"], last["steps"]) == (0.5, 2, 4)


def test_with_a_backup_nobody_stands_still() -> None:
    trace = struck({"kind": "sync_replicas", "replicas_to_aggregate": 1}, ONE)

    assert lived(trace)[0]["productive"] == 10


def test_the_chief_dies_with_worker_0() -> None:
    # Worker 1 has sent its gradient at 3; nobody takes it in before the chief is back at 6. Worker
    # 0 begins then, too, and sends one more at 7.
    trace = struck(BOTH, fails((2.5, NEVER), (NEVER,) * 2))

    assert trace.steps.tolist() == [1 * NS, 2 * NS, 7 * NS, 8 * NS, 9 * NS, 10 * NS]


def test_all_die_at_one_instant() -> None:
    trace = struck(BOTH, fails((2.5, NEVER)))

    down = {"productive": 2, "lost": 0.5, "detection": 1, "repair": 2, "restart": 0.5}
    for first, failures in ((0, {"failures": 2}), (2, {})):
        assert lived(trace)[first] == {**down, "steps": 2, **failures}
        assert lived(trace)[first + 1] == {"start": 6, "productive": 4, "steps": 4}


def test_struck_again_before_it_works_it_waits_anew() -> None:
    # Back at 4 without a repair; but at 3.75, in its restart, it fails again: back at 5.25.
    first, last = lived(struck("none", fails((2.5, 1.25, NEVER), repair=None), workers=1))

    assert first == {
        **{"productive": 2, "lost": 0.5, "detection": 2, "restart": 0.75, "steps": 2},
        "failures": 2,
    }
    assert last == {"start": 5.25, "productive": 4.75, "steps": 4}


def test_what_is_away_for_repair_cannot_fail() -> None:
    # It would fail again at 4, while its host is away.
    first, last = lived(struck("none", fails((2.5, 1.5, NEVER)), workers=1))

    assert (first["failures"], last["start"]) == (1, 6)


def test_a_spare_takes_over_and_each_start_takes_its_time() -> None:
    trace = struck(
        "none",
        ONE,
        recovery={"restart": 0.5, "spares": {"cold": 1, "swap": 0.25}},
        cluster={
            "workers": 2,
            "compute": {"kind": "constant", "value": 1.0},
            "overheads": {"first_iteration": 0.25},
        },
    )
    # Worker 1: 0.25 + 2 steps, dies at 2.5, noticed at 3.5, spare at 3.75, back at 4.25, works
    # from 4.5 on.
    assert lived(trace)[1] == {
        **{"productive": 2, "lost": 0.25, "detection": 1, "repair": 0.25, "restart": 1.0},
        **{"steps": 2, "failures": 1, "spares": 1},
    }
    assert lived(trace)[2]["start"] == 4.5


def test_a_rack_is_one_failure_of_several_workers() -> None:
    racks = {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 1.0}
    network = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come", **racks}
    source = {**fails((2.5, NEVER), (NEVER, NEVER)), "domain": "rack"}
    trace = struck("none", source, workers=4, network=network)

    assert trace.life is not None
    deaths = len(trace.life) - trace.workers
    assert (trace.life[:, Attempt._fields.index("failures")].sum(), deaths) == (1, 2)


def test_all_reduces_go_on_with_those_who_are_left() -> None:
    # Worker 1 dies at 2.5; the other waits at 3 until that is noticed, at 3.5, and goes on alone.
    # Who is back at 6 gets the model after the update at 6.5, takes part in that at 7.5.
    trace = struck({"kind": "on_write", **ELASTIC}, ONE)
    whole, first, last = lived(trace)

    assert (trace.steps / NS).tolist() == [1, 2, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]
    assert whole == {"productive": 9.5, "detection": 0.5, "steps": 9}
    assert (first["lost"], first["steps"], last["steps"]) == (0.5, 2, 3)


@pytest.mark.parametrize("kind", ["on_write", "local_sgd"])
def test_where_nobody_has_the_model_any_more_all_begin_from_the_start(kind: str) -> None:
    # Both die at 2.5, which is noticed at 3.5; their hosts are there at 5.5.
    trace = struck({**mortal(kind, 2), **({"period": 1} if kind == "local_sgd" else {})}, ALL)
    first, last, *_ = lived(trace)

    assert first == {
        **{"lost": 2.5, "detection": 1, "repair": 2, "restart": 0.5, "steps_lost": 2},
        "failures": 2,
    }
    assert last == {"start": 6, "productive": 4, "steps": 4}
    assert trace.kept_steps.tolist() == [False] * (len(trace.steps) // 3) + [True] * (
        2 * len(trace.steps) // 3
    )
    assert trace.global_step == 2 * len(trace.steps) // 3
    begins = [row.loss for row in trace.evaluations if row.time in (0, 6 * NS)]
    assert begins == [begins[0]] * 2


@pytest.mark.parametrize("kind", ["on_write", "local_sgd"])
def test_a_run_that_ends_without_a_model_shows_what_all_will_begin_from(kind: str) -> None:
    # Both die at 2.5, and are not back before the end.
    trace = struck(mortal(kind, 2), ALL, stop={"time": 4.0})
    first, *_, last = trace.evaluations

    assert (trace.global_step, last.time) == (0, 4 * NS)
    assert (last.loss, last.divergence) == (first.loss, 0)


@pytest.mark.parametrize("kind", ["on_write", "local_sgd"])
def test_so_does_one_that_ends_before_that_is_noticed(kind: str) -> None:
    # It would be at 3.5.
    period = {"period": 1} if kind == "local_sgd" else {}
    trace = struck({**mortal(kind, 2), **period}, ALL, stop={"time": 3.0})

    assert trace.global_step == 0
    assert trace.evaluations[-1].loss == trace.evaluations[0].loss
    assert [row["lost"] for row in lived(trace) if "lost" in row] == [2.5, 2.5]


@pytest.mark.parametrize("detection", [0.0, 0.1])
def test_deaths_of_one_instant_are_known_at_once(detection: float) -> None:
    # At 1.2 worker 0 is still at its first step, which worker 1 has made: were the others told of
    # the first death before the second, it would count.
    trace = struck(
        {"kind": "local_sgd", "period": 2, **ELASTIC},
        fails((1.2, NEVER)),
        cluster={
            "workers": 2,
            "compute": {"kind": "constant", "value": 1.0},
            "slow_workers": ({"rank": 0, "factor": 1.5},),
        },
        failures={"detection": detection, "of": (fails((1.2, NEVER)),)},
        stop={"global_steps": 1, "time": 3.0},
    )

    assert (trace.steps.tolist(), trace.stopped_by) == ([], "time")


def test_an_update_that_only_the_dead_have_made_is_lost_with_them() -> None:
    # Of the all-reduce that ends at 1 worker 0, who is slower at the update, has made nothing yet.
    trace = struck(
        {"kind": "on_write", **ELASTIC},
        fails((1.2, NEVER)),
        cluster={
            "workers": 2,
            "compute": {"kind": "constant", "value": 1.0},
            "slow_workers": ({"rank": 0, "factor": 2.0, "after": 1.0},),
            "optimizer_time": 0.15,
        },
        failures={"of": (fails((1.2, NEVER)),)},
        stop={"global_steps": 1, "time": 3.0},
    )

    assert (trace.steps.tolist(), trace.stopped_by) == ([], "time")
    assert trace.gradients[:, 9].tolist() == [Outcome.LOST] * 3


def test_steps_since_copies_met_are_lost() -> None:
    # Copies meet after every two steps, at 2 and 4; worker 1 dies at 3.5.
    trace = struck({"kind": "local_sgd", "period": 2, **ELASTIC}, fails((NEVER,) * 2, (3.5, NEVER)))
    _, first, _ = lived(trace)

    assert (first["productive"], first["lost"], first["steps"]) == (2, 1.5, 2)
    assert first["steps_lost"] == 1
    # Of what worker 1 did from 2 on nothing is left, though its copy was updated at 3.
    values = measure(trace, Gradients.of(trace), worker_time(trace), None, trace.end)
    (vain,) = trace.gradients[~trace.kept_gradients].tolist()
    assert (vain[0], vain[5] / NS) == (1, 3)
    assert values["gradients_dropped"] == 2
    computed = trace.spans[trace.spans[:, 1] == Phase.COMPUTE]
    assert values["wasted_compute"] == 1.5 * NS / (computed[:, 3] - computed[:, 2]).sum()


def test_goodput_is_the_share_of_the_time_of_all_workers() -> None:
    trace = struck("none", ONE)
    reached = {"updates_to_target": 3.0, "time_to_target": 2.0}
    asked = scenario({"kind": "none"}, failures={"of": (ONE,)})
    found = of_life(asked, trace, Gradients.of(trace), reached)

    assert found["goodput"] == 16 / 20
    assert found["availability"] == 1 - 3.5 / 20
    assert (found["interruptions"], found["cost_per_interruption"]) == (1, 4)
    assert found["kept_examples_per_s"] == 16 / 10
    assert found["failures_per_day"] == 8640
    assert found["life_time_to_target"] == 2.0  # the third update, when it was made


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


def test_a_run_in_which_too_much_fails_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST == 100_000
    monkeypatch.setattr("varsim.cluster.interruptions.MOST", 50)
    with pytest.raises(TooLongError, match=r"after 100,000 failures|after \d+ failures"):
        run("none", failures={"of": ({"domain": "worker", "mtbf": 0.01},)})


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
    ],
)
def test_what_cannot_be(strategy: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        scenario(strategy, failures={"of": ({"domain": "worker", "mtbf": 9.0},)}, **changes)


def test_only_with_a_horizon_members_age_at_work_alone() -> None:
    with pytest.raises(ValidationError, match=r"strike while_running needs failures\.horizon"):
        scenario(
            {"kind": "none"},
            failures={"strike": "while_running", "of": ({"domain": "worker", "mtbf": 9.0},)},
        )


def test_attempts_are_plain_integers() -> None:
    life = struck("none", ONE).life
    assert life is not None
    assert life.dtype == np.int64
