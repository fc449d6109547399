"""Servers that fail inside a run, with the model, and what was saved of it; by hand, times in s."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import lambertw

from tests.building import NO_TIME, assert_same, declared, example, run, scenario
from tests.cluster.test_interruptions import NEVER, NS, lived
from tests.seams import STRATEGIES, Attempt, Phase, Run, Trace, run_one

CHECKPOINT: dict[str, Any] = {"every": 2.0, "write": 0.25, "restore": 0.25}


def fail(*gaps: tuple[float, ...]) -> dict[str, Any]:
    """Servers that fail after these times, and are repaired in 2 s."""
    law = {"kind": "trace", "seconds": gaps}
    return {"domain": "server", "law": law, "repair": 2.0}


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


def test_what_was_learnt_since_the_last_checkpoint_is_lost() -> None:
    # The chief saves at 2 and at 4.25, a quarter of a second each. The step that would end at 5.5
    # has not; noticed at 6.5, repaired at 8.5, begun again and restored at 9.25.
    trace = struck("none", fail((5.5, NEVER)))
    chief, chief_again, other, other_again = lived(trace)

    assert chief == {
        **{"productive": 4, "checkpoint": 0.5, "lost": 1, "detection": 1, "repair": 2},
        **{"restart": 0.75, "steps": 4, "checkpoints": 2, "failures": 1},
    }
    assert other == {
        **{"productive": 4.25, "lost": 1.25, "detection": 1, "repair": 2, "restart": 0.75},
        **{"steps": 4, "steps_lost": 1},
    }
    assert chief_again == {
        **{"start": 9.25, "productive": 2.5, "checkpoint": 0.25, "steps": 2, "checkpoints": 1},
    }
    assert other_again == {"start": 9.25, "productive": 2.75, "steps": 2}


def test_the_model_is_that_of_the_checkpoint_again() -> None:
    found = losses(struck("none", fail((5.5, NEVER))))

    # Eight updates had been made at 4.25, of nine; those after the restart are others.
    saved = next(loss for _, step, loss in found if step == 8)
    assert [(step, loss) for time, step, loss in found if time == 9.25] == [(8, saved)]


def test_slots_of_the_optimizer_come_back_with_the_values() -> None:
    # One worker, noticed and back at once: the steps after the checkpoint at 2 are made again, of
    # the same batches as nothing of them is drawn.
    trace = struck(
        "none",
        {"domain": "server", "law": {"kind": "trace", "seconds": ((4.0, NEVER),)}},
        cluster={"workers": 1, "compute": {"kind": "constant", "value": 1.0}},
        optimizer={"kind": "momentum", "learning_rate": 0.1, "momentum": 0.9},
        failures={
            "of": ({"domain": "server", "law": {"kind": "trace", "seconds": ((4.0, NEVER),)}},)
        },
        checkpoint={"every": 2.0, "write": 0.0},
        recovery=None,
        stop={"time": 7.0},
    )
    found = losses(trace)
    at = {time: loss for time, _, loss in found}

    assert at[4.0] == at[2.0]
    assert at[5.0] == at[3.0]
    assert at[6.0] != at[4.0]


def test_without_a_checkpoint_all_is_lost() -> None:
    trace = struck("none", fail((5.5, NEVER)), checkpoint=None)
    found = losses(trace)

    assert lived(trace)[0]["lost"] == 5.5
    assert next(loss for time, _, loss in found if time == 9.0) == found[0][2]


def test_a_write_that_is_not_complete_is_lost() -> None:
    # Struck at 4.375, in the second write: back to the checkpoint of 2.
    chief, _, other, _ = lived(struck("none", fail((4.375, NEVER))))

    assert (chief["productive"], chief["checkpoint"], chief["lost"]) == (2, 0.25, 2.125)
    assert (other["productive"], other["lost"], chief["checkpoints"]) == (2, 2.375, 1)


def test_the_model_is_there_when_all_servers_are() -> None:
    # The other server fails at 7.5, before the first is back: noticed at 8.5, repaired at 10.5.
    trace = struck(
        "none",
        fail((5.5, NEVER), (7.5, NEVER)),
        cluster={
            "workers": 2,
            "parameter_servers": 2,
            "compute": {"kind": "constant", "value": 1.0},
        },
        problem={"kind": "quadratic", "dimension": 4},
    )
    chief, again, *_ = lived(trace)

    assert (chief["detection"], chief["repair"], again["start"]) == (2, 3, 11.25)
    assert len([1 for time, _, _ in losses(trace) if time == 11.25]) >= 1


def test_a_session_starts_anew_with_tokens() -> None:
    # The chief restores, local steps are the global step, and each has a token: the next update
    # comes a step after 9.25, with one of each, as at the start.
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}
    trace = struck(strategy, fail((5.5, NEVER)))

    assert (trace.steps / NS).tolist() == [1, 2, 3.25, 4.25, 10.25, 11.25]


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
            "law": {"kind": "trace", "seconds": ((5.5, NEVER), (NEVER,) * 2)},
            "repair": 2.0,
        },
    ),
    "detection": 1.0,
}


def test_a_chief_that_comes_back_restores_the_checkpoint_while_others_go_on() -> None:
    # It saved at 2 and at 4.25, died at 5.5 and is back at 9.25. Five updates that the other made
    # from 5 to 9 are undone; its gradient under way is not.
    trace = struck("none", {}, failures=CHIEF)
    chief, chief_again, other = lived(trace)

    assert chief == {
        **{"productive": 4, "checkpoint": 0.5, "lost": 1, "detection": 1, "repair": 2},
        **{"restart": 0.75, "steps": 4, "checkpoints": 2, "failures": 1},
    }
    assert chief_again == {
        **{"start": 9.25, "productive": 2.5, "checkpoint": 0.25, "steps": 2, "checkpoints": 1},
    }
    assert other == {"productive": 7.25, "lost": 4.75, "steps": 7, "steps_lost": 5}
    assert (trace.global_step, len(trace.steps)) == (13, 18)
    found = losses(trace)
    saved = next(loss for _, step, loss in found if step == 8)
    assert [(step, loss) for time, step, loss in found if time == 9.25] == [(8, saved)]


def test_without_checkpoints_it_takes_the_model_as_it_is() -> None:
    trace = struck("none", {}, failures=CHIEF, checkpoint=None)

    assert trace.rolled_back is None
    assert trace.global_step == len(trace.steps)


def test_the_global_step_falls_and_accumulators_follow_it() -> None:
    # Step 5, at 5.5, is undone when the chief, dead since 6, is back at 9.75. The other one's
    # gradient has waited since 6.5; the chief's own makes step 5 with it at 10.75.
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 0}
    law = {"kind": "trace", "seconds": ((6.0, NEVER), (NEVER,) * 2)}
    source = {"domain": "worker", "law": law, "repair": 2.0}
    trace = struck(strategy, source)

    assert (trace.steps / NS).tolist() == [1, 2, 3.25, 4.25, 5.5, 10.75, 11.75]
    assert trace.kept_steps.tolist() == [True] * 4 + [False] + [True] * 2
    assert trace.global_step == 6


def test_a_session_begins_when_the_chief_is_there_too() -> None:
    # The server is back at 7; but the chief, which fails at 5.75, only at 8.75: 9.5 for all.
    server = {"domain": "server", "law": {"kind": "trace", "seconds": ((5.5, NEVER),)}}
    trace = struck(
        "none",
        {},
        failures={
            "detection": 1.0,
            "of": (
                {
                    "domain": "worker",
                    "law": {"kind": "trace", "seconds": ((5.75, NEVER), (NEVER,) * 2)},
                    "repair": 2.0,
                },
                {**server, "repair": 0.5},
            ),
        },
    )
    chief, chief_again, other, other_again = lived(trace)

    assert (chief_again["start"], other_again["start"]) == (9.5, 9.5)
    assert (chief["detection"], chief["repair"], chief["restart"]) == (1.25, 2, 0.75)
    assert (other["detection"], other["repair"], other["restart"]) == (1.25, 2, 0.75)


ASYNCHRONOUS: dict[str, Any] = {
    **{"every": 2.0, "write": 1.0, "mode": "asynchronous", "snapshot": 0.5, "slowdown": 1.0},
}


def test_a_write_beside_the_chiefs_work_slows_its_steps() -> None:
    # Stops at 2 and at 5, half a second each; from 2.5 to 3.5 and from 5.5 to 6.5 it makes half a
    # step in a second.
    alone = {"workers": 1, "compute": {"kind": "constant", "value": 1.0}}
    stop = {"time": 7.0}
    never = fail((NEVER, NEVER))
    trace = struck("none", never, cluster=alone, checkpoint=ASYNCHRONOUS, stop=stop)

    assert (trace.steps / NS).tolist() == [1, 2, 4, 5, 7]
    assert lived(trace) == [{"productive": 5, "checkpoint": 2, "steps": 5, "checkpoints": 2}]


def test_a_write_beside_work_counts_when_it_is_complete() -> None:
    # Struck at 6.25, in the second write: back to 2; of the first one's cost nothing is lost.
    alone = {"workers": 1, "compute": {"kind": "constant", "value": 1.0}}
    trace = struck("none", fail((6.25, NEVER)), cluster=alone, checkpoint=ASYNCHRONOUS)
    first, _ = lived(trace)

    assert (first["productive"], first["checkpoint"], first["lost"]) == (2, 1, 3.25)
    assert (first["steps"], first["steps_lost"], first["checkpoints"]) == (2, 2, 1)


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


def test_averages_of_variables_come_back_with_them() -> None:
    # As with slots: one worker, noticed and back at once; the decay goes by the global step.
    source = {"domain": "server", "law": {"kind": "trace", "seconds": ((4.0, NEVER),)}}
    averages = {"variable_averages": {"decay": 0.9, "num_updates": True}}
    trace = struck(
        {"kind": "sync_replicas", "replicas_to_aggregate": 1, "initial_tokens": 0, **averages},
        source,
        cluster={"workers": 1, "compute": {"kind": "constant", "value": 1.0}},
        failures={"of": (source,)},
        checkpoint={"every": 2.0, "write": 0.0},
        recovery=None,
        stop={"time": 7.0},
    )
    at = {time: loss for time, _, loss in losses(trace)}

    assert at[4.0] == at[2.0]
    assert at[5.0] == at[3.0]
    assert at[6.0] != at[4.0]


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


SERVED = [kind for kind in STRATEGIES if declared(example(kind)).sends.to in ("servers", "centre")]


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
    from tests.seams import Run, run_one

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
