"""Racks that fail as a whole: a step counts only if somebody is left who has made it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.building import MS, run
from tests.seams import Trace
from varsim.cluster.job import Job
from varsim.cluster.quorum import Quorum

STEP = {"kind": "constant", "value": 0.1}


@contextmanager
def counted_by_somebody() -> Iterator[None]:
    """Whenever a step counts, some member of the all-reduces runs."""
    made, count = Quorum.__init__, Job.count_step
    quorums: list[Quorum] = []

    def noted(self: Quorum, *parts: Any) -> None:
        quorums[:] = [self]
        made(self, *parts)

    def counted(self: Job) -> None:
        (quorum,) = quorums
        there = [rank for rank in quorum.members if self.failures.running(rank)]
        assert there, f"at {self.clock.time / MS:g} ms a step counts that only the dead have made"
        count(self)

    with patch.object(Quorum, "__init__", noted), patch.object(Job, "count_step", counted):
        yield


def struck(strategy: dict[str, Any], each: int, workers: int, **changes: Any) -> Trace:
    racks = {"kind": "racks", "hosts_per_rack": each, "oversubscription": 1.0}
    links = {"bandwidth": changes.pop("bandwidth", 1e18), "latency": 0.0, "sharing": "fair"}
    cluster = {"workers": workers, "compute": STEP, **changes.pop("cluster", {})}
    return run(
        strategy,
        **{"stop": {"time": 4.0}, **changes, "cluster": cluster, "network": {**links, **racks}},
    )


def drawn(seed: int) -> Trace:
    source = random.Random(seed)
    each = source.randrange(1, 4)
    workers = max(2, each * source.randrange(1, 4))
    kind = source.choice(["on_write", "local_sgd", "diloco"])
    own = {"local_sgd": "period", "diloco": "inner_steps"}
    strategy = {"kind": kind, **({own[kind]: source.randrange(1, 4)} if kind in own else {})}
    time, failed = 0.0, set()
    for _ in range(source.randrange(1, 7)):
        time += source.choice([0.05, 0.1, 0.25, 0.5, 1.0]) * source.choice([0, 1, 1])
        domain, there = source.choice([("rack", -(-workers // each)), ("worker", workers)])
        failed.add((round(max(time, 0.05), 3), domain, source.randrange(there)))
    recorded: dict[str, Any] = {"failures": tuple(sorted(failed))}
    if source.random() < 0.5:
        recorded["repair"] = source.choice([0.1, 0.3])
    factors = [source.choice([1.0, 1.0, 1.5, 2.0, 3.0]) for _ in range(workers)]
    slow = [{"rank": rank, "factor": one} for rank, one in enumerate(factors) if one > 1]
    return struck(
        strategy if kind == "diloco" else {**strategy, "on_death": "continue_with_fewer"},
        each,
        workers,
        cluster={"slow_workers": tuple(slow)},
        bandwidth=source.choice([1e18, 400.0]),
        failures={"detection": source.choice([0.0, 0.0, 0.1, 0.25]), "recorded": recorded},
        recovery={"restart": source.choice([0.0, 0.25])},
    )


def test_whoever_fails_together_a_step_is_somebodys() -> None:
    for seed in range(200):
        with counted_by_somebody():
            try:
                drawn(seed)
            except AssertionError as error:
                pytest.fail(f"case {seed}: {error}")


def test_the_dead_do_not_learn_who_else_is_dead() -> None:
    # Worker 1 is still at its first step when it dies at 0.1, worker 0, who has made it, dies at
    # 0.15. At 0.2 the first death would be known, but to nobody; at 0.25 all is lost.
    trace = struck(
        {"kind": "local_sgd", "period": 2, "on_death": "continue_with_fewer"},
        1,
        2,
        cluster={"slow_workers": ({"rank": 1, "factor": 1.5},)},
        failures={
            "detection": 0.1,
            "recorded": {"failures": ((0.1, "rack", 1), (0.15, "rack", 0)), "repair": 10.0},
        },
        stop={"global_steps": 1, "time": 3.0},
    )

    assert (trace.steps.tolist(), trace.stopped_by) == ([], "time")
