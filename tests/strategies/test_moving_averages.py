"""Moving averages beside synchronous training: what an outsider measures, and nobody trains on."""

from typing import Any

import pytest

from tests.building import Model, assert_same, scenario
from tests.seams import Run, Trace, run_one

# One worker, without initial tokens: every gradient makes an update, and each is measured.
ALONE: dict[str, Any] = {
    "cluster": {"workers": 1},
    "problem": {"kind": "linear_regression", "features": 4},
    "workload": {"evaluate_every": 1},
    "optimizer": {"kind": "momentum", "learning_rate": 0.05},
    "stop": {"global_steps": 15},
}


def trained(averages: dict[str, Any] | None, **changes: Any) -> tuple[Trace, Model]:
    strategy = {
        "kind": "sync_replicas",
        "replicas_to_aggregate": 1,
        "initial_tokens": 0,
        "variable_averages": averages,
    }
    made = scenario(strategy, **{**ALONE, **changes})
    return run_one(Run(made, 0, 0)), Model(made)


def followed(averages: Any, values: Any, step: int, decay: float, num_updates: bool = False) -> Any:
    """The averages once an update has been made, as TensorFlow writes them down."""
    kept = min(decay, (1 + step) / (10 + step)) if num_updates else decay
    return tuple(kept * old + (1 - kept) * new for old, new in zip(averages, values, strict=True))


@pytest.mark.parametrize("num_updates", [False, True])
def test_the_model_that_is_measured_is_the_average(num_updates: bool) -> None:
    settings: dict[str, Any] = {"decay": 0.75, "num_updates": num_updates}
    trace, model = trained(settings)
    values = model.start
    averages = values
    expected = [model.loss(values)]
    for step in range(15):
        values = model.step(values, model.gradient(values, 0, step))
        averages = followed(averages, values, step + 1, **settings)
        expected.append(model.loss(averages))

    assert [row.loss for row in trace.evaluations] == pytest.approx(expected, rel=1e-12)
    assert [row.global_step for row in trace.evaluations] == list(range(16))


@pytest.mark.parametrize("every", [4, 7])
def test_it_is_updated_at_every_step_whether_or_not_anybody_looks(every: int) -> None:
    settings: dict[str, Any] = {"decay": 0.75}
    trace, model = trained(settings, workload={"evaluate_every": every})
    values = model.start
    averages = values
    expected = {0: model.loss(values)}
    for step in range(15):
        values = model.step(values, model.gradient(values, 0, step))
        averages = followed(averages, values, step + 1, **settings)
        expected[step + 1] = model.loss(averages)

    measured = {row.global_step: row.loss for row in trace.evaluations}
    assert {0, every, 15} <= set(measured) < set(expected)
    assert measured == pytest.approx({step: expected[step] for step in measured}, rel=1e-12)


def test_nobody_trains_on_it() -> None:
    whole = {"cluster": {"workers": 4}, "stop": {"global_steps": 30}}
    one, other = (trained(averages, **whole)[0] for averages in (None, {"decay": 0.5}))

    assert_same(one, other, but=("evaluations",))
    assert [row.loss for row in one.evaluations] != [row.loss for row in other.evaluations]


def test_a_loss_to_stop_at_is_that_of_the_average() -> None:
    plain, _ = trained(None)
    goal = min(row.loss for row in plain.evaluations[:9])
    stops = [
        trained(averages, stop={"global_steps": 40, "loss": goal})[0]
        for averages in (None, {"decay": 0.9})
    ]

    assert [trace.stopped_by for trace in stops] == ["loss", "loss"]
    assert stops[0].global_step <= 8 < stops[1].global_step
