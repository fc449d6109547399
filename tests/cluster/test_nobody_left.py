"""Copies of workers of whom nobody is left inside a run: all begin from the start; times in s."""

import random
from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import NO_TIME, assert_same, run, scenario
from tests.cluster.test_interruptions import NEVER, NS, fails, lived, struck
from tests.lives import ELASTIC
from tests.seams import GradientRow, Outcome, Trace

COPIES: dict[str, dict[str, Any]] = {
    "on_write": {"kind": "on_write", **ELASTIC},
    "local_sgd": {"kind": "local_sgd", "period": 2, **ELASTIC},
    "diloco": {"kind": "diloco", "inner_steps": 2},
}
ALL = fails((5.5, NEVER), (5.5, NEVER))


def losses(trace: Trace) -> list[tuple[float, int, float]]:
    return [(row.time / NS, row.global_step, row.loss) for row in trace.evaluations]


@pytest.mark.parametrize("kind", COPIES)
def test_all_begin_from_the_start(kind: str) -> None:
    trace = struck(COPIES[kind], ALL, checkpoint=None, stop={"time": 12.0})

    assert lived(trace)[0]["lost"] == 5.5
    assert losses(trace)[-1][1] == 3


def test_a_synchronous_gradient_is_not_stale_afterwards() -> None:
    trace = struck(COPIES["on_write"], ALL, checkpoint=None, stop={"time": 14.0}, network=NO_TIME)
    of = GradientRow._fields.index
    rows = trace.gradients[trace.gradients[:, of("outcome")] == Outcome.APPLIED]
    assert (rows[:, of("applied_step")] == rows[:, of("read_step")]).all()


@pytest.mark.parametrize("kind", COPIES)
def test_whatever_strikes_the_books_are_kept(kind: str) -> None:
    drawn = random.Random(kind)
    lost = 0
    for seed in range(10):
        racks = {"kind": "racks", "hosts_per_rack": 3, "oversubscription": 2.0}
        sources = (
            {"domain": "rack", "mtbf": drawn.choice([1.0, 3.0]), "repair": 0.3},
            {"domain": "worker", "mtbf": 2.0, "repair": {"kind": "exponential", "mean": 0.5}},
        )
        sharing = drawn.choice(["fair", "first_come"])
        delay = {"delay": 1, "inner_steps": 3} if kind == "diloco" and seed % 2 else {}
        settings: dict[str, Any] = {
            "seed": seed,
            "cluster": {"compute": {"kind": "exponential", "mean": 0.1}},
            "problem": {"kind": "linear_regression"},
            "failures": {"detection": drawn.choice([0.0, 0.1]), "of": sources},
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
        lost += trace.rolled_back is not None
    assert lost > 2


@pytest.mark.parametrize("kind", COPIES)
def test_they_are_not_saved_there(kind: str) -> None:
    settings = {
        "failures": {"of": ({"domain": "worker", "mtbf": 9.0},)},
        "checkpoint": {"every": 2.0, "write": 0.25},
    }
    with pytest.raises(ValidationError, match="checkpoint has no effect: inside a run"):
        scenario(COPIES[kind], **settings)
