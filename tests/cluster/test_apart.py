"""Lives of workers that leave and come back by themselves are those of runs that failures strike.

The same failures strike inside a run as long as the horizon, step by step: of constant steps over
links that nobody shares all is equal, attempt by attempt, to the nanosecond.
"""

import random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import run, scenario
from varsim.cluster.apart import Draws, Rounds
from varsim.cluster.trace import WORKER, Attempt, Trace
from varsim.study.simulation import simulate

NS = 10**9
EASGD: dict[str, Any] = {"kind": "easgd", "period": 3}
OVERHEADS = {"first_iteration": 0.35}
FIELDS = {name: number for number, name in enumerate(Attempt._fields)}


def both(horizon: float, failures: dict[str, Any], **case: Any) -> tuple[Trace, Trace]:
    """Lives of workers over a horizon, and the run in which the same failures strike."""
    strategy = case.pop("strategy", EASGD)
    steps = case.pop("stop", {"global_steps": 200})
    lives = run(strategy, stop=steps, failures={**failures, "horizon": horizon}, **case)
    inside = run(strategy, stop={"time": horizon}, failures=failures, **case)
    assert lives.life is not None
    assert lives.life[:, 1:7].sum() == round(horizon * NS) * lives.workers
    return lives, inside


def drawn(seed: int) -> tuple[Trace, Trace]:
    source = random.Random(seed)
    workers = source.randrange(1, 5)
    failed = [
        (source.randrange(1, 30_000) / 1000, "worker", source.randrange(workers))
        for _ in range(source.randrange(1, 15))
    ]
    recorded: dict[str, Any] = {"failures": tuple(sorted(failed))}
    recovery: dict[str, Any] = {"restart": source.choice([0.0, 0.2])}
    if source.random() < 0.6:
        recorded["repair"] = source.choice([0.7, 3.0])
        if source.random() < 0.5:
            recovery["spares"] = {"hot": 1, "cold": int(workers > 1), "swap": 0.3 * (workers > 1)}
    factors = [source.choice([1.0, 1.0, 1.5, 2.3]) for _ in range(workers)]
    cluster: dict[str, Any] = {
        "workers": workers,
        "compute": {"kind": "constant", "value": 0.1},
        "slow_workers": tuple({"rank": k, "factor": f} for k, f in enumerate(factors) if f > 1),
    }
    if source.random() < 0.3:
        cluster["optimizer_time"] = 0.013
    if source.random() < 0.3:
        cluster["overheads"] = OVERHEADS
    return both(
        30.0005,
        {"detection": source.choice([0.0, 0.15, 1.0]), "recorded": recorded},
        strategy={"kind": "easgd", "period": source.randrange(1, 5)},
        cluster=cluster,
        network={"bandwidth": 1e18, "latency": source.choice([0.0, 0.017]), "sharing": "fair"},
        recovery=recovery,
    )


def test_constant_steps_are_equal_attempt_by_attempt() -> None:
    lost = 0
    for seed in range(150):
        lives, inside = drawn(seed)
        assert np.array_equal(lives.life, inside.life), seed
        lost += int(lives.life[:, FIELDS["steps_lost"]].sum())
    assert lost > 300


def test_by_hand() -> None:
    # A step takes 1 s; after the first, the third and so on copies and centre meet, in no time.
    # Worker 1 has met at 3, made a step at 4 and half of one when it dies at 4.5. Noticed at 5.5,
    # repaired at 7.5, it begins again at 8; its fifth step meets at 9.
    lives, _ = both(
        10.0,
        {
            "detection": 1.0,
            "recorded": {"failures": ((4.5, "worker", 1),), "repair": 2.0},
        },
        strategy={"kind": "easgd", "period": 2},
        cluster={"workers": 2, "compute": {"kind": "constant", "value": 1.0}},
        recovery={"restart": 0.5},
    )
    rows = [dict(zip(Attempt._fields, row, strict=False)) for row in lives.life.tolist()]
    said = [
        {key: value / NS if value > NS / 9 else value for key, value in row.items() if value}
        for row in rows
    ]

    assert lives.life[:, WORKER].tolist() == [0, 1, 1]
    assert said == [
        {"productive": 10, "steps": 10},
        {
            **{"productive": 3, "lost": 1.5, "detection": 1, "repair": 2, "restart": 0.5},
            **{"steps": 3, "steps_lost": 1, "failures": 1},
        },
        {"start": 8, "productive": 2, "steps": 2},
    ]


def test_where_links_are_shared_only_the_queue_at_them_differs() -> None:
    # While others are missing steps are as long as with all: in the run they can be shorter, by no
    # more than the queueing of all that there was.
    lives, inside = both(
        400.0,
        {"detection": 1.0, "of": ({"domain": "worker", "mtbf": 40.0, "repair": 20.0},)},
        cluster={"workers": 4, "compute": {"kind": "lognormal", "mean": 0.1, "sigma": 0.2}},
        network={"bandwidth": 500.0, "latency": 0.0, "sharing": "fair"},
        stop={"global_steps": 3000},
        recovery={"restart": 1.0},
    )
    queue = (
        simulate(
            scenario(
                EASGD,
                cluster={"workers": 4, "compute": {"kind": "lognormal", "mean": 0.1, "sigma": 0.2}},
                network={"bandwidth": 500.0, "latency": 0.0, "sharing": "fair"},
                stop={"global_steps": 3000},
            )
        )
        .estimate("easgd", "share_queue")
        .mean
    )
    steps = [int(one.life[:, FIELDS["steps"]].sum()) for one in (lives, inside)]

    assert 0.1 < queue < 0.5
    assert 0.97 * steps[0] < steps[1] < 1.03 * steps[0] / (1 - queue)
    down = [
        one.life[:, [FIELDS[name] for name in ("detection", "repair", "restart")]].sum(axis=0)
        for one in (lives, inside)
    ]
    assert np.array_equal(*down)  # failures and repairs are the same, whatever steps take


@pytest.mark.slow
@pytest.mark.product
def test_random_steps_are_inside_intervals() -> None:
    case: dict[str, Any] = {
        "cluster": {"workers": 3, "compute": {"kind": "exponential", "mean": 0.5}},
        "network": {"bandwidth": 1e18, "latency": 0.02, "sharing": "fair"},
        "replications": 40,
        "recovery": {"restart": 1.0},
    }
    failures = {"detection": 2.0, "of": ({"domain": "worker", "mtbf": 30.0, "repair": 5.0},)}
    found = {}
    for horizon in (True, False):
        made = scenario(
            EASGD,
            **case,
            failures={**failures, **({"horizon": 300.0} if horizon else {})},
            stop={"global_steps": 1500} if horizon else {"time": 300.0},
        )
        result = simulate(made)
        found[horizon] = {
            name: result.values("easgd", name)
            for name in ("goodput", "life_lost", "steps_discarded", "kept_examples_per_s")
        }
    for name, values in found[True].items():
        # The same failures strike both, so that differences are paired.
        apart = np.array(values) - np.array(found[False][name])
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        assert abs(apart.mean()) < 3.5 * error, (name, apart.mean(), error)


class TestDraws:
    def made(self, seed: int = 1) -> Draws:
        lasted = np.array([[7], [11], [30], [4]], dtype=np.int64)
        rounds = Rounds(lasted, lasted, lasted[:, 0], lasted[:, 0])
        return Draws(rounds, np.random.Generator(np.random.PCG64(seed)))

    def test_a_time_is_within_its_round(self) -> None:
        draws, time = self.made(), 0
        for step in (3, 900, 12_345, 10**6, 7, 10**9, 1):
            time += step
            number = draws.at(time)
            begins = draws.begins(number)
            assert begins <= time < begins + (7, 11, 30, 4)[draws.row(number)]
            assert draws.begins(number - 1) < begins or number == 0

    def test_far_ahead_as_many_as_one_by_one(self) -> None:
        # 13 on average, with a deviation of 10.1: in 10^7 so many, give or take 680.
        counts = [self.made(seed).at(10**7) for seed in range(60)]

        assert np.mean(counts) == pytest.approx(10**7 / 13, abs=4 * 682 / 60**0.5)
        assert np.std(counts) == pytest.approx(682, rel=0.4)

    def test_one_that_is_broken_off_is_drawn_anew(self) -> None:
        draws = self.made()
        seen = set()
        for _ in range(50):
            draws.again(5)
            seen.add(draws.row(5))
            assert draws.begins(6) == draws.begins(5) + (7, 11, 30, 4)[draws.row(5)]
        assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("recovery.policy wait has no effect", {"recovery": {"policy": "wait"}}),
        ("checkpoint has no effect", {"checkpoint": {"every": 10.0, "write": 1.0}}),
        ("strike while_running", {"failures": {"strike": "while_running"}}),
        ("servers_on: dedicated", {"cluster": {"servers_on": "workers"}}),
        ("stop.global_steps must be 19", {"stop": {"global_steps": 18}}),
    ],
)
def test_what_makes_no_sense_is_refused(why: str, changes: dict[str, Any]) -> None:
    source = {"domain": "worker", "mtbf": 50.0, "repair": 5.0}
    failures = {"horizon": 100.0, "of": (source,), **changes.pop("failures", {})}
    with pytest.raises(ValidationError, match=why):
        scenario(
            changes.pop("strategy", EASGD),
            **{"failures": failures, "stop": {"global_steps": 99}, **changes},
        )
