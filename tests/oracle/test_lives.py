"""Lives of jobs are those of a model that goes through every step, on random cases."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from building import Model, mean, run, scenario

from oracle.lives import PARTS, Case, Job, drawn
from varsim.cluster.trace import Attempt
from varsim.scenario.training import Scenario
from varsim.study.lives import life_of
from varsim.study.simulation import Run, run_one

MS = 1_000_000  # ns
SAMPLE = range(500)


def seconds(milliseconds: int) -> float:
    return milliseconds / 1e3


def described(case: Case) -> dict[str, Any]:
    """The same life as parts of a scenario."""
    workers = len(case["ages"])
    rows = tuple(tuple(map(seconds, gaps)) for gaps in case["ages"])
    source = {"domain": "worker", "law": {"kind": "trace", "seconds": rows}}
    if case["repair"] is not None:
        source["repair"] = {"kind": "trace", "seconds": (tuple(map(seconds, case["repair"])),)}
    checkpoint = {"every": seconds(case["every"]), "write": seconds(case["write"])}
    if case["asynchronous"]:
        checkpoint |= {
            "mode": "asynchronous",
            "snapshot": seconds(case["snapshot"]),
            "slowdown": float(case["slowdown"]),
        }
    spares = {"hot": case["hot"], "cold": case["cold"], "swap": seconds(case["swap"])}
    return {
        "cluster": {
            "workers": workers,
            "compute": {"kind": "constant", "value": seconds(case["step"])},
        },
        "failures": {
            "horizon": seconds(case["horizon"]),
            "detection": seconds(case["detection"]),
            "strike": case["strike"],
            "of": (source,),
        },
        "checkpoint": checkpoint,
        "recovery": {
            "restart": seconds(case["restart"]),
            **({"spares": spares} if case["hot"] + case["cold"] else {}),
        },
    }


def lived(case: Case) -> dict[str, int]:
    """The sums over all attempts of the same life in varsim."""
    life = run("on_write", stop={"global_steps": 2}, **described(case)).life
    assert life is not None
    ends = life[:, 1:7].sum(axis=1).cumsum()
    assert (life[1:, 0] == ends[:-1]).all(), "an attempt begins where the one before it ends"
    return dict(zip(Attempt._fields, map(int, life.sum(axis=0)), strict=True))


def compare(seeds: Sequence[int]) -> None:
    for seed in seeds:
        case = drawn(seed)
        found, expected = lived(case), Job(case).run()
        told = {key: Fraction(found[key], MS if key in PARTS else 1) for key in expected}
        assert told == expected, (seed, case)


def test_to_the_nanosecond() -> None:
    compare(SAMPLE[:60])


@pytest.mark.slow
def test_many_to_the_nanosecond() -> None:
    compare(SAMPLE[60:])


STEPS = 30
LEARNING: dict[str, Any] = {
    "problem": {"kind": "quadratic", "noise": 1.0},
    "optimizer": {"kind": "momentum", "learning_rate": 0.05},
    "stop": {"global_steps": STEPS},
}


class Trained:
    """A model that is trained by hand, saved and restored: parameters, slots, order of the data."""

    def __init__(self, made: Scenario) -> None:
        self.model, self.workers = Model(made), made.cluster.workers
        self.parameters, self.steps = self.model.start, 0
        self.made: list[tuple[Fraction, int, float]] = []  # updates: when, which, loss after it
        self.read()
        self.complete()

    def step(self, now: Fraction) -> None:
        gradients = [
            self.model.gradient(self.parameters, worker, self.steps)
            for worker in range(self.workers)
        ]
        each = [mean(parts) for parts in zip(*gradients, strict=True)]
        self.parameters = self.model.step(self.parameters, each)
        self.steps += 1
        self.made.append((now, self.steps, self.model.loss(self.parameters)))

    def read(self) -> None:
        self.pending = self.parameters, list(self.model.states), self.steps

    def complete(self) -> None:
        self.saved = self.pending

    def restore(self) -> None:
        self.parameters, states, self.steps = self.saved
        self.model.states = list(states)


def compare_values(seeds: Sequence[int]) -> None:
    """Every update, also those that are made again: when, which one, and the loss after it."""
    again = 0
    for seed in seeds:
        case = drawn(seed)
        size = len(case["ages"])
        made = scenario(
            {"kind": "on_write"}, workload={"evaluate_every": size}, **LEARNING, **described(case)
        )
        trained = Trained(made)
        Job(case, trained).run()
        trace = run_one(Run(made, 0, 0))
        assert trace.life is not None
        losses = {row.global_step: row.loss for row in trace.evaluations}
        found = [
            (Fraction(time, MS), step, losses[step])
            for time, step in life_of(made, trace).updates(trace.life, STEPS)
        ]
        assert found == [row for row in trained.made if row[1] <= STEPS], (seed, case)
        again += len(found) - len({step for _, step, _ in found})
    assert again > 100


def test_updates_made_again_are_the_same_bit_for_bit() -> None:
    compare_values(SAMPLE[:25])


@pytest.mark.slow
def test_many_updates_made_again_are_the_same_bit_for_bit() -> None:
    compare_values(SAMPLE[25:])
