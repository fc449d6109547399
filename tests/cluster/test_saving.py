"""Servers that fail inside a run, with the model, and what was saved of it; by hand, times in s."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import lambertw

from tests.building import NO_TIME, assert_same, example, run, scenario
from tests.seams import Attempt, Phase, Run, Trace, run_one

NS, NEVER = 10**9, 1e6
CHECKPOINT: dict[str, Any] = {"every": 2.0, "write": 0.25, "restore": 0.25}


def fail(*gaps: tuple[float, ...]) -> dict[str, Any]:
    """Servers that fail after these times, and are repaired in 2 s."""
    law = {"kind": "trace", "seconds": gaps}
    return {"domain": "server", "distribution": law, "repair": 2.0}


def struck(strategy: Any, source: dict[str, Any], **changes: Any) -> Trace:
    """A run of 12 s of 2 workers, steps of 1 s; failures are noticed after 1 s."""
    return run(
        strategy,
        **{
            "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 1.0}},
            "workload": {"evaluate_every": 1},
            "failures": {"detection": 1.0, "of": (source,)},
            "checkpoint": CHECKPOINT,
            "recovery": {"restart": 0.5},
            "stop": {"time": 12.0},
            **changes,
        },
    )


def losses(trace: Trace) -> list[tuple[float, int, float]]:
    return [(row.time / NS, row.global_step, row.loss) for row in trace.evaluations]


def test_the_model_is_that_of_the_checkpoint_again() -> None:
    found = losses(struck("none", fail((5.5, NEVER))))

    # Eight updates had been made at 4.25, of nine; those after the restart are others.
    saved = next(loss for _, step, loss in found if step == 8)
    assert [(step, loss) for time, step, loss in found if time == 9.25] == [(8, saved)]


MOMENTUM = {"optimizer": {"kind": "momentum", "learning_rate": 0.1, "momentum": 0.9}}
AVERAGES = {
    "kind": "sync_replicas",
    "replicas_to_aggregate": 1,
    "initial_tokens": 0,
    "variable_averages": {"decay": 0.9, "num_updates": True},
}


@pytest.mark.parametrize(("strategy", "more"), [("none", MOMENTUM), (AVERAGES, {})])
def test_slots_and_averages_come_back_with_the_values(strategy: Any, more: dict[str, Any]) -> None:
    # One worker, noticed and back at once: the steps after the checkpoint at 2 are made again, of
    # the same batches as nothing of them is drawn; the decay goes by the global step.
    source = {"domain": "server", "distribution": {"kind": "trace", "seconds": ((4.0, NEVER),)}}
    trace = struck(
        strategy,
        source,
        cluster={"workers": 1, "compute": {"kind": "constant", "value": 1.0}},
        failures={"of": (source,)},
        checkpoint={"every": 2.0, "write": 0.0},
        recovery=None,
        stop={"time": 7.0},
        **more,
    )
    at = {time: loss for time, _, loss in losses(trace)}

    assert at[4.0] == at[2.0]
    assert at[5.0] == at[3.0]
    assert at[6.0] != at[4.0]


def test_a_checkpoint_is_read_over_the_links() -> None:
    # 4 bytes at 8 bytes/s: a read takes half a second, and so does a push; a checkpoint as long,
    # twice of it with a slot.
    network = {"bandwidth": 8.0, "latency": 0.0, "sharing": "fair"}
    for optimizer, size in (("sgd", 1), ("momentum", 2)):
        settings = {"kind": optimizer, "learning_rate": 0.1}
        if optimizer == "momentum":
            settings["momentum"] = 0.9
        trace = struck(
            "none",
            fail((NEVER, NEVER)),
            cluster={"workers": 1, "compute": {"kind": "constant", "value": 1.0}},
            workload={"bytes_per_parameter": 4},
            problem={"kind": "quadratic", "dimension": 1},
            optimizer=settings,
            network=network,
            checkpoint={"every": 4.5, "storage": 2.0},
        )
        reads = trace.spans[trace.spans[:, 1] == Phase.READ]
        longest = (reads[:, 3] - reads[:, 2]).max() / NS
        assert longest == 0.5 * size
        # To storage at 2 bytes/s.
        writes = trace.spans[trace.spans[:, 1] == Phase.WRITE]
        assert (writes[:, 3] - writes[:, 2]).max() / NS == pytest.approx(2 * size)


CHIEF = {
    "of": (
        {
            "domain": "worker",
            "distribution": {"kind": "trace", "seconds": ((5.5, NEVER), (NEVER,) * 2)},
            "repair": 2.0,
        },
    ),
    "detection": 1.0,
}


def test_a_chief_that_comes_back_restores_the_checkpoint_while_others_go_on() -> None:
    # It saved at 2 and at 4.25, died at 5.5 and is back at 9.25. Five updates that the other made
    # from 5 to 9 are undone; its gradient under way is not.
    trace = struck("none", {}, failures=CHIEF)
    assert (trace.global_step, len(trace.steps)) == (13, 18)
    found = losses(trace)
    saved = next(loss for _, step, loss in found if step == 8)
    assert [(step, loss) for time, step, loss in found if time == 9.25] == [(8, saved)]


def test_the_global_step_falls() -> None:
    # Step 5, at 5.5, is undone when the chief, dead since 6, is back at 9.75.
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}
    law = {"kind": "trace", "seconds": ((6.0, NEVER), (NEVER,) * 2)}
    trace = struck(strategy, {"domain": "worker", "distribution": law, "repair": 2.0})

    assert trace.kept_steps.tolist() == [True] * 4 + [False] + [True] * 2
    assert trace.global_step == 6


@pytest.mark.parametrize(("kind", "workers", "share"), [("none", 4, 0.25), ("sync_replicas", 4, 1)])
def test_the_optimal_interval(kind: str, workers: int, share: float) -> None:
    # Daly's by Lambert's W. The model is lost with one of 2 servers, every 100 s, or with worker 0,
    # every 200 s; of the 20 ms of a write the job loses all, or a worker's share where none waits.
    of = ({"domain": "server", "mtbf": 200.0}, {"domain": "worker", "mtbf": 200.0})
    step = 0.001
    trace = run(
        example(kind, workers),
        cluster={
            "workers": workers,
            "parameter_servers": 2,
            "compute": {"kind": "constant", "value": step},
        },
        problem={"kind": "quadratic", "dimension": 2},
        failures={"of": of},
        checkpoint={"every": "optimal", "write": 0.02},
        network=NO_TIME,
        stop={"time": 3.0},
    )
    mean, cost = 200 / 3, 0.02 * share
    best = mean * (1 + lambertw(-math.exp(-cost / mean - 1)).real)
    writes = trace.spans[(trace.spans[:, 1] == Phase.WRITE) & (trace.spans[:, 0] == 0)]
    begun = writes[writes[:, 3] - writes[:, 2] == 0.02 * NS][0, 2] / NS

    assert begun == pytest.approx(math.ceil(best / step) * step, abs=1e-9)


def test_a_checkpoint_that_nothing_reads_is_not_written() -> None:
    # Workers alone fail: easgd's servers keep the centre, whereas the chief of the other restores.
    def alike(**changes: Any) -> Trace:
        both = scenario(
            {"kind": "easgd"},
            strategies=({"kind": "easgd"}, {"kind": "none"}),
            failures={"of": ({"domain": "worker", "mtbf": 1.0},)},
            stop={"time": 5.0},
            **changes,
        )
        return run_one(Run(both, 0, 0))

    saved = alike(checkpoint={"every": 0.3, "write": 0.1})

    assert saved.life is not None
    assert not saved.life[:, Attempt._fields.index("checkpoints")].any()
    assert_same(saved, alike())


def test_strategies_without_servers_have_none_to_fail() -> None:
    strategy = {"kind": "on_write", "on_death": "continue_with_fewer"}
    stop = {"global_steps": 9}
    alone = {"domain": "worker", "mtbf": 0.3}
    changes: dict[str, Any] = {"replications": 1, "stop": stop, "network": NO_TIME}
    beside = scenario(
        {"kind": "none"},
        strategies=({"kind": "none"}, strategy),
        failures={"of": (alone, {"domain": "server", "mtbf": 0.4})},
        **{**changes, "stop": {**stop, "equal_examples": False}},
    )
    one = run_one(Run(beside, 1, 0))
    other = run(strategy, failures={"of": (alone,)}, **changes)
    assert one.life is not None
    assert other.life is not None
    assert np.array_equal(one.life, other.life)


@pytest.mark.parametrize(
    ("strategy", "changes", "said"),
    [
        (
            {"kind": "diloco", "inner_steps": 2},
            {
                "failures": {"of": (fail((NEVER,)),)},
                "strategies": ({"kind": "none"}, {"kind": "diloco", "inner_steps": 2}),
            },
            "failures of servers alone do not meet a strategy that uses no parameter servers",
        ),
        (
            {"kind": "easgd"},
            {"failures": {"of": ({"domain": "worker", "mtbf": 9.0},)}},
            "checkpoint has no effect",
        ),
        (
            {"kind": "none"},
            {"failures": {"recorded": {"failures": ((1.0, "worker", 1),)}}},
            "checkpoint has no effect",
        ),
        ({"kind": "none"}, {"checkpoint": {"every": "optimal", "write": 1.0}}, "exponential times"),
        (
            {"kind": "on_write", "on_death": "continue_with_fewer"},
            {"checkpoint": None},
            "none of the strategies uses parameter servers",
        ),
        (
            {"kind": "on_write"},
            {"checkpoint": None, "failures": {"of": (fail((NEVER,)),)}},
            "none of the strategies uses parameter servers",
        ),
    ],
)
def test_what_cannot_be(strategy: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    given = {"failures": {"of": (fail((5.0,)),)}, "checkpoint": CHECKPOINT, **changes}
    with pytest.raises(ValidationError, match=said):
        scenario(strategy, **given)
