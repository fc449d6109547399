"""Copies of workers that are saved inside a run, by hand; times in s."""

import random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import NO_TIME, assert_same, run, scenario, slow
from tests.cluster.test_interruptions import ELASTIC, NEVER, NS, fails, lived, struck
from varsim.cluster.averaging import AveragedReplicas
from varsim.cluster.leading import Held
from varsim.cluster.trace import Attempt, GradientRow, Outcome, Phase, Trace

CHECKPOINT: dict[str, Any] = {"every": 2.0, "write": 0.25, "restore": 0.25}
COPIES: dict[str, dict[str, Any]] = {
    "on_write": {"kind": "on_write", **ELASTIC},
    "local_sgd": {"kind": "local_sgd", "period": 2, **ELASTIC},
    "diloco": {"kind": "diloco", "inner_steps": 2},
}
ALL = fails((5.5, NEVER), (5.5, NEVER))
NONE = fails((NEVER,), (NEVER,))


def losses(trace: Trace) -> list[tuple[float, int, float]]:
    return [(row.time / NS, row.global_step, row.loss) for row in trace.evaluations]


def outcomes(trace: Trace) -> list[int]:
    found: list[int] = trace.gradients[:, GradientRow._fields.index("outcome")].tolist()
    return found


@pytest.mark.parametrize("kind", COPIES)
def test_when_nobody_is_left_all_begin_from_the_last_checkpoint(kind: str) -> None:
    # Worker 0 saves after the step, or round, of 2, and again after that of 4.25, a quarter of a
    # second each; for the next one the others wait for it. Both die at 5.5, which is noticed at
    # 6.5; their hosts are there at 8.5, and read what was saved until 9.25.
    strategy = COPIES[kind]
    trace = struck(strategy, ALL, checkpoint=CHECKPOINT, stop={"time": 12.0})
    first, again, other, other_again = lived(trace)
    down = {"detection": 1, "repair": 2, "restart": 0.75}
    # In a round of its own worker 1 has waited for nobody yet.
    lost = {"lost": 1.25, "steps_lost": 1}

    assert first == {
        **{"productive": 4, "checkpoint": 0.5, "lost": 1, **down},
        **{"steps": 4, "checkpoints": 2, "failures": 2},
    }
    assert other == {"productive": 4.25, **lost, **down, "steps": 4}
    assert (again["start"], other_again["start"]) == (9.25, 9.25)
    assert again["checkpoint"] == 0.25
    assert trace.global_step == 6
    at = {(time, step): loss for time, step, loss in losses(trace)}
    (*_, undisturbed) = losses(struck(strategy, NONE, checkpoint=None, stop={"time": 4.5}))
    assert (4, at[9.25, 4]) == undisturbed[1:]
    assert at[9.25, 4] < at[0, 0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_since_then_are_made_again_bit_for_bit(optimizer: str) -> None:
    # Random batches: of the same data in the same order, at the values and slots that were saved.
    changes: dict[str, Any] = {
        "problem": {"kind": "linear_regression"},
        "optimizer": {"kind": optimizer, "learning_rate": 0.1},
        "workload": {"batch_size": 4, "evaluate_every": 8},
    }
    trace = struck(
        COPIES["on_write"],
        fails((7.5, NEVER), (7.5, NEVER)),
        checkpoint={"every": 3.0, "write": 0.0},
        stop={"time": 20.0},
        **changes,
    )
    found = losses(trace)
    back = next(index for index in range(1, len(found)) if found[index][1] < found[index - 1][1])
    before, after = found[:back], found[back:]
    undisturbed = struck(COPIES["on_write"], NONE, stop={"time": 20.0}, **changes)

    assert [step for _, step, _ in before] == [*range(8)]
    assert after[0][1] == 6
    steps = {step: loss for _, step, loss in losses(undisturbed)}
    assert {step: loss for _, step, loss in before} == {step: steps[step] for step in range(8)}
    assert len(after) > 5
    assert {step: loss for _, step, loss in after} == {step: steps[step] for _, step, _ in after}


@pytest.mark.parametrize("settings", [{"kind": "sgd"}, {"kind": "momentum", "momentum": 0.9}])
def test_all_take_what_the_leader_had(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # After the average of every other step copies are equal, but not their slots; once restored
    # these are, too, and counts. It is saved at 0.4 and every 0.4 s from then on: at 2.8.
    restored: list[Any] = []
    restore = AveragedReplicas.restore

    def noted(self: AveragedReplicas, held: Held) -> None:
        restore(self, held)
        every = [[variable.values, variable.states] for variable in self.variables]
        mine = [
            [values[rank].tolist(), [state.tolist() for state in states[rank]]]
            for rank in range(3)
            for values, states in every
        ]
        restored.append((mine, list(self.steps)))

    monkeypatch.setattr(AveragedReplicas, "restore", noted)
    run(
        COPIES["local_sgd"],
        problem={"kind": "linear_regression"},
        optimizer={"learning_rate": 0.1, **settings},
        failures={"of": (fails((3.15, NEVER), (3.15, NEVER), (3.15, NEVER), repair=None),)},
        checkpoint={"every": 0.25, "write": 0.0},
        stop={"time": 5.15},
    )
    mine, steps = restored[-1]
    variables = len(mine) // 3

    assert mine == mine[:variables] * 3
    assert steps == [28] * 3


def test_the_lowest_rank_that_is_there_saves() -> None:
    # Worker 0 is away from 1.5 to 5, which is known at 2.5, and has the model at 6: worker 1 saves
    # at 2.5 and 4.75.
    trace = struck(
        COPIES["on_write"],
        fails((1.5, NEVER), (NEVER,) * 2),
        checkpoint=CHECKPOINT,
        stop={"time": 12.0},
    )
    writes = trace.spans[trace.spans[:, 1] == Phase.WRITE]
    saved = [(rank, end / NS) for rank, _, start, end, _ in writes.tolist() if end > start]

    assert sorted(saved, key=lambda one: one[1]) == [
        *((1, 2.75), (1, 5.0)),
        *((0, 7.25), (0, 9.5), (0, 11.75)),
    ]
    assert trace.life is not None
    counts = trace.life[:, Attempt._fields.index("checkpoints")].tolist()
    assert counts == [0, 3, 2]


def test_who_leads_loses_what_is_not_complete() -> None:
    # Beside its work worker 0 writes from 2.5 to 3.5, at half its pace, then from 5.5 on. It dies
    # at 6; worker 1, who goes on alone, saves after its next step.
    beside = {"mode": "asynchronous", "snapshot": 0.5, "slowdown": 1.0}
    trace = struck(
        COPIES["on_write"],
        failures={"of": (fails((6.0, NEVER), (NEVER,) * 2),)},
        checkpoint={"every": 2.0, "write": 1.0, **beside},
        stop={"time": 9.5},
    )
    first, *_, other = lived(trace)

    assert (trace.steps[:4] / NS).tolist() == [1, 2, 4, 5]
    assert (first["checkpoint"], first["checkpoints"]) == (1.0, 1)
    assert first["lost"] == 1.0
    assert other["checkpoints"] == 1


def test_what_is_saved_has_been_made_though_only_who_saved_has_made_it() -> None:
    # Of the all-reduce that ends at 1 worker 1, who is slower at the update, has made nothing yet
    # when both die; but worker 0, which saved it, has.
    trace = struck(
        COPIES["on_write"],
        cluster={
            "workers": 2,
            "compute": {"kind": "constant", "value": 1.0},
            "slow_workers": (slow(1, 2.0, after=1.0),),
            "optimizer_time": 0.15,
        },
        failures={"of": (fails((1.2, NEVER), (1.2, NEVER)),)},
        checkpoint={"every": 0.5, "write": 0.0},
        recovery=None,
        stop={"time": 4.0},
    )

    assert trace.kept_steps.tolist()[0]
    assert (trace.steps[0] / NS, trace.global_step) == (1.2, len(trace.steps))
    first = trace.gradients[:, GradientRow._fields.index("iteration")] == 0
    assert np.array(outcomes(trace))[first].tolist() == [Outcome.APPLIED] * 2
    assert trace.life is not None
    assert trace.life[:, Attempt._fields.index("steps_lost")].sum() == 0


def test_steps_that_others_were_ahead_are_undone() -> None:
    # Worker 0 saves for 0.6 s after the average at 2; the others go on. At 3.1 all die: they have
    # made the step of 3, worker 0 none.
    trace = struck(
        {"kind": "local_sgd", "period": 2, **ELASTIC},
        failures={"of": (fails((3.1, NEVER), (3.1, NEVER), repair=None),)},
        checkpoint={"every": 2.0, "write": 0.6},
        recovery=None,
        stop={"time": 5.2},
    )
    kept = trace.gradients[trace.kept_gradients]
    computed = (kept[:, GradientRow._fields.index("computed")] / NS).tolist()

    assert trace.global_step == 4
    assert 3.0 not in computed
    assert sorted(one for one in computed if one <= 3) == [1, 1, 2, 2]


def test_steps_of_slower_ones_before_a_delayed_sync_count() -> None:
    # Outer gradients are sent after the second step and merged after the third. Worker 0 merges at
    # 3, and saves; worker 1, which makes its third step at 3.4, dies with it at 3.2.
    trace = struck(
        {"kind": "diloco", "inner_steps": 3, "delay": 1},
        cluster={
            "workers": 2,
            "compute": {"kind": "constant", "value": 1.0},
            "slow_workers": (slow(1, 1.4, after=2.0),),
        },
        failures={"of": (fails((3.2, NEVER), (3.2, NEVER), repair=None),)},
        checkpoint={"every": 0.5, "write": 0.0},
        recovery=None,
        stop={"time": 5.0},
    )

    assert trace.kept_steps.all()
    assert trace.global_step == 4  # 3 that were saved, and one since 3.2
    assert (trace.steps / NS).tolist() == [1, 2, 3.2, 4.6]


@pytest.mark.parametrize("kind", COPIES)
def test_to_storage_goes_all_that_a_worker_has(kind: str) -> None:
    # 12 bytes of a variable, a slot for each; of DiLoCo what is shared, and its slot, too: at 24
    # bytes/s over a link of 48.
    trace = struck(
        COPIES[kind],
        ALL,
        workload={"bytes_per_parameter": 4},
        problem={"kind": "quadratic", "dimension": 3},
        optimizer={"kind": "momentum", "learning_rate": 0.1, "momentum": 0.9},
        network={"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"},
        checkpoint={"every": 2.0, "storage": 24.0},
        stop={"time": 12.0},
    )
    size = 48 if kind == "diloco" else 24
    first, again, *_ = lived(trace)

    assert first["checkpoint"] == size / 24
    assert again["start"] == 9 + size / 24


def test_on_the_disk_of_its_host_it_goes_to_repair() -> None:
    # Worker 0 saves at 2, and dies at 2.5; worker 1 saves at 5.5, and dies at 6, when worker 0 is
    # on its way back. With its host the checkpoint goes; without a repair it would have stayed.
    def begins_from(keep_on: str, repair: float | None) -> int:
        source = fails((2.5, NEVER, NEVER), (6.0, NEVER, NEVER), repair=repair)
        checkpoint = {"every": 2.0, "write": 0.25}
        if keep_on == "host":
            checkpoint["keep_on"] = "host"
        both = {
            "detection": 0.5,
            "of": (source,),
            "recorded": {"failures": ((4.0, "worker", 0),), "repair": 9.0},
        }
        trace = struck(
            COPIES["on_write"], {}, failures=both, checkpoint=checkpoint, stop={"time": 30.0}
        )
        assert trace.rolled_back is not None
        found: int = trace.rolled_back[0, 0]
        return found

    assert begins_from("remote", 9.0) == begins_from("remote", None) == 5
    assert begins_from("host", 9.0) == 0
    assert begins_from("host", None) == 5


@pytest.mark.parametrize("kind", COPIES)
def test_without_a_checkpoint_all_begin_from_the_start(kind: str) -> None:
    trace = struck(COPIES[kind], ALL, checkpoint=None, stop={"time": 12.0})

    assert lived(trace)[0]["lost"] == 5.5
    assert losses(trace)[-1][1] == 3


@pytest.mark.parametrize("kind", COPIES)
def test_where_none_is_due_a_run_is_the_same(kind: str) -> None:
    late = struck(COPIES[kind], ALL, checkpoint={"every": 100.0, "write": 0.0})
    without = struck(COPIES[kind], ALL, checkpoint=None)

    assert_same(late, without)


def test_a_synchronous_gradient_is_not_stale_after_a_rollback() -> None:
    for checkpoint in (None, CHECKPOINT):
        trace = struck(
            COPIES["on_write"], ALL, checkpoint=checkpoint, stop={"time": 14.0}, network=NO_TIME
        )
        rows = trace.gradients[np.isin(outcomes(trace), (Outcome.APPLIED,))]
        of = GradientRow._fields.index
        assert (rows[:, of("applied_step")] == rows[:, of("read_step")]).all()


@pytest.mark.parametrize("kind", COPIES)
def test_whatever_strikes_the_books_are_kept(kind: str) -> None:
    drawn = random.Random(kind)
    restored = 0
    for seed in range(10):
        racks = {"kind": "racks", "hosts_per_rack": 3, "oversubscription": 2.0}
        sources = (
            {"domain": "rack", "mtbf": drawn.choice([1.0, 3.0]), "repair": 0.3},
            {"domain": "worker", "mtbf": 2.0, "repair": {"kind": "exponential", "mean": 0.5}},
        )
        sharing = drawn.choice(["fair", "first_come"])
        mode = drawn.choice([{}, {"mode": "asynchronous", "snapshot": 0.02, "slowdown": 0.5}])
        delay = {"delay": 1, "inner_steps": 3} if kind == "diloco" and seed % 2 else {}
        settings: dict[str, Any] = {
            "seed": seed,
            "cluster": {"compute": {"kind": "exponential", "mean": 0.1}},
            "problem": {"kind": "linear_regression"},
            "failures": {"detection": drawn.choice([0.0, 0.1]), "of": sources},
            "checkpoint": {"every": 0.3, "restore": 0.1, "write": 0.05, **mode},
            "recovery": {"restart": drawn.choice([0.0, 0.05])},
            "network": {"bandwidth": 1e5, "latency": 1e-3, "sharing": sharing, **racks},
            "stop": {"time": 6.0},
        }
        trace = run({**COPIES[kind], **delay}, **settings)
        assert trace.life is not None
        assert (trace.life >= 0).all()
        assert trace.life[:, 1:7].sum() == trace.end * trace.workers
        assert trace.global_step == int(trace.kept_steps.sum())
        assert_same(trace, run({**COPIES[kind], **delay}, **settings))
        if trace.rolled_back is not None:
            restored += int((trace.rolled_back[:, 0] > 0).sum())
    assert restored > 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"checkpoint": {"every": "optimal", "write": 1.0}},
            "how often nobody is left is not known beforehand",
        ),
        (
            {"failures": {"recorded": {"failures": ((1.0, "worker", 0), (2.0, "worker", 1))}}},
            "checkpoint has no effect: inside a run it is read back when",
        ),
        (
            {"checkpoint": {"every": 1.0, "write": 0.1, "keep_on": "host"}},
            "no failure sends the host of a worker that leads",
        ),
    ],
)
@pytest.mark.parametrize("kind", COPIES)
def test_what_cannot_be(kind: str, changes: dict[str, Any], said: str) -> None:
    settings = {"failures": {"of": ({"domain": "worker", "mtbf": 9.0},)}, "checkpoint": CHECKPOINT}
    with pytest.raises(ValidationError, match=said):
        scenario(COPIES[kind], **{**settings, **changes})
