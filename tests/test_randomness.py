"""Replications that must be equal, because nothing random has an effect on them, are."""

from typing import Any

import pytest
from building import scenario

from varsim.randomness import is_random, times_are_random
from varsim.simulation import Run, run_one
from varsim.strategies import STRATEGIES
from varsim.trace import Trace

UNIFORM = {"kind": "uniform", "low": 0.08, "high": 0.12}
PLAYED = {"kind": "trace", "seconds": ((0.1, 0.2), (0.15,))}
UPDATE = {"time": {"kind": "exponential", "mean": 0.01}}
NEED = ("sync_replicas", "backup_workers")


def times(trace: Trace) -> list[object]:
    return [trace.end, trace.spans.tolist(), trace.gradients.tolist(), trace.steps.tolist()]


def values(trace: Trace) -> list[object]:
    return [(row.time, row.loss) for row in trace.evaluations]


def described(kind: str) -> dict[str, Any]:
    return {"kind": kind, **({"replicas_to_aggregate": 2} if kind in NEED else {})}


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
    made = scenario(described(kind), stop={"global_steps": 8}, **changes)
    (strategy,) = made.strategies
    one, other = (run_one(Run(made, 0, replication)) for replication in (0, 1))
    assert times_are_random(made, strategy) is random_times
    assert is_random(made, strategy) is random
    assert (times(one) != times(other)) is random_times
    if not random:
        assert values(one) == values(other)


def test_a_loss_may_end_a_run_sooner_or_later() -> None:
    stop = {"global_steps": 50, "loss": 0.01}
    made = scenario({"kind": "on_write"}, problem={"noise": 1.0}, stop=stop)
    assert times_are_random(made, made.strategies[0])


def test_what_servers_do_may_be_random() -> None:
    both = ({"kind": "none"}, {"kind": "on_write"})
    made = scenario(both[0], cluster={"server_update": UPDATE}, strategies=both)
    assert [times_are_random(made, one) for one in made.strategies] == [True, False]
