"""The life of a job among failures, of which a few steps are simulated; times in s.

Attempts worked out by hand are in `by_hand/life.yaml`.
"""

from typing import Any

import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.building import run, scenario
from tests.lives import MORTAL
from tests.seams import Attempt, dump_scenario, load_text, simulate
from varsim import Scenario

NS = 10**9
STEP: dict[str, Any] = {"kind": "constant", "value": 1.0}
SAVED = {key: MORTAL[key] for key in ("failures", "checkpoint", "recovery", "stop")}
SOURCE: dict[str, Any] = {"domain": "worker", "mtbf": 100.0, "repair": 5.0}


def lived(horizon: float, source: dict[str, Any], workers: int = 1, **changes: Any) -> NDArray[Any]:
    """The attempts of a life, in columns of ns."""
    life = run(
        "on_write",
        cluster={"workers": workers, "compute": STEP},
        failures={"horizon": horizon, "of": (source,)},
        **changes,
    ).life
    assert life is not None
    return life


def column(life: NDArray[Any], name: str) -> NDArray[Any]:
    return life[:, Attempt._fields.index(name)]


def test_what_is_not_random_is_lived_once() -> None:
    recorded = {"horizon": 100.0, "recorded": {"failures": ((30.0, "worker", 0),)}}
    made = scenario({"kind": "on_write"}, replications=4, failures=recorded)

    assert simulate(made).replications == 1
    at_random = {**recorded, "of": ({"domain": "link", "mtbf": 50.0},)}
    made = scenario({"kind": "on_write"}, replications=4, failures=at_random)
    assert simulate(made).replications == 4


@pytest.mark.parametrize(
    ("mtbf", "strike", "random"), [(300.0, "always", False), (3000.0, "while_computing", True)]
)
def test_the_optimal_interval_is_of_whole_rounds(mtbf: float, strike: str, random: bool) -> None:
    # Rounds of 20 s; the optimum, of single steps, is 24 or 73 s: in whole rounds 1 or 4 of them.
    law: dict[str, Any] = {"kind": "constant", "value": 1.0}
    if random:
        law = {"kind": "trace", "seconds": (tuple([0.5, 1.5] * 10 + [1.0] * 20),)}

    def goodput(every: float | str) -> tuple[float, float]:
        life = run(
            {"kind": "local_sgd", "period": 20},
            cluster={"workers": 1, "compute": law},
            failures={
                "horizon": 2e6,
                "strike": strike,
                "of": ({"domain": "worker", "mtbf": mtbf},),
            },
            checkpoint={"every": every, "write": 1.0},
            recovery={"restart": 5.0},
            stop={"global_steps": 401},
        ).life
        assert life is not None
        kept, saved = life[:, 1].sum(), column(life, "checkpoints").sum()
        return kept / (2e6 * NS), kept / saved / 20 / NS

    (best, rounds), *others = [goodput(every) for every in ("optimal", 20, 40, 60, 80, 100)]
    assert rounds == pytest.approx(1 if strike == "always" else 4, rel=0.1)
    assert best == max(found for found, _ in others)


def test_nothing_new_in_a_dump_without_failures() -> None:
    plain: Scenario = scenario({"kind": "on_write"})
    assert not {"failures", "checkpoint", "recovery"} & set(plain.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("updated in the next forward pass", {"cluster": {"optimizer_time": 0.1}}),
        ("those who are left may have some layers", {"recovery": {"policy": "wait"}}),
    ],
)
def test_layers_of_two_versions_are_no_model(why: str, changes: dict[str, Any]) -> None:
    phases = {"compute": {"kind": "phases", "forward": 1.0, "backward": 1.0}}
    with pytest.raises(ValidationError, match=why):
        scenario(
            {"kind": "on_write", "bucketing": "layers", "overlap": "forward"},
            **{**SAVED, **changes, "cluster": {**phases, **changes.get("cluster", {})}},
            problem={"kind": "timing"},
            workload={"layers": ({"backward": 0.5, "size": 400.0},) * 2, "optimizer": None},
        )


def test_the_same_failures_whatever_the_checkpoint() -> None:
    rare, often = (
        lived(100.0, {"domain": "worker", "mtbf": 20.0}, 2, checkpoint={"every": each, "write": 1})
        for each in (10.0, 5.0)
    )
    assert column(rare, "start").tolist() == column(often, "start").tolist()
    assert len(rare) > 5


def test_a_scenario_of_days_takes_no_longer() -> None:
    """Billions of steps are as many divisions as there are failures."""
    once = {"domain": "worker", "distribution": {"kind": "trace", "seconds": ((9e8,),)}}
    assert column(lived(8.64e7, once), "steps").tolist() == [86_400_000]


def test_availability_is_what_renewal_theory_says() -> None:
    """Mean 20 s, median 10 s of repair after 100 s on average: away for 20 of 120 s."""
    repair = {"kind": "lognormal", "mean": 20.0, "median": 10.0}
    life = lived(3e6, {**SOURCE, "repair": repair})
    # Some 25,000 repairs, each sqrt(3) of their mean apart: within four standard errors.
    assert column(life, "repair").sum() / NS / 3e6 == pytest.approx(20 / 120, rel=0.05)


def test_two_stages_of_repair_take_their_mean() -> None:
    """A restart of 2 s that is enough in 3 of 4 cases, else 40 s more: 12 s on average."""
    first, second = ({"kind": "constant", "value": each} for each in (2.0, 40.0))
    stages = {"kind": "stages", "works": 0.75, "first": first, "second": second}
    repairs = column(lived(1e6, {**SOURCE, "repair": stages}), "repair") / NS

    assert set(repairs[repairs > 0][:-1].tolist()) == {2.0, 42.0}
    assert repairs.sum() / 1e6 == pytest.approx(12 / 112, rel=0.06)


def test_lemons_fail_so_many_times_as_often_and_others_as_before() -> None:
    """Of 500 workers: the others' failures are those of the same job without lemons."""

    def failures(**more: Any) -> tuple[set[int], int]:
        source = {**SOURCE, "repair": None, **more}
        life = lived(2000.0, source, 500)
        return set(column(life, "start").tolist()), int(column(life, "failures").sum())

    plain, count = failures()
    mixed, more = failures(lemons={"share": 0.1, "times": 5.0})
    # 20 mean times; 500 members, of whom 50 fail five times as often.
    assert count == pytest.approx(20 * 500, rel=0.05)
    assert more == pytest.approx(20 * (450 + 5 * 50), rel=0.1)
    # Of the plain ones nine in ten are there as they were.
    assert len(plain & mixed) / len(plain) == pytest.approx(0.9, abs=0.06)


def test_a_fault_strikes_until_it_is_found() -> None:
    """The same failures as without, each 1 / (1 - 0.5) times; the wrong one is taken in half."""
    source = {**SOURCE, "repair": 1e-6, "mistaken": {"share": 0.5, "again": 0.5}}
    found = int(column(lived(2000.0, source, 50), "failures").sum())
    plain = int(column(lived(2000.0, {**SOURCE, "repair": 1e-6}, 50), "failures").sum())
    assert plain == pytest.approx(1000, rel=0.1)
    assert found == pytest.approx(2 * plain, rel=0.1)


def test_a_fault_that_is_not_over_is_written_as_it_is_read() -> None:
    recorded = {"failures": ((10.0, "worker", 0, 40.0), (20.0, "worker", 1, None))}
    made = scenario({"kind": "on_write"}, failures={"horizon": 100.0, "recorded": recorded})
    assert load_text(dump_scenario(made)) == made


@pytest.mark.parametrize(
    ("source", "workers", "why"),
    [
        ({"repair": None}, 3, "mistaken has no effect without repair"),
        ({}, 1, "there is no other worker that could be taken for it"),
    ],
)
def test_what_cannot_be_mistaken_is_refused(source: dict[str, Any], workers: int, why: str) -> None:
    of = {**SOURCE, **source, "mistaken": {"share": 0.5, "again": 20.0}}
    with pytest.raises(ValidationError, match=why):
        lived(100.0, of, workers)
