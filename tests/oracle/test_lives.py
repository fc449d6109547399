"""Lives of jobs are those of a model that goes through every step, on random cases."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.building import Model, mean, run, scenario
from tests.oracle.lives import PARTS, Case, Job, described, drawn
from tests.oracle.regrouped import Group, changed
from tests.seams import Attempt, Run, Trace, run_one
from varsim import Scenario
from varsim.cluster.record.trace import HOSTS
from varsim.study.lives import Smaller, life_of
from varsim.study.simulation import run_alone

MS = 1_000_000  # ns
SAMPLE = range(500)


def told(life: Any, keys: Iterable[str]) -> dict[str, Fraction]:
    """Sums over all attempts; times in ms."""
    total = dict(zip(Attempt._fields, map(int, life.sum(axis=0)), strict=False))
    return {key: Fraction(total[key], MS if key in PARTS else 1) for key in keys}


def lived(case: Case) -> Any:
    """The attempts of the same life in varsim."""
    life = run("on_write", stop={"global_steps": 2}, **described(case)).life
    assert life is not None
    ends = life[:, 1:7].sum(axis=1).cumsum()
    assert (life[1:, 0] == ends[:-1]).all(), "an attempt begins where the one before it ends"
    return life


def compare(seeds: Sequence[int]) -> None:
    for seed in seeds:
        case = drawn(seed)
        expected = Job(case).run()
        assert told(lived(case), expected) == expected, (seed, case)


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

    strategy: ClassVar[dict[str, Any]]
    rounds: ClassVar[int] = 1  # steps from one moment at which it can be saved to the next

    def __init__(self, made: Scenario) -> None:
        self.model, self.workers = Model(made), made.cluster.workers
        self.copies = [(self.model.start, self.model.states)] * self.workers  # with their slots
        # Of an outer optimizer: what all start from, and its velocity.
        self.shared = self.model.start, [(np.zeros_like(one),) for one in self.model.start]
        self.steps = 0
        self.made: list[tuple[Fraction, int, float]] = []  # updates: when, which, loss after it
        self.read()
        self.complete()

    def step(self, now: Fraction) -> None:
        each = [
            self.model.gradient(copy, worker, self.steps)
            for worker, (copy, _) in enumerate(self.copies)
        ]
        self.steps += 1
        self.update(each)
        self.made.append((now, self.steps, self.model.loss(self.measured())))

    def update(self, gradients: list[Any]) -> None:
        whole = [mean(parts) for parts in zip(*gradients, strict=True)]
        self.copies = [self.updated(*self.copies[0], whole)] * self.workers

    def updated(self, copy: Any, slots: Any, gradient: Any) -> tuple[Any, Any]:
        self.model.states = list(slots)
        return self.model.step(copy, gradient), self.model.states

    def on_their_own(self, gradients: list[Any]) -> None:
        pairs = zip(self.copies, gradients, strict=True)
        self.copies = [self.updated(*copy, gradient) for copy, gradient in pairs]

    def average(self) -> Any:
        return tuple(mean(parts) for parts in zip(*(one for one, _ in self.copies), strict=True))

    def measured(self) -> Any:
        return self.average()

    def read(self) -> None:
        self.pending = self.copies, self.shared, self.steps

    def complete(self) -> None:
        self.saved = self.pending

    def restore(self) -> None:
        self.copies, self.shared, self.steps = self.saved


class Alike(Trained):
    """Copies that are equal: of one the loss is measured."""

    strategy: ClassVar[dict[str, Any]] = {"kind": "on_write"}

    def measured(self) -> Any:
        return self.copies[0][0]


class Averaged(Trained):
    """Local SGD: copies are averaged after every third step, each with slots of its own."""

    rounds = 3
    strategy: ClassVar[dict[str, Any]] = {"kind": "local_sgd", "period": 3}

    def update(self, gradients: list[Any]) -> None:
        self.on_their_own(gradients)
        if self.steps % self.rounds == 0:
            self.copies = [(self.average(), slots) for _, slots in self.copies]


class OnlyRead(Trained):
    """Local copies that are read after every other step, and stay what they are."""

    rounds = 2
    strategy: ClassVar[dict[str, Any]] = {"kind": "on_read", "read_every": 2}

    def update(self, gradients: list[Any]) -> None:
        self.on_their_own(gradients)


class LedBack(Averaged):
    """DiLoCo: after every third step an outer one, by SGD with momentum, from the shared model."""

    strategy: ClassVar[dict[str, Any]] = {
        **{"kind": "diloco", "inner_steps": 3},
        "outer": {"kind": "momentum", "learning_rate": 0.7, "momentum": 0.9},
    }

    def update(self, gradients: list[Any]) -> None:
        self.on_their_own(gradients)
        if self.steps % self.rounds:
            return
        (old, velocity), found = self.shared, []
        for index, start in enumerate(old):
            outer = mean([start - copy[index] for copy, _ in self.copies])
            speed = 0.9 * velocity[index][0] + outer
            found.append((start - 0.7 * speed, (speed,)))
        new = tuple(value for value, _ in found)
        self.shared = new, [speed for _, speed in found]
        self.copies = [(new, slots) for _, slots in self.copies]

    def measured(self) -> Any:
        return self.shared[0]


class Pushed(Trained):
    """Gossip: an update of one's own, then half of that and half of the one before in the ring."""

    strategy: ClassVar[dict[str, Any]] = {"kind": "gossip", "mode": "push_sum"}

    def step(self, now: Fraction) -> None:
        super().step(now)
        mixed = [
            tuple(0.5 * own + 0.5 * other for own, other in zip(mine, theirs, strict=True))
            for (mine, _), (theirs, _) in zip(
                self.copies, [self.copies[-1], *self.copies[:-1]], strict=True
            )
        ]
        self.copies = [(new, slots) for new, (_, slots) in zip(mixed, self.copies, strict=True)]

    def update(self, gradients: list[Any]) -> None:
        self.on_their_own(gradients)


LEARNERS: Sequence[type[Trained]] = (Alike, Averaged, OnlyRead, LedBack, Pushed)


def compare_values(learner: type[Trained], seeds: Sequence[int]) -> None:
    """Every update, also those that are made again: when, which one, and the loss after it.

    Copies that drift are measured when they meet; what was simulated goes on to a meeting.
    """
    again = 0
    for seed in seeds:
        case = drawn(seed)
        size = len(case["ages"])
        if size == 1 and learner is Pushed:
            continue  # nobody to gossip with
        own = {"evaluate_every": size} if learner.rounds == 1 else {}
        drifts = learner is not Alike
        stop = {"global_steps": STEPS + drifts}
        changes = {**LEARNING, **described(case), "stop": stop}
        made = scenario(learner.strategy, workload=own, **changes)
        trained = learner(made)
        account = Job(case, trained, learner.rounds).run()
        trace = run_one(Run(made, 0, 0))
        assert trace.life is not None
        assert told(trace.life, account) == account, (seed, case)
        losses = {row.global_step: row.loss for row in trace.evaluations}
        found = [
            (Fraction(time, MS), step, losses[step])
            for time, step in life_of(made, trace).updates(STEPS)
            if step % learner.rounds == 0
        ]
        expected = [row for row in trained.made if row[1] <= STEPS and row[1] % learner.rounds == 0]
        assert found == expected, (seed, case)
        again += len(found) - len({step for _, step, _ in found})
    assert again > 40


@pytest.mark.parametrize("learner", LEARNERS)
def test_updates_made_again_are_the_same_bit_for_bit(learner: type[Trained]) -> None:
    compare_values(learner, SAMPLE[:25])


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_many_updates_made_again_are_the_same_bit_for_bit(learner: type[Trained]) -> None:
    compare_values(learner, SAMPLE[25:])


class Given(Smaller):
    """Steps on fewer hosts as a case has them."""

    def __init__(self, steps: dict[int, int]) -> None:
        super().__init__(run_alone)
        self.lengths = steps

    def trace(self, scenario: Scenario, of: Trace, workers: int) -> Trace:
        return replace(of, steps=np.cumsum(np.full(4, self.lengths[workers] * MS)))


def alive(made: Scenario) -> Scenario:
    """The same job when nothing fails."""
    return made.model_copy(update=dict.fromkeys(("failures", "checkpoint", "recovery")))


def compare_regrouped(seeds: Sequence[int]) -> None:
    """Jobs that go on with those who are left, or wait; values, too, of those that wait."""
    again = fewer = 0
    for seed in seeds:
        case, steps, fewest = changed(seed)
        number = len(case["ages"])
        parts = described(case)
        policy = {"policy": "wait"} if fewest == number else {"policy": "continue_with_fewer"}
        if fewest < number:
            policy["fewest"] = fewest
        recovery = {**parts["recovery"], **policy}
        made = scenario(
            {"kind": "on_write"},
            workload={"evaluate_every": number},
            **LEARNING,
            **{**parts, "recovery": recovery},
        )
        trained = Alike(made)
        group = Group(case, steps, fewest, trained)
        expected = group.run()
        trace = run_one(Run(alive(made), 0, 0))
        lived = life_of(made, trace, Given(steps))
        life = lived.attempts()
        assert told(life, expected) == expected, (seed, case, steps, fewest)
        if fewest < number:
            made_in_all = life[:, Attempt._fields.index("steps")]
            made_in_all = made_in_all + life[:, Attempt._fields.index("steps_lost")]
            assert (made_in_all * life[:, HOSTS]).sum() == group.weighted
            fewer += int((life[:, HOSTS] < number).sum())
        if fewest == number:
            losses = {row.global_step: row.loss for row in trace.evaluations}
            updates = [
                (Fraction(time, MS), step, losses[step]) for time, step in lived.updates(STEPS)
            ]
            assert updates == [row for row in trained.made if row[1] <= STEPS], (seed, case)
            again += len(updates) - len({step for _, step, _ in updates})
    assert fewer > len(seeds)
    assert again > len(seeds) / 10


def test_who_is_left_goes_on_to_the_nanosecond() -> None:
    compare_regrouped(SAMPLE[:60])


@pytest.mark.slow
def test_many_of_those_who_are_left_go_on() -> None:
    compare_regrouped(SAMPLE[60:])
