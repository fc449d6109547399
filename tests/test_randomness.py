"""Replications that must be equal, because nothing random has an effect on them, are."""

from typing import Any

import pytest

from tests.building import example, scenario
from tests.seams import STRATEGIES, Run, Trace, run_one, simulate

UNIFORM = {"kind": "uniform", "low": 0.08, "high": 0.12}
PLAYED = {"kind": "trace", "seconds": ((0.1, 0.2), (0.15,))}


def times(trace: Trace) -> list[object]:
    return [trace.end, trace.spans.tolist(), trace.gradients.tolist(), trace.steps.tolist()]


def values(trace: Trace) -> list[object]:
    return [(row.time, row.loss) for row in trace.evaluations]


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize(
    ("changes", "random_times", "random"),
    [
        ({}, False, False),
        ({"problem": {"noise": 1.0}}, False, True),
        ({"problem": {"kind": "linear_regression"}}, False, True),
        ({"problem": {"kind": "embedding"}}, False, True),
        ({"cluster": {"compute": PLAYED}}, False, False),
        ({"cluster": {"compute": UNIFORM}}, True, True),
        ({"cluster": {"compute": {**PLAYED, "replay": "resample"}}}, True, True),
    ],
)
def test_what_is_called_exact_is_equal(
    kind: str, changes: dict[str, Any], random_times: bool, random: bool
) -> None:
    made = scenario(example(kind), stop={"global_steps": 8}, replications=2, **changes)
    one, other = (run_one(Run(made, 0, replication)) for replication in (0, 1))
    result = simulate(made)
    assert result.exact(result.first, "examples_per_s") is not random_times
    assert result.replications == 1 + random, "what is exact is run once"
    assert (times(one) != times(other)) is random_times
    if not random:
        assert values(one) == values(other)
