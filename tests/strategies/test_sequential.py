"""Where strategies must agree: with sequential SGD, and the synchronous ones with each other."""

from typing import Any

import pytest

from tests.building import (
    DROPPED,
    Model,
    declared,
    example,
    gradient_rows,
    losses,
    mean,
    run,
    scenario,
)
from tests.seams import STRATEGIES, Run, run_one

EXPONENTIAL = {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1}


def evaluated(strategy: dict[str, Any], examples: int) -> dict[str, int]:
    """How often a loss is measured, where it is not the strategy's reads that say so."""
    return {} if declared(strategy).round.of == "outer step" else {"evaluate_every": examples}


SEQUENTIAL: dict[str, dict[str, Any]] = {
    # An outer optimizer makes steps of its own, even of one worker alone; a centre follows it;
    # and gossip needs somebody else.
    **{
        kind: example(kind, 1)
        for kind, strategy in STRATEGIES.items()
        if not {"outer", "moving_rate", "partners"} & strategy.model_fields.keys()
    },
    "on_read often": {"kind": "on_read", "read_every": 1},
    "on_read written back": {"kind": "on_read", "read_every": 1, "write_back": True},
    "on_read sum": {"kind": "on_read", "read_every": 1, "aggregation": "sum", "write_back": True},
    "sync_replicas three": {"kind": "sync_replicas", "replicas_to_aggregate": 3},
}


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("strategy", SEQUENTIAL.values(), ids=SEQUENTIAL)
def test_one_worker_is_sequential_sgd(strategy: dict[str, Any], sharing: str) -> None:
    # Bit for bit, after every step, with a plain loop over the batches of worker 0.
    # sync_replicas wastes one gradient: with its first token it computes batch 1, labelled 0,
    # on the step-1 model. With N = 3 it has 3 tokens to begin with: batches 0, 1, 2 on the
    # first model, batch 3 labelled 0 and dropped, then 4, 5, 6, ...
    alone = scenario(
        strategy,
        cluster={"workers": 1, "compute": EXPONENTIAL},
        network={"bandwidth": 1e6, "latency": 1e-3, "sharing": sharing},
        problem={"kind": "digits"},
        optimizer={"kind": "momentum", "learning_rate": 0.1, "nesterov": True},
        workload={"batch_size": 8, **evaluated(strategy, 8)},
        stop={"global_steps": 70},
    )
    trace = run_one(Run(alone, 0, 0))
    model = Model(alone)
    parameters = model.start
    expected = [model.loss(parameters)]
    together = declared(strategy).gradients_per_update(alone.cluster)
    skipped = together if strategy["kind"] == "sync_replicas" else -1
    batches = iter(number for number in range(10_000) if number != skipped)
    for _ in range(70):
        parts = [model.gradient(parameters, 0, next(batches)) for _ in range(together)]
        means = [mean(values) for values in zip(*parts, strict=True)]
        parameters = model.step(parameters, means)
        expected.append(model.loss(parameters))

    every = declared(strategy).round.steps
    assert losses(trace) == expected[::every]
    assert expected[-1] < expected[0]
    dropped = [row.iteration for row in gradient_rows(trace) if row.outcome == DROPPED]
    assert dropped == ([skipped] if skipped >= 0 else [])


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_without_variance_the_synchronous_strategies_agree(sharing: str) -> None:
    # No noise in gradients or times. 4 workers: the mean of four equal numbers is exact.
    changes: dict[str, Any] = {
        "cluster": {"workers": 4},
        "network": {"bandwidth": 1e4, "latency": 1e-3, "sharing": sharing},
        "stop": {"global_steps": 30},
    }
    each = {"workload": {"batch_size": 2, "evaluate_every": 8}}
    alone = losses(run("single", **changes, workload={"batch_size": 2, "evaluate_every": 2}))
    assert len(alone) == 31
    assert losses(run("on_write", **changes, **each)) == alone
    synchronous = {"kind": "sync_replicas", "replicas_to_aggregate": 4}
    assert losses(run(synchronous, **changes, **each)) == alone
    for aggregation in ("mean", "only_first_replica"):
        strategy = {
            "kind": "on_read",
            "read_every": 1,
            "write_back": True,
            "aggregation": aggregation,
        }
        trace = run(strategy, **changes, workload={"batch_size": 2})
        assert losses(trace) == alone
        assert {row.divergence for row in trace.evaluations} == {0.0}


def test_with_noise_the_synchronous_strategies_take_the_same_means() -> None:
    # Equal times, noisy gradients; batches in the order of the workers. sync_replicas leaves out
    # the second batch of every worker, on_write and averaging every step leave out none.
    changes: dict[str, Any] = {
        "cluster": {"workers": 3},
        "problem": {"noise": 1.0},
        "workload": {"batch_size": 2, "evaluate_every": 6},
        "stop": {"global_steps": 20},
    }
    model = Model(scenario({"kind": "on_write"}, **changes))
    everything, spared = [model.loss(model.start)], [model.loss(model.start)]
    for seen, skip in ((everything, False), (spared, True)):
        parameters = model.start
        for step in range(20):
            batch = step + 1 if skip and step else step
            parts = [model.gradient(parameters, worker, batch)[0] for worker in range(3)]
            parameters = model.step(parameters, [mean(parts)])
            seen.append(model.loss(parameters))

    assert losses(run("on_write", **changes)) == everything
    synchronous = {"kind": "sync_replicas", "replicas_to_aggregate": 3}
    assert losses(run(synchronous, **changes)) == spared
    averaging = {"kind": "on_read", "read_every": 1, "write_back": True}
    changes["workload"] = {"batch_size": 2}
    assert losses(run(averaging, **changes)) == pytest.approx(everything, rel=1e-12)
