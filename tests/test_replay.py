"""The values a run ends with are those of an eager numpy run, bit for bit.

It goes along the schedule that the trace recorded. No simulator, no laziness, no stacks: for each
update the gradients that the trace says were applied, each worked out by itself from the parameters
that the trace says were read, added in order of arrival. For problems with one variable, where a
read sees one version.
"""

from itertools import groupby

import pytest

from tests.building import Model, mean
from tests.seams import GradientRow, Outcome, Parameters, Run, Trace, trained
from varsim import Scenario

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


def replay(scenario: Scenario, trace: Trace) -> Parameters:
    """The final values, of a problem that has one variable."""
    model = Model(scenario, trace.replication)
    versions = [model.start]
    rows = [GradientRow(*row) for row in trace.gradients.tolist()]
    applied = [row for row in rows if row.outcome == Outcome.APPLIED]
    for step, group in groupby(applied, key=lambda row: row.applied_step):
        assert step == len(versions) - 1, "the trace skips an update"
        each = [model.gradient(versions[row.read_step], row.worker, row.iteration) for row in group]
        versions.append(model.step(versions[-1], [mean([one for (one,) in each])]))
    return versions[-1]


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
    trace, (value,) = trained(Run(what, strategy, 0))
    (expected,) = replay(what, trace)
    assert trace.global_step == 80
    assert value.tobytes() == expected.tobytes()
    assert value.any()
