"""The values a run ends with are those of an eager numpy run, bit for bit."""

import pytest

from tests.benchmarks.replay import replay
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, started

STRATEGIES = (
    {"kind": "on_write"},
    {"kind": "none"},
    {"kind": "sync_replicas", "replicas_to_aggregate": 7},
    {"kind": "sync_replicas", "replicas_to_aggregate": 20, "name": "more than workers"},
    {"kind": "single"},
)


def scenario(sharing: str, optimizer: dict[str, object]) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "replay",
            "seed": 3,
            "cluster": {
                "workers": 9,
                "compute": {"kind": "exponential", "mean": 0.1},
                "network": {"bandwidth": 2e5, "latency": 1e-3, "sharing": sharing},
            },
            "workload": {
                "problem": {"kind": "quadratic", "dimension": 37, "noise": 0.5},
                "optimizer": optimizer,
            },
            "strategies": STRATEGIES,
            "stop": {"global_steps": 80, "equal_examples": False},
        }
    )


@pytest.mark.parametrize("strategy", range(len(STRATEGIES)))
@pytest.mark.parametrize("sharing", ["fair", "first_come"])
@pytest.mark.parametrize(
    "optimizer",
    [{"kind": "sgd", "learning_rate": 0.1}, {"kind": "adam", "learning_rate": 0.01}],
    ids=lambda optimizer: optimizer["kind"],
)
def test_the_final_parameters_are_those_of_an_eager_run(
    strategy: int, sharing: str, optimizer: dict[str, object]
) -> None:
    what = scenario(sharing, optimizer)
    job, description = started(Run(what, strategy, 0))
    trace = job.run(description.label)
    (value,) = job.model()
    assert trace.global_step == 80
    assert value.tobytes() == replay(what, trace).tobytes()
    assert value.any()
