"""Overheads in random clusters, with deaths: nothing is lost, and time is told without gaps."""

import random
from itertools import pairwise
from typing import Any

import pytest

from tests.building import (
    NO_TIME,
    allows_deaths,
    assert_same,
    declared,
    example,
    run,
    scenario,
    span_rows,
)
from tests.seams import STRATEGIES

RATES = {"payload", "reduction"}


def strategy(chance: random.Random, workers: int) -> dict[str, Any]:
    kind = chance.choice(sorted(STRATEGIES))
    made = example(kind, workers)
    if "replicas_to_aggregate" in made:
        made["replicas_to_aggregate"] = chance.randint(1, workers)
    if "read_every" in made:
        made["read_every"] = chance.randint(1, 3)
    return made


def overheads(chance: random.Random, names: frozenset[str]) -> dict[str, float]:
    return {
        name: chance.choice([1e3, 1e5]) if name in RATES else chance.choice([0.0, 1e-3, 2e-2])
        for name in sorted(names)
        if chance.random() < 0.8
    }


def deaths(chance: random.Random, workers: int) -> tuple[dict[str, Any], ...]:
    """Somebody is killed, and perhaps comes back."""
    who, at = {"worker": chance.randrange(workers)}, 0.01 + 0.3 * chance.random()
    back = ({"at": at + 0.1, "restart": who},) if chance.random() < 0.7 else ()
    return ({"at": at, "kill": who}, *back)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_cluster_with_overheads(seed: int) -> None:
    chance = random.Random(seed)
    workers = chance.randint(1, 6)
    described = strategy(chance, workers)
    workers = max(workers, 1 + ("partners" in type(declared(described)).model_fields))
    (made,) = scenario(described, cluster={"workers": workers}).strategies
    cluster = {
        "workers": workers,
        "compute": {"kind": "exponential", "mean": 0.1},
        "overheads": overheads(chance, made.subject_to()),
        "parameter_servers": chance.randint(1, 3) if made.uses_servers else 1,
    }
    dying = made.workers(scenario(described, cluster=cluster).cluster)
    settings = {
        "cluster": cluster,
        "network": chance.choice(
            [
                NO_TIME,
                {
                    "bandwidth": 1e4,
                    "latency": 1e-3,
                    "sharing": chance.choice(["fair", "first_come"]),
                },
            ]
        ),
        "events": deaths(chance, dying)
        if chance.random() < 0.5 and allows_deaths(described)
        else (),
        "problem": {"kind": chance.choice(["quadratic", "linear_regression"])},
        "stop": {"global_steps": 15, "time": 20.0},
    }
    trace = run(described, **settings)

    for rank in range(trace.workers):
        spans = span_rows(trace, rank)
        assert (spans[0].start, spans[-1].end) == (0, trace.end)
        assert all(one.end == other.start for one, other in pairwise(spans))
    assert_same(trace, run(described, **settings))
