"""A run written down by hand, and results made of it."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from tests.seams import EvaluationRow, LinkRow, Outcome, Phase, Result, Rows, Trace
from varsim import Scenario

SECOND = 1_000_000_000

# Two workers, two variables, seconds. Worker 0 is quick, worker 1 computes for 4 s.
#         0  1  2  3  4  5  6  7  8  9  10
# w0      compute  W  R  compute  W  R  c  W     its second gradient is dropped at 7
# w1      compute........ W  R  compute.......   its first is applied to one variable of two at 5,
#                                                its second is pending at the end
SPANS = [
    (0, Phase.COMPUTE, 0, 2, 0),
    (0, Phase.WRITE, 2, 3, 0),
    (0, Phase.READ, 3, 4, 1),
    (1, Phase.COMPUTE, 0, 4, 0),
    (1, Phase.WRITE, 4, 5, 0),
    (0, Phase.COMPUTE, 4, 6, 1),
    (1, Phase.READ, 5, 6, 1),
    (0, Phase.WRITE, 6, 7, 1),
    (0, Phase.READ, 7, 8, 2),
    (0, Phase.COMPUTE, 8, 9, 2),
    (0, Phase.WRITE, 9, 10, 2),
    (1, Phase.COMPUTE, 6, 10, 1),
]
NEVER = -1
# worker, iteration, read, at step, compute from, to, arrived, ended, at step, outcome, variables
GRADIENTS = [
    (0, 0, 0, 0, 0, 2, 3, 3, 0, Outcome.APPLIED, 2),
    (1, 0, 0, 0, 0, 4, 5, 5, 1, Outcome.PARTLY, 1),
    (0, 1, 3, 1, 4, 6, 7, 7, 2, Outcome.DROPPED, 0),
    (0, 2, 7, 2, 8, 9, 10, 10, 2, Outcome.APPLIED, 2),
    (1, 1, 5, 2, 6, 10, NEVER, NEVER, NEVER, Outcome.PENDING, 0),
]
TIMES_OF_A_GRADIENT = (2, 4, 5, 6, 7)
# time, step, examples, loss, accuracy, divergence
EVALUATIONS = [(0, 0, 0, 2.0, 0.25, 0.0), (5, 2, 15, 1.0, nan, 0.5), (10, 3, 25, 0.5, 0.75, 0.25)]


def a_trace(strategy: str = "none", replication: int = 0, pace: int = 1, **changes: Any) -> Trace:
    """The run above, all its times `pace` times as long."""
    second = pace * SECOND
    spans = np.array(SPANS, dtype=np.int64)
    spans[:, 2:4] *= second
    gradients = np.array(GRADIENTS, dtype=np.int64)
    for column in TIMES_OF_A_GRADIENT:
        times = gradients[:, column]
        gradients[:, column] = np.where(times < 0, NEVER, times * second)
    trace = Trace(
        strategy=strategy,
        replication=replication,
        workers=2,
        variables=2,
        batch_size=10,
        end=10 * second,
        stopped_by="global_steps",
        global_step=3,
        span_rows=Rows.of(spans),
        gradient_rows=Rows.of(gradients),
        evaluations=[EvaluationRow(row[0] * second, *row[1:]) for row in EVALUATIONS],
        steps=np.array([3, 5, 10], dtype=np.int64) * second,
        copy_staleness=np.array([0, 2, 4], dtype=np.int64),
        links=[LinkRow("worker 0 up", 100.0, 250.0), LinkRow("worker 0 down", 100.0, 500.0)],
        heap_events=42,
        gradients_evaluated=4,
        gradients_aggregated=3,
    )
    for name in changes.keys() & {"spans", "gradients"}:  # as arrays
        changes[f"{name[:-1]}_rows"] = Rows.of(changes.pop(name))
    return replace(trace, **changes)


def alone(replication: int = 0) -> Trace:
    """One worker that makes 5 updates in 10 s: 5 examples/s."""
    return replace(a_trace("single", replication), workers=1, global_step=5)


def a_scenario(labels: Sequence[str] = ("none",), **changes: Any) -> Scenario:
    """Some scenario whose strategies have these labels."""
    content: dict[str, Any] = {
        "name": "handmade",
        "seed": 7,
        "replications": 1,
        "cluster": {
            "workers": 2,
            "compute": {"kind": "uniform", "low": 1.0, "high": 3.0},
            "network": {"kind": "star", "bandwidth": 100.0, "latency": 0.001},
        },
        "workload": {
            "problem": {"kind": "quadratic"},
            "batch_size": 10,
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "strategies": tuple({"kind": "none", "name": label} for label in labels),
        "stop": {"global_steps": 3},
    }
    return Scenario.model_validate(content | changes)


def a_result(paces: dict[str, Sequence[int]] | None = None, **changes: Any) -> Result:
    """A result of the run above: per strategy a pace for every replication."""
    paces = paces or {"none": (1,)}
    (count,) = {len(each) for each in paces.values()}
    traces = [
        a_trace(strategy, replication, pace)
        for strategy, each in paces.items()
        for replication, pace in enumerate(each)
    ]
    scenario = a_scenario(tuple(paces), replications=count, **changes)
    return Result(scenario, traces, [alone(replication) for replication in range(count)])


# Strategy names that want care in plots and pages.
ODD_NAMES = (
    *("$x_1$ costs $5 & <b>", "_hidden", "日本語", "back\\slash $", "a" * 60),
    *(
        "sync with 7 of 8, tokens, and a very long explanation",
        "100 % {}",
        "'q' \"q\"",
        "x",
        "none",
    ),
)


def result_of(traces: Sequence[Trace], **changes: object) -> Result:
    """A result of runs of one replication."""
    return Result(
        a_scenario(list(dict.fromkeys(trace.strategy for trace in traces)), **changes),
        list(traces),
        [],
    )
